//! Virtual environments of Python, which checks share.

use anyhow::Context as _;
use std::collections::BTreeSet;
use std::path::PathBuf;
use xshell::{Shell, cmd};

/// The virtual environment that all Python checks share.
const ENVIRONMENT: &str = "target/external/python";
/// That of the checks with OpenEnv, TRL and Tinker's SDK.
const TRAINERS: &str = "target/external/trainers";
/// That of the bench of search: the packages of other ways of searching.
const SEARCHES: &str = "target/external/searches";

/// That of the check with frameworks of agents.
const FRAMEWORKS: &str = "target/external/frameworks";

/// The interpreter of the shared virtual environment, with the packages of this file; versions must agree among all files.
pub(crate) fn python(sh: &Shell, requirements: &str) -> anyhow::Result<PathBuf> {
    python_in(sh, ENVIRONMENT, requirements)
}

/// The interpreter with the packages of trainers: OpenEnv needs another version of `mcp` than the check of MCP.
pub(crate) fn python_of_trainers(sh: &Shell) -> anyhow::Result<PathBuf> {
    python_in(sh, TRAINERS, "crates/skill-openenv/tests/trainers/requirements.txt")
}

/// The interpreter with the searches that the bench compares with.
pub(crate) fn python_of_searches(sh: &Shell) -> anyhow::Result<PathBuf> {
    python_in(sh, SEARCHES, "benches/python/requirements.txt")
}

/// The interpreter with the frameworks of agents.
pub(crate) fn python_of_frameworks(sh: &Shell) -> anyhow::Result<PathBuf> {
    python_in(sh, FRAMEWORKS, "crates/skillrl-python/tests/frameworks/requirements.txt")
}

fn python_in(sh: &Shell, directory: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let directory = sh.current_dir().join(directory);
    let (python, record) = (directory.join("bin/python"), directory.join("installed.txt"));
    let installed = sh.read_file(&record).unwrap_or_default();
    let mut lines: BTreeSet<&str> = installed.lines().collect();
    let wanted = sh.read_file(requirements)?;
    if wanted.lines().all(|line| lines.contains(line)) {
        return Ok(python);
    }
    if lines.is_empty() {
        sh.remove_path(&directory)?;
        let made = cmd!(sh, "python3 -m venv {directory}").run();
        made.context("these checks need Python's module `venv` (python3-venv in Debian)")?;
    }
    let quiet = ["--quiet", "--disable-pip-version-check"];
    cmd!(sh, "{python} -m pip install {quiet...} --requirement {requirements}").run()?;
    lines.extend(wanted.lines());
    // Last, so that an installation that failed is repeated.
    sh.write_file(&record, lines.into_iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(python)
}
