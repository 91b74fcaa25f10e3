//! The public interface of each library crate, as `cargo public-api` lists it, and the lists in `api/`.
//!
//! They are read from rustdoc's JSON. Its format, and the paths of the standard library, change with the compiler: if
//! another version made the lists, the check is skipped with a message.

use crate::workspace;
use anyhow::{Context as _, bail};
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
/// The version of the compiler that made them.
const MADE_BY: &str = "api/made-by.txt";

/// Writes the lists, or compares them with the code.
pub(crate) fn run(sh: &Shell, is_check: bool) -> anyhow::Result<()> {
    let compiler = cmd!(sh, "rustc --version").read()?;
    let made_by = sh.read_file(MADE_BY).unwrap_or_default();
    if is_check && made_by.trim() != compiler {
        eprintln!(
            "api: not compared: the lists were made with `{}`, and here is `{compiler}`",
            made_by.trim()
        );
        return Ok(());
    }
    let mut changed = Vec::new();
    for name in CRATES {
        let path = format!("{DIR}/{name}.txt");
        let list = public_items(sh, name)?;
        let old = sh.read_file(&path).unwrap_or_default();
        if is_check {
            changed.extend(differences(&old, &list).into_iter().map(|line| format!("{name}: {line}")));
        } else if old != list {
            sh.write_file(&path, &list)?;
            eprintln!("api: wrote {path}");
        }
    }
    if !is_check {
        sh.write_file(MADE_BY, compiler + "\n")?;
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

/// The public items of a crate with all features that build on every machine, without blanket, automatic and derived implementations.
fn public_items(sh: &Shell, name: &str) -> anyhow::Result<String> {
    // What is built with unstable options stays apart.
    let target = sh.current_dir().join("target/public-api");
    let features = format!("--features={}", workspace::portable_features(sh, name)?.join(","));
    cmd!(
        sh,
        "cargo rustdoc --quiet --lib --package {name} {features} -- -Zunstable-options --output-format=json"
    )
    .env("RUSTC_BOOTSTRAP", "1")
    .env("CARGO_TARGET_DIR", &target)
    .quiet()
    .run()?;
    let api =
        public_api::Builder::from_rustdoc_json(target.join(format!("doc/{}.json", name.replace('-', "_"))))
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .with_context(|| format!("reading what rustdoc wrote of {name}"))?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Lines that only one of two lists has.
fn differences(old: &str, new: &str) -> Vec<String> {
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (old.lines().collect(), new.lines().collect());
    let gone = before.difference(&after).map(|line| format!("- {line}"));
    let come = after.difference(&before).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}
