//! Training data as other trainers read it: TRL, LLaMA-Factory and verl.
//!
//! For each format there is a writer and a checker. A checker reads any file of the format and names the row and
//! the field that the trainer would refuse, skip or silently learn nothing from; the output of a writer passes
//! its checker. Writers change no text: a conversation that a format has no place for is an error.
//!
//! | trainer | written by | checked by |
//! |---|---|---|
//! | TRL `SFTTrainer` | [`trl::messages`], [`trl::prompt_completion`] | [`trl::check`] |
//! | TRL `GRPOTrainer` | [`trl::prompts`] | [`trl::check`] |
//! | LLaMA-Factory | [`llama_factory::write`] | [`llama_factory::check`] |
//! | verl, SFT and RL | `verl::messages`, `verl::prompts` (feature `parquet`) | `verl::check` |
//!
//! # Invariants
//!
//! - What a writer writes passes its checker. Held by `conformance_of_export_checks`.

pub mod llama_factory;
mod rules;
pub mod trl;
#[cfg(feature = "parquet")]
pub mod verl;

use serde_json::{Map, Value};
use skill_core::Role;
use std::fmt;
use thiserror::Error;

/// A message as text; images and tool calls have no place in these formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// The speaker.
    pub role: Role,
    /// The text.
    pub content: String,
}

impl Turn {
    /// A message.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// A task for reinforcement learning.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskPrompt {
    /// The prompt, with the skills that the task is shown.
    pub turns: Vec<Turn>,
    /// The task's id, by which a reward function finds it.
    pub task_id: String,
    /// The expected answer for a reward function; empty where the environment judges.
    pub ground_truth: String,
}

/// A file that a trainer can learn from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// The kind of its rows.
    pub kind: Kind,
    /// The number of rows.
    pub n_rows: usize,
    /// Columns besides those of the format, which reward functions get.
    pub columns: Vec<String>,
}

/// The kind of the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Conversations.
    Messages,
    /// Prompts with completions.
    PromptCompletion,
    /// Prompts.
    Prompts,
}

/// Why a trainer would not learn from a file as it should.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A row is wrong.
    #[error("row {row}: {field}: {fault}")]
    Row {
        /// The row, from 0.
        row: usize,
        /// The path of the field, such as `messages[2].role`.
        field: String,
        /// The fault.
        fault: FieldFault,
    },
    /// The file as a whole is wrong.
    #[error("{field}: {fault}")]
    File {
        /// The file, or the key of a file that describes others.
        field: String,
        /// The fault.
        fault: FieldFault,
    },
}

/// A fault of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldFault {
    /// The text or file is not what its name says; the reason is the parser's.
    Unreadable(String),
    /// There are no rows, messages or characters.
    Empty,
    /// The field does not exist.
    Missing,
    /// The field has another type than expected, which is named.
    NotA(&'static str),
    /// No trainer knows this role.
    UnknownRole(String),
    /// A role at a place where the format does not allow it; the allowed roles are named.
    MisplacedRole {
        /// The role that is there.
        role: String,
        /// The roles that may be there.
        expected: &'static str,
    },
    /// The reply that would be learnt is empty or white space.
    NothingToLearn,
    /// An odd number of turns after the system turn, so that the row is skipped.
    OddTurns(usize),
    /// The row is of another kind than the first one, which is all that trainers look at.
    OtherKind,
    /// A column that the first row does not have.
    ExtraColumn,
    /// A column is a text here and a number there, or the like.
    OtherType,
    /// A value that the trainer does not know; the known ones are named.
    Unknown {
        /// The value.
        value: String,
        /// The values that are known.
        expected: &'static str,
    },
}

impl fmt::Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
            Self::Empty => write!(f, "is empty"),
            Self::Missing => write!(f, "is missing"),
            Self::NotA(expected) => write!(f, "is not {expected}"),
            Self::UnknownRole(role) => {
                write!(f, "the role `{role}` is unknown, expected system, user, assistant or tool")
            }
            Self::MisplacedRole { role, expected } => write!(f, "is `{role}`, expected {expected}"),
            Self::NothingToLearn => write!(f, "what is to be learnt is empty"),
            Self::OddTurns(n) => write!(f, "has {n} turns, an odd number, so the row is skipped"),
            Self::OtherKind => write!(f, "is of another kind than the first row"),
            Self::ExtraColumn => write!(f, "is not a column of the first row"),
            Self::OtherType => write!(f, "has another type than in the first row"),
            Self::Unknown { value, expected } => write!(f, "is `{value}`, expected {expected}"),
        }
    }
}

impl ExportError {
    fn file(field: impl Into<String>, fault: FieldFault) -> Self {
        Self::File { field: field.into(), fault }
    }
}

/// Messages as TRL and verl write them.
fn messages_value(turns: &[Turn]) -> Value {
    let message = |turn: &Turn| {
        let mut message = Map::new();
        message.insert("role".to_owned(), turn.role.as_str().into());
        message.insert("content".to_owned(), turn.content.as_str().into());
        Value::Object(message)
    };
    turns.iter().map(message).collect()
}

/// Rows as JSON, a line each.
fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}
