//! Inputs from which a planned search can gain little or nothing: it ends inside its cap, with a result.

use crate::world::{Job, Words, counted, fickle_target, settings, target};
use serde_json::json;
use skill_core::search_plan::SearchBudget;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{ChatModel, ChatReply, ChatRequest, Usage};
use skill_pipeline::records::summary::SearchEnd;
use skill_pipeline::{PipelineError, Protocol, RunReader, SearchLimits, StepAction, Summary, TrainSettings};
use std::sync::Arc;

const CALLS: f64 = 300.0;

fn planned() -> TrainSettings {
    let budget = SearchBudget { calls: Some(CALLS), ..SearchBudget::default() };
    let search = SearchLimits { budget, ..SearchLimits::default() };
    TrainSettings { protocol: Protocol::Auto, search, ..settings() }
}

fn saying(reply: impl Fn(&str) -> String + Send + Sync + 'static) -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("optimizer", move |request: &ChatRequest, _| {
        let usage = Usage { input: 50, output: 5, ..Usage::default() };
        Ok(ChatReply::text(reply(&request.text_of(skill_llm::Role::User)), usage))
    }))
}

fn proposing(edits: serde_json::Value) -> Arc<dyn ChatModel> {
    let reply = json!({"reasoning": "r", "edits": edits}).to_string();
    saying(move |_| reply.clone())
}

#[track_caller]
fn run(job: Job) -> (Summary, Vec<skill_pipeline::StepRecord>) {
    let dir = tempfile::tempdir().unwrap();
    let summary = Job { settings: planned(), ..job }.run(dir.path()).unwrap();
    let n_calls: u64 = summary.token_summary.values().map(|used| used.calls).sum();
    assert!(n_calls as f64 <= CALLS, "{n_calls}");
    assert!(summary.test_hard.is_some(), "{summary:?}");
    assert_eq!(skill_pipeline::run_dir::check::check(dir.path()).unwrap().damage, []);
    (summary, RunReader::open(dir.path()).unwrap().history().unwrap())
}

#[test]
fn few_tasks_are_enough_to_end_with_a_result() {
    for n_tasks in [1, 2, 3, 5, 14] {
        let (summary, _) = run(Job { env: Words::of(n_tasks), ..Job::default() });
        assert!(summary.best_selection_score >= summary.baseline_selection_score, "{n_tasks}");
    }
}

#[test]
fn where_everything_is_solved_nothing_is_proposed() {
    let skill = "# Skill\n\nalpha bravo charlie delta echo foxtrot golf hotel india juliet\n";
    let (summary, history) = run(Job { skill, ..Job::default() });
    assert_eq!((summary.search.unwrap().ended, history.len()), (SearchEnd::Perfect, 0));
}

#[test]
fn where_nothing_can_be_solved_nothing_is_accepted() {
    let never = ScriptedModel::from_fn("target", |_: &ChatRequest, _| {
        Ok(ChatReply::text("no", Usage { input: 10, output: 1, ..Usage::default() }))
    });
    let target = counted(never, usize::MAX, serde_json::Value::Null);
    let (summary, history) = run(Job { target, ..Job::default() });
    assert_eq!(summary.total_accepts, 0);
    assert!(history.iter().all(|record| record.action != StepAction::Taken));
}

#[test]
fn a_cap_below_the_baseline_leaves_no_room_for_a_proposal() {
    for calls in [1.0, 15.0, 35.0] {
        let budget = SearchBudget { calls: Some(calls), ..SearchBudget::default() };
        let search = SearchLimits { budget, ..SearchLimits::default() };
        let dir = tempfile::tempdir().unwrap();
        let made = Job { settings: TrainSettings { search, ..planned() }, ..Job::default() }.run(dir.path());
        assert_eq!(made.unwrap().total_steps, 0, "{calls}");
    }
}

#[test]
fn an_optimizer_that_says_nothing_ends_the_run_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let made =
        Job { settings: planned(), optimizer: saying(|_| String::new()), ..Job::default() }.run(dir.path());
    assert!(matches!(made, Err(PipelineError::SilentOptimizer { .. })), "{made:?}");
}

#[test]
fn useless_and_harmful_edits_are_never_delivered() {
    let harmful = json!([{"op": "replace", "target": "- base", "content": "- worse"}]);
    for edits in [json!([{"op": "append", "content": "- useless"}]), harmful] {
        let (summary, history) = run(Job { optimizer: proposing(edits), ..Job::default() });
        assert_eq!((summary.total_accepts, summary.best_step.0), (0, 0));
        let tried = history.iter().filter(|record| record.action == StepAction::Dropped);
        assert!(tried.count() > 0);
    }
}

#[test]
fn of_thirty_rules_at_once_four_are_tried() {
    let edits: Vec<_> = (0..30).map(|n| json!({"op": "append", "content": format!("- rule {n}")})).collect();
    let (_, history) = run(Job { optimizer: proposing(json!(edits)), ..Job::default() });
    let most = history.iter().filter_map(|record| record.n_edits_merged).max();
    assert_eq!(most, Some(4));
}

#[test]
fn ids_of_tasks_that_were_not_shown_mean_all_that_were() {
    let reply = |prompt: &str| {
        let words = prompt.lines().filter_map(|line| line.strip_prefix("Why it failed: missing: "));
        let edits: Vec<_> = words
            .map(|word| json!({"op": "append", "content": format!("- rule {word}"), "for": ["nobody", 7]}))
            .collect();
        json!({"reasoning": "r", "edits": edits}).to_string()
    };
    let (summary, history) = run(Job { optimizer: saying(reply), ..Job::default() });
    assert!(summary.best_selection_score > summary.baseline_selection_score);
    assert!(history.iter().any(|record| record.action == StepAction::Taken));
}

#[test]
fn a_target_that_answers_at_random_ends_the_search_inside_its_cap() {
    run(Job { target: fickle_target(), ..Job::default() });
}

#[test]
fn a_skill_at_its_size_limit_is_left_as_it_is() {
    let rules = skill_core::EditRules { max_tokens: Some(1), ..settings().edit_rules };
    let dir = tempfile::tempdir().unwrap();
    let settings = TrainSettings { edit_rules: rules, ..planned() };
    let summary = Job { settings, target: target(usize::MAX), ..Job::default() }.run(dir.path()).unwrap();
    assert_eq!(summary.total_accepts, 0);
}

#[test]
fn graded_scores_are_screened_by_what_they_gain() {
    let gate = skill_core::Gate { metric: skill_core::GateMetric::Soft, ..settings().gate };
    let dir = tempfile::tempdir().unwrap();
    let made =
        Job { settings: TrainSettings { gate, ..planned() }, ..Job::default() }.run(dir.path()).unwrap();
    assert!(made.best_selection_score > made.baseline_selection_score, "{made:?}");
}
