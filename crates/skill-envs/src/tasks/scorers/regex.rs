//! A pattern in the answer.

use super::{
    Answer, MAX_ANSWERS, References, Scored, ScorerSpec, TaskScorer, Verdict, any_texts, not_blank, wrong,
};
use crate::error::EnvError;
use crate::score::{Score, pattern};
use crate::tasks::answers::answers_of;
use crate::tasks::task::Task;
use regex::Regex;
use serde_json::Value;

/// Nobody knows a reply to a pattern.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["pattern"],
    ..ScorerSpec::new(References::NoAnswers, &[], "A pattern has to match in the answer.")
};

/// The pattern of all items; without it references are patterns.
#[derive(Debug)]
pub(super) struct ByPattern(Option<Regex>);

impl ByPattern {
    pub(super) fn new(text: Option<&str>) -> Result<Self, EnvError> {
        let compiled = text.map(|text| {
            pattern(text)
                .map_err(|fault| wrong(format!("`pattern` is not a regular expression: `{text}`: {fault}")))
        });
        Ok(Self(compiled.transpose()?))
    }
}

impl TaskScorer for ByPattern {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let patterns: Vec<&Regex> = self.0.iter().chain(&answer.task.patterns).collect();
        if patterns.iter().any(|pattern| pattern.is_match(answer.text)) {
            return Scored::Known(Verdict::new(Score::RIGHT, String::new()));
        }
        let shown: Vec<String> =
            patterns.iter().take(MAX_ANSWERS).map(|pattern| format!("`{pattern}`")).collect();
        let reason = format!("the {} {} does not match {}", answer.noun, answer.quoted(), shown.join(" or "));
        Scored::Known(Verdict::new(Score::default(), reason))
    }

    fn expects(&self) -> Option<&'static str> {
        self.0.is_none().then_some("a text or a list of texts")
    }

    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        if self.0.is_some() {
            task.answers = any_texts(name, value);
            return Ok(());
        }
        task.answers = not_blank(name, answers_of(name, value)?)?;
        let patterns = task.answers.iter().map(|text| {
            pattern(text).map_err(|fault| format!("`{name}` is not a regular expression: `{text}`: {fault}"))
        });
        task.patterns = patterns.collect::<Result<_, _>>()?;
        Ok(())
    }
}
