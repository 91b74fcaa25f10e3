//! The one agent loop of all worlds with several turns.
//!
//! A [`WorldEnv`] makes an [`Env`] of any [`World`]: it shows the agent what the world shows, finds the action in
//! its reply, takes it, and goes on until the goal is reached or one of the limits of [`AgentSettings`] is.
//!
//! # Records
//!
//! The trajectory of an episode has a turn for each model call, with its exact request, the action that was found in the
//! reply, what the world answered and its reward. Its conversation is what a person reads: the observations as later
//! requests word them, without the actions that were possible.
//!
//! # Invariants
//!
//! - The skill is in every prompt of an episode; a prompt that is too long loses its oldest turns. Held by
//!   `a_prompt_that_is_too_long_loses_history_and_never_the_skill`.

mod action;
mod play;
mod repetition;
mod settings;
mod transcript;

#[cfg(any(feature = "webshop", feature = "live"))]
pub(crate) use action::shop_action;
pub use action::{
    ACTION_FIELD, ACTION_TOOL, MAX_ACTION_CHARACTERS, NoAction, parse_action, parse_action_with_tags,
};
pub use settings::{ActionFormat, AgentSettings};
pub use skill_core::Ending;
pub use transcript::OMITTED;

use crate::env::{Env, RolloutCtx, SCORING_VERSION, SCORING_VERSION_KEY};
use crate::episode::World;
use crate::error::EnvError;
use crate::item::{Item, Split};
use crate::source::SkillSource;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{RolloutResult, SkillDoc};
use skill_llm::{ChatModel, ChatReply, PromptTemplate};
use std::sync::Arc;

/// The name of the prompt that an agent plays by.
pub const ROLLOUT_PROMPT_NAME: &str = "rollout_world";

/// The built-in prompt.
///
/// Its variables: `skill`, `instructions` (of the world), `format` (`tags` or `tool`), `think`, and for each turn
/// `first` (whether it is the first), `task` (empty if the world says it in its observations), `observation`,
/// `admissible` (a list, or none), `remark` (what was wrong with the last reply, or empty).
/// Its `system` block is rendered once, its `user` block for each turn.
pub const ROLLOUT_PROMPT: &str = include_str!("../../prompts/rollout_world.md");

/// The observation and admissible actions of a world, independent of the prompt; an extension of each call of the agent.
///
/// It is for players of this process that take the place of a model, such as experts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// The task, where the world tells it apart from its observations.
    pub task: String,
    /// The observation, whole.
    pub observation: String,
    /// The actions that are possible now, where the world lists them.
    pub actions: Option<Vec<String>>,
    /// The actions that solve the task, where the data say so; no prompt has them.
    pub solution: Vec<String>,
}

/// A world, played by an agent.
pub struct WorldEnv {
    world: Arc<dyn World>,
    settings: AgentSettings,
    prompt: PromptTemplate,
}

impl WorldEnv {
    /// Plays this world by these settings; `prompt` replaces [`ROLLOUT_PROMPT`].
    ///
    /// # Errors
    ///
    /// Settings that cannot work, or a prompt that does not render.
    pub fn new(
        world: Arc<dyn World>,
        settings: AgentSettings,
        prompt: Option<&str>,
    ) -> Result<Self, EnvError> {
        settings.check()?;
        let prompt =
            play::prompt_template(prompt.unwrap_or(ROLLOUT_PROMPT), world.instructions(), &settings)?;
        Ok(Self { world, settings, prompt })
    }

    /// The world.
    pub fn world(&self) -> &Arc<dyn World> {
        &self.world
    }
}

#[async_trait]
impl Env for WorldEnv {
    fn name(&self) -> &str {
        self.world.name()
    }

    fn items(&self, split: Split) -> &[Item] {
        self.world.items(split)
    }

    fn settings(&self) -> Value {
        json!({
            SCORING_VERSION_KEY: SCORING_VERSION,
            "world": self.world.settings(),
            "instructions": self.world.instructions(),
            "agent": self.settings,
            "prompt": self.prompt.source(),
        })
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.world.initial_skill()
    }

    fn reply_of(&self, thought: &str, action: &str) -> ChatReply {
        let thought = if self.settings.think { thought.trim() } else { "" };
        action::reply_of(self.settings.action_format, thought, action)
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.world.goal(item)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let mut episode = self.world.episode(item)?;
        let agent = play::Agent {
            settings: &self.settings,
            prompt: &self.prompt,
            instructions: self.world.instructions(),
            tags: self.world.action_tags(),
            source,
            target,
            ctx,
        };
        agent.play(item, episode.as_mut()).await
    }
}
