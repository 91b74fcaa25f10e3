//! Checks of builds: features, packages, the default program, what compiles the tensor library.

use crate::{ci, workspace};
use anyhow::{bail, ensure};
use std::path::Path;
use xshell::{Shell, cmd};

/// The lists in `api/`, where the tool that makes them is installed; it needs a nightly toolchain.
pub(super) fn public_interface(sh: &Shell) -> anyhow::Result<()> {
    crate::api::run(sh, true)
}

/// Each environment is a feature that can be left out, and so is the journal; the facade has features of its own.
pub(super) fn features(sh: &Shell) -> anyhow::Result<()> {
    no_features(sh)?;
    checked(sh, "skill-envs", "endpoint")?;
    let has_cuda = cmd!(sh, "nvcc --version").quiet().ignore_stdout().ignore_stderr().run().is_ok();
    if !has_cuda {
        eprintln!("ci: NOT CHECKED: the feature `cuda` (needs NVIDIA's nvcc)");
    }
    for feature in facade_features(sh)? {
        if feature != "cuda" || has_cuda {
            checked(sh, "skillrl", &feature)?;
        }
    }
    Ok(())
}

/// The same without any feature; what is left out is named to anyone who configures it.
pub(super) fn no_features(sh: &Shell) -> anyhow::Result<()> {
    for package in ["skill-llm", "skill-envs", "skill-sim", "skillrl"] {
        checked(sh, package, "")?;
    }
    Ok(cmd!(sh, "cargo test --package skillrl --no-default-features --lib --quiet -- left_out").run()?)
}

/// The Python package, which a build of the workspace leaves out: it needs Python.
pub(super) fn python_package(sh: &Shell) -> anyhow::Result<()> {
    checked(sh, "skillrl-python", "extension")
}

/// Checks a library with these features alone; a warning is a failure.
fn checked(sh: &Shell, package: &str, features: &str) -> anyhow::Result<()> {
    let told = cmd!(sh, "cargo check --package {package} --no-default-features --features={features}")
        .read_stderr()?;
    ensure!(!told.contains("warning:"), "{package} with the features `{features}` has warnings:\n{told}");
    Ok(())
}

/// The cargo features of the facade, from its manifest.
fn facade_features(sh: &Shell) -> anyhow::Result<Vec<String>> {
    let manifest = sh.read_file("crates/skillrl/Cargo.toml")?;
    let features = manifest.split_once("[features]\n").map_or("", |(_, rest)| rest);
    let lines = features.lines().take_while(|line| !line.starts_with('['));
    let names: Vec<String> =
        lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned()).collect();
    ensure!(names.len() > 2, "the features of the facade were not found");
    Ok(names)
}

/// What would be published has all files that it needs: each package is built from itself.
pub(super) fn packages(sh: &Shell) -> anyhow::Result<()> {
    let unpublished = ["xtask", "skillrl-bench", "skillrl-python", "exec-lights", "fuzz-targets"];
    let unpublished = unpublished.map(|name| format!("--exclude={name}"));
    let options = ["--allow-dirty", "--quiet"];
    Ok(cmd!(sh, "cargo package --workspace {unpublished...} {options...}").run()?)
}

/// What compiles the tensor library, which `cargo xtask ci` leaves out.
pub(super) fn weights(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "cargo clippy --package skill-train --features candle,parquet --all-targets -- -D warnings")
        .run()?;
    let program =
        ["--package", "skillrl", "--package", "skill-cli", "--features", "skillrl/weights,skill-cli/weights"];
    cmd!(sh, "cargo clippy {program...} --all-targets -- -D warnings").run()?;
    // A model of embeddings is no part of the recorded data.
    let has_model = std::env::var_os("SKILLRL_MINILM").is_some();
    let recorded = if ci::recorded() { &["--include-ignored"][..] } else { &[] };
    let left_out = if has_model { &[][..] } else { &["--skip", "conformance_of_embeddings"] };
    cmd!(
        sh,
        "cargo test --release --package skill-train --features candle,parquet -- {recorded...} {left_out...}"
    )
    .run()?;
    cmd!(sh, "cargo test --release --package skill-tinker --features server -- {recorded...}").run()?;
    Ok(cmd!(sh, "cargo test --release --package skill-cli --features weights --test cli").run()?)
}

/// The commands of the full program: models on this machine change what some of them do.
pub(super) fn full_program(sh: &Shell) -> anyhow::Result<()> {
    let full = workspace::FULL;
    // Without the tests that take longest: what they are about is the same in both programs.
    let how =
        if ci::has(sh, "nextest") { &["nextest", "run", "--status-level", "slow"][..] } else { &["test"] };
    Ok(cmd!(sh, "cargo {how...} {full...} --test cli").run()?)
}

/// The program as most people build it, without the features of the tests: it builds without a warning, and its demo
/// gives the same bytes every time.
pub(super) fn default_build(sh: &Shell) -> anyhow::Result<()> {
    let built = cmd!(sh, "cargo build --package skill-cli --bin skillrl").quiet().read_stderr()?;
    if built.lines().any(|line| line.starts_with("warning:")) {
        bail!("the default program builds with warnings:\n{built}");
    }
    let program = crate::built(sh, "debug", "skillrl");
    // Each in an empty directory, since a demo keeps its files.
    let once = || -> anyhow::Result<String> {
        let dir = sh.create_temp_dir()?;
        let _dir = sh.push_dir(dir.path());
        Ok(cmd!(sh, "{program} demo").quiet().read()?)
    };
    if once()? != once()? {
        bail!("two demos printed different texts");
    }
    left_out(sh, &program)
}

/// A program without traces warns anyone who configured a collector for them.
fn left_out(sh: &Shell, program: &Path) -> anyhow::Result<()> {
    let is_told = |command: &[&str], is_disabled: &str| -> anyhow::Result<bool> {
        let dir = sh.create_temp_dir()?;
        let _dir = sh.push_dir(dir.path());
        let command = cmd!(sh, "{program} {command...}")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
            .env("OTEL_SDK_DISABLED", is_disabled)
            .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .env_remove("OTEL_TRACES_EXPORTER");
        Ok(command.quiet().ignore_stdout().read_stderr()?.contains("built without the feature `otel`"))
    };
    if !is_told(&["demo"], "false")? {
        bail!("a demo without traces said nothing of the collector that was named");
    }
    if is_told(&["demo"], "true")? || is_told(&["completions", "bash"], "false")? {
        bail!("it was said that no traces are sent, where nobody waits for any");
    }
    Ok(())
}
