//! Whole runs from a configuration file, with an agent that asks the model which the engine serves it.

use skill_llm::journal::JournalReader;
use skillrl::assemble::{self, ModelRole, RunModels};
use skillrl::config::Config;
use skillrl::engine::Engine;
use skillrl::pipeline::{NoEvents, StopSignal};
use std::sync::Arc;

const TARGET: &str = r#"{"version": 1, "rules": [{"when": {"system_contains": ["Go right."]}, "reply": "right"}],
    "otherwise": {"reply": "left"}}"#;
const OPTIMIZER: &str = r#"{"version": 1, "otherwise": {"reply": "{\"patch\": {\"reasoning\": \"Left.\", \"edits\": [{\"op\": \"append\", \"content\": \"Go right.\"}]}}"}}"#;

#[tokio::test]
async fn an_agent_behind_the_endpoint_is_trained_from_a_configuration_file() {
    let dir = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_exec-program");
    let config = format!(
        "[run]\ndir = \"run\"\n[models]\ntarget = {{ kind = \"scripted\", file = \"target.json\" }}\n\
         optimizer = {{ kind = \"scripted\", file = \"optimizer.json\" }}\n[env]\nkind = \"exec\"\n\
         program = [{program:?}, \"rollout\", \"asks\"]\nendpoint = true\nskill_delivery = \"system_prompt\"\n\
         [train]\nepochs = 1\n"
    );
    for (name, text) in
        [("skillrl.toml", config.as_str()), ("target.json", TARGET), ("optimizer.json", OPTIMIZER)]
    {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let loaded = Config::load(&dir.path().join("skillrl.toml"), &[]).unwrap();
    let mut engine = Engine::new(&loaded);
    let models = RunModels {
        target: engine.model(ModelRole::Target).unwrap(),
        optimizer: engine.model(ModelRole::Optimizer).unwrap(),
        judge: None,
    };
    // The environment has a runtime of its own, so it is set up where blocking is allowed.
    let trainer = tokio::task::spawn_blocking({
        let loaded = loaded.clone();
        move || assemble::trainer_of(&loaded, models, Arc::new(NoEvents), StopSignal::default())
    })
    .await
    .unwrap()
    .unwrap();
    let run_dir = assemble::run_dir(&loaded);
    let summary = trainer.train(&run_dir).await.unwrap();
    assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
    assert_eq!(std::fs::read_to_string(run_dir.join("best_skill.md")).unwrap(), "Walk.\n\nGo right.\n");
    // The agent's calls stand in the journal and in the counts of the run like all others: two for each rollout.
    assert_eq!(summary.token_summary["rollout"].calls, 2 * 3);
    let counted: u64 = summary.token_summary.values().map(|tokens| tokens.calls).sum();
    let totals = JournalReader::open(&run_dir.join("journal.sqlite")).unwrap().totals().unwrap();
    assert_eq!(totals.replies, counted);
}
