//! A look at data before there is a configuration: its first record, and which settings would fit it.

use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, SHOWN_FIELDS, TYPE_FIELDS};
use crate::data::{DataFiles, bad_data, find, read_records};
use crate::env::Split;
use crate::error::EnvError;
use serde_json::{Map, Value};
use std::path::Path;

/// The first record of a data set, and what it suggests.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSample {
    /// The record.
    pub fields: Map<String, Value>,
    /// The field with what is right, by its usual names.
    pub answer_field: Option<&'static str>,
    /// Whether there are choices, by their usual names.
    pub has_choices: bool,
    /// Whether the data stands in parts already, so that nothing has to be split.
    pub is_split: bool,
}

impl DataSample {
    /// Reads the first record at a path: of a file, or of the first file of a directory.
    ///
    /// # Errors
    ///
    /// Data that cannot be read, or holds no record.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let (files, is_split) = match find(path, &Split::ALL)? {
            DataFiles::Whole(files) => (files, false),
            DataFiles::Parts(parts) => (parts.into_iter().map(|(_, file)| file).collect(), true),
        };
        for file in files {
            // A part may be a directory of files.
            let Ok(records) = read_records(&file) else { continue };
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

    /// What an agent would be asked: the fields with their usual names, or all texts that are not the answer.
    pub fn prompt(&self, answer_field: &str) -> Option<String> {
        let is_other = |name: &str| {
            name == answer_field || [&ID_FIELDS[..], &CHOICE_FIELDS, &TYPE_FIELDS].concat().contains(&name)
        };
        let texts = || self.fields.iter().filter(|(name, value)| value.is_string() && !is_other(name));
        let usual = SHOWN_FIELDS.into_iter().filter(|name| texts().any(|(found, _)| found == *name));
        let mut shown: Vec<String> = usual.map(reference).collect();
        if shown.is_empty() {
            shown = texts().map(|(name, _)| reference(name)).collect();
        }
        if self.has_choices {
            shown.push("{{ choice_list }}".to_owned());
        }
        (!shown.is_empty()).then(|| shown.join("\n\n"))
    }

    /// Whether the built-in prompt shows what such an item is asked with.
    pub fn has_usual_fields(&self) -> bool {
        SHOWN_FIELDS.iter().any(|name| self.fields.contains_key(*name))
    }
}

/// A field in a template; one whose name is no word there is looked up by it.
fn reference(name: &str) -> String {
    let is_word = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_word { format!("{{{{ {name} }}}}") } else { format!("{{{{ item[{}] }}}}", Value::from(name)) }
}
