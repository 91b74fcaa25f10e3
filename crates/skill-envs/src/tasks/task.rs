//! One item with everything that its prompt and its scorer need.

use crate::data::Place;
use crate::item::Item;
use crate::score::{Choice, Rule};
use regex::Regex;
use serde_json::{Map, Value};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) const ID_FIELDS: [&str; 6] = ["id", "_id", "uid", "questionId", "question_id", "qid"];
/// The usual names of the field with what is right; the first that a record has counts.
pub const ANSWER_FIELDS: [&str; 6] =
    ["answers", "answer", "ground_truth", "correct_choice", "answerKey", "label"];
pub(super) const CHOICE_FIELDS: [&str; 3] = ["choices", "options", "endings"];
pub(super) const TYPE_FIELDS: [&str; 1] = ["task_type"];

/// The fields that the built-in prompt shows, in this order: what a task is asked with under its usual names.
pub(super) const SHOWN_FIELDS: [&str; 12] = [
    "context",
    "passage",
    "document",
    "text",
    "instruction",
    "instructions",
    "task",
    "problem",
    "question",
    "prompt",
    "query",
    "input",
];

/// What an environment keeps of a task besides its item, which is not copied: there may be thousands of long ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Task {
    /// What the template sees besides the skill.
    pub(crate) variables: Variables,
    /// References as texts.
    pub(crate) answers: Vec<String>,
    /// The reference as it is in the data; null if there is none.
    pub(crate) reference: Value,
    /// The choices in the order in which they are shown.
    pub(crate) choices: Vec<Choice>,
    /// The index of the right choice.
    pub(crate) correct: usize,
    /// Image files and addresses.
    pub(crate) images: Vec<Image>,
    /// Rules that only this item has.
    pub(crate) rules: Vec<Rule>,
    /// References that are patterns.
    pub(crate) patterns: Vec<Regex>,
    /// The files that the agent may look into.
    pub(crate) files: Arc<[String]>,
    /// Why its references cannot be scored.
    pub(crate) fault: Option<String>,
    /// Where it was read.
    pub(crate) place: Option<Place>,
}

/// What a template sees of a task.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Variables {
    /// The fields of the item's data, but for these, which take their place.
    Fields(Map<String, Value>),
    /// These alone.
    #[cfg_attr(
        not(feature = "qa"),
        expect(dead_code, reason = "questions alone have variables of their own")
    )]
    Own(Map<String, Value>),
}

impl Default for Variables {
    fn default() -> Self {
        Self::Fields(Map::new())
    }
}

/// A task with its item, as it is asked and scored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// As the environment lists it.
    pub(crate) item: &'a Item,
    pub(crate) task: &'a Task,
}

impl Deref for Asked<'_> {
    type Target = Task;

    fn deref(&self) -> &Task {
        self.task
    }
}

impl Asked<'_> {
    /// What the template sees.
    pub(crate) fn variables(&self) -> Map<String, Value> {
        match &self.task.variables {
            Variables::Own(variables) => variables.clone(),
            Variables::Fields(changed) => {
                let mut fields = self.item.data.as_object().cloned().unwrap_or_default();
                fields.extend(changed.iter().map(|(name, value)| (name.clone(), value.clone())));
                fields
            }
        }
    }

    /// One of the variables that the template sees.
    pub(crate) fn variable(&self, name: &str) -> Option<&Value> {
        match &self.task.variables {
            Variables::Own(variables) => variables.get(name),
            Variables::Fields(changed) => changed.get(name).or_else(|| self.item.data.get(name)),
        }
    }

    /// What is asked, where one field says it.
    pub(crate) fn question(&self) -> String {
        self.item.data.as_object().map(question_of).unwrap_or_default()
    }
}

/// An image of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Image {
    File(PathBuf),
    Address(String),
}

/// A field that is there; `null` and empty cells count as missing, as exporters write them for empty columns.
pub(super) fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null() && value.as_str() != Some(""))
}

fn question_of(fields: &Map<String, Value>) -> String {
    let asked = ["question", "problem", "query"].iter().find_map(|name| given(fields, name)?.as_str());
    asked.unwrap_or_default().to_owned()
}

/// True if a name with points leads into an object of the record.
pub(super) fn leads_into(fields: &Map<String, Value>, name: &str) -> bool {
    name.split_once('.').is_some_and(|(first, _)| fields.get(first).is_some_and(Value::is_object))
}

/// The value of a field, or of a member that a name with points leads to.
pub(super) fn value_at<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = fields.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    value_at(fields.get(first)?.as_object()?, rest)
}
