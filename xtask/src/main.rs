//! Tasks of this repository: `cargo xtask TASK`. Kept quick to compile: it starts other programs and does little itself.
#![expect(clippy::print_stderr, reason = "a task talks to the person who started it")]

mod api;
mod assertions;
mod check;
mod ci;
mod circles;
mod dist;
mod flags;
mod generated;
mod memory;
mod nats;
mod python;
mod readmes;
mod records;
mod run_files;
mod search;
mod weights;
mod workspace;

use anyhow::Context as _;
use flags::{Xtask, XtaskCmd};
use std::env::consts::EXE_EXTENSION;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// How many seeds `sim` runs, where nobody says.
pub(crate) const DEFAULT_SEEDS: u64 = 1_000;

fn main() -> anyhow::Result<()> {
    let task = Xtask::from_env_or_exit();
    let sh = Shell::new()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in the workspace")?;
    sh.change_dir(root);
    match task.subcommand {
        XtaskCmd::Demo(flags::Demo { world, bank, weights: true }) => {
            weights::demo(&sh, world.as_deref(), bank)
        }
        XtaskCmd::Demo(flags::Demo { world, bank, .. }) => demo(&sh, world.as_deref(), bank),
        XtaskCmd::Ci(flags::Ci { external: true }) => check::external(&sh),
        XtaskCmd::Ci(flags::Ci { external: false }) => ci::run(&sh),
        XtaskCmd::Check(flags::Check { name, rounds }) => {
            if let Some(rounds) = rounds {
                sh.set_var(nats::ROUNDS, rounds.to_string());
            }
            check::run(&sh, name.as_deref())
        }
        XtaskCmd::Test(_) => ci::test(&sh),
        XtaskCmd::Crash(_) => crash(&sh),
        XtaskCmd::Sim(sim_) => sim(&sh, sim_.seeds.unwrap_or(DEFAULT_SEEDS), sim_.from.unwrap_or(0)),
        XtaskCmd::Bench(flags::Bench { weights: true, .. }) => weights::bench(&sh),
        XtaskCmd::Bench(flags::Bench { micro: true, .. }) => {
            Ok(cmd!(sh, "cargo bench --workspace --benches").run()?)
        }
        XtaskCmd::Bench(bench @ flags::Bench { real: true, .. }) => search::real(&sh, bench),
        XtaskCmd::Bench(flags::Bench { search: true, quick: true, .. }) => search::brief(&sh),
        XtaskCmd::Bench(flags::Bench { search: true, seeds, .. }) => search::compare(&sh, seeds.as_deref()),
        XtaskCmd::Bench(flags::Bench { quick, worlds, runs, alfworld_python, .. }) => {
            let alone = [(worlds, "--worlds"), (runs, "--runs")];
            let mut args: Vec<OsString> =
                alone.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, flag)| flag.into()).collect();
            if let Some(python) = alfworld_python {
                args.extend(["--alfworld-python".into(), path_from_here(python)?.into()]);
            }
            bench(&sh, quick, &args)
        }
        XtaskCmd::Api(api_) => api::run(&sh, api_.check),
        XtaskCmd::Dist(flags::Dist { program, wheel }) => dist::run(&sh, program, wheel),
        XtaskCmd::Gen(gen_) => generated::run(&sh, gen_.check),
    }
}

fn demo(sh: &Shell, world: Option<&str>, bank: bool) -> anyhow::Result<()> {
    let world = world.map(|world| format!("--world={world}"));
    let bank = bank.then_some("--bank");
    let out = "target/demo";
    sh.remove_path(out)?;
    cmd!(sh, "cargo run --quiet --package skill-cli --bin skillrl -- demo --out {out} {world...} {bank...}")
        .quiet()
        .run()?;
    Ok(())
}

/// The long form of a test that `cargo xtask test` runs with fewer deaths.
pub(crate) fn crash(sh: &Shell) -> anyhow::Result<()> {
    let _full = sh.push_env("SKILLRL_CRASH_FULL", "1");
    cmd!(sh, "cargo test --release --package skillrl --test crash the_demo_dies -- --nocapture").run()?;
    Ok(())
}

/// The seeds are dealt among the tests of the target, which run side by side.
pub(crate) fn sim(sh: &Shell, seeds: u64, from: u64) -> anyhow::Result<()> {
    let _seeds = sh.push_env("SKILLRL_SIM_SEEDS", seeds.to_string());
    let _from = sh.push_env("SKILLRL_SIM_FROM", from.to_string());
    cmd!(sh, "cargo test --release --package skill-pipeline --test sim -- --nocapture seeds_").run()?;
    Ok(())
}

/// The benchmark and the server that it measures against, each in processes of their own.
pub(crate) fn bench(sh: &Shell, quick: bool, args: &[OsString]) -> anyhow::Result<()> {
    // Not by `cargo run`: for one package alone it would build all of them again, with the features of that one.
    let (directory, quick) = if quick {
        build_as_tested(sh)?;
        ("debug", Some("--quick"))
    } else {
        let packages = ["--package=skillrl-bench", "--package=skill-cli"];
        cmd!(sh, "cargo build --release --quiet {packages...} --bins").run()?;
        ("release", None)
    };
    let program = built(sh, directory, "skillrl-bench");
    cmd!(sh, "{program} {quick...} {args...}").quiet().run()?;
    Ok(())
}

/// A bare name is looked for, a path is meant from here; the link of a virtual environment stays one.
fn path_from_here(program: PathBuf) -> anyhow::Result<PathBuf> {
    let is_path = program.components().count() > 1;
    Ok(if is_path { std::path::absolute(program)? } else { program })
}

/// Makes every program and example, by the build that `cargo xtask ci` has made: with every feature that is not heavy, and with those that
/// dependencies have in tests, which `--examples` brings in.
pub(crate) fn build_as_tested(sh: &Shell) -> anyhow::Result<()> {
    let sh = &ci::linting(sh)?;
    let everything = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo build --quiet {everything...} --bins --examples").run()?)
}

/// Makes the program as most people build it, without the features of the tests.
pub(crate) fn default_program(sh: &Shell) -> anyhow::Result<PathBuf> {
    cmd!(sh, "cargo build --quiet --package skill-cli --bin skillrl").run()?;
    Ok(built(sh, "debug", "skillrl"))
}

/// Where cargo puts a program.
pub(crate) fn built(sh: &Shell, directory: &str, program: &str) -> PathBuf {
    let target = sh.var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    sh.current_dir().join(target).join(directory).join(program).with_extension(EXE_EXTENSION)
}
