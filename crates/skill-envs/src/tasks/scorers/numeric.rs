//! Numbers.

use super::{
    ALONE, Answer, References, Scored, ScorerSpec, TaskScorer, Verdict, is_tolerance, not_blank,
    shown_references, wrong,
};
use crate::error::EnvError;
use crate::score::{NumericOptions, numeric, parse_reference};
use crate::tasks::answers::{answers_of, not_a_number};
use crate::tasks::task::Task;
use serde_json::{Map, Value};
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
pub(super) struct Numeric {
    options: NumericOptions,
}

impl Numeric {
    pub(super) fn new(options: NumericOptions) -> Result<Self, EnvError> {
        match [options.tolerance, options.relative_tolerance].into_iter().all(is_tolerance) {
            true => Ok(Self { options }),
            false => Err(wrong("a tolerance is below 0")),
        }
    }
}

impl TaskScorer for Numeric {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let references = &answer.task.answers;
        Scored::Known(match numeric(answer.text, references, &self.options) {
            Some(score) => answer.compared(score),
            None => Verdict {
                reason: format!(
                    "the {} {} holds no number; expected {}",
                    answer.noun,
                    answer.quoted(),
                    shown_references(references)
                ),
                extras: Map::from_iter([(NO_NUMBER_KEY.to_owned(), Value::Bool(true))]),
                ..Verdict::default()
            },
        })
    }

    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        task.answers = not_blank(name, answers_of(name, value)?)?;
        let not_one = task.answers.iter().find(|text| parse_reference(text).is_none());
        task.fault = not_one.map(|text| not_a_number(name, text));
        Ok(())
    }
}
