//! The update modes that rewrite the skill: by suggestions, and by whole skills of the analysts.

use super::read;
use crate::world::{Job, changed, changed_settings, check_same_files, list_in, record, settings, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::BudgetControl;
use skill_core::rewrite::UpdateMode;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Role, Usage};
use skill_pipeline::TrainSettings;
use std::sync::Arc;

const REWRITING: [UpdateMode; 2] = [UpdateMode::RewriteFromSuggestions, UpdateMode::FullRewriteMinibatch];

/// A skill with a region that no rewrite may lose, and the front matter that an agent's loader reads.
const FRONT: &str = "---\nname: words\n---\n\n";
const GUIDANCE: &str = "\n<!-- SLOW_UPDATE_START -->\nMind the guidance.\n<!-- SLOW_UPDATE_END -->\n";
const SKILL: &str = "---\nname: words\n---\n\n# Skill\n\n- base\n\n\
    <!-- SLOW_UPDATE_START -->\nMind the guidance.\n<!-- SLOW_UPDATE_END -->\n";

fn in_mode(update_mode: UpdateMode) -> TrainSettings {
    TrainSettings { update_mode, ..settings() }
}

fn listed(patches: &[Value], key: &str) -> Vec<Value> {
    patches.iter().filter_map(|patch| patch[key].as_array()).flatten().cloned().collect()
}

/// The rules of the skill in a prompt, without its front matter and its regions: a careless editor leaves them out.
fn rules_in(prompt: &str) -> Vec<String> {
    let skill = prompt.split("<skill>\n").nth(1).unwrap().split("\n</skill>").next().unwrap();
    skill.lines().filter(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

fn skill_of(mut rules: Vec<String>) -> String {
    rules.dedup();
    format!("# Skill\n\n{}\n\n\n", rules.join("\n"))
}

/// Proposes a rule for each missing word, as a suggestion or as a whole skill, whatever is asked for.
fn answer(request: &ChatRequest) -> Value {
    let (system, prompt) = (request.text_of(Role::System), request.text_of(Role::User));
    if prompt.contains("# Failed trajectories") {
        let missing = prompt.lines().filter_map(|line| line.strip_prefix("Why it failed: missing: "));
        let rules: Vec<String> = missing.map(|word| format!("- rule {word}")).collect();
        let patch = if system.contains("\"revise_suggestions\"") {
            let suggestions: Vec<Value> =
                rules.iter().map(|rule| json!({ "title": "a rule", "instruction": rule })).collect();
            json!({ "reasoning": "r", "revise_suggestions": suggestions })
        } else {
            let new_skill = skill_of([rules_in(&prompt), rules].concat());
            let nothing =
                json!({ "title": "nothing", "new_skill": "<!-- APPENDIX_START --> <!-- APPENDIX_END -->" });
            json!({ "skill_candidates": [nothing, { "title": "all rules", "new_skill": new_skill }] })
        };
        return json!({ "failure_summary": [], "patch": patch });
    }
    if prompt.contains("# Suggestions to follow") {
        let suggestions = list_in(&prompt);
        let rules =
            suggestions.iter().map(|suggestion| suggestion["instruction"].as_str().unwrap().to_owned());
        let new_skill = skill_of(rules_in(&prompt).into_iter().chain(rules).collect());
        return json!({ "reasoning": "followed", "change_summary": ["the rules"], "new_skill": new_skill });
    }
    if prompt.contains("# Patches to merge") {
        let patches = list_in(&prompt);
        let suggestions = listed(&patches, "revise_suggestions");
        // The second skill of the first analyst that says anything.
        let skills: Vec<Value> = listed(&patches, "skill_candidates").into_iter().take(2).collect();
        return json!({ "reasoning": "m", "revise_suggestions": suggestions, "skill_candidates": skills });
    }
    json!({ "selected_indices": [1, 0] })
}

fn optimizer() -> Arc<dyn ChatModel> {
    answering(|request| answer(request).to_string())
}

fn answering(answer: impl Fn(&ChatRequest) -> String + Send + Sync + 'static) -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("rewriting", move |request: &ChatRequest, _: &CallCtx| {
        Ok(ChatReply::text(answer(request), Usage { input: 100, output: 20, ..Usage::default() }))
    }))
}

fn job(settings: TrainSettings) -> Job {
    Job { settings, skill: SKILL, optimizer: optimizer(), ..Job::default() }
}

#[test]
fn suggestions_are_ranked_and_followed_in_one_rewrite() {
    let dir = tempfile::tempdir().unwrap();
    job(in_mode(UpdateMode::RewriteFromSuggestions)).run(dir.path()).unwrap();
    let first = record(dir.path(), 1);
    assert_eq!(first["action"], "accept_new_best");
    assert_eq!(
        (&first["edit_budget"], &first["n_edits_merged"], &first["n_edits_ranked"]),
        (&json!(2), &json!(4), &json!(2))
    );
    assert_eq!(
        (&first["tokens"]["select"]["calls"], &first["tokens"]["update"]["calls"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&first["rewrite_change_summary"], &first["apply_report"]),
        (&json!(["the rules"]), &Value::Null)
    );
    let step = dir.path().join("steps/step_0001");
    let ranked = read(step.join("ranked_patch.json"));
    let rules: Vec<&str> = [0, 1].map(|n| ranked["edits"][n]["content"].as_str().unwrap()).to_vec();
    let result = read(step.join("rewrite_result.json"));
    assert_eq!(result["new_skill"], format!("# Skill\n\n- base\n{}\n\n\n", rules.join("\n")));
    assert_eq!(result["reasoning"], "followed");
    let candidate = text(step.join("candidate_skill.md"));
    assert_eq!(candidate, format!("{FRONT}# Skill\n\n- base\n{}\n{GUIDANCE}", rules.join("\n")));
    assert!(!step.join("edit_apply_report.json").exists());
}

#[test]
fn a_rewrite_that_gives_no_skill_is_a_step_without_a_candidate() {
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let keeps = Arc::clone(&asked);
    let optimizer = answering(move |request| {
        let prompt = request.text_of(Role::User);
        keeps.lock().push(prompt.clone());
        match prompt.contains("# Suggestions to follow") {
            true => r##"{"reasoning": "r", "new_skill": "# Skill\n- half a ru"##.to_owned(),
            false => answer(request).to_string(),
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = in_mode(UpdateMode::RewriteFromSuggestions);
    let summary = Job { optimizer, ..job(settings) }.run(dir.path()).unwrap();
    let first = record(dir.path(), 1);
    assert_eq!((&first["action"], &first["candidate_hash"]), (&json!("skip_no_rewrite"), &Value::Null));
    assert!(first["notes"].to_string().contains("rewrite: "), "{first}");
    assert_eq!((summary.total_skips, text(dir.path().join("current_skill.md"))), (6, SKILL.to_owned()));
    assert!(!dir.path().join("steps/step_0001/candidate_skill.md").exists());
    let is_told = |line: &str| line.starts_with("Step 1 (epoch 1): ") && line.contains("rewrite");
    assert!(asked.lock().iter().any(|prompt| prompt.lines().any(is_told)));
}

#[test]
fn whole_skills_are_merged_without_a_budget_and_the_first_that_says_anything_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    job(in_mode(UpdateMode::FullRewriteMinibatch)).run(dir.path()).unwrap();
    let first = record(dir.path(), 1);
    assert_eq!(first["action"], "accept_new_best");
    assert_eq!((&first["edit_budget"], &first["lr_control_mode"]), (&Value::Null, &json!("none")));
    assert_eq!((&first["n_edits_merged"], &first["n_edits_ranked"]), (&json!(2), &json!(2)));
    let tokens = &first["tokens"];
    assert_eq!(
        (&tokens["aggregate"]["calls"], &tokens["select"], &tokens["update"]),
        (&json!(1), &Value::Null, &Value::Null)
    );
    let step = dir.path().join("steps/step_0001");
    let result = read(step.join("full_rewrite_result.json"));
    assert_eq!(result["change_summary"], json!(["all rules"]));
    let body = result["new_skill"].as_str().unwrap().trim_end();
    assert_eq!(body.matches("- rule ").count(), 2, "{body}");
    assert_eq!(text(step.join("candidate_skill.md")), format!("{FRONT}{body}\n{GUIDANCE}"));
}

#[test]
fn a_rejected_rewrite_is_remembered_by_the_lines_that_it_changed() {
    let useless = |_: &ChatRequest| {
        let new_skill = skill_of(vec!["- useless".to_owned()]);
        let candidates = json!([{ "title": "be useless", "new_skill": new_skill }]);
        let suggestions = json!([{ "title": "be useless", "instruction": "Say it." }]);
        json!({ "patch": { "skill_candidates": candidates, "revise_suggestions": suggestions }, "new_skill": new_skill })
            .to_string()
    };
    let tried = |mode| {
        let dir = tempfile::tempdir().unwrap();
        Job { optimizer: answering(useless), ..job(in_mode(mode)) }.run(dir.path()).unwrap();
        assert_eq!(record(dir.path(), 1)["action"], "reject");
        read(dir.path().join("steps/step_0001/trajectory_digest.json"))["rejected_edits"].clone()
    };
    let rewrites = tried(UpdateMode::FullRewriteMinibatch);
    let content: Vec<&str> = rewrites[0]["content"].as_str().unwrap().lines().collect();
    assert_eq!(content, ["- - base", "+ - useless"]);
    assert_eq!((&rewrites[0]["op"], &rewrites[0]["target"]), (&json!("rewrite"), &json!("be useless")));
    assert_eq!(rewrites.as_array().unwrap().len(), 1);
    assert_eq!(
        tried(UpdateMode::RewriteFromSuggestions)[0],
        json!({ "op": "suggestion", "target": "be useless", "content": "Say it." })
    );
}

#[test]
fn where_the_optimizer_chooses_no_suggestion_nothing_is_rewritten() {
    let optimizer = answering(|request| match request.text_of(Role::User).contains("# Proposed edits") {
        true => r#"{"learning_rate": 0}"#.to_owned(),
        false => answer(request).to_string(),
    });
    let dir = tempfile::tempdir().unwrap();
    let settings = in_mode(UpdateMode::RewriteFromSuggestions);
    let settings = TrainSettings { budget_control: BudgetControl::Autonomous, ..settings };
    Job { optimizer, ..job(settings) }.run(dir.path()).unwrap();
    let first = record(dir.path(), 1);
    assert_eq!((&first["action"], &first["tokens"]["update"]), (&json!("skip_no_op"), &Value::Null));
}

#[test]
fn rewrites_resume_and_widen_to_the_same_files() {
    for mode in REWRITING {
        check_same_files(mode.as_str(), &in_mode(mode), job, 5, &[11, 15, 25, 37]);
    }
    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..job(settings()) }.run(dir.path()).unwrap_err();
    let changes = changed_settings(job(in_mode(UpdateMode::FullRewriteMinibatch)).run(dir.path()));
    assert!(
        changes.contains(&changed("train.update_mode", "patch", "full_rewrite_minibatch")),
        "{changes:?}"
    );
}
