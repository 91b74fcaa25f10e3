//! Which choice is named.

use super::{
    ALONE, Answer, MAX_ANSWER_CHARACTERS, References, Scored, ScorerSpec, TaskScorer, Verdict, quoted,
    reference_text,
};
use crate::score::{Choice, ChoiceBy, Score, chosen, named_choice};
use crate::tasks::choices::index_in;
use crate::tasks::task::Task;
use serde_json::Value;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["choice_by"],
    summary: Some("one of the choices"),
    ..ScorerSpec::new(References::Values, ALONE, "The answer has to name the right choice.")
};

#[derive(Debug)]
pub(super) struct ByChoice(pub(super) ChoiceBy);

impl TaskScorer for ByChoice {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let task = answer.task;
        let shown = answer.quoted();
        // Where no tag says which part is the answer, the explanation may be behind it.
        let named = chosen(answer.text, &task.choices, self.0).or_else(|| {
            let whole = answer.whole.filter(|_| self.0 == ChoiceBy::Either)?;
            chosen(whole, &task.choices, self.0)
        });
        let score = if named == Some(task.correct) { Score::RIGHT } else { Score::default() };
        let named = match named.and_then(|index| task.choices.get(index)) {
            Some(choice) => format!("the {} {shown} is choice {}", answer.noun, choice.label),
            None => format!("the {} {shown} names no choice", answer.noun),
        };
        let right = task
            .choices
            .get(task.correct)
            .map(|choice| format!("{} ({})", choice.label, quoted(&choice.text, MAX_ANSWER_CHARACTERS)));
        let reason = format!("{named}; expected {}", right.unwrap_or_default());
        Scored::Known(Verdict::new(score, reason))
    }

    fn expects(&self) -> Option<&'static str> {
        Some(RIGHT_CHOICE)
    }

    /// The right choice is read with the choices.
    fn read_reference(&self, _: &mut Task, _: &str, _: &Value) -> Result<(), String> {
        Ok(())
    }

    fn choice_by(&self) -> Option<ChoiceBy> {
        Some(self.0)
    }

    fn reference_text(&self, task: &Task) -> String {
        match task.choices.get(task.correct) {
            Some(choice) => format!("{}. {}", choice.label, choice.text),
            None => reference_text(task, &[]),
        }
    }
}

const RIGHT_CHOICE: &str = "the label or the text of the right choice";

/// The index of the choice that a field names: by its label or its text, by the name of its column, or, where answers
/// count the choices from the number `first`, by its number.
pub(in crate::tasks) fn right_choice(
    (name, answer): (&str, &Value),
    choices: &[Choice],
    columns: Option<&[&str]>,
    first: Option<u64>,
) -> Result<usize, String> {
    // An empty column is not a choice but still has a position, so positions are those of columns.
    let at_column = |index: usize| {
        let label = Choice::label_at(index);
        choices.iter().position(|choice| choice.label == label)
    };
    let counted = first.and_then(|first| {
        let index = usize::try_from(index_in(answer)?.checked_sub(first)?).ok()?;
        match columns {
            None => (index < choices.len()).then_some(index),
            Some(_) => at_column(index),
        }
    });
    let named = |text: &str| {
        let column = columns.and_then(|names| names.iter().position(|name| *name == text.trim()));
        column.and_then(at_column).or_else(|| named_choice(text, choices))
    };
    let correct = || match answer {
        Value::String(text) => named(text),
        Value::Number(number) => named(&number.to_string()),
        Value::Array(values) => match values.as_slice() {
            [Value::String(text)] => named(text),
            _ => None,
        },
        Value::Object(fields) => ["label", "text"]
            .iter()
            .find_map(|name| fields.get(*name).and_then(Value::as_str).and_then(named)),
        Value::Null | Value::Bool(_) => None,
    };
    counted.or_else(correct).ok_or_else(|| {
        let labels: Vec<&str> = choices.iter().map(|choice| choice.label.as_str()).collect();
        format!(
            "`{name}` is {answer}, which is none of the choices; expected {RIGHT_CHOICE} ({})",
            labels.join(", ")
        )
    })
}
