//! Failure-only reflection, and the edit budget that the optimizer chooses.

use super::read;
use crate::world::{Job, changed, changed_settings, check_same_files, optimizer, record, settings};
use async_trait::async_trait;
use serde_json::json;
use skill_core::BudgetControl;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId, Role, Usage};
use skill_pipeline::TrainSettings;
use std::sync::Arc;

fn autonomous() -> TrainSettings {
    TrainSettings { budget_control: BudgetControl::Autonomous, ..settings() }
}

/// The toy optimizer, which answers so when it is asked for a number.
struct Choosing {
    inner: Arc<dyn ChatModel>,
    reply: &'static str,
}

#[async_trait]
impl ChatModel for Choosing {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if request.text_of(Role::User).contains("# Proposed edits") {
            return Ok(ChatReply::text(self.reply, Usage { input: 50, output: 5, ..Usage::default() }));
        }
        self.inner.chat(request, call).await
    }
}

fn choosing(reply: &'static str) -> Arc<dyn ChatModel> {
    Arc::new(Choosing { inner: optimizer(), reply })
}

#[test]
fn the_optimizer_chooses_how_many_edits_are_applied() {
    let dir = tempfile::tempdir().unwrap();
    let optimizer = choosing(r#"{"reasoning": "one is safe", "learning_rate": 1}"#);
    Job { settings: autonomous(), optimizer, ..Job::default() }.run(dir.path()).unwrap();
    let first = record(dir.path(), 1);
    assert_eq!((&first["edit_budget"], &first["lr_control_mode"]), (&json!(1), &json!("autonomous")));
    assert_eq!((&first["n_edits_merged"], &first["n_edits_ranked"]), (&json!(4), &json!(1)));
    let decision = json!({
        "learning_rate": 1, "raw_learning_rate": 1, "available_update_items": 4, "clamped": false,
        "fallback": false, "reasoning": "one is safe",
    });
    assert_eq!(first["lr_decision"], decision);
    assert_eq!(read(dir.path().join("steps/step_0001/lr_decision.json")), decision);
    assert_eq!(first["tokens"]["select"]["calls"], 2, "the number and the ranking");
}

#[test]
fn a_reply_without_a_number_applies_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    Job { settings: autonomous(), optimizer: choosing("as many as you like"), ..Job::default() }
        .run(dir.path())
        .unwrap();
    let first = record(dir.path(), 1);
    assert_eq!((&first["action"], &first["edit_budget"]), (&json!("skip_no_op"), &json!(0)));
    assert_eq!(first["lr_decision"]["fallback"], true);
    assert_eq!(first["tokens"]["select"]["calls"], 1, "nothing is ranked for a budget of 0");
    assert!(first["notes"].to_string().contains("edit budget: "), "{first}");
}

#[test]
fn more_than_there_is_is_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    Job { settings: autonomous(), optimizer: choosing(r#"{"learning_rate": "99"}"#), ..Job::default() }
        .run(dir.path())
        .unwrap();
    let first = record(dir.path(), 1);
    assert_eq!((&first["edit_budget"], &first["lr_decision"]["clamped"]), (&json!(4), &json!(true)));
}

#[test]
fn a_chosen_budget_resumes_and_widens_to_the_same_files() {
    let job = |settings| Job { settings, optimizer: choosing(r#"{"learning_rate": 2}"#), ..Job::default() };
    check_same_files("a chosen budget", &autonomous(), job, 0, &[11, 15, 25, 37]);
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..job(autonomous()) }.run(dir.path()).unwrap_err();
    let changes = changed_settings(job(settings()).run(dir.path()));
    assert!(changes.contains(&changed("train.budget_control", "autonomous", "fixed")), "{changes:?}");
}

#[test]
fn successes_are_passed_over_where_failures_alone_count() {
    let analyses = |failure_only| {
        let dir = tempfile::tempdir().unwrap();
        let settings = TrainSettings { failure_only, ..settings() };
        Job { settings, skill: "# Skill alpha bravo charlie\n", ..Job::default() }.run(dir.path()).unwrap();
        let first = record(dir.path(), 1);
        let solved = (first["rollout_hard"].as_f64().unwrap() * 4.0) as u64;
        (first["tokens"]["reflect"]["calls"].as_u64().unwrap(), first["n_success_patches"].clone(), solved)
    };
    let ((all, _, n_solved), (of_failures, n_success_patches, _)) = (analyses(false), analyses(true));
    assert!(n_solved > 0, "the first batch has a solved item");
    assert_eq!((all, of_failures), (3, 2));
    assert_eq!(n_success_patches, 0);
}
