//! Similarity of texts.

use super::{Answer, References, Scored, ScorerSpec, TaskScorer, wrong};
use crate::answerable::ReplyForm;
use crate::error::EnvError;
use crate::score::anls;

/// The similarity below which an answer is worth nothing, as ANLS is usually reported.
pub const DEFAULT_ANLS_THRESHOLD: f64 = 0.5;

/// Published scorers compare what is written, marks as well.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["anls_threshold"],
    summary: Some("nearly the same text"),
    ..ScorerSpec::new(
        References::Texts,
        &[ReplyForm::Requested, ReplyForm::Sentence],
        "The answer has to be spelled nearly as a reference is.",
    )
};

#[derive(Debug)]
pub(super) struct Anls {
    threshold: f64,
}

impl Anls {
    pub(super) fn new(threshold: f64) -> Result<Self, EnvError> {
        match (0.0..=1.0).contains(&threshold) {
            true => Ok(Self { threshold }),
            false => Err(wrong("`anls_threshold` is not between 0 and 1")),
        }
    }
}

impl TaskScorer for Anls {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(anls(answer.text, &answer.task.answers, self.threshold)))
    }
}
