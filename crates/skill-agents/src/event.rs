//! What records say, the same for all agents.

use serde::Deserialize;
use serde_json::Value;
use skill_core::Usage;

/// How a listing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// `- name: description`.
    Dashes,
    /// `- name: description (file: path)`.
    FileLines,
    /// `<name>` and `<description>`.
    Tags,
    /// The record that would have it has none: no skill is listed.
    Empty,
}

/// Something that a record says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) what: What,
    /// The sub-agent that it belongs to.
    pub(crate) sub: Option<String>,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// About the session; empty texts are not known.
    Session { id: String, version: String, model: String },
    /// The model replied; records of one reply have the same id.
    Reply { id: String, model: String },
    /// The reply is complete.
    ReplyEnd,
    /// The model replied, also where no record shows a text or a call.
    Replied,
    /// The reply before was the summary of a compaction, and no reply to anybody.
    Summary,
    /// Text of the model.
    Text(String),
    /// The text that the program gives as the result of the run.
    Answer(String),
    /// The program has used up what it allows itself: `turns` or `budget`.
    UsedUp(String),
    /// The model calls a tool.
    Call { id: String, name: String, arguments: Value },
    /// A command that ran inside a program of the model.
    Command { command: String, output: String, failed: bool },
    /// A tool returned; `text` is `None` where the record does not show it.
    Result { id: String, text: Option<String>, failed: bool },
    /// The listing of skills as the model was shown it.
    Listing { text: String, style: Style },
    /// A skill of the listing.
    Offer { name: String, description: String, path: String },
    /// A person called a skill, and its text reached the model.
    Person { skill: String },
    /// What a person asked for.
    Prompt(String),
    /// The run failed, unless the model answered afterwards.
    Failure { why: Option<String>, status: Option<u16>, text: String },
    /// The run came to its end.
    End,
    /// Tokens: of the whole run, or to be added.
    Usage { tokens: Usage, cost: Option<f64>, adds: bool },
}

impl What {
    pub(crate) fn non_empty(self) -> Option<Self> {
        match &self {
            Self::Text(text) | Self::Answer(text) if text.trim().is_empty() => None,
            _ => Some(self),
        }
    }
}
