//! A look at data before there is a configuration: its first record, and which settings would fit it.

use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, SHOWN_FIELDS, TYPE_FIELDS};
use crate::data::{DataFiles, bad_data, find, read_records};
use crate::error::EnvError;
use crate::item::Split;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The first record of a data set, and what it suggests.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSample {
    /// The record.
    pub fields: Map<String, Value>,
    /// The field with what is right, by its usual names.
    pub answer_field: Option<&'static str>,
    /// Whether there are choices, by their usual names.
    pub has_choices: bool,
    /// Whether the data is in parts already, so that nothing has to be split.
    pub is_split: bool,
}

impl DataSample {
    /// Reads the first record at a path: of a file, or of the first file of a directory.
    ///
    /// # Errors
    ///
    /// Data that cannot be read, or holds no record.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let (files, is_split) = files(path)?;
        let is_alone = files.len() == 1 && files.iter().all(|file| file.is_file());
        for file in files {
            let records = match read_records(&file) {
                Err(error) if is_alone => return Err(error),
                // A part may be a directory of files.
                Err(_) => continue,
                Ok(records) => records,
            };
            if let Some(record) = records.into_iter().next() {
                return Ok(Self::of(record.fields, is_split));
            }
        }
        Err(bad_data(path, "holds no record that can be read".to_owned()))
    }

    fn of(fields: Map<String, Value>, is_split: bool) -> Self {
        let first_of = |names: &[&'static str]| names.iter().copied().find(|name| fields.contains_key(*name));
        let (answer_field, has_choices) = (first_of(&ANSWER_FIELDS), first_of(&CHOICE_FIELDS).is_some());
        Self { answer_field, has_choices, is_split, fields }
    }

    /// The scorer that fits an answer in this field: `choice`, `numeric`, `json_fields` or `em_f1`.
    pub fn scorer(&self, answer_field: &str) -> &'static str {
        let is_number = |text: &str| text.trim().parse::<f64>().is_ok_and(f64::is_finite);
        match self.fields.get(answer_field) {
            _ if self.has_choices => "choice",
            Some(Value::Number(_)) => "numeric",
            Some(Value::String(text)) if is_number(text) => "numeric",
            Some(Value::Object(_)) => "json_fields",
            _ => "em_f1",
        }
    }

    /// What an agent would be asked with these fields; `None` for none of them, and no choices.
    pub fn prompt(&self, shown: &[String]) -> Option<String> {
        let mut parts: Vec<String> = shown.iter().map(|name| reference(name)).collect();
        if self.has_choices {
            parts.push("{{ choice_list }}".to_owned());
        }
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// The fields that the built-in prompt shows, in its order.
    pub fn usual_fields(&self) -> Vec<String> {
        let is_text = |name: &&str| self.fields.get(*name).is_some_and(Value::is_string);
        SHOWN_FIELDS.into_iter().filter(is_text).map(str::to_owned).collect()
    }

    /// True if a field with a usual name holds a category.
    pub fn has_task_type(&self) -> bool {
        TYPE_FIELDS.iter().any(|name| self.fields.contains_key(*name))
    }
}

pub(super) fn is_named_as_id(name: &str) -> bool {
    let lower = name.to_lowercase();
    [" id", "_id", "-id"].iter().any(|end| lower.ends_with(end))
}

/// The files at a path, and whether they are the parts of a split.
pub(super) fn files(path: &Path) -> Result<(Vec<PathBuf>, bool), EnvError> {
    Ok(match find(path, &Split::ALL)? {
        DataFiles::Whole(files) => (files, false),
        DataFiles::Parts(parts) => (parts.into_iter().map(|(_, file)| file).collect(), true),
    })
}

/// A field in a template; one whose name is not a word there is looked up by it.
fn reference(name: &str) -> String {
    let is_word = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_word { format!("{{{{ {name} }}}}") } else { format!("{{{{ item[{}] }}}}", Value::from(name)) }
}
