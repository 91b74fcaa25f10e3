//! Whole runs on data of one's own: the example, and runs with a judge and with a program that are stopped and go on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use async_trait::async_trait;
use parking_lot::Mutex;
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::engine::{Engine, RunModels};
use skillrl::llm::{CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skillrl::pipeline::{NoEvents, PipelineError, StopSignal, Summary};
use skillrl::trainer;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// A copy of the example, with further settings.
fn example(overrides: &[&str]) -> (TempDir, LoadedConfig) {
    let dir = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/own-data");
    for entry in std::fs::read_dir(example).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let loaded = Config::load(&dir.path().join("skillrl.toml"), &overrides).unwrap();
    loaded.check_paths().unwrap();
    (dir, loaded)
}

/// A model that keeps what it is asked, and fails while it is told to.
struct Watched {
    inner: Arc<dyn ChatModel>,
    asked: Arc<Mutex<Vec<String>>>,
    is_down: Arc<AtomicBool>,
}

#[async_trait]
impl ChatModel for Watched {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> serde_json::Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if self.is_down.load(Ordering::SeqCst) {
            let (provider, message) = ("test".to_owned(), "down".to_owned());
            return Err(LlmError::ServerError { provider, status: 500, message, retry_after: None });
        }
        let place = call.place.to_string();
        self.asked.lock().push(format!("{place}: {}", serde_json::to_string(request).unwrap()));
        self.inner.chat(request, call).await
    }
}

/// The models of a run; the optimizer can be down, and all calls of the judge are written down.
struct World {
    asked: Arc<Mutex<Vec<String>>>,
    is_down: Arc<AtomicBool>,
}

impl World {
    fn new() -> Self {
        Self { asked: Arc::default(), is_down: Arc::default() }
    }

    async fn train(&self, loaded: &LoadedConfig) -> Result<Summary, PipelineError> {
        let mut engine = Engine::new(loaded);
        let up = Arc::new(AtomicBool::new(false));
        let watched = |inner, is_down: &Arc<AtomicBool>| {
            let (asked, is_down) = (Arc::clone(&self.asked), Arc::clone(is_down));
            Arc::new(Watched { inner, asked, is_down }) as Arc<dyn ChatModel>
        };
        let models = RunModels {
            target: watched(engine.model(ModelRole::Target).unwrap(), &up),
            optimizer: watched(engine.model(ModelRole::Optimizer).unwrap(), &self.is_down),
            judge: engine.judge().unwrap().map(|judge| watched(judge, &up)),
        };
        let trainer =
            trainer::document_with(loaded, models, Arc::new(NoEvents), StopSignal::default()).unwrap();
        trainer.train(&loaded.run_dir()).await
    }

    /// What was asked, in order of the alphabet: it is the same for any number of workers.
    fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().clone();
        asked.sort_unstable();
        asked
    }
}

fn decisive_files(loaded: &LoadedConfig) -> Vec<(String, String)> {
    let dir = loaded.run_dir();
    [
        "history.json",
        "summary.json",
        "best_skill.md",
        "runtime_state.json",
        "steps/step_0001/rollout_results.json",
    ]
    .map(|name| (name.to_owned(), std::fs::read_to_string(dir.join(name)).unwrap()))
    .to_vec()
}

/// A run that is stopped by an outage in its first step, and goes on, asks for nothing twice and comes to the files of
/// a run that nobody disturbed.
async fn check_resume(overrides: &[&str], files: &[(&str, &str)]) -> (Vec<String>, [TempDir; 2]) {
    let write = |dir: &TempDir| {
        for (name, text) in files {
            let path = dir.path().join(name);
            // What is there already is added to.
            let before = std::fs::read_to_string(&path).unwrap_or_default();
            std::fs::write(path, before + text).unwrap();
        }
    };
    let (undisturbed_dir, _) = example(&[]);
    write(&undisturbed_dir);
    let (dir, _) = example(&[]);
    write(&dir);
    let load = |dir: &TempDir| {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Config::load(&dir.path().join("skillrl.toml"), &overrides).unwrap()
    };
    let undisturbed = World::new();
    let summary = undisturbed.train(&load(&undisturbed_dir)).await.unwrap();

    let world = World::new();
    world.is_down.store(true, Ordering::SeqCst);
    let loaded = load(&dir);
    let error = world.train(&loaded).await.unwrap_err();
    assert!(matches!(error, PipelineError::Optimizer { .. }), "{error}");
    world.is_down.store(false, Ordering::SeqCst);
    assert_eq!(world.train(&loaded).await.unwrap(), summary);
    assert_eq!(world.asked(), undisturbed.asked());
    let mut once = world.asked();
    once.dedup();
    assert_eq!(once, world.asked(), "something was asked twice");
    assert_eq!(decisive_files(&loaded), decisive_files(&load(&undisturbed_dir)));
    (world.asked(), [dir, undisturbed_dir])
}

#[tokio::test]
async fn the_example_learns_the_queues() {
    let (_dir, loaded) = example(&[]);
    let (trainer, run_dir) = trainer::document(&loaded, Arc::new(NoEvents), StopSignal::default()).unwrap();
    let summary = trainer.train(&run_dir).await.unwrap();
    assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
    let skill = std::fs::read_to_string(run_dir.join("best_skill.md")).unwrap();
    assert!(skill.ends_with("- Answer with one of billing, account and bug, and nothing else.\n"), "{skill}");
}

const JUDGE: &str = r#"{"version": 1, "rules": [
    {"when": {"user_contains": ["<answer>\nsupport"]}, "reply": "{\"reason\": \"This queue does not exist.\", \"points\": 1}"},
    {"when": {"user_contains": ["<answer>\nbilling"]}, "reply": "{\"reason\": \"Fine.\", \"points\": 9}"}
  ], "otherwise": {"reply": "{\"reason\": \"Good.\", \"points\": 10}"}}"#;

#[tokio::test]
async fn a_judged_call_is_not_sent_twice() {
    let judged = ["env.scorer=rubric", "env.rubric=Names the right queue.", "env.ignore_case=false"];
    let section = "\n[models.judge]\nkind = \"scripted\"\nfile = \"judge.json\"\n";
    let files = [("judge.json", JUDGE), ("skillrl.toml", section)];
    let (asked, [dir, _undisturbed]) = check_resume(&judged, &files).await;
    let judge = CallPlace::new("step 1").child("rollout").child("t01").child("judge");
    assert!(asked.iter().any(|call| call.starts_with(&format!("{judge}: "))), "{asked:?}");
    // 4 of the baseline, 8 of the step, 4 of its evaluation, 4 before and 4 after on the selection split once more, 4
    // before and 4 after on the test split.
    assert_eq!(asked.iter().filter(|call| call.contains(" / judge: ")).count(), 32);
    // The judge's reasons reach the optimizer, and its calls are counted with those of the stage.
    let reflect = asked.iter().find(|call| call.contains("/ reflect /")).unwrap();
    let reason = "This queue does not exist.";
    assert!(
        JUDGE.contains(reason) && reflect.contains(reason) && reflect.contains("1 of 10 points"),
        "{reflect}"
    );
    let record = std::fs::read_to_string(dir.path().join("run/history.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(
        record.pointer("/0/tokens/rollout/calls").or(record.pointer("/steps/0/tokens/rollout/calls")),
        Some(&16.into()),
        "{record}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn an_answer_is_scored_once_by_a_program() {
    let script = "cat >> scored.log\ntail -n 1 scored.log | grep -q support && echo '{\"hard\": 0, \"reason\": \"no such queue\"}' || echo '{\"hard\": 1}'\n";
    let overrides = [
        "run.workers=1",
        "env.scorer=command",
        "env.ignore_case=false",
        "env.command=[\"sh\", \"score.sh\"]",
    ];
    let (_, [dir, undisturbed]) = check_resume(&overrides, &[("score.sh", script)]).await;
    let scored =
        |dir: &TempDir| std::fs::read_to_string(dir.path().join("scored.log")).unwrap().lines().count();
    assert_eq!(scored(&dir), 32);
    assert_eq!(scored(&undisturbed), 32);
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_fails_stops_the_run_and_the_run_goes_on_when_it_is_mended() {
    let (dir, loaded) =
        example(&["env.scorer=command", "env.ignore_case=false", "env.command=[\"./score\"]"]);
    let script = |text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.path().join("score");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("#!/bin/sh\necho no database >&2\nexit 3\n");
    let world = World::new();
    let error = world.train(&loaded).await.unwrap_err();
    let text = skillrl::llm::error::with_causes(&error);
    for part in ["`./score`", "exit status: 3", "no database"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!dir.path().join("run/history.jsonl").exists());
    script("#!/bin/sh\necho '{\"hard\": 0.5}'\n");
    let summary = world.train(&loaded).await.unwrap();
    assert_eq!(summary.baseline_test_hard, Some(0.5));
    let asked = world.asked();
    let mut once = asked.clone();
    once.dedup();
    assert_eq!(once, asked, "something was asked twice");
}
