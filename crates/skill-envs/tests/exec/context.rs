//! What the tests share.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use skill_core::{RolloutResult, SkillDoc};
use skill_envs::exec::{ExecConfig, ExecEnv, ExecProgram, ExecWorld};
use skill_envs::{Env as _, EnvError, Episode, Item, RolloutCtx, Split, World as _};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{ChatModel, LlmError};

/// The program, in this mode and with this trick.
pub(crate) fn config(mode: &str, trick: &str) -> ExecConfig {
    let mut config = ExecConfig::new([env!("CARGO_BIN_EXE_exec-program"), mode, trick]);
    config.processes = 1;
    config.limits.backoff_seconds = 0.001;
    config
}

pub(crate) async fn env(config: ExecConfig) -> ExecEnv {
    ExecProgram::start(config).await.unwrap().env().unwrap()
}

pub(crate) async fn world(config: ExecConfig) -> ExecWorld {
    ExecProgram::start(config).await.unwrap().world().unwrap()
}

/// The error of a program that is not to start.
pub(crate) async fn start_error(config: ExecConfig) -> EnvError {
    match ExecProgram::start(config).await {
        Ok(program) => panic!("`{}` has started", program.name()),
        Err(error) => error,
    }
}

/// The item with this id.
pub(crate) fn item(items: &[Item], id: &str) -> Item {
    items.iter().find(|item| item.id.as_str() == id).unwrap().clone()
}

/// A model that nobody asks.
pub(crate) fn no_model() -> impl ChatModel {
    ScriptedModel::from_fn("nobody", |_, _| Err(LlmError::Cancelled))
}

/// A rollout of the item with this id.
pub(crate) async fn rollout(env: &ExecEnv, id: &str) -> Result<RolloutResult, EnvError> {
    rollout_with(env, id, &SkillDoc::new("Go right.")).await
}

/// A rollout of the item with this id, with this skill.
pub(crate) async fn rollout_with(
    env: &ExecEnv,
    id: &str,
    skill: &SkillDoc,
) -> Result<RolloutResult, EnvError> {
    let item = item(env.items(Split::Train), id);
    env.rollout(&item, skill, &no_model(), &RolloutCtx::default()).await
}

/// An episode of the item with this id.
pub(crate) fn episode(world: &ExecWorld, id: &str) -> Box<dyn Episode> {
    world.episode(&item(world.items(Split::Train), id)).unwrap()
}

/// The process that has made a result.
pub(crate) fn process_of(result: &RolloutResult) -> u64 {
    result.extras["process"].as_u64().unwrap()
}

/// The process that has shown an observation.
pub(crate) fn process_in(text: &str) -> u64 {
    let digits = text.split("(process ").nth(1).unwrap().trim_end_matches(')');
    digits.parse().unwrap()
}

/// Waits until a process is gone, and fails if it stays.
pub(crate) fn assert_gone(pid: u64) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while is_running(pid) {
        assert!(std::time::Instant::now() < patience, "process {pid} still runs");
        std::thread::yield_now();
    }
}

/// Whether there is a process of this number that has not ended; only Linux tells.
pub(crate) fn is_running(pid: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state != Some("Z")
}
