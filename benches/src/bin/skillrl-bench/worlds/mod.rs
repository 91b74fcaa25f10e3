//! The worlds: how fast they are loaded and stepped, and what an idle episode takes.
//!
//! Each is measured in processes of its own, as everything here. The real engine of ALFWorld is measured beside ours
//! where a Python is given that has it.

pub(crate) mod alfworld;
pub(crate) mod exec;
pub(crate) mod rollouts;
mod rows;
pub(crate) mod webshop;

pub(crate) use rows::rows;

use crate::Failure;
use crate::plan::Plan;
use crate::process::measure;
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// The example that is stepped through: with the standard library of Python alone.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/exec-python/guess.py");
/// What times the real engine.
const REAL_ALFWORLD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/skillrl-bench/worlds/real_alfworld.py");
/// The name under which Python is looked for.
const PYTHON: &str = "python3";

/// What was measured; a list has one report per repetition.
#[derive(Debug, Clone)]
pub(crate) struct WorldReports {
    alfworld: Vec<alfworld::AlfworldReport>,
    webshop: Vec<webshop::WebshopReport>,
    rollouts: Vec<rollouts::RolloutReport>,
    /// Nothing where there is no Python.
    exec: Vec<exec::ExecReport>,
    real_alfworld: Option<RealAlfworld>,
}

/// What the real engine took.
#[derive(Debug, Clone, Deserialize)]
struct RealAlfworld {
    /// The packages and their versions.
    packages: String,
    load_reset_ms: f64,
    steps_per_second: f64,
    /// The most memory of the process, which plays one game.
    peak_memory: u64,
}

/// Measures all worlds.
pub(crate) fn run(plan: &Plan, alfworld_python: Option<&Path>) -> Result<WorldReports, Failure> {
    let dir = tempfile::tempdir()?;
    let game = dir.path().join("game.tw-pddl");
    std::fs::write(&game, alfworld::recorded_game()?)?;
    // First, since it puts its domain into the game, and then ours reads the same file.
    let real_alfworld = alfworld_python.map(|python| real_alfworld(python, &game, plan)).transpose()?;
    let has_python = Command::new(PYTHON).arg("--version").stdout(Stdio::null()).status().is_ok();
    let (alfworld, webshop, rollouts, exec) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut reports = WorldReports { alfworld, webshop, rollouts, exec, real_alfworld };
    let with_options = |mut args: Vec<String>| {
        args.extend(plan.worlds.options());
        args
    };
    for repetition in 0..plan.repetitions {
        eprintln!("bench: worlds, repetition {} of {}", repetition + 1, plan.repetitions);
        let game = game.display().to_string();
        reports.alfworld.push(measure(with_options(vec!["alfworld".to_owned(), game]))?);
        reports.webshop.push(measure(with_options(vec!["webshop".to_owned()]))?);
        reports.rollouts.push(measure(with_options(vec!["rollouts".to_owned()]))?);
        if has_python {
            let mut args = with_options(vec!["exec".to_owned()]);
            args.extend([PYTHON, PROGRAM].map(str::to_owned));
            reports.exec.push(measure(args)?);
        }
    }
    Ok(reports)
}

/// Times the engine of the package `alfworld` on this game.
fn real_alfworld(python: &Path, game: &Path, plan: &Plan) -> Result<RealAlfworld, Failure> {
    eprintln!("bench: the real engine of ALFWorld");
    let loads = plan.real_loads.to_string();
    let mut command = Command::new(python);
    command.arg(REAL_ALFWORLD).arg(game).args([loads, plan.real_seconds.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", python.display()))?;
    if !output.status.success() {
        let python = python.display();
        return Err(format!("{python} cannot play: does it have alfworld and textworld?").into());
    }
    // The packages may have printed something too.
    let last = output.stdout.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(serde_json::from_slice(last)?)
}
