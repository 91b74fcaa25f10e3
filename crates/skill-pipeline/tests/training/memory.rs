//! The step memory in whole runs.

use super::read;
use crate::world::{Job, check_same_files, settings, stubborn_optimizer};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Role, Usage};
use skill_pipeline::TrainSettings;
use std::sync::Arc;

/// Keeps what it is asked, and proposes an edit that depends on every byte of what it knows of earlier steps.
fn remembering(asked: Arc<Mutex<Vec<String>>>) -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("remembering", move |request: &ChatRequest, call: &CallCtx| {
        let prompt = request.text_of(Role::User);
        asked.lock().push(format!("{}\n{prompt}", call.place));
        let memory = prompt.split("<memory>").nth(1).and_then(|rest| rest.split("</memory>").next());
        let sum: u64 =
            memory.unwrap_or_default().bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 99_991);
        let edits: Vec<Value> =
            (0..3).map(|n| json!({"op": "append", "content": format!("- {n} after {sum}")})).collect();
        let summary = json!([{"failure_type": format!("type {sum}"), "count": "2", "description": "why"}]);
        let reply =
            json!({"failure_summary": summary, "reasoning": "r", "edits": edits, "selected_indices": [1, 0]});
        Ok(ChatReply::text(reply.to_string(), Usage::default()))
    }))
}

#[test]
fn what_was_rejected_is_in_the_prompts_of_later_steps_and_epochs() {
    let (dir, asked) = (tempfile::tempdir().unwrap(), Arc::default());
    Job { optimizer: remembering(Arc::clone(&asked)), ..Job::default() }.run(dir.path()).unwrap();
    let digest = read(dir.path().join("steps/step_0002/trajectory_digest.json"));
    assert_eq!((&digest["action"], &digest["n_fail"]), (&json!("reject"), &json!(4)));
    assert_eq!(digest["failure_patterns"][0]["description"], "why");
    let tried = digest["rejected_edits"][0]["content"].as_str().unwrap().to_owned();
    let asked = asked.lock();
    for stage in ["reflect", "aggregate", "select"] {
        for (step, is_known) in [(1, false), (2, false), (4, true), (5, true)] {
            let place = format!("step {step} / {stage} / ");
            let prompts: Vec<&String> = asked.iter().filter(|prompt| prompt.starts_with(&place)).collect();
            assert!(!prompts.is_empty(), "{place}");
            let is_in_memory = |prompt: &&String| {
                prompt
                    .split("<memory>")
                    .nth(1)
                    .is_some_and(|memory| memory.split("</memory>").next().unwrap().contains(&tried))
            };
            assert!(prompts.iter().all(|prompt| is_in_memory(prompt) == is_known), "{place}");
        }
    }
}

#[test]
fn a_run_that_is_stopped_anywhere_remembers_the_same() {
    let job = |settings| Job { settings, optimizer: remembering(Arc::default()), ..Job::default() };
    check_same_files("a memory", &settings(), job, 5, &[12, 25, 31, 44]);
}

#[test]
fn a_candidate_that_was_not_measured_whole_has_an_interval_and_no_score() {
    let dir = tempfile::tempdir().unwrap();
    let skill = "# Skill alpha bravo charlie delta echo foxtrot golf hotel india\n";
    Job { skill, optimizer: stubborn_optimizer(), ..Job::default() }.run(dir.path()).unwrap();
    let digest = read(dir.path().join("steps/step_0001/trajectory_digest.json"));
    assert_eq!((&digest["score_before"], &digest["score_after"]), (&json!(0.9), &Value::Null));
    assert_eq!((&digest["score_interval"], &digest["n_measured"]), (&json!([0.0, 0.9]), &json!([1, 10])));
}

#[test]
fn without_memory_no_prompt_has_any() {
    let (dir, asked) = (tempfile::tempdir().unwrap(), Arc::default());
    let settings = TrainSettings { memory_steps: 0, ..settings() };
    Job { settings, optimizer: remembering(Arc::clone(&asked)), ..Job::default() }.run(dir.path()).unwrap();
    assert!(asked.lock().iter().all(|prompt| !prompt.contains("<memory>")));
    assert!(dir.path().join("steps/step_0001/trajectory_digest.json").exists());
}
