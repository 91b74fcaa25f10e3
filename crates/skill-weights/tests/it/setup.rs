//! What the tests share: a template, examples of the world of doors, and a trainer.

use crate::all_files::all_files;
use crate::bigram::Bigram;
use crate::codec::{ByteCodec, IM_END};
use crate::world::{Doors, whole_history, wins};
use skill_bank::Episode;
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_envs::{AgentSettings, Env as _};
use skill_pipeline::PipelineError;
use skill_pipeline::records::sft::CHECKPOINTS_DIR;
use skill_pipeline::settings::SftSettings;
use skill_train::chat::{ChatTemplate, RenderOptions};
use skill_train::checkpoint::StateStore;
use skill_weights::policy::PolicyText;
use skill_weights::sft::demos::{Demonstrations, Demonstrator, Played};
use skill_weights::sft::{SftData, SftTrainer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
                        {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub(crate) fn text() -> PolicyText {
    PolicyText {
        template: ChatTemplate::parse(TEMPLATE, serde_json::Map::new()).unwrap(),
        codec: Arc::new(ByteCodec::new()),
        options: RenderOptions::default(),
        stop_tokens: vec![IM_END],
    }
}

/// Small, and fast to learn.
pub(crate) fn settings() -> SftSettings {
    SftSettings {
        epochs: 2,
        batch_size: 4,
        learning_rate: 0.5,
        warmup_share: 0.2,
        max_tokens: 2_000,
        micro_batch_tokens: 600,
        validation_share: 0.2,
        validation_interval: 2,
        checkpoint_interval: 3,
        ..SftSettings::default()
    }
}

pub(crate) async fn play(episodes: Vec<Episode>, agent: AgentSettings) -> Played {
    let env = Doors::env(12, agent);
    let source = document(&SkillDoc::new("Look first."));
    let demonstrations = Demonstrations::new(env.as_ref(), source.as_ref());
    assert_eq!(env.name(), "doors");
    demonstrations.play(&Demonstrator::Episodes(episodes), |_| false).await.unwrap()
}

pub(crate) async fn data(settings: &SftSettings) -> SftData {
    let played = play(wins(10), whole_history()).await;
    SftData::new(&played, &text(), settings).unwrap()
}

/// A directory, a run in it, and what it is trained with.
pub(crate) async fn new_run() -> (TempDir, PathBuf, SftSettings, SftData) {
    let dir = tempfile::tempdir().unwrap();
    let (run, settings) = (dir.path().join("run"), settings());
    let data = data(&settings).await;
    (dir, run, settings, data)
}

pub(crate) fn bigram(run: &Path) -> Bigram {
    Bigram::new(&run.join(CHECKPOINTS_DIR))
}

pub(crate) fn trainer(run: &Path, model: &Bigram, data: &SftData, settings: &SftSettings) -> SftTrainer {
    let store = StateStore::new(run.join(CHECKPOINTS_DIR));
    let (backend, writer) = (Arc::new(model.clone()), Arc::new(model.clone()));
    SftTrainer::new(backend, store, writer, data.clone()).with_settings(settings.clone())
}

/// The files that may not depend on when a process was killed.
pub(crate) fn files(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let of_the_process = ["events.jsonl", "timings.jsonl", "sft_times.json", "rl_times.json"];
    let mut files = all_files(run);
    files.retain(|name, _| !of_the_process.contains(&name.as_str()));
    files
}

#[track_caller]
pub(crate) fn check_same_files(
    found: &BTreeMap<String, Vec<u8>>,
    expected: &BTreeMap<String, Vec<u8>>,
    what: &str,
) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "{name} differs, {what}");
    }
}

/// What a run says that it was stopped by.
pub(crate) fn is_at_step(error: &PipelineError, expected: u64) -> bool {
    matches!(error, PipelineError::Weights { step, .. } if *step == expected)
}
