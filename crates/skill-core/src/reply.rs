//! Who speaks, and what a reply consists of besides its text, as requests, journals and trajectories share them.

use serde::{Deserialize, Serialize};

crate::named_enum! {
    /// Who speaks in a message.
    pub enum Role {
        /// Instructions; the skill is among them.
        System = "system",
        /// The task, or the environment.
        User = "user",
        /// The agent.
        Assistant = "assistant",
        /// The result of a tool call.
        Tool = "tool",
    }
}

/// Why a reply ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model was done.
    Stop,
    /// The reply was cut at its token limit.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider withheld the reply or a part of it.
    ContentFilter,
    /// The provider gave another reason, or none.
    Other(String),
}

impl FinishReason {
    /// The name of [`Self::turns_used_up`].
    const TURNS: &str = "max_turns";
    /// The name of [`Self::time_used_up`].
    const TIME: &str = "max_time";
    /// The name of [`Self::budget_used_up`].
    const BUDGET: &str = "max_budget";

    /// An agent's program has had all the turns that it allows itself.
    pub fn turns_used_up() -> Self {
        Self::Other(Self::TURNS.to_owned())
    }

    /// An agent's program has spent all that it allows itself for a task.
    pub fn budget_used_up() -> Self {
        Self::Other(Self::BUDGET.to_owned())
    }

    /// An agent's program was ended at the time limit of its task.
    pub fn time_used_up() -> Self {
        Self::Other(Self::TIME.to_owned())
    }

    /// What an agent's program has used up, where that is why it ended: `turns`, `budget` or `time`.
    pub fn used_up(&self) -> Option<&'static str> {
        match self {
            Self::Other(reason) if reason == Self::TURNS => Some("turns"),
            Self::Other(reason) if reason == Self::BUDGET => Some("budget"),
            Self::Other(reason) if reason == Self::TIME => Some("time"),
            Self::Other(_) | Self::Stop | Self::Length | Self::ToolCalls | Self::ContentFilter => None,
        }
    }

    /// The name in the dialect of Chat Completions; another reason by the provider's own name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(reason) => reason,
        }
    }
}

/// A tool call that a model made.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's name for this call.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them, which should be JSON.
    pub arguments: String,
}

impl ToolCall {
    /// The call as readers of a trajectory see it; every environment writes it like this.
    pub fn as_text(&self) -> String {
        format!("[tool call] {}({})", self.name, self.arguments)
    }
}

/// The tokens of a reply, as far as the server returned them.
///
/// Training on a reply needs the tokens that were sampled: encoding its text again can give others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReplyTokens {
    /// Ids of the prompt's tokens, with the chat template applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_ids: Vec<u32>,
    /// Ids of the sampled tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<u32>,
    /// The sampled tokens with their log-probabilities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<TokenLogprob>,
}

impl ReplyTokens {
    /// Tokens of a reply, without those of its prompt.
    pub fn new(ids: Vec<u32>, logprobs: Vec<TokenLogprob>) -> Self {
        Self { prompt_ids: Vec::new(), ids, logprobs }
    }

    /// The same with the ids of the prompt's tokens.
    #[must_use]
    pub fn with_prompt_ids(self, prompt_ids: Vec<u32>) -> Self {
        Self { prompt_ids, ..self }
    }

    /// Whether the server returned nothing of it.
    pub fn is_empty(&self) -> bool {
        self.prompt_ids.is_empty() && self.ids.is_empty() && self.logprobs.is_empty()
    }
}

/// A token with its log-probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenLogprob {
    /// The token's text; a token that is not whole UTF-8 has its bytes in `bytes`.
    pub token: String,
    /// The natural logarithm of the token's probability, at most 0.
    pub logprob: f64,
    /// The token's bytes, where the server returned them and they differ from `token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// The most likely tokens at this position, as many as were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<TopLogprob>,
}

impl TokenLogprob {
    /// A token without alternatives.
    pub fn new(token: impl Into<String>, logprob: f64) -> Self {
        Self { token: token.into(), logprob, bytes: None, top: Vec::new() }
    }
}

/// One of the most likely tokens at a position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TopLogprob {
    /// The token's text.
    pub token: String,
    /// The natural logarithm of the token's probability, at most 0.
    pub logprob: f64,
}

impl TopLogprob {
    /// A token and its log-probability.
    pub fn new(token: impl Into<String>, logprob: f64) -> Self {
        Self { token: token.into(), logprob }
    }
}
