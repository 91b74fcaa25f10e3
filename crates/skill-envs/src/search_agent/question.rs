//! Questions of the known data sets, each in the shape that its files have.

use crate::data::Record;
use crate::error::EnvError;
use crate::retrieval::Passage;
use serde_json::Value;
use std::collections::BTreeSet;

/// The names of fields, the first that is there counts.
const IDS: [&str; 5] = ["id", "_id", "question_id", "qid", "QuestionId"];
const QUESTIONS: [&str; 3] = ["question", "Question", "query"];
const ANSWERS: [&str; 6] = ["golden_answers", "possible_answers", "answers", "answer", "Answer", "obj"];
const ALIASES: [&str; 2] = ["answer_aliases", "aliases"];
const TYPES: [&str; 3] = ["type", "data_source", "prop"];

/// A question with its right answers, and what the file says of where they are found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Question {
    /// Its id.
    pub id: String,
    /// The question.
    pub question: String,
    /// Answers, any of which is right.
    pub answers: Vec<String>,
    /// The kind of question, where the file names one.
    pub task_type: String,
    /// The titles of the documents that hold the answer, in the order in which they are needed.
    pub support: Vec<String>,
    /// The passages that come with it.
    pub passages: Vec<Passage>,
}

impl Question {
    /// The question of a record.
    pub(super) fn read(record: &Record, number: usize) -> Result<Self, EnvError> {
        let field = |names: &[&str]| {
            names.iter().find_map(|name| record.fields.get(*name)).filter(|value| !value.is_null())
        };
        let question =
            field(&QUESTIONS).and_then(Value::as_str).map(str::trim).unwrap_or_default().to_owned();
        if question.is_empty() {
            return Err(record.place.error("has no question; expected a text in `question`"));
        }
        let mut answers = field(&ANSWERS).map(answers_of).unwrap_or_default();
        answers.extend(field(&ALIASES).map(answers_of).unwrap_or_default());
        let mut known = BTreeSet::new();
        answers.retain(|answer| !answer.trim().is_empty() && known.insert(answer.clone()));
        if answers.is_empty() {
            let expected = "expected a text or a list of texts in `answer` or `golden_answers`";
            return Err(record.place.error(format!("has no answer; {expected}")));
        }
        let id = match field(&IDS) {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            _ => record.place.numbered(number),
        };
        let (mut support, mut passages) = (Vec::new(), contexts(record.fields.get("context")));
        support.extend(supporting(record.fields.get("supporting_facts")));
        for paragraph in record.fields.get("paragraphs").and_then(Value::as_array).into_iter().flatten() {
            let text =
                |name: &str| paragraph.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            passages.push(Passage {
                title: text("title"),
                text: text("paragraph_text"),
                ..Passage::default()
            });
            if paragraph.get("is_supporting").and_then(Value::as_bool) == Some(true) {
                support.push(text("title"));
            }
        }
        if let Some(hops) = record.fields.get("question_decomposition").and_then(Value::as_array) {
            let title = |hop: &Value| {
                let place = usize::try_from(hop.get("paragraph_support_idx")?.as_u64()?).ok()?;
                let paragraphs = record.fields.get("paragraphs")?.as_array()?;
                Some(paragraphs.get(place)?.get("title")?.as_str()?.to_owned())
            };
            let in_order: Vec<String> = hops.iter().filter_map(title).collect();
            if in_order.len() == hops.len() && !in_order.is_empty() {
                support = in_order;
            }
        }
        let mut seen = BTreeSet::new();
        support.retain(|title| seen.insert(title.clone()));
        passages.retain(|passage| !passage.text.trim().is_empty());
        let task_type = field(&TYPES).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { id, question, answers, task_type, support, passages })
    }
}

/// A text, a list, a list as the text of one, or TriviaQA's object of a value and its aliases.
fn answers_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => match serde_json::from_str::<Vec<String>>(text) {
            Ok(list) => list,
            Err(_) => vec![text.clone()],
        },
        Value::Array(list) => list.iter().flat_map(answers_of).collect(),
        Value::Object(fields) => {
            let parts = ["value", "Value", "aliases", "Aliases"];
            parts.iter().filter_map(|name| fields.get(*name)).flat_map(answers_of).collect()
        }
        Value::Number(number) => vec![number.to_string()],
        Value::Bool(_) | Value::Null => Vec::new(),
    }
}

/// The titles of `supporting_facts`: pairs, or lists beside each other.
fn supporting(facts: Option<&Value>) -> Vec<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match facts {
        Some(Value::Array(pairs)) => pairs.iter().filter_map(|pair| text(pair.get(0)?)).collect(),
        Some(facts) => {
            facts.get("title").and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
        }
        None => Vec::new(),
    }
}

/// The passages of `context`: pairs of a title and sentences, or lists of both beside each other.
fn contexts(context: Option<&Value>) -> Vec<Passage> {
    let made = |title: &Value, sentences: &Value| {
        let sentences: Vec<&str> = sentences.as_array()?.iter().filter_map(Value::as_str).collect();
        let text = sentences.iter().map(|sentence| sentence.trim()).collect::<Vec<_>>().join(" ");
        Some(Passage { title: title.as_str()?.to_owned(), text, ..Passage::default() })
    };
    match context {
        Some(Value::Array(pairs)) => {
            pairs.iter().filter_map(|pair| made(pair.get(0)?, pair.get(1)?)).collect()
        }
        Some(Value::Object(lists)) => {
            let list = |name: &str| lists.get(name).and_then(Value::as_array).into_iter().flatten();
            let sentences = list("sentences").chain(list("content"));
            list("title").zip(sentences).filter_map(|(title, sentences)| made(title, sentences)).collect()
        }
        _ => Vec::new(),
    }
}
