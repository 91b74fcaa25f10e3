//! A reference in the answer.

use super::{Answer, References, Scored, ScorerSpec, TaskScorer};
use crate::answerable::ReplyForm;
use crate::score::contains;

/// It looks for the reference, and finds it in any form.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    summary: Some("the reply contains the right answer"),
    ..ScorerSpec::new(References::Texts, &[ReplyForm::Requested], "A reference has to occur in the answer.")
};

#[derive(Debug)]
pub(super) struct Contains;

impl TaskScorer for Contains {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(contains(answer.text, &answer.task.answers)))
    }
}
