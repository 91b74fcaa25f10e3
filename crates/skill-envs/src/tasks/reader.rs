//! How a record becomes an item and its task.

use super::answers::{is_blank_answer, texts_of};
use super::choices::{choices_of, choices_of_columns, columns};
use super::config::TasksConfig;
use super::files::Folder;
use super::python_literal::structured;
use super::scorers::Scorer;
use super::scorers::choice::right_choice;
use super::task::{
    ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, Image, TYPE_FIELDS, Task, Variables, given, leads_into, value_at,
};
use crate::data::{Missing, Record, field_names};
use crate::error::EnvError;
use crate::item::Item;
use crate::score::{Rule, shuffled_choices};
use crate::within::within;
use serde_json::{Map, Value, json};
use skill_core::ItemId;
use skill_core::member::kind_of;
use std::path::Path;
use std::sync::Arc;

/// How records become tasks.
pub(super) struct TaskReader<'a> {
    pub(super) config: &'a TasksConfig,
    pub(super) scorer: &'a Scorer,
    pub(super) image_dir: &'a Path,
    /// From which number right answers count the choices, where all of them are such numbers.
    pub(super) first_choice: Option<u64>,
    pub(super) folder: Option<&'a Folder>,
}

impl TaskReader<'_> {
    /// Reads a task; `None` if it needs a label that nobody has given. The error says what is wrong with which field.
    /// `number` counts the records of the file from 1.
    pub(super) fn read(&self, record: Record, number: usize) -> Result<Option<(Item, Task)>, EnvError> {
        if self.config.skip_unanswered && self.is_unanswered(&record) {
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

    /// The error of a record without the field of the right answer that a setting names.
    pub(super) fn without_answer_field(&self, record: &Record) -> Option<EnvError> {
        self.reference(record).err().map(|fault| record.place.error(fault))
    }

    fn reference<'r>(&'r self, record: &'r Record) -> Result<Option<(&'r str, &'r Value)>, String> {
        find(&record.fields, self.config.fields.answer.as_deref(), &ANSWER_FIELDS, "answer_field")
    }

    /// Reason for a missing reference, if the file states one.
    fn missing_answer<'r>(&self, record: &'r Record) -> Option<&'r Missing> {
        let is_answer = |name: &str| match &self.config.fields.answer {
            Some(asked) => asked == name,
            None => ANSWER_FIELDS.contains(&name),
        };
        let missing = record.missing.iter().find(|missing| is_answer(missing.field()));
        missing.filter(|_| matches!(self.reference(record), Ok(None)))
    }

    fn read_fields(&self, record: &Record, number: usize) -> Result<(ItemId, String, Task), String> {
        let fields = &record.fields;
        let id = match find(fields, self.config.fields.id.as_deref(), &ID_FIELDS, "id_field")? {
            Some((name, value)) => id_of(name, value)?,
            None => record.place.numbered(number),
        };
        let task_type =
            match find(fields, self.config.fields.task_type.as_deref(), &TYPE_FIELDS, "type_field")? {
                Some((name, value)) => task_type_of(name, value)?,
                None => String::new(),
            };
        let id = ItemId::new(id);
        let mut changed = Map::new();
        let mut task = Task {
            images: self.images(fields)?,
            rules: self.rules(fields)?,
            files: self.folder.map_or_else(|| Ok(Vec::new().into()), |folder| folder.files_of(fields))?,
            place: Some(record.place.clone()),
            ..Task::default()
        };
        if let Some(folder) = self.folder
            && let Some(context) = folder.context_of(fields, &task.files)?
        {
            changed.insert("context".to_owned(), Value::String(context));
        }
        let reference = match self.reference(record) {
            Err(_) if self.scorer.expects().is_none() => None,
            found => found?,
        };
        if let Some((_, value)) = reference {
            task.reference = value.clone();
        }
        if let Some(shown) = self.read_choices(&mut task, &id, fields, reference)? {
            changed.insert("choices".to_owned(), shown);
        }
        match (reference, self.scorer.expects()) {
            (Some((name, value)), _) => self.scorer.read_reference(&mut task, name, value)?,
            (None, Some(what)) => {
                let name = self.config.fields.answer.as_deref().unwrap_or("answers");
                let scorer = self.scorer.kind().as_str();
                return Err(format!("has no answer; the scorer `{scorer}` needs `{name}`, {what}"));
            }
            (None, None) => {}
        }
        task.variables = Variables::Fields(changed);
        Ok((id, task_type, task))
    }

    /// Reads the choices, where there are any, and returns them as the template shows them.
    fn read_choices(
        &self,
        task: &mut Task,
        id: &ItemId,
        fields: &Map<String, Value>,
        reference: Option<(&str, &Value)>,
    ) -> Result<Option<Value>, String> {
        let is_choice = self.scorer.choice_by().is_some();
        if !is_choice && self.config.fields.choices.is_none() {
            return Ok(None);
        }
        let asked = self.config.fields.choices.as_deref();
        let columns = asked.and_then(|name| columns(fields, name));
        task.choices = match &columns {
            Some(columns) => choices_of_columns(fields, columns)?,
            None => {
                let (name, value) = find(fields, asked, &CHOICE_FIELDS, "choices_field")?
                    .ok_or("has no choices; the scorer `choice` needs `choices`, a list of texts")?;
                choices_of(name, value)?
            }
        };
        if is_choice {
            let answer = reference.ok_or_else(|| {
                let expected = self.scorer.expects().unwrap_or_default();
                format!("has no answer; the scorer `choice` needs {expected}")
            })?;
            task.correct = right_choice(answer, &task.choices, columns.as_deref(), self.first_choice)?;
        }
        if let Some(seed) = self.config.choice_seed {
            (task.choices, task.correct) = shuffled_choices(&task.choices, task.correct, seed, id.as_str());
        }
        if is_choice {
            task.answers =
                task.choices.get(task.correct).map(|choice| choice.label.clone()).into_iter().collect();
        }
        Ok(Some(json!(task.choices)))
    }

    fn images(&self, fields: &Map<String, Value>) -> Result<Vec<Image>, String> {
        let Some((name, value)) = find(fields, self.config.fields.images.as_deref(), &[], "images_field")?
        else {
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
        let Some(name) = self.config.fields.rules.as_deref() else { return Ok(Vec::new()) };
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
