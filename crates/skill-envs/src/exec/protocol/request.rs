//! What the engine writes.

use crate::item::Item;
use serde::Serialize;
use serde_json::{Map, Value};

/// A line for the program.
///
/// `cancel` and `close` are sent only to programs that work on several things at once, and are not answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "method", rename_all = "snake_case")]
pub enum Request<'a> {
    /// The first request of a process.
    Hello {
        /// Names the request; 0.
        id: u64,
        /// [`super::PROTOCOL_VERSION`].
        protocol: u32,
        /// The engine with its version, such as `skillrl 0.1.0`.
        engine: &'a str,
        /// What the configuration says under `[env.settings]`.
        settings: &'a Map<String, Value>,
        /// Whether the answer is to list the items; only the first process of a run is asked.
        items: bool,
    },
    /// Begins an episode, in place of the one before.
    Reset {
        /// Names the request.
        id: u64,
        /// Names the episode.
        episode: u64,
        /// What is played.
        item: RequestItem<'a>,
        /// For everything that is drawn at random; the same for every play of an item.
        seed: u64,
    },
    /// Takes one action.
    Step {
        /// Names the request.
        id: u64,
        /// Names the episode.
        episode: u64,
        /// The action as the agent wrote it.
        action: &'a str,
    },
    /// Runs the program's own agent on an item.
    Rollout {
        /// Names the request.
        id: u64,
        /// What the agent works on.
        item: RequestItem<'a>,
        /// For everything that is drawn at random; the same for every rollout of an item.
        seed: u64,
        /// The skill, where it is handed over as text.
        #[serde(skip_serializing_if = "Option::is_none")]
        skill: Option<&'a str>,
        /// The path of a `SKILL.md` with the skill, where it is handed over as a file.
        #[serde(skip_serializing_if = "Option::is_none")]
        skill_file: Option<&'a str>,
        /// The directory of that file: this rollout's own, empty but for it, and removed afterwards.
        #[serde(skip_serializing_if = "Option::is_none")]
        directory: Option<&'a str>,
        /// Where the agent finds its model.
        #[serde(skip_serializing_if = "Option::is_none")]
        endpoint: Option<EndpointAddress<'a>>,
    },
    /// Nobody waits for the answer to a request any more; what still comes is dropped.
    Cancel {
        /// The request.
        id: u64,
    },
    /// Nobody plays an episode any more.
    Close {
        /// The episode.
        episode: u64,
    },
}

impl Request<'_> {
    /// The name of the method.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Reset { .. } => "reset",
            Self::Step { .. } => "step",
            Self::Rollout { .. } => "rollout",
            Self::Cancel { .. } => "cancel",
            Self::Close { .. } => "close",
        }
    }

    /// The line, with its end.
    ///
    /// # Errors
    ///
    /// None that is known: every part can be written as JSON.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// An item as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RequestItem<'a> {
    /// Unique over all splits.
    pub id: &'a str,
    /// A category; left out if there is none.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub task_type: &'a str,
    /// The task itself.
    pub data: &'a Value,
}

impl<'a> RequestItem<'a> {
    /// The item as it is sent.
    pub fn of(item: &'a Item) -> Self {
        Self { id: item.id.as_str(), task_type: &item.task_type, data: &item.data }
    }
}

/// Where an agent finds its model for the length of one rollout.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EndpointAddress<'a> {
    /// What a client of OpenAI takes as its base URL.
    pub openai_base_url: &'a str,
    /// What a client of Anthropic takes as its base URL.
    pub anthropic_base_url: &'a str,
    /// What both take as their key.
    pub token: &'a str,
    /// The name of the model that answers, whatever name is asked for.
    pub model: &'a str,
}
