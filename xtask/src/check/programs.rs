//! Checks with programs and packages of others: SDKs, trainers, agents, a browser, the sandbox.

use crate::ci;
use crate::python::{python, python_of_trainers};
use crate::workspace;
use anyhow::{Context as _, ensure};
use xshell::{Shell, cmd};

/// The programs in Python: environments played by the engine, and the pages of the documentation that run one.
pub(super) fn python_programs(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "python3 --version").run().context("these checks need Python 3 as `python3`")?;
    for package in ["skill-envs", "skill-cli"] {
        let test = format!("crates/{package}/tests/external_python.rs");
        ensure!(sh.path_exists(&test), "{test} is missing, and nothing else runs its tests");
    }
    // The pages without such a command have been run by `cargo xtask test`.
    let sh = &ci::linting(sh)?;
    let _programs = sh.push_env("SKILLRL_DOCS_PROGRAMS", "only");
    let as_tested = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo test {as_tested...} --test external_python --test docs --quiet").run()?)
}

/// Programs that mean harm in a real sandbox; what is missing for it is a failure here.
pub(super) fn sandboxes(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "bwrap --version").run().context("this check needs bubblewrap 0.8 or later")?;
    cmd!(sh, "/usr/bin/python3 --version").run().context("this check needs the system's Python")?;
    cmd!(sh, "/usr/bin/python3 -c 'import openpyxl'").run().context("this check needs openpyxl")?;
    cmd!(sh, "soffice --version").run().context("this check needs LibreOffice")?;
    // One after the other, since the programs of a test take all processors.
    let words = ["--include-ignored", "--test-threads=1", "--nocapture"];
    cmd!(sh, "cargo test --quiet --package skill-sandbox --test hostile -- {words...}").run()?;
    // Real tasks are worked on where `SKILLRL_CONFORMANCE` says where they lie.
    let skipped: &[&str] = if ci::recorded() { &[] } else { &["--skip", "real_tasks"] };
    let sh = &ci::linting(sh)?;
    let as_tested = &workspace::as_tested(sh)?;
    for (target, filter) in [
        ("it", "spreadsheet_env"),
        ("it", "in_the_sandbox"),
        ("nats", "in_the_sandbox"),
        ("cli", "spreadsheets::"),
    ] {
        cmd!(
            sh,
            "cargo test --quiet {as_tested...} --test {target} {filter} -- --include-ignored {skipped...}"
        )
        .run()?;
    }
    Ok(())
}

/// The SDKs that agents are built on, as clients of the endpoint for agents.
pub(super) fn agent_sdks(sh: &Shell) -> anyhow::Result<()> {
    let python = python(sh, "crates/skill-envs/tests/agent_sdks/requirements.txt")?;
    crate::build_as_tested(sh)?;
    let example = crate::built(sh, "debug/examples", "agent_endpoint");
    Ok(cmd!(sh, "{python} crates/skill-envs/tests/agent_sdks/check.py {example}").run()?)
}

/// The real engine of ALFWorld behind a server: recorded games played on it, natively, and as they were recorded.
pub(super) fn original_alfworld(sh: &Shell) -> anyhow::Result<()> {
    /// One for each kind of task; the engine takes seconds for a game.
    const N_GAMES: &str = "6";
    let python = python(sh, "examples/alfworld-live/requirements.txt")?;
    let skillrl = crate::default_program(sh)?;
    let script = "examples/alfworld-live/compare.py";
    Ok(cmd!(sh, "{python} {script} --skillrl {skillrl} --games {N_GAMES}").run()?)
}

/// The pages of `serve` and `report` in a headless Chromium, which the standard library of Python drives.
pub(super) fn pages(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "crates/skill-serve/tests/browser";
    let program = crate::default_program(sh)?;
    cmd!(sh, "python3 {DIRECTORY}/check.py {program}").run()?;
    Ok(cmd!(sh, "python3 {DIRECTORY}/measure.py {program}").run()?)
}

/// The official SDK's client of the Model Context Protocol, which trains the demo by `skillrl mcp`.
pub(super) fn mcp_client(sh: &Shell) -> anyhow::Result<()> {
    let python = python(sh, "crates/skill-mcp/tests/sdk/requirements.txt")?;
    crate::build_as_tested(sh)?;
    let program = crate::built(sh, "debug", "skillrl");
    Ok(cmd!(sh, "{python} crates/skill-mcp/tests/sdk/check.py {program}").run()?)
}

/// What other trainers read: data in every format, by the checkers here and by the packages themselves, and the policies of
/// two short runs of fine-tuning, which transformers and peft load.
pub(super) fn exports(sh: &Shell) -> anyhow::Result<()> {
    const LOADERS: &str = "crates/skill-train/tests/loaders";
    const BASE: &str = "crates/skill-train/tests/data/own/chat-tiny";
    let folder = sh.current_dir().join("target/exports");
    sh.remove_path(&folder)?;
    sh.create_dir(&folder)?;
    let data = folder.join("data");
    cmd!(sh, "cargo run --quiet --package skill-train --features parquet --example write_exports -- {data}")
        .run()?;
    cmd!(sh, "cargo build --quiet --package skill-cli --bin skillrl --features weights").run()?;
    let skillrl = crate::built(sh, "debug", "skillrl");
    let base = sh.current_dir().join(BASE);
    let config = folder.join("household.toml");
    let path = base.display();
    let text = format!(
        "[models.target]\nkind = \"local\"\npath = '{path}'\n\n[models.optimizer]\nkind = \"simulated\"\n\n\
         [env]\nkind = \"alfworld\"\nmax_train = 3\nmax_val = 1\nmax_test = 1\n\n\
         [sft]\nexamples = 8\nbatch_size = 4\nlearning_rate = 0.01\n"
    );
    sh.write_file(&config, text)?;
    for (run, rank) in [("adapter", "4"), ("full", "0")] {
        let out = folder.join(run);
        cmd!(sh, "{skillrl} sft {config} --lora-rank {rank} --out {out} --quiet").run()?;
    }
    let python = python(sh, &format!("{LOADERS}/requirements.txt"))?;
    let [adapter, full] = ["adapter", "full"].map(|run| folder.join(run).join("policy"));
    cmd!(sh, "{python} {LOADERS}/check.py {data} {base} {adapter} {full}").run()?;
    Ok(cmd!(sh, "{python} {LOADERS}/merged.py {skillrl} {base}").run()?)
}

/// What other trainers do with `skillrl env serve`, and its figures, in a release build: the packages openenv and
/// openenv-core, whose modules have the same names, and TRL on a tiny model that is made on the spot.
pub(super) fn trainers(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPTS: &str = "crates/skill-openenv/tests/trainers";
    const CORE: &str = "target/external/openenv-core";
    let python = python_of_trainers(sh)?;
    let wanted = format!("{SCRIPTS}/requirements-core.txt");
    let core = sh.current_dir().join(CORE);
    if !sh.path_exists(core.join("openenv_core")) {
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
        cmd!(sh, "{python} -m pip install {quiet...} --target {core} --requirement {wanted}").run()?;
    }
    cmd!(sh, "cargo build --quiet --release --package skill-cli --features openenv").run()?;
    let program = crate::built(sh, "release", "skillrl");
    Ok(cmd!(sh, "{python} {SCRIPTS}/check.py {program} {core}").run()?)
}

/// Installs the pinned programs of coding agents with npm, and drives them with a scripted model on loopback.
pub(super) fn coding_agents(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPT: &str = "crates/skill-agents/tests/programs/check.py";
    cmd!(sh, "cargo build --package skill-cli").run()?;
    let programs = sh.current_dir().join("target/external/agents");
    sh.create_dir(&programs)?;
    let program = crate::built(sh, "debug", "skillrl");
    Ok(cmd!(sh, "python3 {SCRIPT} {program} {programs}").run()?)
}

/// What the SDK of Tinker does with `skillrl train-server`, in a release build. Most of what it needs is in the
/// environment of the trainers; its own requirements name a build of torch for graphics cards.
pub(super) fn tinker_sdk(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPTS: &str = "crates/skill-tinker/tests/sdk";
    const MODEL: &str = "crates/skill-train/tests/data/own/chat-tiny";
    let python = python_of_trainers(sh)?;
    let sdk = sh.current_dir().join("target/external/tinker");
    if !sh.path_exists(sdk.join("tinker")) {
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
        let wanted = format!("{SCRIPTS}/requirements.txt");
        cmd!(sh, "{python} -m pip install {quiet...} --target {sdk} --requirement {wanted}").run()?;
    }
    cmd!(sh, "cargo build --quiet --release --package skill-cli --features weights").run()?;
    let program = crate::built(sh, "release", "skillrl");
    Ok(cmd!(sh, "{python} {SCRIPTS}/check.py {program} {MODEL}").env("PYTHONPATH", sdk).run()?)
}
