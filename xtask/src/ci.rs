//! Everything that CI runs, in the order in which it fails fastest.
//!
//! The tests are built first, then run while the compiler works on what they do not need: many of them wait for
//! programs, sockets and virtual clocks, and leave a processor idle.

use crate::generated;
use anyhow::{Context as _, anyhow};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;
use xshell::{Shell, cmd};

/// The build that tests, doctests, lints and pages share.
const EVERYTHING: [&str; 2] = ["--workspace", "--all-features"];
/// Where the tests are listed for a run without cargo, which would wait for other builds.
const LISTS: &str = "target/ci";

pub(crate) fn run(sh: &Shell) -> anyhow::Result<()> {
    let began = Instant::now();
    step("format", || format(sh))?;
    step("generated files", || generated::run(sh, true))?;
    if has(sh, "nextest") {
        step("build of the tests", || build_tests(sh))?;
        let tests = sh.clone();
        let tests = thread::spawn(move || step("tests", || run_built_tests(&tests)));
        let lints = lints(sh);
        let tests = tests.join().map_err(|_| anyhow!("the thread of the tests panicked"))?;
        lints.and(tests)?;
        step("doctests", || doctests(sh))?;
    } else {
        step("tests", || test(sh))?;
        lints(sh)?;
    }
    eprintln!("ci: everything passed in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Tests with nextest where it is installed, which runs them side by side; doctests with cargo.
pub(crate) fn test(sh: &Shell) -> anyhow::Result<()> {
    if has(sh, "nextest") {
        cmd!(sh, "cargo nextest run {EVERYTHING...}").run()?;
        doctests(sh)
    } else {
        Ok(cmd!(sh, "cargo test {EVERYTHING...} --quiet").run()?)
    }
}

/// Builds the tests and lists their programs.
fn build_tests(sh: &Shell) -> anyhow::Result<()> {
    let [metadata, programs] = lists();
    let json = ["--list-type", "binaries-only", "--message-format", "json"];
    let listed = cmd!(sh, "cargo nextest list {EVERYTHING...} {json...} --cargo-quiet").read()?;
    sh.write_file(programs, listed)?;
    // Without the crates of other systems, which would be downloaded for it.
    let host = cmd!(sh, "rustc --print host-tuple").quiet().read()?;
    let described = cmd!(sh, "cargo metadata --format-version 1 --all-features --filter-platform {host}")
        .quiet()
        .read()?;
    Ok(sh.write_file(metadata, described)?)
}

fn run_built_tests(sh: &Shell) -> anyhow::Result<()> {
    let [metadata, programs] = lists();
    let quiet = ["--no-fail-fast", "--status-level", "slow", "--final-status-level", "slow"];
    Ok(cmd!(sh, "cargo nextest run --cargo-metadata {metadata} --binaries-metadata {programs} {quiet...}")
        .run()?)
}

fn lists() -> [PathBuf; 2] {
    ["metadata.json", "programs.json"].map(|file| Path::new(LISTS).join(file))
}

fn doctests(sh: &Shell) -> anyhow::Result<()> {
    Ok(cmd!(sh, "cargo test {EVERYTHING...} --doc --quiet").run()?)
}

/// Checks of the sources that run no test.
fn lints(sh: &Shell) -> anyhow::Result<()> {
    step("clippy", || clippy(sh))?;
    step("documentation", || documentation(sh))
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
    Ok(cmd!(sh, "cargo clippy {EVERYTHING...} --all-targets --quiet -- -D warnings").run()?)
}

fn documentation(sh: &Shell) -> anyhow::Result<()> {
    let _denied = sh.push_env("RUSTDOCFLAGS", "-D warnings");
    Ok(cmd!(sh, "cargo doc {EVERYTHING...} --no-deps --quiet").run()?)
}

fn has(sh: &Shell, subcommand: &str) -> bool {
    cmd!(sh, "cargo {subcommand} --version").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
