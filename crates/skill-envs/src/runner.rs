//! The seam between those who decide which rollouts are made and those who make them.
//!
//! A [`RolloutJob`] is plain data, so that it can be made in this process ([`LocalRunner`]) or elsewhere. The driver looks
//! a rollout up before it asks for it, keeps the journal, and acknowledges a result once that is committed; a runner
//! knows neither journals nor stages.
//!
//! # Invariants
//!
//! - A job, its result and its fault survive the way to another process and back. Held by
//!   `a_run_made_elsewhere_writes_the_same_files`, `a_fault_elsewhere_stops_the_run_and_is_no_score`.

mod activation;
mod local;

pub use local::LocalRunner;

use crate::error::EnvError;
use crate::item::Item;
use crate::source::{Shown, SkillSource};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use skill_core::RolloutResult;
use skill_llm::{CallPlace, ChatModel, LlmError, MeterReading};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_util::sync::CancellationToken;

/// Makes rollouts.
#[async_trait]
pub trait RolloutRunner: Send + Sync {
    /// Makes one rollout; dropping the future cancels it.
    ///
    /// # Errors
    ///
    /// The rollout could not be made; this is never a score. A runner elsewhere sends a [`RolloutFault`](crate::RolloutFault).
    async fn run(&self, job: RolloutJob, link: JobLink) -> Result<RolloutOutcome, EnvError>;

    /// Whether this runner keeps each result until [`RolloutRunner::acknowledge`] names its job.
    fn keeps_results(&self) -> bool {
        false
    }

    /// The result of the job with this key is committed where it is not lost.
    async fn acknowledge(&self, _key: &str) {}

    /// Waits until the work of all futures that were dropped has ended.
    async fn settle(&self) {}
}

/// One rollout that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RolloutJob {
    /// Identifies the result: jobs with equal keys come to the same one, which is made once.
    pub key: String,
    /// The name of the environment.
    pub env: String,
    /// What is worked on.
    pub item: Item,
    /// What the agent is shown.
    pub skill: JobSkill,
    /// Which sample of the item this is, from 0; samples share no reply.
    pub sample: u32,
    /// Where the rollout is in the run; its calls are at places inside it.
    pub place: CallPlace,
    /// When it has to be over, in milliseconds since 1970; `None` sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_ms: Option<u64>,
}

impl RolloutJob {
    /// The first sample of an item at this place, without a deadline.
    pub fn new(
        key: impl Into<String>,
        env: impl Into<String>,
        item: Item,
        skill: JobSkill,
        place: CallPlace,
    ) -> Self {
        Self { key: key.into(), env: env.into(), item, skill, sample: 0, place, deadline_unix_ms: None }
    }

    /// The same job for this sample, from 0.
    #[must_use]
    pub fn with_sample(self, sample: u32) -> Self {
        Self { sample, ..self }
    }

    /// The time that is left until the deadline; `None` if there is none.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = UNIX_EPOCH.checked_add(Duration::from_millis(self.deadline_unix_ms?))?;
        Some(deadline.duration_since(SystemTime::now()).unwrap_or_default())
    }
}

/// What the agent of a job is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobSkill {
    /// This, since the goal of the item was known.
    Shown(Shown),
    /// What a source of this version shows once a reset has told the goal: [`JobLink::source`] is asked.
    AfterReset {
        /// See [`SkillSource::version`].
        version: String,
    },
}

/// What joins a job to those who wait for it.
#[derive(Clone)]
#[non_exhaustive]
pub struct JobLink {
    /// Shows the skill where only a reset tells the goal.
    pub source: Arc<dyn SkillSource>,
    /// Ends all calls of the job.
    pub cancel: CancellationToken,
    /// Sends nothing again; replies to what is sent already are waited for.
    pub halt: CancellationToken,
    /// The models of the run, for a runner whose rollouts make their calls elsewhere.
    pub models: Option<JobModels>,
}

/// The models of a run with all their layers, as a rollout that is made elsewhere asks them.
#[derive(Clone)]
pub struct JobModels {
    /// The agent.
    pub target: Arc<dyn ChatModel>,
    /// [`crate::Env::judge`].
    pub judge: Option<Arc<dyn ChatModel>>,
    /// Where their replies are recorded; `None` for a run without a journal.
    pub record: Option<Arc<dyn ReplyRecord>>,
}

/// The record of the replies of a run.
#[async_trait]
pub trait ReplyRecord: Send + Sync {
    /// Waits until all replies that have come are committed where they are not lost.
    ///
    /// # Errors
    ///
    /// [`LlmError::Journal`] if they cannot be.
    async fn commit(&self) -> Result<(), LlmError>;
}

impl JobLink {
    /// A link that nobody cancels.
    pub fn new(source: Arc<dyn SkillSource>) -> Self {
        Self { source, cancel: CancellationToken::new(), halt: CancellationToken::new(), models: None }
    }

    /// The same link with the models of the run.
    #[must_use]
    pub fn with_models(self, models: JobModels) -> Self {
        Self { models: Some(models), ..self }
    }

    /// The same link with these tokens.
    #[must_use]
    pub fn with_tokens(self, cancel: CancellationToken, halt: CancellationToken) -> Self {
        Self { cancel, halt, ..self }
    }
}

/// A rollout that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RolloutOutcome {
    /// The result.
    pub result: RolloutResult,
    /// Its model calls.
    pub used: MeterReading,
    /// Why the attempt before was given up, where the world broke in it and the rollout was begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

impl RolloutOutcome {
    /// A rollout of one attempt.
    pub fn new(result: RolloutResult, used: MeterReading) -> Self {
        Self { result, used, broken: None }
    }
}
