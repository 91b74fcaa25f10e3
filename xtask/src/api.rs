//! The public interface of each library crate, as `cargo public-api` lists it, and the lists in `api/`.
//!
//! The tool reads what a nightly rustdoc writes, so it is not everywhere: where it cannot run, or another version of it
//! made the lists, nothing is compared and that is said.

use anyhow::bail;
use std::collections::BTreeSet;
use xshell::{Shell, cmd};

/// The crates that others use.
const CRATES: [&str; 10] = [
    "skill-core",
    "skill-llm",
    "skill-http-server",
    "skill-envs",
    "skill-sim",
    "skill-pipeline",
    "skill-report",
    "skill-serve",
    "skill-mcp",
    "skillrl",
];
/// Where the lists are, one for each crate.
const DIR: &str = "api";
/// The version of the tool that made them.
const MADE_BY: &str = "api/made-by.txt";

/// Writes the lists, or compares them with the code where that can be done.
pub(crate) fn run(sh: &Shell, is_check: bool) -> anyhow::Result<()> {
    let tool = match tool(sh) {
        Ok(tool) => tool,
        Err(reason) if is_check => {
            eprintln!("api: not compared: {reason}");
            return Ok(());
        }
        Err(reason) => bail!("the lists cannot be made: {reason}"),
    };
    let made_by = sh.read_file(MADE_BY).unwrap_or_default();
    if is_check && made_by.trim() != tool {
        eprintln!("api: not compared: `{}` made the lists, and here is `{tool}`", made_by.trim());
        return Ok(());
    }
    let mut changed = Vec::new();
    for name in CRATES {
        let path = format!("{DIR}/{name}.txt");
        // Three times simplified: without blanket, automatic and derived implementations.
        let list = cmd!(sh, "cargo public-api --package {name} --all-features -sss --color never")
            // What another compiler builds stays apart.
            .env("CARGO_TARGET_DIR", sh.current_dir().join("target/public-api"))
            .quiet()
            .ignore_stderr()
            .read()?
            + "\n";
        let old = sh.read_file(&path).unwrap_or_default();
        if is_check {
            changed.extend(differences(&old, &list).into_iter().map(|line| format!("{name}: {line}")));
        } else if old != list {
            sh.write_file(&path, &list)?;
            eprintln!("api: wrote {path}");
        }
    }
    if !is_check {
        sh.write_file(MADE_BY, tool + "\n")?;
    }
    if changed.is_empty() {
        return Ok(());
    }
    let shown = changed.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n  ");
    bail!(
        "the public interface is not as listed, in {} lines; `cargo xtask api` rewrites them:\n  {shown}",
        changed.len()
    )
}

/// The version of the tool and of the toolchain that it needs, or why it cannot run.
fn tool(sh: &Shell) -> Result<String, String> {
    let version = |program: &str, arguments: &[&str], hint: &str| {
        cmd!(sh, "{program} {arguments...}").quiet().ignore_stderr().read().map_err(|_| hint.to_owned())
    };
    let tool = version(
        "cargo",
        &["public-api", "--version"],
        "cargo-public-api is not there (cargo install cargo-public-api)",
    )?;
    let rustc = version(
        "rustup",
        &["run", "nightly", "rustc", "--version"],
        "there is no nightly toolchain (rustup toolchain install nightly)",
    )?;
    Ok(format!("{}, {}", tool.trim(), rustc.trim()))
}

/// Lines that only one of two lists has.
fn differences(old: &str, new: &str) -> Vec<String> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    let come = after.difference(&before).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}
