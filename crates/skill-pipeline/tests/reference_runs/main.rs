//! Whole runs recorded from the reference trainer, made again by ours.
//!
//! Every run of every file in `tests/data/reference-runs/` is played: its configuration on its toy world, with an
//! optimizer that gives the recorded replies in their order. Batches, edits, hashes, scores, decisions and skills have
//! to come out the same, step by step, with early rejection and without; where they do not, a defect of the reference
//! has to say why (`compare.rs`). More files of the same shape can be dropped in.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod compare;
#[path = "../support/recorded.rs"]
mod recorded;
mod settings;
mod world;

use compare::Comparison;
use recorded::read_files;
use serde_json::Value;
use skill_core::SkillDoc;
use skill_pipeline::{EarlyStop, TrainSettings, Trainer};
use std::sync::Arc;

#[test]
fn the_recorded_runs_come_out_the_same() {
    let mut failures = Vec::new();
    let mut n_runs = 0;
    for (file, recorded) in read_files("reference-runs") {
        let initial = recorded["world"]["initial_skill"].as_str().unwrap();
        for (name, run) in recorded["runs"].as_object().unwrap() {
            n_runs += 1;
            for early_stop in [EarlyStop::Off, EarlyStop::Exact] {
                let place = format!("{file}: {name} ({early_stop:?})");
                match play(run, initial, early_stop) {
                    Ok(differences) => differences.iter().for_each(|line| println!("{place}: {line}")),
                    Err(found) => failures.extend(found.into_iter().map(|line| format!("{place}: {line}"))),
                }
            }
        }
    }
    assert!(n_runs > 0, "no run was read");
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Makes a run again: what differs on purpose, or what is wrong.
fn play(run: &Value, initial: &str, early_stop: EarlyStop) -> Result<Vec<String>, Vec<String>> {
    let settings = settings::settings(&run["config"]).map_err(|message| vec![message])?;
    let settings = TrainSettings { early_stop, ..settings };
    let optimizer = world::Recorded::new(run["replies"].as_array().unwrap());
    let trainer =
        Trainer::new(Arc::new(world::World::new()), world::silent_target(), Arc::clone(&optimizer) as _)
            .with_settings(settings.clone())
            .with_initial_skill(SkillDoc::new(initial));
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(trainer.train(dir.path()));
    let mut comparison = Comparison::new(dir.path(), initial, &settings);
    comparison.run(run, &optimizer.asked(), outcome.err().map(|error| error.to_string()));
    comparison.finish()
}
