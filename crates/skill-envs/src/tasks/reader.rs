//! How a record becomes an item and its task.

use super::answers::{answers_of, is_blank_answer, labels_in, not_a_number, texts_of};
use super::choices::{choices_of, choices_of_columns, columns, index_in};
use super::config::{FieldNames, ScorerConfig};
use super::files::Folder;
use super::python_literal::structured;
use super::task::{
    ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, Image, TYPE_FIELDS, Task, Variables, given, leads_into, value_at,
};
use crate::data::{Missing, Record, field_names};
use crate::error::EnvError;
use crate::item::Item;
use crate::score::{Choice, Rule, named_choice, parse_reference, pattern, shuffled_choices};
use crate::value_kind::kind_of;
use crate::within::within;
use serde_json::{Map, Value};
use skill_core::ItemId;
use std::path::Path;
use std::sync::Arc;

/// How records become tasks.
pub(super) struct TaskReader<'a> {
    pub(super) fields: &'a FieldNames,
    pub(super) scorer: &'a ScorerConfig,
    pub(super) image_dir: &'a Path,
    pub(super) choice_seed: Option<u64>,
    /// From which number right answers count the choices, where all of them are such numbers.
    pub(super) first_choice: Option<u64>,
    pub(super) folder: Option<&'a Folder>,
    pub(super) skips_unanswered: bool,
}

impl TaskReader<'_> {
    /// Reads a task; `None` if it needs a label that nobody has given. The error says what is wrong with which field.
    /// `number` counts the records of the file from 1.
    pub(super) fn read(&self, record: Record, number: usize) -> Result<Option<(Item, Task)>, EnvError> {
        if self.skips_unanswered && self.is_unanswered(&record) {
            return Ok(None);
        }
        match self.read_fields(&record, number) {
            Ok((id, task_type, task)) => {
                Ok(Some((Item { id, task_type, data: Arc::new(Value::Object(record.fields)) }, task)))
            }
            Err(fault) => match self.missing_answer(&record) {
                Some(Missing::Unlabelled { .. }) => Ok(None),
                Some(Missing::CellError { field, error }) => {
                    Err(record.place.error(format!("{fault}; the cell of `{field}` has the error {error}")))
                }
                None => Err(record.place.error(fault)),
            },
        }
    }

    /// True if the field of the right answer is not there, or blank.
    fn is_unanswered(&self, record: &Record) -> bool {
        match self.reference(record) {
            Ok(Some((_, value @ (Value::String(_) | Value::Array(_) | Value::Object(_))))) => {
                is_blank_answer(value)
            }
            Ok(Some(_)) => false,
            // Whether any record has the field that a setting names is known when all are read.
            Ok(None) | Err(_) => true,
        }
    }

    /// True if a record without an answer cannot be scored.
    pub(super) fn needs_answers(&self) -> bool {
        let is_free = matches!(
            self.scorer,
            ScorerConfig::Regex { pattern: Some(_) }
                | ScorerConfig::Rules { .. }
                | ScorerConfig::Rubric(_)
                | ScorerConfig::Command(_)
        );
        !is_free
    }

    /// The error of a record without the field of the right answer that a setting names.
    pub(super) fn without_answer_field(&self, record: &Record) -> Option<EnvError> {
        self.reference(record).err().map(|fault| record.place.error(fault))
    }

    fn reference<'r>(&'r self, record: &'r Record) -> Result<Option<(&'r str, &'r Value)>, String> {
        find(&record.fields, self.fields.answer.as_deref(), &ANSWER_FIELDS, "answer_field")
    }

    /// Why there is no reference, where the file says it.
    fn missing_answer<'r>(&self, record: &'r Record) -> Option<&'r Missing> {
        let is_answer = |name: &str| match &self.fields.answer {
            Some(asked) => asked == name,
            None => ANSWER_FIELDS.contains(&name),
        };
        let missing = record.missing.iter().find(|missing| is_answer(missing.field()));
        missing.filter(|_| matches!(self.reference(record), Ok(None)))
    }

    fn read_fields(&self, record: &Record, number: usize) -> Result<(ItemId, String, Task), String> {
        let fields = &record.fields;
        let id = match find(fields, self.fields.id.as_deref(), &ID_FIELDS, "id_field")? {
            Some((name, value)) => id_of(name, value)?,
            None => record.place.numbered(number),
        };
        let task_type = match find(fields, self.fields.task_type.as_deref(), &TYPE_FIELDS, "type_field")? {
            Some((name, value)) => task_type_of(name, value)?,
            None => String::new(),
        };
        let id = ItemId::new(id);
        let mut changed = Map::new();
        let mut task = Task {
            variables: Variables::Fields(Map::new()),
            answers: Vec::new(),
            reference: Value::Null,
            choices: Vec::new(),
            correct: 0,
            images: self.images(fields)?,
            rules: self.rules(fields)?,
            patterns: Vec::new(),
            fault: None,
            files: self.folder.map_or_else(|| Ok(Vec::new().into()), |folder| folder.files_of(fields))?,
            place: Some(record.place.clone()),
        };
        if let Some(folder) = self.folder
            && let Some(context) = folder.context_of(fields, &task.files)?
        {
            changed.insert("context".to_owned(), Value::String(context));
        }
        let reference = match self.reference(record) {
            Err(_) if !self.needs_answers() => None,
            found => found?,
        };
        if let Some((_, value)) = reference {
            task.reference = value.clone();
        }
        if let Some(shown) = self.read_choices(&mut task, &id, fields, reference)? {
            changed.insert("choices".to_owned(), shown);
        }
        self.read_reference(&mut task, reference)?;
        task.variables = Variables::Fields(changed);
        Ok((id, task_type, task))
    }

    /// Reads what is right in the shape that the scorer needs.
    fn read_reference(&self, task: &mut Task, reference: Option<(&str, &Value)>) -> Result<(), String> {
        let expected = |what: &str| {
            let name = self.fields.answer.as_deref().unwrap_or("answers");
            format!("has no answer; the scorer `{}` needs `{name}`, {what}", self.scorer.as_str())
        };
        match self.scorer {
            ScorerConfig::Exact { .. }
            | ScorerConfig::EmF1
            | ScorerConfig::Contains
            | ScorerConfig::LabelSet
            | ScorerConfig::Anls { .. }
            | ScorerConfig::OfficeQa
            | ScorerConfig::Regex { pattern: None }
            | ScorerConfig::Numeric(_) => {
                let (name, value) = reference.ok_or_else(|| expected("a text or a list of texts"))?;
                task.answers = match self.scorer {
                    ScorerConfig::LabelSet => labels_in(name, value)?,
                    _ => answers_of(name, value)?,
                };
                if task.answers.is_empty() {
                    return Err(format!("has no answer; `{name}` must hold at least one"));
                }
                if task.answers.iter().any(|answer| answer.trim().is_empty()) {
                    return Err(format!("has a blank answer in `{name}`; leave it out"));
                }
                match self.scorer {
                    ScorerConfig::Numeric(_) => {
                        let not_one = task.answers.iter().find(|text| parse_reference(text).is_none());
                        task.fault = not_one.map(|text| not_a_number(name, text));
                    }
                    ScorerConfig::Regex { .. } => {
                        let patterns = task.answers.iter().map(|text| {
                            pattern(text).map_err(|fault| {
                                format!("`{name}` is not a regular expression: `{text}`: {fault}")
                            })
                        });
                        task.patterns = patterns.collect::<Result<_, _>>()?;
                    }
                    _ => {}
                }
            }
            ScorerConfig::JsonFields { .. } => {
                let (name, value) = reference.ok_or_else(|| expected("an object"))?;
                let object = match value {
                    Value::String(text) => structured(text),
                    other => Some(other.clone()),
                };
                let Some(object @ Value::Object(_)) = object else {
                    return Err(format!(
                        "`{name}` is {}; expected an object, or JSON text of one",
                        kind_of(value)
                    ));
                };
                task.answers = vec![object.to_string()];
                task.reference = object;
            }
            ScorerConfig::Choice { .. } => {}
            ScorerConfig::Regex { pattern: Some(_) }
            | ScorerConfig::Rules { .. }
            | ScorerConfig::Rubric(_)
            | ScorerConfig::Command(_) => {
                // A reference of any shape may be there; what can be said as text helps those who read it.
                if let Some((name, value)) = reference {
                    task.answers = answers_of(name, value).unwrap_or_else(|_| vec![value.to_string()]);
                    task.answers.retain(|answer| !answer.trim().is_empty());
                }
            }
        }
        Ok(())
    }

    /// Reads the choices, where there are any, and returns them as the template shows them.
    fn read_choices(
        &self,
        task: &mut Task,
        id: &ItemId,
        fields: &Map<String, Value>,
        reference: Option<(&str, &Value)>,
    ) -> Result<Option<Value>, String> {
        let is_choice = matches!(self.scorer, ScorerConfig::Choice { .. });
        if !is_choice && self.fields.choices.is_none() {
            return Ok(None);
        }
        let columns = self.fields.choices.as_deref().and_then(|name| columns(fields, name));
        let mut labels_of_columns: Vec<(&str, String)> = Vec::new();
        match &columns {
            Some(columns) => {
                task.choices = choices_of_columns(fields, columns)?;
                labels_of_columns = columns
                    .iter()
                    .enumerate()
                    .map(|(index, name)| (*name, Choice::label_at(index)))
                    .collect();
            }
            None => {
                let Some((name, value)) =
                    find(fields, self.fields.choices.as_deref(), &CHOICE_FIELDS, "choices_field")?
                else {
                    return Err(
                        "has no choices; the scorer `choice` needs `choices`, a list of texts".to_owned()
                    );
                };
                task.choices = choices_of(name, value)?;
            }
        }
        if is_choice {
            let expected = "the label or the text of the right choice";
            let Some((answer_name, answer)) = reference else {
                return Err(format!("has no answer; the scorer `choice` needs {expected}"));
            };
            let named = |text: &str| {
                let label = labels_of_columns.iter().find(|(name, _)| *name == text.trim());
                let by_column = label
                    .and_then(|(_, label)| task.choices.iter().position(|choice| choice.label == *label));
                by_column.or_else(|| named_choice(text, &task.choices))
            };
            let counted = self.first_choice.and_then(|first| {
                let index = usize::try_from(index_in(answer)?.checked_sub(first)?).ok()?;
                let label = Choice::label_at(index);
                match labels_of_columns.is_empty() {
                    true => (index < task.choices.len()).then_some(index),
                    // An empty column is no choice, and is counted all the same.
                    false => task.choices.iter().position(|choice| choice.label == label),
                }
            });
            let correct = match answer {
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
            task.correct = counted.or(correct).ok_or_else(|| {
                let labels: Vec<&str> = task.choices.iter().map(|choice| choice.label.as_str()).collect();
                format!(
                    "`{answer_name}` is {answer}, which is none of the choices; expected {expected} ({})",
                    labels.join(", ")
                )
            })?;
        }
        if let Some(seed) = self.choice_seed {
            (task.choices, task.correct) = shuffled_choices(&task.choices, task.correct, seed, id.as_str());
        }
        if is_choice {
            task.answers =
                task.choices.get(task.correct).map(|choice| choice.label.clone()).into_iter().collect();
        }
        Ok(Some(serde_json::to_value(&task.choices).unwrap_or_default()))
    }

    fn images(&self, fields: &Map<String, Value>) -> Result<Vec<Image>, String> {
        let Some((name, value)) = find(fields, self.fields.images.as_deref(), &[], "images_field")? else {
            return Ok(Vec::new());
        };
        let names = texts_of(name, value)?;
        names
            .into_iter()
            .filter(|text| !text.trim().is_empty())
            .map(|text| {
                if ["http://", "https://", "data:"].iter().any(|scheme| text.starts_with(scheme)) {
                    return Ok(Image::Address(text));
                }
                let path = self.image_dir.join(&text);
                if super::image::media_type(&path).is_none() {
                    return Err(format!(
                        "`{name}` names {text:?}; expected a .png, .jpg, .jpeg, .gif or .webp file"
                    ));
                }
                if path.is_file() {
                    return within(self.image_dir, Path::new(&text))
                        .map(Image::File)
                        .map_err(|fault| format!("`{name}` {fault}; `image_dir` names another"));
                }
                Err(format!("`{name}` names the image {}, which is not there", path.display()))
            })
            .collect()
    }

    fn rules(&self, fields: &Map<String, Value>) -> Result<Vec<Rule>, String> {
        let Some(name) = self.fields.rules.as_deref() else { return Ok(Vec::new()) };
        let Some(value) = given(fields, name) else { return Ok(Vec::new()) };
        let parsed = match value {
            Value::String(text) => structured(text).unwrap_or_else(|| value.clone()),
            other => other.clone(),
        };
        let Value::Array(rules) = parsed else {
            return Err(format!("`{name}` is {}; expected a list of rules", kind_of(value)));
        };
        rules.iter().map(Rule::parse).collect::<Result<_, _>>().map_err(|error| format!("`{name}`: {error}"))
    }
}

/// The field that a setting names, which must be there, or the first of the usual ones; `key` is the setting's name.
fn find<'a>(
    fields: &'a Map<String, Value>,
    asked: Option<&'a str>,
    usual: &[&'a str],
    key: &str,
) -> Result<Option<(&'a str, &'a Value)>, String> {
    match asked {
        Some(name) if fields.contains_key(name) => Ok(given(fields, name).map(|value| (name, value))),
        Some(name) if leads_into(fields, name) => {
            Ok(value_at(fields, name).filter(|value| !value.is_null()).map(|value| (name, value)))
        }
        Some(name) => {
            Err(format!("has no field `{name}`, which `{key}` names; its fields are {}", field_names(fields)))
        }
        None => Ok(usual.iter().find_map(|name| Some((*name, given(fields, name)?)))),
    }
}

/// The id of a record in a list of ids.
pub(super) fn listed_id(fields: &Map<String, Value>) -> Result<String, String> {
    match find(fields, None, &ID_FIELDS, "id_field")? {
        Some((name, value)) => id_of(name, value),
        None => Err(format!("has no `id`; its fields are {}", field_names(fields))),
    }
}

fn id_of(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(id) => match ItemId::fault(id) {
            Some(fault) => Err(format!("`{name}` {fault}")),
            None => Ok(id.clone()),
        },
        Value::Number(id) if id.is_i64() || id.is_u64() => Ok(id.to_string()),
        other => Err(format!("`{name}` is {}; expected a string or an integer", kind_of(other))),
    }
}

fn task_type_of(name: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        // Of several categories the first one counts.
        Value::Array(values) => {
            values.first().map_or_else(|| Ok(String::new()), |first| task_type_of(name, first))
        }
        Value::Null => Ok(String::new()),
        Value::Object(_) => Err(format!("`{name}` is an object; expected a string")),
    }
}
