//! Questions of the known data sets, each in the shape that its files have.

use crate::data::Record;
use crate::error::EnvError;
use crate::retrieval::Passage;
use serde_json::{Map, Value};
use skill_core::member::{self, kind_of};
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
        let wrong = |what: String| record.place.error(what);
        let mut answers = Vec::new();
        for value in [field(&ANSWERS), field(&ALIASES)].into_iter().flatten() {
            answers.extend(answers_of(value).map_err(wrong)?);
        }
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
        let mut support = supporting(record.fields.get("supporting_facts")).map_err(wrong)?;
        let mut passages = contexts(record.fields.get("context")).map_err(wrong)?;
        let paragraphs =
            member::list(&record.fields, "paragraphs").map_err(|error| wrong(error.to_string()))?;
        for paragraph in paragraphs.into_iter().flatten() {
            let Paragraph { passage, is_supporting } = Paragraph::read(paragraph).map_err(wrong)?;
            if is_supporting {
                support.push(passage.title.clone());
            }
            passages.push(passage);
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

/// A passage of MuSiQue.
struct Paragraph {
    passage: Passage,
    is_supporting: bool,
}

impl Paragraph {
    fn read(value: &Value) -> Result<Self, String> {
        let wrong = |what: String| format!("has an entry of `paragraphs` that is not read: {what}");
        let fields = value.as_object().ok_or_else(|| wrong(format!("it is {}", kind_of(value))))?;
        let text = |name: &str| match member::text(fields, name) {
            Ok(Some(text)) => Ok(text.to_owned()),
            Ok(None) => Err(wrong(format!("it has no `{name}`"))),
            Err(error) => Err(wrong(error.to_string())),
        };
        let is_supporting =
            member::flag(fields, "is_supporting").map_err(|error| wrong(error.to_string()))?;
        let passage = Passage { title: text("title")?, text: text("paragraph_text")?, ..Passage::default() };
        Ok(Self { passage, is_supporting: is_supporting.unwrap_or(false) })
    }
}

/// A text, a list, a list as the text of one, or TriviaQA's object of a value and its aliases.
fn answers_of(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::String(text) => Ok(match serde_json::from_str::<Vec<String>>(text) {
            Ok(list) => list,
            Err(_) => vec![text.clone()],
        }),
        Value::Array(list) => Ok(list.iter().map(answers_of).collect::<Result<Vec<_>, _>>()?.concat()),
        Value::Object(fields) => {
            let parts = ["value", "Value", "aliases", "Aliases"];
            let parts = parts.iter().filter_map(|name| fields.get(*name)).map(answers_of);
            Ok(parts.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Value::Number(number) => Ok(vec![number.to_string()]),
        Value::Null => Ok(Vec::new()),
        Value::Bool(_) => Err(format!("has {value} as an answer; expected a text or a number")),
    }
}

/// The titles of `supporting_facts`: pairs, or lists beside each other.
fn supporting(facts: Option<&Value>) -> Result<Vec<String>, String> {
    let wrong = |found: &Value| {
        format!("has `supporting_facts` that are not read: {} where a title is expected", kind_of(found))
    };
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| wrong(value));
    match facts {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(pairs)) => pairs.iter().map(|pair| text(pair.get(0).unwrap_or(pair))).collect(),
        Some(Value::Object(lists)) => listed(lists, "title")?.iter().map(text).collect(),
        Some(other) => Err(wrong(other)),
    }
}

/// The passages of `context`: pairs of a title and sentences, or lists of both beside each other; a text is another field of
/// this name.
fn contexts(context: Option<&Value>) -> Result<Vec<Passage>, String> {
    let wrong = || "has a `context` that is not read: expected titles and their sentences".to_owned();
    let made = |title: Option<&Value>, sentences: Option<&Value>| {
        let (title, sentences) = (title?.as_str()?, sentences?.as_array()?);
        let sentences: Option<Vec<&str>> =
            sentences.iter().map(|sentence| Some(sentence.as_str()?.trim())).collect();
        Some(Passage { title: title.to_owned(), text: sentences?.join(" "), ..Passage::default() })
    };
    match context {
        Some(Value::Array(pairs)) => {
            pairs.iter().map(|pair| made(pair.get(0), pair.get(1)).ok_or_else(wrong)).collect()
        }
        Some(Value::Object(lists)) => {
            let titles = listed(lists, "title")?;
            let sentences = [listed(lists, "sentences")?, listed(lists, "content")?].concat();
            if titles.len() != sentences.len() {
                return Err(wrong());
            }
            let pairs = titles.iter().zip(&sentences);
            pairs.map(|(title, sentences)| made(Some(title), Some(sentences)).ok_or_else(wrong)).collect()
        }
        Some(Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_)) | None => Ok(Vec::new()),
    }
}

fn listed<'a>(lists: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], String> {
    Ok(member::list(lists, name).map_err(|error| error.to_string())?.unwrap_or_default())
}
