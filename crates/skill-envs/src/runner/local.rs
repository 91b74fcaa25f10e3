//! Rollouts in this process, on all its cores.

use super::activation::Activation;
use super::{JobLink, JobSkill, RolloutJob, RolloutOutcome, RolloutRunner};
use crate::env::{Env, RolloutCtx};
use crate::error::EnvError;
use crate::source::{SkillSource, Witnessed};
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_core::rollout::SKILL_LOADED_KEY;
use skill_llm::{CallCtx, ChatModel, LlmError};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

/// How often a rollout is begun where the world breaks in the middle of it; failing calls have a policy of their own.
const ROLLOUT_ATTEMPTS: u32 = 3;

/// What a task comes to.
type Made = Result<RolloutOutcome, EnvError>;

/// Makes the rollouts of one environment by tasks of the runtime that it is called in, so that a runtime with several
/// threads uses as many cores.
pub struct LocalRunner {
    agent: Arc<Agent>,
    /// Tasks of futures that were dropped; they end at their next await.
    dropped: Mutex<Vec<JoinHandle<Made>>>,
}

/// What a rollout needs besides its job.
struct Agent {
    env: Arc<dyn Env>,
    target: Arc<dyn ChatModel>,
    judge: Option<Arc<dyn ChatModel>>,
}

impl LocalRunner {
    /// Rollouts of this environment by this agent; `judge` is [`Env::judge`] with the layers of the run around it.
    pub fn new(env: Arc<dyn Env>, target: Arc<dyn ChatModel>, judge: Option<Arc<dyn ChatModel>>) -> Self {
        Self { agent: Arc::new(Agent { env, target, judge }), dropped: Mutex::default() }
    }
}

#[async_trait]
impl RolloutRunner for LocalRunner {
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError> {
        let agent = Arc::clone(&self.agent);
        let work = async move { agent.make(&job, &link).await };
        // Spans and subscribers of the caller are those of the task.
        let task = tokio::spawn(work.in_current_span().with_current_subscriber());
        Task { handle: Some(task), runner: self }.made().await
    }

    async fn settle(&self) {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        for task in dropped {
            // It was aborted, or it has ended before.
            drop(task.await);
        }
    }
}

/// A task that ends with the future that waits for it.
struct Task<'a> {
    handle: Option<JoinHandle<Made>>,
    runner: &'a LocalRunner,
}

impl Task<'_> {
    async fn made(&mut self) -> Made {
        // A runtime that shuts down ends its tasks.
        let ended = Err(EnvError::Model(LlmError::Cancelled));
        let Some(handle) = &mut self.handle else { return ended };
        let made = handle.await;
        self.handle = None;
        made.unwrap_or_else(|error| match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => ended,
        })
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.abort();
            let mut dropped = self.runner.dropped.lock();
            dropped.retain(|task| !task.is_finished());
            dropped.push(handle);
        }
    }
}

impl Agent {
    /// Makes a rollout; where the world broke, once more from the start, with the replies that it has had.
    async fn make(&self, job: &RolloutJob, link: &JobLink) -> Result<RolloutOutcome, EnvError> {
        let source: Arc<dyn SkillSource> = match &job.skill {
            JobSkill::Shown(shown) => Arc::new(shown.clone()),
            JobSkill::AfterReset { .. } => Arc::clone(&link.source),
        };
        let deadline = job.time_left().map(|left| Instant::now() + left);
        let (mut n_attempts, mut broken) = (0, None);
        loop {
            n_attempts += 1;
            // A unit of work of its own, so that its calls are those of the attempt before.
            let call = CallCtx {
                deadline,
                cancel: link.cancel.clone(),
                halt: link.halt.clone(),
                ..CallCtx::new(job.place.clone())
            };
            let target = Activation::of(&self.target);
            let shared: Arc<dyn ChatModel> = Arc::<Activation>::clone(&target);
            let is_last_attempt = n_attempts >= ROLLOUT_ATTEMPTS;
            let ctx = RolloutCtx { call, judge: self.judge.clone(), target: Some(shared), is_last_attempt };
            let witnessed = Witnessed::new(source.as_ref());
            match self.env.rollout(&job.item, &witnessed, target.as_ref(), &ctx).await {
                Ok(mut result) => {
                    // What the environment leaves open is filled from the item, so that every record can be joined to it.
                    result.id = job.item.id.clone();
                    if result.task_type.is_empty() {
                        result.task_type.clone_from(&job.item.task_type);
                    }
                    result.trajectory.sample = job.sample;
                    result.trajectory.shown_parts = witnessed.into_parts();
                    if let Some(is_activated) = target.is_activated() {
                        result.extras.insert(SKILL_LOADED_KEY.to_owned(), is_activated.into());
                    }
                    return Ok(RolloutOutcome { result, used: ctx.call.scope.used(), broken });
                }
                Err(EnvError::Broken { message, .. }) if n_attempts < ROLLOUT_ATTEMPTS => {
                    tracing::info!(place = %ctx.call.place, message, "an attempt failed and is repeated");
                    broken = Some(message);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
