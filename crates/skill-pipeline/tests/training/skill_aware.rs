//! Skill-aware reflection: lapses of the agent become notes in the appendix.

use super::{actions, files, read};
use crate::world::{Job, check_same_files, list_in, optimizer, settings, text};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::appendix::appendix_notes;
use skill_core::{EditBudget, EditBudgetSchedule, SkillDoc};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId, Role, Usage};
use skill_pipeline::{AppendixSource, SkillAware, TrainSettings};
use std::sync::Arc;

fn aware(consolidate_above: usize) -> TrainSettings {
    let skill_aware = Some(SkillAware { consolidate_above, ..SkillAware::default() });
    TrainSettings { skill_aware, ..settings() }
}

/// The toy optimizer, which notes a lapse for each trajectory, and keeps every other note of a long appendix.
struct Noting {
    inner: Arc<dyn ChatModel>,
    /// Whether its analysts propose edits too.
    edits: bool,
}

#[async_trait]
impl ChatModel for Noting {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let prompt = request.text_of(Role::User);
        let usage = Usage { input: 9, output: 3, ..Usage::default() };
        if let Some((_, rest)) = prompt.split_once("# Notes to shorten") {
            let kept: Vec<Value> = list_in(rest).into_iter().step_by(2).collect();
            return Ok(ChatReply::text(json!({ "appendix_notes": kept }).to_string(), usage));
        }
        if !request.text_of(Role::System).contains("`appendix_notes`") {
            return self.inner.chat(request, call).await;
        }
        let ids = prompt.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let notes: Vec<String> = ids.map(|id| format!("Mind {id}.")).collect();
        if !self.edits {
            return Ok(ChatReply::text(json!({ "appendix_notes": notes }).to_string(), usage));
        }
        let mut reply = self.inner.chat(request, call).await?;
        let mut value: Value = serde_json::from_str(&reply.text).unwrap();
        value["appendix_notes"] = json!(notes);
        reply.text = value.to_string();
        Ok(reply)
    }
}

fn job(settings: TrainSettings, edits: bool) -> Job {
    Job { settings, optimizer: Arc::new(Noting { inner: optimizer(), edits }), ..Job::default() }
}

#[test]
fn notes_go_into_the_current_skill_after_the_gate_and_the_best_stays_as_it_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    job(aware(0), true).run(dir.path()).unwrap();
    let first = read(dir.path().join("steps/step_0001/step_record.json"));
    assert_eq!(first["action"], "accept_new_best");
    for key in ["n_execution_lapse_notes", "n_appendix_notes_added", "n_appendix_notes_total"] {
        assert_eq!(first[key], 4, "{key}");
    }
    let candidate = text(dir.path().join("steps/step_0001/candidate_skill.md"));
    assert!(
        candidate
            .ends_with("\n\n<!-- APPENDIX_START -->\n## Execution Notes Appendix\n<!-- APPENDIX_END -->\n")
    );
    let after = SkillDoc::new(text(dir.path().join("skills/skill_v0001.md")));
    assert_eq!(appendix_notes(&after), ["Mind tr6.", "Mind tr9.", "Mind tr4.", "Mind tr1."]);
    let file = read(dir.path().join("steps/step_0001/appendix_notes.json"));
    assert_eq!(file["step_notes"], file["appendix_after"]);
    // The next step starts from the notes, and what a rejected step notes is kept too.
    let second = text(dir.path().join("steps/step_0002/candidate_skill.md"));
    assert!(second.contains("- Mind tr6."), "{second}");
    let last = SkillDoc::new(text(dir.path().join("current_skill.md")));
    assert_eq!(appendix_notes(&last).len(), 10, "each item once, over two epochs");
    assert!(
        actions(dir.path()).contains(&"reject".to_owned())
            || actions(dir.path()).contains(&"skip_no_op".to_owned())
    );
}

#[test]
fn lapses_alone_are_no_edits_and_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    job(aware(0), false).run(dir.path()).unwrap();
    let first = read(dir.path().join("steps/step_0001/step_record.json"));
    assert_eq!((&first["action"], &first["n_appendix_notes_total"]), (&json!("skip_no_patches"), &json!(4)));
    assert_eq!(first["notes"], Value::Null, "a reply without a patch is as it should be");
    assert!(text(dir.path().join("current_skill.md")).contains("- Mind tr9.\n"));
    assert!(
        !text(dir.path().join("best_skill.md")).contains("APPENDIX"),
        "the best skill is the one measured"
    );
}

#[test]
fn a_long_appendix_is_made_shorter() {
    let dir = tempfile::tempdir().unwrap();
    job(aware(3), true).run(dir.path()).unwrap();
    let first = read(dir.path().join("steps/step_0001/step_record.json"));
    assert_eq!(
        (&first["n_appendix_notes_consolidated"], &first["n_appendix_notes_total"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(first["tokens"]["appendix"]["calls"], 1);
    let after = SkillDoc::new(text(dir.path().join("skills/skill_v0001.md")));
    assert_eq!(appendix_notes(&after), ["Mind tr6.", "Mind tr4."]);
}

#[test]
fn analysts_of_successes_write_notes_only_where_they_may() {
    let n_notes = |source| {
        let dir = tempfile::tempdir().unwrap();
        let settings =
            TrainSettings { skill_aware: Some(SkillAware { source, ..SkillAware::default() }), ..settings() };
        Job { skill: "# Skill alpha bravo charlie\n", ..job(settings, true) }.run(dir.path()).unwrap();
        read(dir.path().join("steps/step_0001/step_record.json"))["n_execution_lapse_notes"].clone()
    };
    assert_eq!((n_notes(AppendixSource::Both), n_notes(AppendixSource::FailureOnly)), (json!(4), json!(3)));
}

#[test]
fn notes_resume_and_widen_to_the_same_files() {
    check_same_files("notes", &aware(3), |settings| job(settings, true), 5, &[10, 15, 25, 37]);
}

#[test]
fn notes_that_no_step_has_measured_are_measured_at_the_end() {
    // A budget that falls over the whole run would fall faster in a shorter one.
    let edit_budget = EditBudget::new(EditBudgetSchedule::Constant, 2, 2).unwrap();
    let reminding = || {
        let reply = json!({ "appendix_notes": ["rule golf", "rule alpha"] }).to_string();
        Job {
            settings: TrainSettings { edit_budget, ..aware(0) },
            optimizer: Arc::new(ScriptedModel::answering("optimizer", move |_| reply.clone())),
            ..Job::default()
        }
    };
    let dir = tempfile::tempdir().unwrap();
    let summary = reminding().run(dir.path()).unwrap();
    assert!(actions(dir.path()).iter().all(|action| action == "skip_no_patches"));
    assert!(summary.is_best_measured_last && summary.best_step.0 == 1, "the first step's notes are the last");
    assert!(summary.best_selection_score > summary.baseline_selection_score);
    assert_eq!(summary.test_hard, Some(summary.best_selection_score), "the test is of that skill");
    assert!(text(dir.path().join("best_skill.md")).contains("- rule golf\n"));
    let measured = read(dir.path().join("final_selection_eval/summary.json"));
    assert_eq!(measured["skill_hash"], json!(summary.best_skill_hash));
    // A longer run is one that was longer from the start.
    let extended = tempfile::tempdir().unwrap();
    let short = reminding();
    Job { settings: TrainSettings { epochs: 1, ..short.settings.clone() }, ..short }
        .run(extended.path())
        .unwrap();
    reminding().run(extended.path()).unwrap();
    let (extended, whole) = (files(extended.path()), files(dir.path()));
    assert_eq!(extended.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    for (path, text) in &whole {
        assert_eq!(extended.get(path), Some(text), "{path}");
    }
}
