//! Exact match and F1 as SQuAD has them.

use super::{ANY_FORM, Answer, References, Scored, ScorerSpec, TaskScorer};
use crate::score::em_f1;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    summary: Some("the same words, as question answering has it"),
    ..ScorerSpec::new(
        References::Words,
        ANY_FORM,
        "The answer has to equal a reference but for case, punctuation and articles; words that it shares with one count in part.",
    )
};

#[derive(Debug)]
pub(super) struct EmF1;

impl TaskScorer for EmF1 {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(em_f1(answer.text, &answer.task.answers)))
    }
}
