//! Similarity of texts.

use super::{Answer, References, Scored, ScorerSpec, TaskScorer};
use crate::answerable::ReplyForm;
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

/// With the threshold.
#[derive(Debug)]
pub(super) struct Anls(pub(super) f64);

impl TaskScorer for Anls {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(anls(answer.text, &answer.task.answers, self.0)))
    }

    fn problem(&self) -> Option<&'static str> {
        (!(0.0..=1.0).contains(&self.0)).then_some("`anls_threshold` is not between 0 and 1")
    }
}
