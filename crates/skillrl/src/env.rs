//! Environments in a few lines: a function that works on one item and returns a score.
//!
//! [`from_fn`] makes an [`Env`] of it. The function gets an [`Agent`], which asks the target and records the
//! conversation, the calls and the tokens by itself. The front page of the crate has an example.

mod agent;
mod score;

pub use agent::{Agent, AgentRecord, play};
pub use score::Score;

use async_trait::async_trait;
use serde_json::Value;
use skill_core::split::RatioSplit;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split, Splits};
use skill_llm::ChatModel;

/// An environment whose rollouts are calls of a function; see [`from_fn`].
pub struct FnEnv<F> {
    name: String,
    splits: Splits<Vec<Item>>,
    settings: Value,
    initial_skill: Option<SkillDoc>,
    rollout: F,
}

/// An environment of these items, in the order train, selection, test, each worked on by one call of the function.
///
/// The function asks the target through the [`Agent`] and returns a [`Score`]. An error is a fault: it ends the run and
/// is never a score.
///
/// A change of the function is not noticed: [`FnEnv::with_settings`] tells runs of different functions apart, so that
/// none is resumed with another one.
pub fn from_fn<F, Fut>(name: impl Into<String>, splits: [Vec<Item>; 3], rollout: F) -> FnEnv<F>
where
    F: Fn(Item, Agent) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Score, EnvError>> + Send,
{
    FnEnv { name: name.into(), splits: splits.into(), settings: Value::Null, initial_skill: None, rollout }
}

impl<F> FnEnv<F> {
    /// Everything besides the items that decides a score, such as the version of the function; a run refuses to resume
    /// with another value.
    #[must_use]
    pub fn with_settings(self, settings: Value) -> Self {
        Self { settings, ..self }
    }

    /// The skill to start from where the trainer is given none.
    #[must_use]
    pub fn with_initial_skill(self, skill: impl Into<String>) -> Self {
        Self { initial_skill: Some(SkillDoc::new(skill)), ..self }
    }
}

#[async_trait]
impl<F, Fut> Env for FnEnv<F>
where
    F: Fn(Item, Agent) -> Fut + Send + Sync,
    Fut: Future<Output = Result<Score, EnvError>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        self.settings.clone()
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.initial_skill.clone()
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let work = |agent| (self.rollout)(item.clone(), agent);
        let (score, record) = play(item, source, target, ctx, work).await?;
        Ok(record.into_result(item, score))
    }
}

/// The items in three parts: train, selection and test, split at random but always in the same way, with the same share
/// of each task type in each part.
pub fn split(items: Vec<Item>) -> [Vec<Item>; 3] {
    RatioSplit::default().split(items, |item| item.task_type.as_str())
}

/// The text of a field of an item; empty where there is none.
pub fn text<'item>(item: &'item Item, field: &str) -> &'item str {
    item.data.get(field).and_then(Value::as_str).unwrap_or_default()
}
