//! An answer that is scored, and the verdict on it with its reason.

use crate::score::Score;
use crate::tasks::task::Asked;
use serde_json::{Map, Value};
use skill_llm::ChatReply;

/// How many characters of an answer are in a reason.
const MAX_REPLY_CHARACTERS: usize = 80;
/// How many characters of a reference are in a reason.
pub(super) const MAX_ANSWER_CHARACTERS: usize = 60;
/// How many references, fields or broken rules are in a reason.
pub(super) const MAX_ANSWERS: usize = 3;

/// The score of an answer, and why.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Verdict {
    pub(crate) score: Score,
    /// Why the answer is not right, as a sentence without its period.
    pub(crate) reason: String,
    /// Values that only this scorer has.
    pub(crate) extras: Map<String, Value>,
}

impl Verdict {
    pub(super) fn new(score: Score, reason: String) -> Self {
        Self { score, reason, extras: Map::new() }
    }

    /// The same, with a value that only this scorer has.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extras.insert(name.to_owned(), value.into());
        self
    }
}

/// An answer that is scored.
pub(crate) struct Answer<'a> {
    pub(crate) task: Asked<'a>,
    /// The extracted text.
    pub(crate) text: &'a str,
    /// The reply without what the model thought, where the answer is its last line for want of anything better.
    pub(crate) whole: Option<&'a str>,
    /// What the answer is called in a reason: `reply` or `answer`.
    pub(crate) noun: &'a str,
    pub(crate) reply: &'a ChatReply,
    /// The request to the agent.
    pub(crate) asked: &'a str,
}

impl Answer<'_> {
    /// The answer as a reason quotes it.
    pub(super) fn quoted(&self) -> String {
        quoted(self.text, MAX_REPLY_CHARACTERS)
    }

    /// The verdict on an answer that was compared with the references.
    pub(super) fn compared(&self, score: Score) -> Verdict {
        let (answer, expected) = (self.quoted(), shown_references(&self.task.answers));
        let reason = format!("the {} {answer} matches no reference answer; expected {expected}", self.noun);
        Verdict::new(score, reason)
    }
}

/// References as a reason quotes them.
pub(crate) fn shown_references(references: &[String]) -> String {
    let shown: Vec<String> =
        references.iter().take(MAX_ANSWERS).map(|text| quoted(text, MAX_ANSWER_CHARACTERS)).collect();
    let mut shown = shown.join(" or ");
    if references.len() > MAX_ANSWERS {
        shown.push_str(&format!(" or one of {} more", references.len() - MAX_ANSWERS));
    }
    shown
}

/// A text on one line in quotation marks, cut to this many characters.
pub(crate) fn quoted(text: &str, max_characters: usize) -> String {
    format!("{:?}", cut(text, max_characters))
}

pub(super) fn cut(text: &str, max_characters: usize) -> String {
    let mut shown: String = text.chars().take(max_characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
