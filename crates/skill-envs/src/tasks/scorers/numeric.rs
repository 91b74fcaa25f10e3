//! Numbers.

use super::{
    ALONE, Answer, References, Scored, ScorerSpec, TaskScorer, Verdict, not_blank, shown_references,
};
use crate::score::{NumericOptions, Score, numeric, parse_reference};
use crate::tasks::answers::{answers_of, not_a_number};
use crate::tasks::task::Task;
use serde_json::Value;
use skill_core::rollout::NO_NUMBER_KEY;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["tolerance", "relative_tolerance", "units", "percent"],
    summary: Some("the same number"),
    ..ScorerSpec::new(
        References::Values,
        ALONE,
        "The number in the answer has to be that of a reference, within the tolerance.",
    )
};

#[derive(Debug)]
pub(super) struct Numeric(pub(super) NumericOptions);

impl TaskScorer for Numeric {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let references = &answer.task.answers;
        Scored::Known(match numeric(answer.text, references, &self.0) {
            Some(score) => answer.compared(score),
            None => {
                let (text, expected) = (answer.quoted(), shown_references(references));
                let reason = format!("the {} {text} holds no number; expected {expected}", answer.noun);
                Verdict::new(Score::default(), reason).with(NO_NUMBER_KEY, true)
            }
        })
    }

    fn problem(&self) -> Option<&'static str> {
        let are_tolerances = self.0.tolerance >= 0.0 && self.0.relative_tolerance >= 0.0;
        (!are_tolerances).then_some("a tolerance is below 0")
    }

    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        task.answers = not_blank(name, answers_of(name, value)?)?;
        let not_one = task.answers.iter().find(|text| parse_reference(text).is_none());
        task.fault = not_one.map(|text| not_a_number(name, text));
        Ok(())
    }
}
