//! The choices of a record: in one field, or in columns.

use super::answers::{text_of, texts_of};
use super::python_literal::structured;
use super::task::{CHOICE_FIELDS, given};
use crate::score::Choice;
use serde_json::{Map, Value};
use skill_core::member::kind_of;

/// The columns that a setting names between commas, where there is none with the whole name; a row may lack some of them.
pub(super) fn columns<'a>(fields: &Map<String, Value>, names: &'a str) -> Option<Vec<&'a str>> {
    let columns: Vec<&str> = names.split(',').map(str::trim).collect();
    let is_list = columns.len() > 1 && !fields.contains_key(names);
    (is_list && columns.iter().any(|name| fields.contains_key(*name))).then_some(columns)
}

/// One choice for each column that is not empty, labelled by the place of its column.
pub(super) fn choices_of_columns(
    fields: &Map<String, Value>,
    columns: &[&str],
) -> Result<Vec<Choice>, String> {
    let mut choices = Vec::new();
    for (index, name) in columns.iter().enumerate() {
        if let Some(value) = given(fields, name) {
            choices.push(Choice { label: Choice::label_at(index), text: text_of(name, value)? });
        }
    }
    match choices.len() {
        0 | 1 => {
            Err(format!("has {} choices in {}; expected at least two", choices.len(), columns.join(", ")))
        }
        _ => Ok(choices),
    }
}

/// The choices of a record that have letters as labels, by their places alone.
pub(super) fn lettered(fields: &Map<String, Value>, asked: Option<&str>) -> Vec<Choice> {
    if let Some(columns) = asked.and_then(|names| columns(fields, names)) {
        let text = |name: &str| text_of(name, fields.get(name).unwrap_or(&Value::Null)).unwrap_or_default();
        let numbered = columns.iter().enumerate();
        return numbered.map(|(at, name)| Choice { label: Choice::label_at(at), text: text(name) }).collect();
    }
    let name = asked.or_else(|| CHOICE_FIELDS.into_iter().find(|name| fields.contains_key(*name)));
    let choices = name.and_then(|name| choices_of(name, fields.get(name)?).ok()).unwrap_or_default();
    let is_lettered = |(index, choice): (usize, &Choice)| choice.label == Choice::label_at(index);
    if choices.iter().enumerate().all(is_lettered) { choices } else { Vec::new() }
}

/// The whole number that an answer is.
pub(super) fn index_in(answer: &Value) -> Option<u64> {
    match answer {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// From which number these answers count `n_choices` choices: from 0 where 0 occurs, from 1 where the number of choices does;
/// `None` where some are no such numbers, and where nothing tells.
pub(super) fn first_choice<'a>(
    answers: impl IntoIterator<Item = &'a Value>,
    n_choices: usize,
) -> Option<u64> {
    let numbers: Vec<u64> = answers.into_iter().map(index_in).collect::<Option<_>>()?;
    let (least, most) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let n_choices = u64::try_from(n_choices).ok()?;
    match (least, most) {
        (0, most) if most < n_choices => Some(0),
        (1.., most) if most == n_choices => Some(1),
        _ => None,
    }
}

/// Choices: a list of texts or of objects with `label` and `text`, an object of texts by label or of two lists `text` and
/// `label`, or text of these in JSON or Python.
pub(super) fn choices_of(name: &str, value: &Value) -> Result<Vec<Choice>, String> {
    let parsed = match value {
        Value::String(text) => structured(text).ok_or_else(|| {
            format!("`{name}` is a text that is no list; expected one such as [\"one\", \"two\"]")
        })?,
        other => other.clone(),
    };
    let choices: Vec<Choice> = match parsed {
        Value::Array(values) => values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let part = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
                let text = match value {
                    Value::Object(_) => part("text")
                        .or_else(|| part("content"))
                        .ok_or_else(|| format!("`{name}[{index}]` has no `text`"))?,
                    other => text_of(&format!("{name}[{index}]"), other)?,
                };
                Ok(Choice { label: part("label").unwrap_or_else(|| Choice::label_at(index)), text })
            })
            .collect::<Result<_, String>>()?,
        Value::Object(members) if members.get("text").is_some_and(Value::is_array) => {
            choices_of_lists(name, &members)?
        }
        Value::Object(members) => members
            .iter()
            .map(|(label, value)| {
                Ok(Choice { label: label.clone(), text: text_of(&format!("{name}.{label}"), value)? })
            })
            .collect::<Result<_, String>>()?,
        other => return Err(format!("`{name}` is {}; expected a list", kind_of(&other))),
    };
    if choices.len() < 2 {
        return Err(format!("`{name}` holds {} choices; expected at least two", choices.len()));
    }
    Ok(choices)
}

/// Choices whose texts and labels are lists of one length, as ARC, CommonsenseQA and OpenBookQA have them.
fn choices_of_lists(name: &str, members: &Map<String, Value>) -> Result<Vec<Choice>, String> {
    let list = |member: &str| {
        members.get(member).map(|values| texts_of(&format!("{name}.{member}"), values)).transpose()
    };
    let texts = list("text")?.unwrap_or_default();
    let labels = list("label")?.unwrap_or_else(|| (0..texts.len()).map(Choice::label_at).collect());
    if labels.len() != texts.len() {
        return Err(format!("`{name}` has {} texts and {} labels", texts.len(), labels.len()));
    }
    Ok(labels.into_iter().zip(texts).map(|(label, text)| Choice { label, text }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_lack_a_column_of_the_choices() {
        let fields: Map<String, Value> = [("A", "Lyon"), ("C", "Paris")]
            .map(|(name, text)| (name.to_owned(), Value::from(text)))
            .into_iter()
            .collect();
        let found = columns(&fields, "A, B, C").unwrap();
        let choices = choices_of_columns(&fields, &found).unwrap();
        assert_eq!(choices.iter().map(|choice| choice.label.as_str()).collect::<Vec<_>>(), ["A", "C"]);
        assert_eq!(columns(&fields, "D, E"), None);
    }
}
