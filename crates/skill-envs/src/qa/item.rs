//! One question, and how it is read from a record.

use crate::data::is_kept_digit_for_digit;
use crate::item::Item;
use serde_json::{Map, Value, json};
use skill_core::ItemId;
use skill_core::member::kind_of;
use std::sync::Arc;

/// A question with its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QaItem {
    /// Unique over all splits.
    pub id: ItemId,
    /// What is asked.
    pub question: String,
    /// The answers, any of which is right; none is blank.
    pub answers: Vec<String>,
    /// A text to answer from; empty if there is none.
    pub context: String,
    /// A category for reports; empty if there is none.
    pub task_type: String,
}

impl QaItem {
    /// A question without context and category.
    pub fn new(
        id: impl Into<ItemId>,
        question: impl Into<String>,
        answers: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            id: id.into(),
            question: question.into(),
            answers: answers.into_iter().map(Into::into).collect(),
            context: String::new(),
            task_type: String::new(),
        }
    }

    /// Reads an item from a JSON object; the error says what is wrong with which field.
    pub(super) fn parse(fields: &Map<String, Value>) -> Result<Self, String> {
        let item = Self {
            id: parse_id(fields)?,
            question: match given(fields, "question") {
                None => return Err("has no `question`; expected a string".to_owned()),
                Some(value) => text("question", value)?,
            },
            answers: parse_answers(fields)?,
            context: optional_text(fields, "context")?,
            task_type: optional_text(fields, "task_type")?,
        };
        item.fault().map_or(Ok(item), Err)
    }

    /// What is wrong with the item by itself.
    pub(super) fn fault(&self) -> Option<String> {
        if let Some(fault) = ItemId::fault(self.id.as_str()) {
            Some(format!("`id` {fault}"))
        } else if self.question.trim().is_empty() {
            Some("`question` is blank".to_owned())
        } else if self.answers.is_empty() {
            Some("has no answer; `answers` must hold at least one".to_owned())
        } else if self.answers.iter().any(|answer| answer.trim().is_empty()) {
            Some("has a blank answer in `answers`; leave it out".to_owned())
        } else {
            None
        }
    }

    /// The item as the environment lists it.
    pub(super) fn to_item(&self) -> Item {
        let mut data = json!({"id": self.id, "question": self.question, "answers": self.answers});
        if let Value::Object(fields) = &mut data {
            for (name, text) in [("context", &self.context), ("task_type", &self.task_type)] {
                if !text.is_empty() {
                    fields.insert(name.to_owned(), Value::String(text.clone()));
                }
            }
        }
        Item { id: self.id.clone(), task_type: self.task_type.clone(), data: Arc::new(data) }
    }
}

/// A field that is there; `null` counts as missing, as exporters write it for empty columns.
fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn parse_id(fields: &Map<String, Value>) -> Result<ItemId, String> {
    match given(fields, "id") {
        None => Err("has no `id`; expected a string or an integer".to_owned()),
        Some(Value::String(id)) => Ok(ItemId::new(id)),
        Some(Value::Number(id)) if id.is_i64() || id.is_u64() => Ok(ItemId::new(id.to_string())),
        Some(Value::Number(_)) => {
            Err("`id` is a number that is not a 64-bit integer; write it as a string".to_owned())
        }
        Some(other) => Err(format!("`id` is {}; expected a string or an integer", kind_of(other))),
    }
}

fn parse_answers(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let found = ["answers", "answer"].into_iter().find_map(|name| Some((name, given(fields, name)?)));
    match found {
        None => Err("has no answer; expected `answers`, a list of strings".to_owned()),
        Some((name, Value::Array(list))) => list
            .iter()
            .enumerate()
            .map(|(answer_idx, value)| answer(&format!("{name}[{answer_idx}]"), value))
            .collect(),
        Some((name, value)) => Ok(vec![answer(name, value)?]),
    }
}

fn answer(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) if is_kept_digit_for_digit(number) => Ok(number.to_string()),
        Value::Number(_) => Err(format!("`{name}` is a number with too many digits; write it as a string")),
        other => Err(format!("`{name}` is {}; expected a string or a number", kind_of(other))),
    }
}

fn optional_text(fields: &Map<String, Value>, name: &str) -> Result<String, String> {
    given(fields, name).map_or_else(|| Ok(String::new()), |value| text(name, value))
}

fn text(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(format!("`{name}` is {}; expected a string", kind_of(other))),
    }
}
