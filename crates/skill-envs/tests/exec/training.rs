//! Whole runs from a configuration file, with an agent that asks the model which the engine serves it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_llm::journal::JournalReader;
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::engine::{Engine, RunModels};
use skillrl::pipeline::{NoEvents, PipelineError, StopSignal, Trainer};
use skillrl::trainer;
use std::path::Path;
use std::sync::Arc;

const TARGET: &str = r#"{"version": 1, "rules": [{"when": {"system_contains": ["Go right."]}, "reply": "right"}],
    "otherwise": {"reply": "left"}}"#;
const OPTIMIZER: &str = r#"{"version": 1, "otherwise": {"reply": "{\"patch\": {\"reasoning\": \"Left.\", \"edits\": [{\"op\": \"append\", \"content\": \"Go right.\"}]}}"}}"#;

/// A configuration with an agent behind the endpoint, and the files that it names.
fn written(dir: &Path, more: &str) -> LoadedConfig {
    let program = env!("CARGO_BIN_EXE_exec-program");
    let config = format!(
        "[run]\ndir = \"run\"\n[models]\ntarget = {{ kind = \"scripted\", file = \"target.json\" }}\n\
         optimizer = {{ kind = \"scripted\", file = \"optimizer.json\" }}\n[env]\nkind = \"exec\"\n\
         program = [{program:?}, \"rollout\", \"asks\"]\nendpoint = true\nskill_delivery = \"system_prompt\"\n\
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
    let mut engine = Engine::new(loaded);
    let models = RunModels {
        target: engine.model(ModelRole::Target).unwrap(),
        optimizer: engine.model(ModelRole::Optimizer).unwrap(),
        judge: None,
    };
    // The environment has a runtime of its own, so it is set up where blocking is allowed.
    let loaded = loaded.clone();
    let made = move || trainer::document_with(&loaded, models, Arc::new(NoEvents), StopSignal::default());
    tokio::task::spawn_blocking(made).await.unwrap().unwrap()
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
