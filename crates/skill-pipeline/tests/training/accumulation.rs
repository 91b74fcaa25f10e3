//! Gradient accumulation: several micro-batches under the same skill make one step.

use super::read;
use crate::world::{Job, changed, changed_settings, check_same_files, settings, target};
use serde_json::{Value, json};
use skill_pipeline::{PipelineError, SettingsError, TrainSettings};
use std::path::Path;
use std::sync::atomic::Ordering;

fn accumulating() -> TrainSettings {
    TrainSettings { batch_size: 2, accumulation: 2, ..settings() }
}

fn job(settings: TrainSettings) -> Job {
    Job { settings, ..Job::default() }
}

#[test]
fn a_step_has_several_micro_batches_under_one_skill() {
    let dir = tempfile::tempdir().unwrap();
    job(accumulating()).run(dir.path()).unwrap();
    let record = read(dir.path().join("steps/step_0001/step_record.json"));
    // The batches of the reference's run `accum2_linear`.
    assert_eq!(record["batch_item_ids"], json!(["tr6", "tr4", "tr1", "tr9"]));
    assert_eq!((&record["batch_seed"], &record["rollout_n"]), (&json!(1043), &json!(4)));
    let rows = record["accumulation_batches"].as_array().unwrap();
    let row = |batch_idx, seed| {
        json!({"batch_idx": batch_idx, "batch_seed": seed, "n_envs": 2, "hard": 0.0, "soft": 0.25,
            "n_failure_patches": 1, "n_success_patches": 0})
    };
    assert_eq!(rows, &[row(0, 1043), row(1, 1044)]);
    for (batch, ids) in [("batch_0", ["tr6", "tr4"]), ("batch_1", ["tr1", "tr9"])] {
        let results = read(dir.path().join("steps/step_0001").join(batch).join("rollout_results.json"));
        let found: Vec<&Value> = results.as_array().unwrap().iter().map(|result| &result["id"]).collect();
        assert_eq!(found, ids);
        let patches = read(dir.path().join("steps/step_0001").join(batch).join("raw_patches.json"));
        assert_eq!(patches[0]["batch_size"], 2);
    }
    assert!(!dir.path().join("steps/step_0001/raw_patches.json").exists());
}

#[test]
fn a_micro_batch_without_items_is_filled_again_and_its_items_are_measured_again() {
    // Ten items fill three batches of four; the fourth one, in the second step, has none left.
    let (dir, asked) = (tempfile::tempdir().unwrap(), target(usize::MAX));
    let settings =
        TrainSettings { batch_size: 4, accumulation: 2, epochs: 1, eval_test: false, ..settings() };
    Job { target: asked.clone(), ..job(settings) }.run(dir.path()).unwrap();
    let record = read(dir.path().join("steps/step_0002/step_record.json"));
    let sizes: Vec<&Value> =
        record["accumulation_batches"].as_array().unwrap().iter().map(|row| &row["n_envs"]).collect();
    assert_eq!(sizes, [2, 4]);
    assert_eq!(record["tokens"]["rollout"]["calls"], 6, "an item in two batches is two rollouts");
    let n_evaluated = |step: &str| {
        let record = read(dir.path().join("steps").join(step).join("step_record.json"));
        record["tokens"]["evaluate"]["calls"].as_u64().unwrap_or(0)
    };
    let n_calls = asked.n_calls.load(Ordering::Relaxed) as u64;
    assert_eq!(n_calls, 10 + 8 + 6 + n_evaluated("step_0001") + n_evaluated("step_0002"));
}

#[test]
fn accumulation_resumes_and_widens_to_the_same_files() {
    check_same_files("accumulation", &accumulating(), job, 0, &[0, 9, 11, 13, 15, 24, 31, 47]);
}

#[test]
fn a_run_does_not_go_on_with_another_accumulation() {
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..job(accumulating()) }.run(dir.path()).unwrap_err();
    let changes = changed_settings(job(TrainSettings { accumulation: 1, ..accumulating() }).run(dir.path()));
    assert_eq!(changes, [changed("train.accumulation", 2, 1)]);
    let none = TrainSettings { accumulation: 0, ..settings() };
    let error = job(none).run(Path::new("never")).unwrap_err();
    let too_small = SettingsError::TooSmall { setting: "accumulation", found: 0, least: 1 };
    assert!(matches!(error, PipelineError::Settings(error) if error == too_small));
}
