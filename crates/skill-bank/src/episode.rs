//! Episodes: finished attempts at tasks, as a teacher reads them.
//!
//! An [`Episode`] is made from a rollout of this program, or read from a file of this or another system
//! ([`read_episodes`]). Which set its task belongs to is not a part of it: a teacher reads [`TrainEpisode`]s, which only
//! [`TrainItems`] hands out.

mod alfworld;
mod eto;
mod krill;
mod memory;
mod own;
mod read;
mod rollout;
mod sets;
mod text;

pub use krill::krill_trajectories;
pub use own::episode_line;
pub use read::{EpisodeError, EpisodeFile, EpisodeFormat, SkipReason, Skipped, read_episodes};
pub use sets::{ItemSets, SetError, TestItems, TrainEpisode, TrainItems, TrialItems, ValidationItems};
pub use text::{MAX_FIELD_CHARS, render_episode};

pub(crate) use text::{escape, steps_text};

use serde::{Deserialize, Serialize};
use skill_core::{ItemId, SkillPartId, Trajectory, estimate_tokens};

skill_core::named_enum! {
    /// The kinds of agents.
    #[non_exhaustive]
    pub enum AgentKind {
        /// A model that was asked.
        Model = "model",
        /// A simulated model.
        Simulated = "simulated",
        /// The expert of a world, which asks no model.
        Expert = "expert",
    }
}

/// The agent of an episode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EpisodeAgent {
    /// The kind of agent.
    pub kind: AgentKind,
    /// The id of the model, with its provider; of an expert, its name.
    pub model: String,
}

impl EpisodeAgent {
    /// An agent of this kind.
    pub fn new(kind: AgentKind, model: impl Into<String>) -> Self {
        Self { kind, model: model.into() }
    }
}

impl Episode {
    /// The tokens of its goal and of all that was seen, thought and done, about: what it would take in a prompt.
    pub fn tokens(&self) -> u64 {
        let steps = self.steps.iter().flat_map(|step| [&step.observation, &step.reasoning, &step.action]);
        let texts = [&self.goal, &self.last_observation, &self.description];
        steps.chain(texts).map(|text| estimate_tokens(text)).sum()
    }
}

/// One attempt at a task, and what came of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Episode {
    /// Its id, which no other episode of a collection has.
    pub id: String,
    /// The task.
    pub item: ItemId,
    /// The type of the task; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub task_type: String,
    /// The goal or the question.
    pub goal: String,
    /// True if the task was solved.
    pub success: bool,
    /// The graded score in [0, 1].
    pub soft: f64,
    /// Why it failed, where the environment says so; empty for a success.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fail_reason: String,
    /// The agent's answer, where the task has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub answer: String,
    /// The reference answer, where the task has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// The steps, in order; empty where only a summary is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<EpisodeStep>,
    /// What the agent saw after its last action.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_observation: String,
    /// The environment, in lower case; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub environment: String,
    /// The data set of the task, where the file names one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub data_source: String,
    /// The skills that the agent was shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills_shown: Vec<SkillPartId>,
    /// The hash of the document that the agent was shown; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub skill: String,
    /// The agent, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<EpisodeAgent>,
    /// Where in a run it was made, such as `step 3 / rollout`; empty elsewhere.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Every message and every call, for training on them; a teacher reads the steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trajectory: Option<Trajectory>,
    /// A summary in words, as memories have one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The plan behind a success, as memories have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning_pattern: Option<String>,
    /// The mistakes of a failure, as memories have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<EpisodeMistake>,
}

impl Episode {
    /// An episode of this task without steps.
    pub fn new(
        id: impl Into<String>,
        item: ItemId,
        goal: impl Into<String>,
        success: bool,
        soft: f64,
    ) -> Self {
        Self {
            id: id.into(),
            item,
            goal: goal.into(),
            success,
            soft: if soft.is_nan() { 0.0 } else { soft.clamp(0.0, 1.0) },
            ..Self::default()
        }
    }

    /// True if the type of the task is known.
    pub fn has_type(&self) -> bool {
        !self.task_type.is_empty() && self.task_type != UNKNOWN_TYPE
    }
}

/// The type of tasks whose type nothing tells; they have no tier of their own.
pub const UNKNOWN_TYPE: &str = "unknown";

/// One action, with what the agent saw before it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EpisodeStep {
    /// What the agent saw before it acted; empty where it acted twice in a row.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub observation: String,
    /// The action; empty where the reply had none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The thought before the action, where it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The reward of this step alone, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
}

impl EpisodeStep {
    /// A step without reasoning and reward.
    pub fn new(observation: impl Into<String>, action: impl Into<String>) -> Self {
        Self { observation: observation.into(), action: action.into(), ..Self::default() }
    }
}

/// A mistake that a memory names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EpisodeMistake {
    /// The situation.
    pub trigger_condition: String,
    /// What the agent did in it.
    pub bad_action: String,
}

/// Sets the type of each episode to what `task_type` says of it: the same function for distilling and for retrieving.
pub fn assign_types(episodes: &mut [Episode], task_type: &dyn Fn(&Episode) -> String) {
    for episode in episodes {
        episode.task_type = task_type(episode);
    }
}
