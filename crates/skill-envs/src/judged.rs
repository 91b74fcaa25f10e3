//! Rollouts of an environment that leaves their score to a judge with a rubric.
//!
//! An agent of one's own often has no right answer to compare with. Where the environment gives no score
//! ([`UNSCORED_KEY`]), the judge reads the task, the answer and what the agent did; its calls go through the layers of
//! the run like all others.

use crate::env::{Env, RolloutCtx};
use crate::error::EnvError;
use crate::item::{Item, Split};
use crate::source::SkillSource;
use crate::tasks::{JudgedAnswer, Rubric, RubricConfig};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{Role, RolloutResult, SkillDoc, Trajectory};
use skill_llm::{ChatModel, ChatReply};
use std::sync::Arc;

/// The key of [`RolloutResult::extras`] that is true where the environment gives no score.
pub const UNSCORED_KEY: &str = "agent_unscored";

/// The key under which the judge's points are kept, as those of other environments.
const POINTS_KEY: &str = "judge_points";

/// The most characters of what the agent did that a judge is shown: the beginning and the end of it.
const MAX_SHOWN: usize = 24_000;

/// An environment with a judge.
pub struct JudgedEnv {
    inner: Arc<dyn Env>,
    judge: Arc<dyn ChatModel>,
    rubric: Rubric,
}

impl JudgedEnv {
    /// The environment, with this judge and rubric for rollouts without a score.
    ///
    /// # Errors
    ///
    /// A blank rubric, or a prompt that does not render.
    pub fn new(
        inner: Arc<dyn Env>,
        judge: Arc<dyn ChatModel>,
        rubric: RubricConfig,
    ) -> Result<Self, EnvError> {
        Ok(Self { inner, judge, rubric: Rubric::new(rubric)? })
    }

    async fn score(&self, item: &Item, result: &mut RolloutResult, ctx: &RolloutCtx) -> Result<(), EnvError> {
        let task = [&result.task_description, &result.question, &result.target_user_prompt];
        let task = task.into_iter().find(|text| !text.is_empty()).cloned();
        let task = task.unwrap_or_else(|| item.data.to_string());
        let references: Vec<String> =
            Some(result.reference_text.clone()).filter(|text| !text.is_empty()).into_iter().collect();
        let answer = match result.predicted_answer.as_str() {
            "" => last_reply(&result.trajectory),
            answer => answer.to_owned(),
        };
        let answer = format!("{answer}\n\nWhat the agent did:\n{}", transcript(&result.trajectory));
        let shown = JudgedAnswer { task: &task, references: &references, answer: &answer };
        let judge = ctx.judge.as_ref().unwrap_or(&self.judge);
        let judgement = self.rubric.judge(judge.as_ref(), &shown, &item.id, &ctx.call).await?;
        (result.hard, result.soft) = (judgement.score.hard, judgement.score.soft);
        if result.is_success() {
            result.fail_reason.clear();
        } else {
            result.fail_reason = judgement.reason;
        }
        result.extras.insert(POINTS_KEY.to_owned(), judgement.points.into());
        Ok(())
    }
}

fn last_reply(trajectory: &Trajectory) -> String {
    let replies = trajectory.conversation().filter(|message| message.role == Role::Assistant);
    replies.last().map(|message| message.content.clone()).unwrap_or_default()
}

/// What the agent did, one line for each message and call; of a long one the beginning and the end.
fn transcript(trajectory: &Trajectory) -> String {
    let mut lines = Vec::new();
    for message in trajectory.conversation().filter(|message| message.role != Role::System) {
        if !message.content.is_empty() {
            lines.push(format!("[{}] {}", message.role.as_str(), message.content));
        }
        let calls = message.tool_calls.iter();
        lines.extend(calls.map(|call| format!("[tool call] {}({})", call.name, call.arguments)));
    }
    let text = lines.join("\n");
    let n_characters = text.chars().count();
    if n_characters <= MAX_SHOWN {
        return text;
    }
    let head: String = text.chars().take(MAX_SHOWN / 2).collect();
    let tail: String = text.chars().skip(n_characters - MAX_SHOWN / 2).collect();
    format!("{head}\n[{} characters left out]\n{tail}", n_characters - MAX_SHOWN)
}

#[async_trait]
impl Env for JudgedEnv {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.inner.items(split)
    }

    fn settings(&self) -> Value {
        json!({"env": self.inner.settings(), "judge": self.rubric.settings()})
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.inner.initial_skill()
    }

    fn ahead(&self) -> usize {
        self.inner.ahead()
    }

    fn max_broken_share(&self) -> f64 {
        self.inner.max_broken_share()
    }

    fn prompt_override(&self, name: &str) -> Option<&str> {
        self.inner.prompt_override(name)
    }

    fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        Some(&self.judge)
    }

    fn reward(&self) -> Option<String> {
        Some(format!(
            "A judge reads the answer and what the agent did, and gives points by this rubric:\n{}",
            self.rubric.text()
        ))
    }

    fn reference_reply(&self, item: &Item) -> Option<String> {
        self.inner.reference_reply(item)
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

    fn reply_of(&self, thought: &str, action: &str) -> ChatReply {
        self.inner.reply_of(thought, action)
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
        let mut result = self.inner.rollout(item, source, target, ctx).await?;
        if result.extras.remove(UNSCORED_KEY).is_some() {
            self.score(item, &mut result, ctx).await?;
        }
        Ok(result)
    }
}
