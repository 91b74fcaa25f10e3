//! Several labels, all of which belong.

use super::{ALONE, Answer, References, Scored, ScorerSpec, TaskScorer, not_blank};
use crate::score::label_set;
use crate::tasks::answers::labels_in;
use crate::tasks::task::Task;
use serde_json::Value;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    summary: Some("the same class labels, in any order"),
    ..ScorerSpec::new(
        References::Parts,
        ALONE,
        "The answer has to name all labels of the reference and no others, in any order.",
    )
};

#[derive(Debug)]
pub(super) struct LabelSet;

impl TaskScorer for LabelSet {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        Scored::Known(answer.compared(label_set(answer.text, &answer.task.answers)))
    }

    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        task.answers = not_blank(name, labels_in(name, value)?)?;
        Ok(())
    }
}
