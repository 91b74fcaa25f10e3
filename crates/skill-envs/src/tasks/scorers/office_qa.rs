//! As SkillOpt scores OfficeQA.

use super::{Answer, References, Scored, ScorerSpec, TaskScorer};
use crate::answerable::ReplyForm;
use crate::score::office_qa;

/// A published scorer compares what is written, marks as well.
pub(super) const SPEC: ScorerSpec = ScorerSpec::new(
    References::Values,
    &[ReplyForm::Requested],
    "The answer has to give the reference's values, numbers within one percent.",
);

#[derive(Debug)]
pub(super) struct OfficeQa;

impl TaskScorer for OfficeQa {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(office_qa(answer.text, &answer.task.answers)))
    }
}
