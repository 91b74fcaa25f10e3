//! From `[env]` with `kind = "exec"` to the program that is the environment.

use super::{Around, played};
use crate::config::{ConfigPath, ExecConfig as Asked};
use crate::error::Error;
use async_trait::async_trait;
use serde_json::Value;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::exec::{ExecConfig, ExecDeadlines, ExecLimits, ExecProgram, Mode};
use skill_envs::{Env, EnvError, Episode, Item, Observation, RolloutCtx, SkillSource, Split, World};
use skill_llm::{ChatModel, ChatReply};
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// The environment: a program that runs its own agent, or one that is stepped through by ours.
pub(super) fn environment(asked: &Asked, around: &Around<'_>) -> Result<Arc<dyn Env>, Error> {
    let (program, runtime) = start(asked, around)?;
    let env: Arc<dyn Env> = match program.mode() {
        Mode::Rollout => Arc::new(program.env().map_err(Error::Env)?),
        Mode::Step => {
            played(Arc::new(program.world().map_err(Error::Env)?), asked, asked.max_tokens, around)?
        }
    };
    Ok(Arc::new(Supervised { inner: env, runtime: Arc::new(runtime) }))
}

/// The program as a world; `None` if it runs its own agent.
pub(super) fn world(asked: &Asked, around: &Around<'_>) -> Result<Option<Arc<dyn World>>, Error> {
    let (program, runtime) = start(asked, around)?;
    match program.mode() {
        Mode::Rollout => Ok(None),
        Mode::Step => {
            let inner: Arc<dyn World> = Arc::new(program.world().map_err(Error::Env)?);
            Ok(Some(Arc::new(Supervised { inner, runtime: Arc::new(runtime) })))
        }
    }
}

/// Starts the program, on a runtime that outlives whatever calls this.
fn start(asked: &Asked, around: &Around<'_>) -> Result<(ExecProgram, Background), Error> {
    let config = config(asked, around);
    let failed = |source: std::io::Error| {
        let message = format!("the runtime of the program cannot be started: {source}");
        Error::Env(EnvError::Configuration { message })
    };
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(failed)?;
    let runtime = Background(Some(runtime));
    // A thread of its own, since anyone who calls this may be in a runtime already.
    let program = std::thread::scope(|scope| {
        let started =
            scope.spawn(|| runtime.0.as_ref().map(|runtime| runtime.block_on(ExecProgram::start(config))));
        started.join().ok().flatten()
    });
    match program {
        Some(program) => Ok((program.map_err(Error::Env)?, runtime)),
        None => Err(failed(std::io::Error::other("its thread has ended"))),
    }
}

fn config(asked: &Asked, around: &Around<'_>) -> ExecConfig {
    ExecConfig {
        command: asked.program.clone(),
        directory: Some(asked.program_dir.as_ref().map_or_else(|| around.dir.clone(), ConfigPath::to_path)),
        set_env: asked.set_env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        pass_env: asked.pass_env.clone(),
        settings: asked.settings.clone(),
        data: asked.items.as_ref().map(ConfigPath::to_path),
        split_ratio: asked.split_ratio,
        split_rule: asked.split_rule,
        split_seed: asked.split_seed,
        test_is_optional: around.test_is_optional,
        seed: around.seed,
        processes: asked.processes,
        process_per_rollout: asked.process_per_rollout,
        skill: asked.skill_delivery,
        endpoint: asked.endpoint,
        deadlines: ExecDeadlines {
            start_seconds: asked.start_timeout_s as f64,
            reset_seconds: asked.reset_timeout_s as f64,
            step_seconds: asked.step_timeout_s as f64,
            rollout_seconds: asked.rollout_timeout_s as f64,
        },
        limits: ExecLimits::default(),
        secrets: around.secrets.clone(),
    }
}

/// A runtime that ends without being waited for: it may be dropped inside another one.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// An environment or a world with the runtime that looks after its processes; that ends last.
struct Supervised<T> {
    inner: T,
    runtime: Arc<Background>,
}

#[async_trait]
impl Env for Supervised<Arc<dyn Env>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.inner.items(split)
    }

    fn settings(&self) -> Value {
        self.inner.settings()
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.inner.initial_skill()
    }

    fn reward(&self) -> Option<String> {
        self.inner.reward()
    }

    fn prompt_override(&self, name: &str) -> Option<&str> {
        self.inner.prompt_override(name)
    }

    fn reply_of(&self, thought: &str, action: &str) -> ChatReply {
        self.inner.reply_of(thought, action)
    }

    fn faults(&self) -> &[EnvError] {
        self.inner.faults()
    }

    fn doubtful_choices(&self, item: &Item) -> Vec<String> {
        self.inner.doubtful_choices(item)
    }

    fn label(&self, item: &Item) -> Option<String> {
        self.inner.label(item)
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.inner.goal(item)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        self.inner.rollout(item, source, target, ctx).await
    }
}

impl World for Supervised<Arc<dyn World>> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.inner.items(split)
    }

    fn settings(&self) -> Value {
        self.inner.settings()
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.inner.initial_skill()
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.inner.goal(item)
    }

    fn instructions(&self) -> &str {
        self.inner.instructions()
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        let inner = self.inner.episode(item)?;
        Ok(Box::new(Supervised { inner, runtime: Arc::clone(&self.runtime) }))
    }
}

/// An episode may outlive its world, and its process then still has to be looked after.
#[async_trait]
impl Episode for Supervised<Box<dyn Episode>> {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.inner.reset().await
    }

    async fn reset_with_seed(&mut self, seed: u64) -> Result<Observation, EnvError> {
        self.inner.reset_with_seed(seed).await
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        self.inner.step(action).await
    }

    fn task(&self) -> Option<&str> {
        self.inner.task()
    }
}
