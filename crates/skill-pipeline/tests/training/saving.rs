//! A gate that accepts fewer tokens at the same score.

use crate::read;
use crate::world::{Job, changed, changed_settings, check_same_files, counted, settings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::TokenSaving;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, Role, Usage};
use skill_pipeline::{
    Acceptance, Evidence, PipelineError, RunReader, SettingsError, StepAction, TrainSettings,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// All words, and four lines of talk that take a token for each character.
const WORDY: &str = "# Skill\n\n- rule alpha\n- rule bravo\n- rule charlie\n- rule delta\n- rule echo\n\
    - rule foxtrot\n- rule golf\n- rule hotel\n- rule india\n- rule juliet\n\
    - talk 1 .............................................................................................\n\
    - talk 2 .............................................................................................\n\
    - talk 3 .............................................................................................\n\
    - talk 4 .............................................................................................\n";

pub(crate) fn saving(least: f64, margin: f64) -> TrainSettings {
    let evidence = Evidence { saving: Some(TokenSaving { least, margin }), ..settings().evidence };
    TrainSettings { evidence, ..settings() }
}

/// The agent pays a token for each character of its prompt.
fn target() -> Arc<crate::world::Counted> {
    let inner = ScriptedModel::from_fn("target", |request: &ChatRequest, _: &CallCtx| {
        let skill = request.text_of(Role::System);
        let text = if skill.contains(&request.text_of(Role::User)) { "yes" } else { "no" };
        let input = skill.len() as u64;
        Ok(ChatReply::text(text, Usage { input, output: 1, ..Usage::default() }))
    });
    counted(inner, usize::MAX, Value::Null)
}

/// Deletes the first line that the skill of the prompt has of these, and keeps what it was asked.
fn deleting(lines: &'static [&'static str], asked: Arc<Mutex<Vec<String>>>) -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::from_fn("optimizer", move |request: &ChatRequest, _: &CallCtx| {
        let prompt = format!("{}\n{}", request.text_of(Role::System), request.text_of(Role::User));
        asked.lock().push(prompt.clone());
        let found = prompt.lines().find(|line| lines.iter().any(|start| line.starts_with(start)));
        let edits: Vec<Value> = found.iter().map(|line| json!({"op": "delete", "target": line})).collect();
        let reply = json!({"reasoning": "r", "edits": edits, "selected_indices": [0], "no_change": false});
        Ok(ChatReply::text(reply.to_string(), Usage { input: 100, output: 20, ..Usage::default() }))
    }))
}

pub(crate) fn job(settings: TrainSettings, lines: &'static [&'static str]) -> Job {
    Job {
        settings,
        skill: WORDY,
        target: target(),
        optimizer: deleting(lines, Arc::default()),
        ..Job::default()
    }
}

fn best(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("best_skill.md")).unwrap()
}

#[test]
fn a_solved_split_is_solved_with_fewer_tokens_and_the_optimizer_is_told_so() {
    let (dir, asked) = (tempfile::tempdir().unwrap(), Arc::<Mutex<Vec<String>>>::default());
    let optimizer = deleting(&["- talk"], Arc::clone(&asked));
    let summary = Job { optimizer, ..job(saving(0.12, 0.0), &[]) }.run(dir.path()).unwrap();
    assert_eq!((summary.baseline_selection_score, summary.best_selection_score), (1.0, 1.0));
    assert!(!best(dir.path()).contains("talk"), "{}", best(dir.path()));
    assert_eq!(best(dir.path()).matches("- rule").count(), 10);
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    let accepted: Vec<_> = history.iter().filter(|record| record.action.is_accept()).collect();
    assert_eq!(accepted.len(), 4);
    for record in accepted {
        let saved = record.saving.unwrap();
        assert!(saved.is_decisive && saved.n == 10 && saved.saved >= 0.12, "{saved:?}");
        assert_eq!(record.action, StepAction::AcceptNewBest);
    }
    assert!(asked.lock().iter().all(|prompt| prompt.contains(" 12 % fewer ")));
    assert!(asked.lock().iter().any(|prompt| prompt.contains("% fewer tokens with the edits")));
}

#[test]
fn without_the_setting_nothing_is_measured_on_a_solved_split() {
    let (dir, target) = (tempfile::tempdir().unwrap(), target());
    let n_without = {
        let dir = tempfile::tempdir().unwrap();
        let target = self::target();
        Job { target: target.clone(), ..job(settings(), &["- none"]) }.run(dir.path()).unwrap();
        target.n_calls.load(Ordering::Relaxed)
    };
    Job { target: target.clone(), ..job(settings(), &["- talk"]) }.run(dir.path()).unwrap();
    assert_eq!(target.n_calls.load(Ordering::Relaxed), n_without);
    assert_eq!(best(dir.path()), WORDY);
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    assert!(history.iter().all(|record| record.saving.is_none()));
}

#[test]
fn a_saving_that_costs_score_or_is_too_small_is_rejected() {
    for (settings, lines) in [(saving(0.01, 0.0), &["- rule"]), (saving(0.3, 0.0), &["- talk"])] {
        let dir = tempfile::tempdir().unwrap();
        let summary = job(settings, lines).run(dir.path()).unwrap();
        assert_eq!((summary.total_accepts, best(dir.path())), (0, WORDY.to_owned()));
        assert!(summary.total_rejects > 0, "{summary:?}");
    }
}

#[test]
fn a_margin_is_given_up_once_and_not_with_each_acceptance() {
    let (dir, settings) = (tempfile::tempdir().unwrap(), saving(0.01, 0.1));
    let summary = job(settings.clone(), &["- rule"]).run(dir.path()).unwrap();
    assert_eq!((summary.total_accepts, summary.best_selection_score), (1, 0.9));
    let state = read(dir.path().join("runtime_state.json"));
    assert_eq!(state["best_reference"]["origin"], state["current_reference"]["origin"]);
    assert!(state["best_reference"].is_object(), "{state}");
    check_same_files("a margin", &settings, |settings| job(settings, &["- rule"]), 5, &[]);
}

#[test]
fn the_number_of_workers_and_a_stop_change_no_file() {
    check_same_files("a saving", &saving(0.12, 0.0), |settings| job(settings, &["- talk"]), 5, &[]);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let check = |settings: TrainSettings, expect: SettingsError| {
        let refused = settings.validate().unwrap_err();
        assert!(matches!(&refused, PipelineError::Settings(found) if *found == expect), "{refused:?}");
    };
    check(saving(1.2, 0.0), SettingsError::TokenSaving { found: 1.2 });
    check(saving(0.0, 0.0), SettingsError::TokenSaving { found: 0.0 });
    check(saving(0.2, 1.5), SettingsError::ScoreMargin { found: 1.5 });
    let always = TrainSettings { acceptance: Acceptance::Always, ..saving(0.2, 0.0) };
    check(always, SettingsError::SavingWithoutGate);
}

#[test]
fn a_run_is_not_continued_with_another_saving() {
    let dir = tempfile::tempdir().unwrap();
    job(saving(0.12, 0.0), &["- talk"]).run(dir.path()).unwrap();
    let changes = changed_settings(job(saving(0.2, 0.0), &["- talk"]).run(dir.path()));
    assert_eq!(changes, [changed("gate.token_saving", 0.12, 0.2)]);
}
