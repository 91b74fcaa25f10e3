//! Results of rollouts as JSON.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

/// A `RolloutResult` as JSON, if it has nothing that needs an error, or a conversion that is Python's.
///
/// What `skillrl._bridge._result` does for all others, in a tenth of its time: the interpreter's lock is held meanwhile.
#[pyfunction]
pub(crate) fn plain_result(made: &Bound<'_, PyAny>) -> Option<String> {
    let fields = made.getattr("__dict__").ok()?.cast_into::<PyDict>().ok()?;
    let mut plain = Vec::with_capacity(fields.len());
    for (name, value) in fields.iter() {
        let name = name.cast_into_exact::<PyString>().ok()?;
        let value = Plain::of(&name, value)?;
        plain.push((name, value));
    }
    serde_json::to_string(&Fields(&plain)).ok()
}

enum Plain<'py> {
    Text(Bound<'py, PyString>),
    Score(f64),
    Count(u64),
    Conversation(Vec<Message<'py>>),
    Empty,
}

/// Role and content.
type Message<'py> = [Bound<'py, PyString>; 2];

impl<'py> Plain<'py> {
    fn of(name: &Bound<'py, PyString>, value: Bound<'py, PyAny>) -> Option<Self> {
        Some(match name.to_str().ok()? {
            "hard" | "soft" => Self::Score(score(&value)?),
            "n_turns" => Self::Count(value.cast_exact::<PyInt>().ok()?.extract().ok()?),
            "conversation" => {
                let messages = value.cast_exact::<PyList>().ok()?;
                Self::Conversation(messages.iter().map(|one| message(&one)).collect::<Option<_>>()?)
            }
            "extras" if value.cast_exact::<PyDict>().ok()?.is_empty() => Self::Empty,
            "id"
            | "fail_reason"
            | "task_type"
            | "task_description"
            | "predicted_answer"
            | "question"
            | "reference_text"
            | "target_system_prompt"
            | "target_user_prompt" => {
                let text = value.cast_into_exact::<PyString>().ok()?;
                // A lone surrogate has no UTF-8.
                text.to_str().ok()?;
                Self::Text(text)
            }
            _ => return None,
        })
    }
}

/// A number between 0 and 1.
fn score(value: &Bound<'_, PyAny>) -> Option<f64> {
    let is_number = value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyBool>();
    let score: f64 = if is_number { value.extract().ok()? } else { return None };
    (0.0..=1.0).contains(&score).then_some(score)
}

fn message<'py>(message: &Bound<'py, PyAny>) -> Option<Message<'py>> {
    let message = message.cast_exact::<PyDict>().ok()?;
    let text = |name: &str| {
        let text = message.get_item(name).ok()??.cast_into_exact::<PyString>().ok()?;
        text.to_str().is_ok().then_some(text)
    };
    (message.len() == 2).then_some([text("role")?, text("content")?])
}

struct Fields<'a, 'py>(&'a [(Bound<'py, PyString>, Plain<'py>)]);

impl Serialize for Fields<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.0 {
            let name = read(name);
            match value {
                Plain::Text(text) if read(text).is_empty() && name != "id" => {}
                Plain::Text(text) => map.serialize_entry(name, read(text))?,
                Plain::Score(score) => map.serialize_entry(name, score)?,
                Plain::Count(0) | Plain::Empty => {}
                Plain::Count(count) => map.serialize_entry(name, count)?,
                Plain::Conversation(messages) if messages.is_empty() => {}
                Plain::Conversation(messages) => map.serialize_entry(name, &Messages(messages))?,
            }
        }
        map.end()
    }
}

struct Messages<'a, 'py>(&'a [Message<'py>]);

impl Serialize for Messages<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Plain<'a> {
            role: &'a str,
            content: &'a str,
        }
        let messages =
            self.0.iter().map(|[role, content]| Plain { role: read(role), content: read(content) });
        serializer.collect_seq(messages)
    }
}

/// A text that was seen to be one.
fn read<'a>(text: &'a Bound<'_, PyString>) -> &'a str {
    text.to_str().unwrap_or_default()
}
