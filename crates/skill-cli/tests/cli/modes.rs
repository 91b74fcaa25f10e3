//! Every way of making a step can be tried on the demo, with simulated models and without a network.

use crate::context::{TestContext, set};
use serde_json::Value;

/// Trains on the demo with these settings, and checks that the skill gets better and what a step of the run has.
#[track_caller]
fn check(settings: &[&str], shows: impl Fn(&Value) -> bool) {
    let context = TestContext::with_demo();
    context.succeed(&[&["train", "demo/skillrl.toml", "--quiet"][..], &set(settings)].concat());
    let summary = context.json("demo/run/summary.json");
    let score = |name: &str| summary[name].as_f64().unwrap();
    assert!(score("test_hard") >= score("baseline_test_hard") + 0.3, "{settings:?}: {summary}");
    let history = context.json("demo/run/history.json");
    assert!(history.as_array().unwrap().iter().any(shows), "{settings:?}: {history}");
}

fn calls(record: &Value, stage: &str) -> u64 {
    record["tokens"][stage]["calls"].as_u64().unwrap_or_default()
}

fn is_accepted(record: &Value) -> bool {
    record["action"].as_str().unwrap().starts_with("accept")
}

#[test]
fn a_skill_is_rewritten_by_suggestions() {
    check(&["train.update_mode=rewrite_from_suggestions"], |record| {
        is_accepted(record) && calls(record, "update") == 1 && record["rewrite_change_summary"].is_array()
    });
    check(&["train.update_mode=rewrite_from_suggestions", "train.schedule=autonomous"], |record| {
        is_accepted(record) && record["lr_decision"]["learning_rate"].as_u64() > Some(0)
    });
}

#[test]
fn whole_skills_are_merged() {
    check(&["train.update_mode=full_rewrite_minibatch"], |record| {
        is_accepted(record) && calls(record, "aggregate") > 0 && calls(record, "select") == 0
    });
}

#[test]
fn the_optimizer_chooses_the_edit_budget() {
    check(&["train.schedule=autonomous"], |record| {
        record["lr_control_mode"] == "autonomous" && is_accepted(record)
    });
}

#[test]
fn failures_alone_are_reflected_on() {
    check(&["train.failure_only=true"], |record| {
        is_accepted(record) && record["n_success_patches"] == 0 && record["rollout_hard"].as_f64() > Some(0.0)
    });
}

#[test]
fn lapses_become_notes_in_every_update_mode() {
    for mode in ["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"] {
        let mode = format!("train.update_mode={mode}");
        check(&[&mode, "train.skill_aware=true", "train.appendix_limit=1"], |record| {
            record["n_appendix_notes_total"].as_u64() > Some(0)
        });
    }
}
