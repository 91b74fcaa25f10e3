//! The gate over several targets.

use crate::run_files::files;
use crate::world::{Counted, Job, changed_settings, counted, settings, target};
use serde_json::Value;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Role, Usage};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::{PipelineError, RunReader, Summary, TargetsScore, TrainSettings, Trainer};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A target that keeps to no rule about some words, and ends at a call.
fn small(fails_from: usize) -> Arc<Counted> {
    let inner = ScriptedModel::from_fn("small", |request: &ChatRequest, _: &CallCtx| {
        let word = request.text_of(Role::User);
        let is_known =
            request.text_of(Role::System).contains(&word) && !["alpha", "bravo"].contains(&word.as_str());
        let usage = Usage { input: 5, output: 1, ..Usage::default() };
        Ok(ChatReply::text(if is_known { "yes" } else { "no" }, usage))
    });
    counted(inner, fails_from, Value::Null)
}

/// Trains with the target and another one.
fn train(
    dir: &Path,
    score: TargetsScore,
    settings: TrainSettings,
    [own, other]: [Arc<Counted>; 2],
) -> Result<Summary, PipelineError> {
    let targets: Vec<(String, Arc<dyn ChatModel>)> =
        vec![("target".to_owned(), own.clone()), ("small".to_owned(), other)];
    let further = Box::new(move |trainer: Trainer| trainer.with_targets(score, targets));
    Job { settings, target: own, further, ..Job::default() }.run(dir)
}

fn both() -> [Arc<Counted>; 2] {
    [target(usize::MAX), small(usize::MAX)]
}

#[test]
fn an_item_counts_what_its_targets_score_together() {
    for (score, most) in [(TargetsScore::Mean, 0.9), (TargetsScore::Worst, 0.8)] {
        let dir = tempfile::tempdir().unwrap();
        let [own, other] = both();
        let epochs = TrainSettings { epochs: 6, ..settings() };
        let summary = train(dir.path(), score, epochs, [own, other.clone()]).unwrap();
        assert!(summary.total_accepts > 0 && summary.best_selection_score <= most, "{summary:?}");
        let run = RunReader::open(dir.path()).unwrap();
        let best = run.results(EvaluationDir::TestBest).unwrap().unwrap();
        let of_alpha = best.iter().find(|result| {
            result.extras["targets"]["target"]["hard"] == 1.0
                && result.extras["targets"]["small"]["hard"] == 0.0
        });
        if let Some(result) = of_alpha {
            assert_eq!(result.hard, if score == TargetsScore::Mean { 0.5 } else { 0.0 });
            assert_eq!((result.usage.input, result.fail_reason.starts_with("small: ")), (15, true));
        }
        // Training items are the target's alone.
        let rollouts: Vec<Value> = serde_json::from_slice(
            &std::fs::read(dir.path().join("steps/step_0001/rollout_results.json")).unwrap(),
        )
        .unwrap();
        assert!(rollouts.iter().all(|result| result["extras"]["targets"].is_null()), "{rollouts:?}");
        assert!(other.n_calls.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_change_that_helps_one_target_alone_is_no_gain_of_the_worst() {
    // The small target never solves these two, whatever the skill says.
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), TargetsScore::Worst, settings(), both()).unwrap();
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    for record in history.iter().filter(|record| record.action.is_accept()) {
        let skill = std::fs::read_to_string(
            dir.path().join(format!("steps/step_{:04}/candidate_skill.md", record.step.0)),
        )
        .unwrap();
        let gained = ["charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"];
        assert!(gained.iter().any(|word| skill.contains(word)), "{skill}");
    }
}

#[test]
fn a_target_that_does_not_answer_is_named_and_nothing_is_lost() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = both();
    train(undisturbed.path(), TargetsScore::Mean, settings(), whole.clone()).unwrap();
    let n_calls = |target: &Counted| target.n_replies.load(Ordering::Relaxed);
    for fails_from in [0, 3, 11, 17] {
        let dir = tempfile::tempdir().unwrap();
        let first = [target(usize::MAX), small(fails_from)];
        let error = train(dir.path(), TargetsScore::Mean, settings(), first.clone()).unwrap_err();
        assert!(
            matches!(&error, PipelineError::Rollout { place, .. } if place.contains("target small")),
            "{error:?}"
        );
        let rest = both();
        train(dir.path(), TargetsScore::Mean, settings(), rest.clone()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "failed from call {fails_from} on");
        for target in 0..2 {
            assert_eq!(
                n_calls(&first[target]) + n_calls(&rest[target]),
                n_calls(&whole[target]),
                "{fails_from}"
            );
        }
    }
    let many = tempfile::tempdir().unwrap();
    let workers = TrainSettings { workers: 1000, ..settings() };
    train(many.path(), TargetsScore::Mean, workers, both()).unwrap();
    assert_eq!(files(many.path()), files(undisturbed.path()));
}

#[test]
fn a_run_is_not_continued_with_other_targets() {
    let dir = tempfile::tempdir().unwrap();
    train(dir.path(), TargetsScore::Mean, settings(), both()).unwrap();
    assert!(!changed_settings(train(dir.path(), TargetsScore::Worst, settings(), both())).is_empty());
    assert!(!changed_settings(Job::default().run(dir.path())).is_empty());
}
