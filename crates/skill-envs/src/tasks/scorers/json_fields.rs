//! Fields of a JSON object.

use super::{
    ALONE, Answer, MAX_ANSWER_CHARACTERS, MAX_ANSWERS, References, Scored, ScorerSpec, TaskScorer, Verdict,
    cut,
};
use crate::score::{Score, json_fields, parse_json_answer};
use crate::tasks::python_literal::structured;
use crate::tasks::task::{Asked, Task};
use serde_json::Value;
use skill_core::json::Repair;
use skill_core::member::kind_of;
use std::collections::BTreeSet;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["json_fields", "tolerance", "ignore_case"],
    summary: Some("the same fields of a JSON object"),
    ..ScorerSpec::new(
        References::Values,
        ALONE,
        "The answer has to be a JSON object with every field of the reference.",
    )
};

#[derive(Debug)]
pub(super) struct JsonFields {
    /// Empty for all that the reference has.
    pub(super) fields: Vec<String>,
    pub(super) tolerance: f64,
    pub(super) ignore_case: bool,
}

impl TaskScorer for JsonFields {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let Some(found) = parse_json_answer(answer.text) else {
            let reason = format!("the {} {} holds no JSON", answer.noun, answer.quoted());
            return Scored::Known(Verdict::new(Score::default(), reason));
        };
        let verdict =
            json_fields(&found.value, &answer.task.reference, &self.fields, self.tolerance, self.ignore_case);
        let wrong: Vec<String> = verdict
            .fields
            .iter()
            .filter(|field| !field.is_right)
            .map(|field| match &field.found {
                Some(found) => format!(
                    "`{}` is {}, expected {}",
                    field.field,
                    cut(&found.to_string(), MAX_ANSWER_CHARACTERS),
                    cut(&field.expected.to_string(), MAX_ANSWER_CHARACTERS)
                ),
                None => format!("`{}` is missing", field.field),
            })
            .collect();
        let n_more = wrong.len().saturating_sub(MAX_ANSWERS);
        let mut reason = wrong.into_iter().take(MAX_ANSWERS).collect::<Vec<_>>().join("; ");
        if n_more > 0 {
            reason.push_str(&format!("; {n_more} more fields are wrong"));
        }
        if found.repairs.contains(&Repair::SeveralObjects) {
            reason.push_str("; there are several objects, of which the last whole one counts");
        }
        Scored::Known(Verdict::new(verdict.score, reason))
    }

    fn problem(&self) -> Option<&'static str> {
        // Not `< 0.0`: NaN is refused too.
        if self.tolerance >= 0.0 { None } else { Some("`tolerance` is below 0") }
    }

    fn own_reward(&self) -> Option<String> {
        (!self.fields.is_empty()).then(|| {
            let fields = self.fields.join(", ");
            format!("The answer has to be a JSON object with these fields as in the reference: {fields}.")
        })
    }

    fn expects(&self) -> Option<&'static str> {
        Some("an object")
    }

    fn read_reference(&self, task: &mut Task, name: &str, value: &Value) -> Result<(), String> {
        let object = match value {
            Value::String(text) => structured(text),
            other => Some(other.clone()),
        };
        let Some(object @ Value::Object(_)) = object else {
            return Err(format!("`{name}` is {}; expected an object, or JSON text of one", kind_of(value)));
        };
        task.answers = vec![object.to_string()];
        task.reference = object;
        Ok(())
    }

    fn members(&self, tasks: &[Asked<'_>]) -> Vec<String> {
        if !self.fields.is_empty() {
            return self.fields.clone();
        }
        let objects = tasks.iter().filter_map(|task| task.reference.as_object());
        let names: BTreeSet<&String> = objects.flat_map(|object| object.keys()).collect();
        names.into_iter().cloned().collect()
    }

    fn marked(&self, answer: &str) -> Option<String> {
        Some(format!("```json\n{answer}\n```"))
    }
}
