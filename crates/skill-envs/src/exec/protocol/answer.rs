//! What the program writes.
//!
//! An answer is read in two passes: first whose it is and whether it reports an error, then, by whoever asked, what it
//! says. Fields that nobody knows are refused, since a misspelled field that is dropped is a wrong score.

use crate::episode::Observation;
use crate::item::Item;
use crate::record;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use skill_core::member::kind_of;
use skill_core::{ItemId, TrajectoryMessage, Usage};
use std::sync::Arc;

/// What every answer says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Header {
    /// The request that is answered.
    pub id: Option<u64>,
    /// What went wrong, in place of an answer.
    pub error: Option<Value>,
}

/// An error that the program reports itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// What happened.
    pub message: String,
    /// Whether trying again may help.
    pub retry: bool,
}

impl Reported {
    /// Reads the `error` of an answer: a text, or an object with `message` and `retry`.
    ///
    /// # Errors
    ///
    /// It has another shape.
    pub fn of(error: &Value) -> Result<Self, String> {
        let wrong = |found: &Value, name: &str, expected: &str| {
            Err(format!("{name} is {}; expected {expected}", kind_of(found)))
        };
        match error {
            Value::String(message) => Ok(Self { message: message.clone(), retry: true }),
            Value::Object(fields) => {
                let message = match fields.get("message") {
                    Some(Value::String(message)) => message.clone(),
                    Some(other) => return wrong(other, "`error.message`", "a text"),
                    None => return Err("`error` has no `message`".to_owned()),
                };
                let retry = match fields.get("retry") {
                    None => true,
                    Some(Value::Bool(retry)) => *retry,
                    Some(other) => return wrong(other, "`error.retry`", "true or false"),
                };
                Ok(Self { message, retry })
            }
            other => wrong(other, "`error`", "a text or an object with `message`"),
        }
    }
}

skill_core::named_enum! {
    /// Whether the program is stepped through or runs its own agent.
    pub enum Mode {
        /// It answers `reset` and `step`; the engine runs the agent.
        Step = "step",
        /// It answers `rollout`.
        Rollout = "rollout",
    }
}

/// The answer to `hello`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelloAnswer {
    /// The request.
    pub id: u64,
    /// The version that the program speaks.
    pub protocol: u32,
    /// A short name for records.
    pub name: String,
    /// The program's own version; a run does not go on with another one.
    pub version: Option<String>,
    /// How it is played.
    pub mode: Mode,
    /// What an agent has to know to act; for `step`.
    #[serde(default)]
    pub instructions: String,
    /// The skill to start from where the user gives none.
    pub initial_skill: Option<String>,
    /// The items, where they come from the program.
    pub items: Option<ItemLists>,
    /// What else it can do.
    #[serde(default)]
    pub capabilities: Capabilities,
}

/// What a program can do besides what every one can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capabilities {
    /// How many episodes or rollouts one process works on at once.
    #[serde(default = "one")]
    pub parallel: u32,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self { parallel: 1 }
    }
}

/// The items of each split.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ItemLists {
    /// What the optimizer learns from.
    pub train: Vec<ProgramItem>,
    /// What the gate decides by.
    pub val: Vec<ProgramItem>,
    /// What the final claim is measured on.
    pub test: Vec<ProgramItem>,
}

/// An item that comes from the program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramItem {
    /// Unique over all splits.
    pub id: String,
    /// A category for reports.
    #[serde(default)]
    pub task_type: String,
    /// The task itself; handed back as it is.
    #[serde(default)]
    pub data: Value,
}

impl From<ProgramItem> for Item {
    fn from(item: ProgramItem) -> Self {
        Self { id: ItemId::new(item.id), task_type: item.task_type, data: Arc::new(item.data) }
    }
}

/// The answer to `reset` and `step`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservationAnswer {
    /// The request.
    pub id: u64,
    /// What is seen.
    pub observation: String,
    /// The actions that would do something now.
    pub admissible: Option<Vec<String>>,
    /// The reward of this action alone.
    #[serde(default)]
    pub reward: f64,
    /// Whether the episode is over.
    #[serde(default)]
    pub done: bool,
    /// Whether its goal is reached.
    #[serde(default)]
    pub won: bool,
    /// Whether the action meant something.
    #[serde(default = "yes")]
    pub understood: bool,
    /// What is to be done, where it is not in the observation; in the answer to `reset`.
    pub task: Option<String>,
}

impl From<ObservationAnswer> for Observation {
    fn from(answer: ObservationAnswer) -> Self {
        Self {
            text: answer.observation,
            admissible: answer.admissible,
            reward: answer.reward,
            done: answer.done,
            won: answer.won,
            understood: answer.understood,
        }
    }
}

/// The answer to `rollout`; by default a task that has failed.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutAnswer {
    /// The request.
    pub id: u64,
    /// The strict score in [0, 1], or whether the task is solved; `None` leaves it to a judge.
    #[serde(default, deserialize_with = "score")]
    pub hard: Option<f64>,
    /// The graded score in [0, 1]; `hard` where it is left out.
    #[serde(default, deserialize_with = "score")]
    pub soft: Option<f64>,
    /// Why the task failed.
    #[serde(default)]
    pub reason: String,
    /// What the agent answered.
    #[serde(default)]
    pub answer: String,
    /// A category for reports; the item's where it is left out.
    #[serde(default)]
    pub task_type: String,
    /// What the agent was asked to do.
    #[serde(default)]
    pub task: String,
    /// The right answer, for the optimizer to see.
    #[serde(default)]
    pub reference: String,
    /// Every message, in order.
    #[serde(default, deserialize_with = "conversation")]
    pub conversation: Vec<TrajectoryMessage>,
    /// How many times the agent spoke; counted in `conversation` where it is left out.
    pub n_turns: Option<u32>,
    /// Tokens of all calls that the program made by itself.
    pub usage: Option<Usage>,
    /// What only this program knows.
    #[serde(default)]
    pub extras: Map<String, Value>,
}

/// Reads whose answer a line is.
///
/// # Errors
///
/// The line is no JSON object, or its `id` is not a number.
pub fn header(line: &[u8]) -> Result<Header, serde_json::Error> {
    let header = serde_json::from_slice(line).or_else(|error| match with_texts_for_nan(line) {
        Some(line) => serde_json::from_slice(&line),
        None => Err(error),
    })?;
    // A list would be read by the order of its elements.
    if line.trim_ascii_start().starts_with(b"{") {
        Ok(header)
    } else {
        Err(serde::de::Error::custom("it is not an object"))
    }
}

/// Reads what an answer says; its [`header`] has been read before.
///
/// # Errors
///
/// The line does not have the shape of the answer; the field is named.
pub fn body<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    let readable = with_texts_for_nan(line);
    let mut reader = serde_json::Deserializer::from_slice(readable.as_deref().unwrap_or(line));
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        if path == "." {
            error.into_inner()
        } else {
            serde_json::Error::custom(format!("`{path}`: {}", error.inner()))
        }
    })
}

/// What programs print for numbers that JSON does not have, Python's `json` among them.
const NO_NUMBERS: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

/// The line with a text for each number that is none, so that its field can be named; `None` if it has none.
fn with_texts_for_nan(line: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(line).ok()?;
    let (mut written, mut rest, mut has_any) = (String::new(), text, false);
    let (mut is_text, mut is_escaped) = (false, false);
    while let Some(next) = rest.chars().next() {
        let found = NO_NUMBERS.iter().find(|name| !is_text && rest.starts_with(**name));
        if let Some(name) = found {
            written.push_str(&format!("\"{name}\""));
            rest = rest.strip_prefix(name).unwrap_or_default();
            has_any = true;
            continue;
        }
        is_text = if next == '"' && !is_escaped { !is_text } else { is_text };
        is_escaped = next == '\\' && !is_escaped;
        written.push(next);
        rest = rest.strip_prefix(next).unwrap_or_default();
    }
    has_any.then(|| written.into_bytes())
}

/// A score: a number, or whether the task is solved.
fn score<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<Value>::deserialize(deserializer)? {
        None => Ok(None),
        Some(Value::Bool(is_solved)) => Ok(Some(f64::from(u8::from(is_solved)))),
        Some(Value::Number(number)) => Ok(number.as_f64()),
        Some(Value::String(text)) if NO_NUMBERS.contains(&text.as_str()) => {
            Err(D::Error::custom(format!("is {text}; expected a number from 0 to 1")))
        }
        Some(other) => Err(D::Error::custom(format!(
            "is {}; expected a number from 0 to 1, or true or false",
            kind_of(&other)
        ))),
    }
}

fn conversation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TrajectoryMessage>, D::Error> {
    let told = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    record::conversation(&told).map_err(D::Error::custom)
}

/// The version in an answer to `hello`, whatever else it says; `None` if there is none.
pub fn hello_protocol(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        protocol: u64,
    }
    let version = header(line).and_then(|_| body::<Version>(line));
    version.ok().map(|version| version.protocol)
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}
