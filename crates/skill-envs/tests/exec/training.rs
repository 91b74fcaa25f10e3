//! Whole runs from a configuration file, with an agent that asks the model which the engine serves it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use parking_lot::Mutex;
use skill_llm::journal::JournalReader;
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::core::RolloutResult;
use skillrl::engine::{Engine, RunModels};
use skillrl::envs::{EnvError, reach};
use skillrl::pipeline::{Event, EventSink, NoEvents, PipelineError, StopSignal, Trainer};
use skillrl::{Error, Failure, trainer};
use std::path::Path;
use std::sync::Arc;

const TARGET: &str = r#"{"version": 1, "rules": [{"when": {"system_contains": ["Go right."]}, "reply": "right"}],
    "otherwise": {"reply": "left"}}"#;
const OPTIMIZER: &str = r#"{"version": 1, "otherwise": {"reply": "{\"patch\": {\"reasoning\": \"Left.\", \"edits\": [{\"op\": \"append\", \"content\": \"Go right.\"}]}}"}}"#;

/// A configuration with an agent behind the endpoint, and the files that it names.
fn written(dir: &Path, more: &str) -> LoadedConfig {
    agent(dir, "asks", "endpoint = true\nskill_delivery = \"system_prompt\"", more)
}

/// The same with an agent of this trick and these settings of its environment.
fn agent(dir: &Path, trick: &str, settings: &str, more: &str) -> LoadedConfig {
    let program = env!("CARGO_BIN_EXE_exec-program");
    let config = format!(
        "[run]\ndir = \"run\"\n[models]\ntarget = {{ kind = \"scripted\", file = \"target.json\" }}\n\
         optimizer = {{ kind = \"scripted\", file = \"optimizer.json\" }}\n[env]\nkind = \"exec\"\n\
         program = [{program:?}, \"rollout\", {trick:?}]\n{settings}\n\
         [train]\nepochs = 1\n{more}"
    );
    for (name, text) in
        [("skillrl.toml", config.as_str()), ("target.json", TARGET), ("optimizer.json", OPTIMIZER)]
    {
        std::fs::write(dir.join(name), text).unwrap();
    }
    Config::load(&dir.join("skillrl.toml"), &[]).unwrap()
}

async fn trainer(loaded: &LoadedConfig) -> Trainer {
    made(loaded, Arc::new(NoEvents)).await.unwrap()
}

async fn made(loaded: &LoadedConfig, events: Arc<dyn EventSink>) -> Result<Trainer, Error> {
    let mut engine = Engine::new(loaded);
    let models = RunModels {
        target: engine.model(ModelRole::Target).unwrap(),
        optimizer: engine.model(ModelRole::Optimizer).unwrap(),
        judge: None,
    };
    // The environment has a runtime of its own, so it is set up where blocking is allowed.
    let loaded = loaded.clone();
    let made = move || trainer::document_with(&loaded, models, events, StopSignal::default());
    tokio::task::spawn_blocking(made).await.unwrap()
}

#[tokio::test]
async fn an_agent_behind_the_endpoint_is_trained_from_a_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let loaded = written(dir.path(), "");
    let run_dir = loaded.run_dir();
    let summary = trainer(&loaded).await.train(&run_dir).await.unwrap();
    assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
    assert_eq!(std::fs::read_to_string(run_dir.join("best_skill.md")).unwrap(), "Walk.\n\nGo right.\n");
    // The agent's calls are in the journal and in the counts of the run like all others: two for each rollout.
    assert_eq!(summary.token_summary["rollout"].calls, 2 * 3);
    let counted: u64 = summary.token_summary.values().map(|tokens| tokens.calls).sum();
    let totals = JournalReader::open(&run_dir.join("journal.sqlite")).unwrap().totals().unwrap();
    assert_eq!(totals.replies, counted);
}

/// An agent that asks another model than the one it is served is measured without any skill: the baseline ends.
#[tokio::test]
async fn an_agent_that_misses_the_endpoint_ends_the_baseline() {
    for (trick, delivery, initial) in
        [("none", "system_prompt", ""), ("none", "inline", ""), ("asks", "replace", "You run.")]
    {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("prompt.md"), initial).unwrap();
        let settings = format!("endpoint = true\nskill_delivery = {delivery:?}");
        let skill = if initial.is_empty() { "" } else { "[skill]\ninitial = \"prompt.md\"\n" };
        let loaded = agent(dir.path(), trick, &settings, skill);
        let error = trainer(&loaded).await.train(&loaded.run_dir()).await.unwrap_err();
        let PipelineError::Rollout { place, source: EnvError::Program { message }, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(place.starts_with("baseline / "), "{place}");
        assert!(message.contains(if delivery == "replace" { "initial skill" } else { "no request" }));
    }
}

/// What does not stop a run is told once, with numbers.
#[tokio::test]
async fn requests_without_the_skill_and_a_skill_that_is_there_twice_are_told() {
    for (delivery, initial, code) in
        [("inline", "Walk.", "did not contain"), ("system_prompt", "You walk.", "twice")]
    {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("prompt.md"), initial).unwrap();
        let settings = format!("endpoint = true\nskill_delivery = {delivery:?}");
        let loaded = agent(dir.path(), "asks", &settings, "[skill]\ninitial = \"prompt.md\"\n");
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let events = move |event: &Event| {
            if let Event::Warning { message, .. } = event {
                sink.lock().push(message.clone());
            }
        };
        made(&loaded, Arc::new(events)).await.unwrap().train(&loaded.run_dir()).await.unwrap();
        let n_told = told.lock().iter().filter(|message| message.contains(code)).count();
        assert_eq!(n_told, 1, "{delivery}: {:?}", told.lock());
    }
}

/// What an agent raises, or its end, is a failure where that is configured, and an error where too many break.
#[tokio::test]
async fn an_agent_that_breaks_has_failed_up_to_a_share_of_the_items() {
    for (trick, settings, is_failure) in [
        ("dies", "on_error = \"fail\"", true),
        ("reports", "on_error = \"fail\"", true),
        ("silent", "on_error = \"fail\"\nrollout_timeout_s = 1", true),
        ("dies", "", false),
        ("dies", "on_error = \"fail\"\nmax_errors = 0.0", false),
        // What another try does not help, and what is no answer, is never a failure of the agent.
        ("refuses", "on_error = \"fail\"", false),
        ("misspelled", "on_error = \"fail\"", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let loaded = agent(dir.path(), trick, settings, "");
        let outcome = trainer(&loaded).await.train(&loaded.run_dir()).await;
        assert_eq!(outcome.is_ok(), is_failure, "{trick}, {settings}: {outcome:?}");
        let file = loaded.run_dir().join("steps/step_0001/rollout_results.json");
        let Ok(text) = std::fs::read_to_string(file) else {
            assert!(!is_failure, "{trick}, {settings}");
            continue;
        };
        let results: Vec<RolloutResult> = serde_json::from_str(&text).unwrap();
        let bad = results.iter().find(|result| result.id.as_str() == "bad").unwrap();
        assert_eq!((bad.hard, &bad.extras[reach::BROKEN_KEY]), (0.0, &true.into()), "{bad:?}");
        assert!(bad.fail_reason.starts_with("the agent broke: "), "{}", bad.fail_reason);
    }
}

/// A run has its result although its agent cannot work with no skill at all.
#[tokio::test]
async fn an_error_with_no_skill_leaves_that_arm_out() {
    let dir = tempfile::tempdir().unwrap();
    let loaded = agent(dir.path(), "needs_skill", "", "[eval]\nno_skill = \"on\"\n");
    let summary = trainer(&loaded).await.train(&loaded.run_dir()).await.unwrap();
    assert_eq!((summary.test_hard, summary.test_no_skill.is_none()), (Some(1.0), true));
}

#[tokio::test]
async fn a_cap_that_the_calls_of_an_agent_do_not_pass_is_refused() {
    for (settings, cap, is_refused) in [
        ("", "calls = 3", true),
        ("endpoint = false", "money = 1.0", true),
        ("", "tokens = 1000000", false),
        ("endpoint = true", "calls = 3", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let loaded = agent(dir.path(), "none", settings, &format!("[budget]\n{cap}\n"));
        let error = made(&loaded, Arc::new(NoEvents)).await.err();
        let is_usage = error.as_ref().is_some_and(|error| error.failure() == Failure::Usage);
        assert_eq!(is_usage, is_refused, "{settings}, {cap}: {error:?}");
    }
}

/// The caps of a run hold for what an agent asks by itself, and what was answered is not asked again.
#[tokio::test]
async fn the_calls_of_an_agent_behind_the_endpoint_are_capped() {
    let whole = tempfile::tempdir().unwrap();
    let loaded = written(whole.path(), "");
    let undisturbed = trainer(&loaded).await.train(&loaded.run_dir()).await.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let capped = written(dir.path(), "[budget]\ncalls = 3\n");
    let run_dir = capped.run_dir();
    let error = trainer(&capped).await.train(&run_dir).await.unwrap_err();
    assert!(matches!(error, PipelineError::Capped { .. }), "{error:?}");
    let replies = || JournalReader::open(&run_dir.join("journal.sqlite")).unwrap().totals().unwrap().replies;
    assert_eq!(replies(), 3);
    let summary = trainer(&written(dir.path(), "")).await.train(&run_dir).await.unwrap();
    assert_eq!(summary.test_hard, undisturbed.test_hard);
    let counted: u64 = summary.token_summary.values().map(|tokens| tokens.calls).sum();
    assert_eq!(replies(), counted);
}
