//! Everything that CI runs, in the order in which it fails fastest.

use crate::generated;
use anyhow::{Context as _, bail};
use std::path::Path;
use std::time::Instant;
use xshell::{Shell, cmd};

pub(crate) fn run(sh: &Shell) -> anyhow::Result<()> {
    step("format", || format(sh))?;
    step("generated files", || generated::run(sh, true))?;
    step("clippy", || clippy(sh))?;
    step("features", || features(sh))?;
    step("tests", || test(sh))?;
    step("documentation", || documentation(sh))?;
    step("demo", || demo(sh))?;
    step("benchmark", || crate::bench(sh, true, &[]))?;
    step("packages", || packages(sh))?;
    eprintln!("ci: everything passed");
    Ok(())
}

/// Tests with nextest where it is installed, which runs them side by side; doctests with cargo.
pub(crate) fn test(sh: &Shell) -> anyhow::Result<()> {
    if has(sh, "nextest") {
        cmd!(sh, "cargo nextest run --workspace --all-features").run()?;
        cmd!(sh, "cargo test --workspace --all-features --doc --quiet").run()?;
    } else {
        cmd!(sh, "cargo test --workspace --all-features --quiet").run()?;
    }
    Ok(())
}

/// Runs one step, and says how long it took or that it failed.
pub(crate) fn step(name: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    eprintln!("ci: {name}");
    let began = Instant::now();
    work().with_context(|| format!("ci: {name} failed"))?;
    eprintln!("ci: {name}: {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn format(sh: &Shell) -> anyhow::Result<()> {
    if !has(sh, "fmt") {
        eprintln!("ci: NOT CHECKED: rustfmt is not installed (rustup component add rustfmt)");
        return Ok(());
    }
    Ok(cmd!(sh, "cargo fmt --all --check").run()?)
}

fn clippy(sh: &Shell) -> anyhow::Result<()> {
    if !has(sh, "clippy") {
        eprintln!("ci: NOT CHECKED: clippy is not installed (rustup component add clippy)");
        return Ok(());
    }
    Ok(cmd!(sh, "cargo clippy --workspace --all-targets --all-features --quiet -- -D warnings").run()?)
}

/// Each environment is a feature that can be left out, and so is the journal; all other steps but the demo's have every
/// feature.
fn features(sh: &Shell) -> anyhow::Result<()> {
    for package in ["skill-llm", "skill-envs"] {
        cmd!(sh, "cargo check --package {package} --no-default-features --quiet").run()?;
    }
    cmd!(sh, "cargo check --package skill-envs --no-default-features --features endpoint --quiet").run()?;
    if has(sh, "clippy") {
        cmd!(sh, "cargo clippy --package skill-cli --quiet -- -D warnings").run()?;
    }
    Ok(())
}

fn documentation(sh: &Shell) -> anyhow::Result<()> {
    let _denied = sh.push_env("RUSTDOCFLAGS", "-D warnings");
    Ok(cmd!(sh, "cargo doc --workspace --no-deps --all-features --quiet").run()?)
}

/// The program as most people build it, without the features of the tests: its demo gives the same bytes every time.
fn demo(sh: &Shell) -> anyhow::Result<()> {
    let program = crate::default_program(sh)?;
    let once = || cmd!(sh, "{program} demo").quiet().read();
    if once()? != once()? {
        bail!("two demos printed different texts");
    }
    left_out(sh, &program)
}

/// Whoever names a collector of traces, and calls models by a program without them, is told that none are sent.
fn left_out(sh: &Shell, program: &Path) -> anyhow::Result<()> {
    let is_told = |command: &[&str], is_disabled: &str| -> anyhow::Result<bool> {
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

/// What would be published has all files that it needs; that it builds is checked by a release, not here.
fn packages(sh: &Shell) -> anyhow::Result<()> {
    Ok(cmd!(
        sh,
        "cargo package --workspace --exclude xtask --exclude skillrl-bench --exclude exec-lights --no-verify --allow-dirty --quiet"
    )
    .run()?)
}

fn has(sh: &Shell, subcommand: &str) -> bool {
    cmd!(sh, "cargo {subcommand} --version").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
