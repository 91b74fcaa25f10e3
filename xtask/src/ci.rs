//! Everything that CI runs, in the order in which it fails fastest.
//!
//! Clippy compiles the tests: everything in the workspace is linted and built in one pass, so that neither the
//! dependencies nor the crates are read twice. The documentation is an external check: rustdoc checks every dependency again,
//! which would slow the tests beside it.

use crate::memory::{SHARED_MEMORY, has_room_in_memory};
use crate::{assertions, circles, generated, search, workspace};
use anyhow::Context as _;
use std::env::consts::EXE_EXTENSION;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;
use xshell::{Shell, cmd};

/// Where the tests are listed for a run without cargo, which would wait for other builds.
const LISTS: &str = "target/ci";

pub(crate) fn run(sh: &Shell) -> anyhow::Result<()> {
    let began = Instant::now();
    step("format", || format(sh))?;
    step("import circles", || circles::check(&sh.current_dir()))?;
    step("sentences in assertions", || assertions::check(sh))?;
    step("generated files", || generated::run(sh, true))?;
    let linting = linting(sh)?;
    step("build and clippy", || build_everything(&linting))?;
    if has(sh, "nextest") {
        list_tests(&linting)?;
        step("tests", || run_built_tests(sh))?;
        step("doctests", || doctests(&linting))?;
    } else {
        step("tests", || test(&linting))?;
    }
    step("search", || search::check(sh))?;
    eprintln!("ci: everything passed in {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// A shell whose cargo compiles the crates of the workspace by clippy's compiler, and denies warnings.
///
/// It sets what `cargo clippy` sets. That command only checks: it would read every dependency and every crate a second
/// time, while the compiler of clippy also writes programs. Clippy finds the `clippy.toml` nearest to each crate itself.
/// Whatever runs what [`run`] has built builds by such a shell too, or cargo would build the workspace once more.
pub(crate) fn linting(sh: &Shell) -> anyhow::Result<Shell> {
    let root = cmd!(sh, "rustc --print sysroot").quiet().read()?;
    let compiler = Path::new(&root).join("bin").join("clippy-driver").with_extension(EXE_EXTENSION);
    let linting = sh.clone();
    if compiler.is_file() {
        linting.set_var("RUSTC_WORKSPACE_WRAPPER", compiler);
        // The compiler's cache for later builds costs more than it saves in a build from nothing.
        linting.set_var("CARGO_INCREMENTAL", "0");
        linting.set_var("CLIPPY_ARGS", ["-D", "warnings", ""].join("__CLIPPY_HACKERY__"));
    } else {
        eprintln!("ci: NOT CHECKED: clippy is not installed (rustup component add clippy)");
    }
    Ok(linting)
}

/// Tests with nextest where it is installed, which runs them side by side; doctests with cargo.
pub(crate) fn test(sh: &Shell) -> anyhow::Result<()> {
    let everything = &workspace::as_tested(sh)?;
    if has(sh, "nextest") {
        cmd!(sh, "cargo nextest run {everything...}").run()?;
        if recorded() {
            cmd!(sh, "cargo nextest run {everything...} {RECORDED...}").run()?;
        }
        doctests(sh)
    } else {
        cmd!(sh, "cargo test {everything...} --quiet").run()?;
        if recorded() {
            cmd!(sh, "cargo test {everything...} --quiet -- --ignored conformance").run()?;
        }
        Ok(())
    }
}

/// The tests that compare with recorded data; other ignored ones need programs, and `cargo xtask check` runs them.
const RECORDED: [&str; 4] = ["--run-ignored", "only", "-E", "test(conformance)"];

/// True if the data lie here that tests with `#[ignore]` compare with: whoever sets the variable wants them compared.
pub(crate) fn recorded() -> bool {
    std::env::var_os("SKILLRL_CONFORMANCE").is_some()
}

/// Builds every target of the workspace, and names what is wrong in all of them.
fn build_everything(sh: &Shell) -> anyhow::Result<()> {
    let everything = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo build {everything...} --all-targets --keep-going --quiet").run()?)
}

/// Lists the programs of the tests, which are built.
fn list_tests(sh: &Shell) -> anyhow::Result<()> {
    let [metadata, programs] = lists();
    let json = ["--list-type", "binaries-only", "--message-format", "json"];
    let everything = workspace::as_tested(sh)?;
    let listed = cmd!(sh, "cargo nextest list {everything...} {json...} --cargo-quiet").read()?;
    sh.write_file(programs, listed)?;
    // Without the crates of other systems, which would be downloaded for it.
    let host = cmd!(sh, "rustc --print host-tuple").quiet().read()?;
    let features = workspace::light_features(sh)?.join(",");
    let features = format!("--features={features}");
    let described =
        cmd!(sh, "cargo metadata --format-version 1 {features} --filter-platform {host}").quiet().read()?;
    Ok(sh.write_file(metadata, described)?)
}

fn run_built_tests(sh: &Shell) -> anyhow::Result<()> {
    let memory = in_memory(sh);
    let _files = memory.as_ref().map(|dir| sh.push_env("TMPDIR", dir));
    let outcome = run_listed_tests(sh);
    if let Some(dir) = memory {
        sh.remove_path(dir)?;
    }
    outcome
}

/// A new directory in memory for the files of the tests, because many tests wait for the disk; `None` if there is too
/// little memory.
fn in_memory(sh: &Shell) -> Option<PathBuf> {
    let dir = Path::new(SHARED_MEMORY).join(format!("skillrl-ci-{}", std::process::id()));
    has_room_in_memory(sh).then(|| sh.create_dir(dir).ok()).flatten()
}

/// Runs the tests that the default filter of `.config/nextest.toml` excludes. `cargo test` knows no filter, so without
/// nextest they have been run already.
pub(crate) fn long_tests(sh: &Shell) -> anyhow::Result<()> {
    if !has(sh, "nextest") {
        return Ok(());
    }
    let sh = &linting(sh)?;
    let everything = workspace::as_tested(sh)?;
    let left_out = "not default()";
    Ok(cmd!(sh, "cargo nextest run {everything...} --ignore-default-filter -E {left_out}").run()?)
}

fn run_listed_tests(sh: &Shell) -> anyhow::Result<()> {
    let [metadata, programs] = lists();
    // Many tests wait: for a disk, for a process, for a deadline.
    let threads = available_parallelism().map_or(1, |cores| cores.get() * 3 / 2).to_string();
    let quiet = ["--no-fail-fast", "--status-level", "slow", "--final-status-level", "slow"];
    let quiet = &[&quiet[..], &["--test-threads", &threads]].concat();
    let of_build = [
        "--cargo-metadata".as_ref(),
        metadata.as_os_str(),
        "--binaries-metadata".as_ref(),
        programs.as_os_str(),
    ];
    cmd!(sh, "cargo nextest run {of_build...} {quiet...}").run()?;
    if recorded() {
        cmd!(sh, "cargo nextest run {of_build...} {quiet...} {RECORDED...}").run()?;
    }
    Ok(())
}

fn lists() -> [PathBuf; 2] {
    ["metadata.json", "programs.json"].map(|file| Path::new(LISTS).join(file))
}

fn doctests(sh: &Shell) -> anyhow::Result<()> {
    let everything = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo test {everything...} --doc --quiet").run()?)
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

/// The documentation of every crate, without warnings.
pub(crate) fn documentation(sh: &Shell) -> anyhow::Result<()> {
    let _denied = sh.push_env("RUSTDOCFLAGS", "-D warnings");
    let everything = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo doc {everything...} --no-deps --quiet").run()?)
}

pub(crate) fn has(sh: &Shell, subcommand: &str) -> bool {
    cmd!(sh, "cargo {subcommand} --version").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}
