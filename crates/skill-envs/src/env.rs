//! The seam: an environment has items and can run one of them.
//!
//! # Invariants
//!
//! - Calls of an environment to other models than the target go through the run's layers, so a judged answer is not
//!   paid for twice. Held by `a_judged_call_is_not_sent_twice`.

use crate::answerable::AnswerFinding;
use crate::error::EnvError;
use crate::item::{Item, Split};
use crate::source::{SkillSource, TaskView};
use async_trait::async_trait;
use serde_json::Value;
use skill_core::{ItemId, RolloutResult, SkillDoc, Usage};
use skill_llm::{CallCtx, ChatModel, ChatReply};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How this version finds an answer or an action in a reply and scores it: a number that grows whenever the same reply
/// may get another score. It is in [`Env::settings`] of every environment that reads replies itself, so that a run goes on
/// with the scores that it began with or not at all.
///
/// 2: what a model thought is no part of its answer, wherever its server has left it; numbers, choices and JSON are read
/// as a whole; texts are compared in one form of Unicode.
///
/// 3: marks of emphasis, of chat formats and of lists are no part of an answer; choices are found before and behind their
/// explanation.
///
/// 4: all entities of HTML are read; numbers in brackets are below zero, and more words multiply; choices are found behind
/// lead-ins of more languages.
///
/// 5: sets of labels stand between more signs, in tags and in JSON; choices are found before a reason; JSON and its texts lose
/// entities and emphasis; the replies of judges are read as answers are.
pub const SCORING_VERSION: u32 = 5;

/// The name under which it is in the settings.
pub(crate) const SCORING_VERSION_KEY: &str = "scoring_version";

/// A task that a skill can be trained on.
#[async_trait]
pub trait Env: Send + Sync {
    /// A short name for records, such as `qa`.
    fn name(&self) -> &str;

    /// The items of a split, in the order of the data; ids are unique over all splits.
    fn items(&self, split: Split) -> &[Item];

    /// Everything besides the items that decides a score: scorer, prompt, limits.
    ///
    /// A run refuses to resume if this value or the items have changed.
    fn settings(&self) -> Value {
        Value::Null
    }

    /// The skill to start from where the user gives none.
    fn initial_skill(&self) -> Option<SkillDoc> {
        None
    }

    /// How many rollouts more than there are workers it is given, so that no worker waits for the next one. It works on as
    /// many as there are workers, and ends those that wait once [`CallCtx::halt`](skill_llm::CallCtx) is cancelled.
    fn ahead(&self) -> usize {
        0
    }

    /// The share of the rollouts of a stage that may break and count as failures, with [`crate::reach::BROKEN_KEY`] in
    /// their results; where more do, the stage ends and keeps none of them. By default none may.
    fn max_broken_share(&self) -> f64 {
        0.0
    }

    /// The text of an optimizer prompt that this environment replaces, by the prompt's name.
    fn prompt_override(&self, _name: &str) -> Option<&str> {
        None
    }

    /// A model that the environment asks besides the target, such as a judge.
    ///
    /// Anyone who runs rollouts puts the same layers around it as around the target and hands it back in
    /// [`RolloutCtx::judge`], so that its calls are kept, counted and never paid for twice.
    fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        None
    }

    /// What the score rewards, as a sentence for the optimizer; `None` where the environment does not know.
    fn reward(&self) -> Option<String> {
        None
    }

    /// A reply that a perfect agent could give, where the environment knows one: for checks of what is measured.
    fn reference_reply(&self, _item: &Item) -> Option<String> {
        None
    }

    /// What is wrong with items that an environment takes all the same, for those who look at the data alone.
    fn faults(&self) -> &[EnvError] {
        &[]
    }

    /// Why right replies do not score, with this skill, where the environment can tell without a model.
    fn answerable(&self, _skill: &SkillDoc) -> Vec<AnswerFinding> {
        Vec::new()
    }

    /// The texts of an item's choices that are the labels of others: an answer with such words names the other choice.
    fn doubtful_choices(&self, _item: &Item) -> Vec<String> {
        Vec::new()
    }

    /// The right answer of an item, where it is one text that answers are compared with.
    ///
    /// Where few such texts are the answers of many items, they are class labels.
    fn label(&self, _item: &Item) -> Option<String> {
        None
    }

    /// The reply of an agent that thinks this and then does this, in the form that this environment reads: for
    /// demonstrations that are played again.
    ///
    /// By default the action is the whole reply.
    fn reply_of(&self, _thought: &str, action: &str) -> ChatReply {
        ChatReply::text(action, Usage::default())
    }

    /// What is to be done in an item, as the agent is told it, where the data say it.
    ///
    /// What the agent is shown is then decided before the rollout, and an item that is shown the same is not worked on
    /// again. `None`, the default, is for environments that learn it from a reset, or never.
    fn goal(&self, _item: &Item) -> Option<String> {
        None
    }

    /// Runs the agent on one item and scores what it did.
    ///
    /// What the agent is shown is asked of the source once, by [`RolloutCtx::show`], when the goal is known and before
    /// the first prompt.
    ///
    /// # Errors
    ///
    /// An [`EnvError`] means that the attempt could not be made: the provider failed or the world broke. It never
    /// becomes a score. A task that the agent failed is an `Ok` with `hard` 0 and a reason.
    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError>;
}

/// What surrounds one rollout.
#[derive(Clone, Default)]
pub struct RolloutCtx {
    /// The place, deadline and cancellation of the rollout; its calls are at places inside it.
    pub call: CallCtx,
    /// [`Env::judge`] with the layers of the run around it; `None` leaves it to the environment.
    pub judge: Option<Arc<dyn ChatModel>>,
    /// The target of the rollout once more, for environments that call it from threads of their own; `None` where there
    /// is only the reference.
    pub target: Option<Arc<dyn ChatModel>>,
    /// An attempt that breaks is not repeated: an environment may count it as a failure, see
    /// [`Env::max_broken_share`].
    pub is_last_attempt: bool,
}

impl RolloutCtx {
    /// A rollout at this place, with the environment's own judge.
    pub fn new(call: CallCtx) -> Self {
        Self { call, ..Self::default() }
    }

    /// What the source shows for this item and goal, and the context for the calls of an agent that is shown it.
    ///
    /// # Errors
    ///
    /// Those of [`SkillSource::show`].
    pub async fn show(
        &self,
        source: &dyn SkillSource,
        item: &Item,
        goal: &str,
    ) -> Result<(SkillDoc, Self), EnvError> {
        let shown = source.show(&TaskView::new(item, goal), &self.call.child("skill")).await?;
        // A program that plays the agent can get the skill as a file instead of a part of the messages.
        let call = self.call.clone().with(shown.skill.agent_view()).with(shown.skill.clone());
        let ctx = Self {
            call,
            judge: self.judge.clone(),
            target: self.target.clone(),
            is_last_attempt: self.is_last_attempt,
        };
        Ok((shown.skill, ctx))
    }
}

impl fmt::Debug for RolloutCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let judge = self.judge.as_ref().map(|judge| judge.id());
        f.debug_struct("RolloutCtx").field("call", &self.call).field("judge", &judge).finish()
    }
}

/// Pairs of items of different splits with the same key, such as the hash of what they ask: the first of each key with
/// every later one.
pub fn same_across_splits<'env>(
    env: &'env dyn Env,
    key_of: impl Fn(&Item) -> Option<&'env str>,
) -> Vec<[(Split, &'env ItemId); 2]> {
    let mut seen = BTreeMap::<&str, (Split, &ItemId)>::new();
    let mut same = Vec::new();
    for split in Split::ALL {
        for item in env.items(split) {
            let Some(key) = key_of(item) else { continue };
            let first = *seen.entry(key).or_insert((split, &item.id));
            if first.0 != split {
                same.push([first, (split, &item.id)]);
            }
        }
    }
    same
}
