//! Whole runs: what is learnt, and what the files say.

use crate::setup::{bigram, check_same_files, data, files, new_run, settings, text, trainer};
use crate::world::{Doors, whole_history};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_pipeline::records::sft::{SftStep, SftValidation};
use skill_pipeline::{Event, PipelineError, StopSignal};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn lines<T: serde::de::DeserializeOwned>(file: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_loss_falls_and_every_step_has_a_line() {
    let (_dir, run, settings, data) = new_run().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let events = {
        let seen = Arc::clone(&seen);
        Arc::new(move |event: &Event| seen.lock().push(serde_json::to_value(event).unwrap()))
    };
    let model = bigram(&run);
    let summary = trainer(&run, &model, &data, &settings).with_events(events).train(&run).await.unwrap();
    assert_eq!((data.train.len(), data.validation.len()), (8, 2));
    assert_eq!((summary.steps, summary.epochs), (4, 2));
    let steps: Vec<SftStep> = lines(&run.join("steps.jsonl"));
    assert_eq!(
        steps.iter().map(|step| (step.step, step.epoch)).collect::<Vec<_>>(),
        [(1, 1), (2, 1), (3, 2), (4, 2)]
    );
    assert!(steps[3].loss < steps[0].loss * 0.7, "{steps:?}");
    // A warm-up of 0.2 * 4 steps is none, so the first step has the highest rate, and the last one is not 0 yet.
    assert_eq!(steps[0].learning_rate, 0.5);
    assert!(steps[3].learning_rate > 0.0 && steps[3].learning_rate < 0.1);
    assert!(steps.iter().all(|step| step.grad_norm > 0.0 && step.targets > 0 && step.examples == 4));
    assert_eq!(summary.tokens, steps.iter().map(|step| step.tokens).sum::<u64>());
    let validations: Vec<SftValidation> = lines(&run.join("validation.jsonl"));
    assert_eq!(validations.iter().map(|one| one.step).collect::<Vec<_>>(), [0, 2, 4]);
    assert!(validations[2].loss < validations[0].loss);
    assert_eq!(summary.before.as_ref(), validations.first());
    assert_eq!(lines::<Value>(&run.join("examples.jsonl")).len(), 10);
    assert!(run.join("policy/weights.bin").is_file());
    // Seconds are in events alone.
    let seen = seen.lock();
    let of = |name: &str| seen.iter().filter(|event| event["event"] == name).count();
    assert_eq!((of("sft_step_finished"), of("sft_validated"), of("sft_finished")), (4, 3, 1));
    assert!(seen.iter().any(|event| event["seconds"].is_number()));
}

#[tokio::test]
async fn micro_batches_change_rounding_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut losses = Vec::new();
    for (name, limit) in [("one", 1_000_000), ("each", 2)] {
        let mut settings = settings();
        settings.micro_batch_tokens = limit;
        let (run, data) = (dir.path().join(name), data(&settings).await);
        let model = bigram(&run);
        trainer(&run, &model, &data, &settings).train(&run).await.unwrap();
        let steps: Vec<SftStep> = lines(&run.join("steps.jsonl"));
        losses.push(steps.iter().map(|step| step.loss).collect::<Vec<_>>());
    }
    for (one, each) in losses[0].iter().zip(&losses[1]) {
        assert!((one - each).abs() < 1e-4, "{losses:?}");
    }
}

#[tokio::test]
async fn only_the_last_state_and_the_best_one_stay() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut settings = settings();
    // So high that the validation loss rises again.
    (settings.learning_rate, settings.epochs, settings.checkpoint_interval) = (40.0, 4, 1);
    let data = data(&settings).await;
    let summary = trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    let validations: Vec<SftValidation> = lines(&run.join("validation.jsonl"));
    let trained = validations.iter().filter(|one| one.step > 0);
    let best = trained.min_by(|a, b| a.loss.partial_cmp(&b.loss).unwrap()).unwrap();
    assert_eq!(summary.policy_step, best.step);
    let states = std::fs::read_dir(run.join("checkpoints/states")).unwrap().count();
    assert_eq!(states, if best.step == summary.steps { 1 } else { 2 });
    assert!(run.join("checkpoints/states").join(&summary.policy_state).is_file());
}

#[tokio::test]
async fn a_stop_and_a_cap_keep_what_is_trained_and_the_run_continues() {
    for stops in [true, false] {
        let (dir, run, settings, data) = new_run().await;
        let whole = dir.path().join("whole");
        trainer(&whole, &bigram(&whole), &data, &settings).train(&whole).await.unwrap();
        let stop = StopSignal::default();
        let after_two = {
            let stop = stop.clone();
            Arc::new(move |event: &Event| {
                if let Event::SftStepFinished { record, .. } = event
                    && record.step == 2
                {
                    stop.soon.cancel();
                }
            })
        };
        let model = bigram(&run);
        let of_two: u64 =
            lines::<SftStep>(&whole.join("steps.jsonl"))[..2].iter().map(|step| step.tokens).sum();
        let first = trainer(&run, &model, &data, &settings);
        let first = match stops {
            true => first.with_stop(stop).with_events(after_two),
            false => first.with_caps(skill_weights::policy::WeightsCaps::new(Some(of_two), None)),
        };
        match (stops, first.train(&run).await.unwrap_err()) {
            (true, PipelineError::Stopped { last_step: 2, total_steps: 4 })
            | (false, PipelineError::SftCapped { what: "tokens", last_step: 2, total_steps: 4, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert!(run.join("policy/weights.bin").is_file());
        trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
        check_same_files(&files(&run), &files(&whole), "after a stop");
    }
}

#[tokio::test]
async fn a_directory_of_another_run_is_refused() {
    let (_dir, run, mut settings, data) = new_run().await;
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    settings.learning_rate = 0.25;
    let error = trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { changes, .. } if changes.len() == 1));
    settings.learning_rate = 0.5;
    let (mut other, _) = (data.clone(), ());
    other.train.pop();
    let error = trainer(&run, &bigram(&run), &other, &settings).train(&run).await.unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }));
    // A finished run is finished again, and its files are those that it had.
    let before = files(&run);
    trainer(&run, &bigram(&run), &data, &settings).train(&run).await.unwrap();
    assert_eq!(files(&run), before);
    // One of another kind is refused before it has any results.
    let config = run.join("config.json");
    let stored: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    for kind in [Some("rl"), Some("bank"), None] {
        let other = tempfile::tempdir().unwrap();
        let mut stored = stored.clone();
        stored.as_object_mut().unwrap().remove("checksum");
        let identity = stored["identity"].as_object_mut().unwrap();
        identity.remove("train.mode");
        identity.extend(kind.map(|kind| ("train.mode".to_owned(), json!(kind))));
        std::fs::write(other.path().join("config.json"), stored.to_string()).unwrap();
        std::fs::write(other.path().join("run.lock"), "").unwrap();
        let before = files(other.path());
        let trainer = trainer(other.path(), &bigram(other.path()), &data, &settings);
        let PipelineError::Mismatch { changes, .. } = trainer.train(other.path()).await.unwrap_err() else {
            panic!("{kind:?}")
        };
        assert_eq!(changes.len(), 1, "{kind:?}: {changes:?}");
        check_same_files(&files(other.path()), &before, "refused");
    }
}

#[tokio::test]
async fn a_step_is_measured_before_a_run() {
    let (dir, _, settings, data) = new_run().await;
    let backend: Arc<dyn skill_train::seam::TrainBackend> = Arc::new(bigram(dir.path()));
    let cost = skill_weights::sft::measured_step(&backend, &data, &settings).await.unwrap();
    let [tokens, _] = data.n_tokens();
    assert_eq!((cost.steps, cost.tokens), (4, 2 * tokens));
    assert!(cost.seconds >= cost.step_seconds && cost.step_tokens > 0 && cost.loss > 0.0);
    assert_eq!(Doors::env(1, whole_history()).world().name(), "doors");
    assert!(!text().stop_tokens.is_empty());
}
