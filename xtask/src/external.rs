//! The checks that need more than the toolchain: Python and its packages, a browser, a server.
//!
//! They are apart from `cargo xtask ci`, so that nobody needs those things to work on the rest; here nothing is left
//! out: what is missing is a failure. `.ci/run` installs what they need.

use crate::ci::step;
use anyhow::{Context as _, ensure};
use std::path::PathBuf;
use xshell::{Shell, cmd};

/// A check, and what it is called.
type Check = (&'static str, fn(&Shell) -> anyhow::Result<()>);

/// Every check, in the order in which they run.
const CHECKS: &[Check] = &[
    ("python environments", python_environments),
    ("agent SDKs", agent_sdks),
    ("programs in the documentation", documented_programs),
    ("the original ALFWorld", original_alfworld),
    ("pages in a browser", pages),
    ("an MCP client", mcp_client),
    ("public interface", public_interface),
];

/// What makes cargo take the build that the tests have made, and not one for a package alone.
const AS_TESTED: &[&str] = &["--workspace", "--all-features"];

/// Runs every check.
pub(crate) fn run(sh: &Shell) -> anyhow::Result<()> {
    for (name, check) in CHECKS {
        step(name, || check(sh))?;
    }
    eprintln!("ci: every external check passed");
    Ok(())
}

/// The examples in `examples/exec-python/`, played by the engine.
fn python_environments(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "python3 --version").run().context("these checks need Python 3 as `python3`")?;
    for package in ["exec-program", "skill-cli"] {
        let test = format!("crates/{package}/tests/external_python.rs");
        ensure!(sh.path_exists(&test), "{test} is gone, and nothing else would run what was in it");
    }
    let tests = ["--test", "external_python", "--quiet"];
    cmd!(sh, "cargo clippy {AS_TESTED...} {tests...} -- -D warnings").run()?;
    Ok(cmd!(sh, "cargo test {AS_TESTED...} {tests...}").run()?)
}

/// The commands of the documentation that need a program besides skillrl.
fn documented_programs(sh: &Shell) -> anyhow::Result<()> {
    let _programs = sh.push_env("SKILLRL_DOCS_PROGRAMS", "1");
    Ok(cmd!(sh, "cargo test {AS_TESTED...} --test docs --quiet").run()?)
}

/// The SDKs that agents are built on, as clients of the endpoint for agents.
fn agent_sdks(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "crates/skill-envs/tests/agent_sdks";
    let python = virtual_environment(sh, "agent-sdks", &format!("{DIRECTORY}/requirements.txt"))?;
    crate::build_as_tested(sh)?;
    let example = crate::built(sh, "debug/examples", "agent_endpoint");
    Ok(cmd!(sh, "{python} {DIRECTORY}/check.py {example}").run()?)
}

/// The real engine of ALFWorld behind a server: recorded games played on it, natively, and as they were recorded.
fn original_alfworld(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "examples/alfworld-live";
    /// One for each kind of task; the engine takes seconds for a game.
    const N_GAMES: &str = "6";
    let python = virtual_environment(sh, "alfworld-live", &format!("{DIRECTORY}/requirements.txt"))?;
    let skillrl = crate::default_program(sh)?;
    Ok(cmd!(sh, "{python} {DIRECTORY}/compare.py --skillrl {skillrl} --games {N_GAMES}").run()?)
}

/// The pages of `serve` and `report` in a headless Chromium, which the standard library of Python drives.
fn pages(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "crates/skill-serve/tests/browser";
    let program = crate::default_program(sh)?;
    cmd!(sh, "python3 {DIRECTORY}/check.py {program}").run()?;
    Ok(cmd!(sh, "python3 {DIRECTORY}/measure.py {program}").run()?)
}

/// The official SDK's client of the Model Context Protocol, which trains the demo by `skillrl mcp`.
fn mcp_client(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "crates/skill-mcp/tests/sdk";
    let python = virtual_environment(sh, "mcp-sdk", &format!("{DIRECTORY}/requirements.txt"))?;
    crate::build_as_tested(sh)?;
    let program = crate::built(sh, "debug", "skillrl");
    Ok(cmd!(sh, "{python} {DIRECTORY}/check.py {program}").run()?)
}

/// The lists in `api/`, where the tool that makes them is there; it is not installed, since it needs a nightly toolchain.
fn public_interface(sh: &Shell) -> anyhow::Result<()> {
    crate::api::run(sh, true)
}

/// The interpreter of a virtual environment with the packages of a file; it is made once for each state of the file.
fn virtual_environment(sh: &Shell, name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let directory = sh.current_dir().join("target/external").join(name);
    let (python, installed) = (directory.join("bin/python"), directory.join("requirements.txt"));
    let wanted = sh.read_file(requirements)?;
    if sh.path_exists(&python) && sh.read_file(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    sh.remove_path(&directory)?;
    let made = cmd!(sh, "python3 -m venv {directory}").run();
    made.context("these checks need Python's module `venv` (python3-venv in Debian)")?;
    let quiet = ["--quiet", "--disable-pip-version-check"];
    cmd!(sh, "{python} -m pip install {quiet...} --requirement {requirements}").run()?;
    // Last, so that what broke off is made anew.
    sh.write_file(&installed, wanted)?;
    Ok(python)
}
