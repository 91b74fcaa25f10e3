//! A look at data before there is a configuration: its first record, and which settings would fit it.

use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, SHOWN_FIELDS, TYPE_FIELDS};
use crate::data::{DataFiles, bad_data, find, read_records};
use crate::env::Split;
use crate::error::EnvError;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
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

    /// What an agent would be asked: the fields with their usual names, or all texts that are not the answer.
    pub fn prompt(&self, answer_field: &str) -> Option<String> {
        let is_other = |name: &str| {
            let lower = name.to_lowercase();
            let is_id = [" id", "_id", "-id"].iter().any(|end| lower.ends_with(end));
            name == answer_field
                || is_id
                || [&ID_FIELDS[..], &CHOICE_FIELDS, &TYPE_FIELDS].concat().contains(&name)
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

/// More labels than these are not told from free texts.
const MAX_LABELS: usize = 30;
/// A longer text is an answer, not a label.
const MAX_LABEL_CHARACTERS: usize = 40;

/// The labels in a field of a data set, sorted, if it holds the classes of its items: few short texts, each of which is
/// the answer of several items on average; `None` if its values are anything else.
///
/// # Errors
///
/// Data that cannot be read.
pub fn labels(path: &Path, field: &str) -> Result<Option<Vec<String>>, EnvError> {
    let (mut labels, mut n_items) = (BTreeSet::new(), 0_usize);
    for file in files(path)?.0 {
        for record in read_records(&file)? {
            let label = match record.fields.get(field) {
                Some(Value::String(text)) => text.trim(),
                Some(Value::Null) | None => continue,
                Some(_) => return Ok(None),
            };
            let is_label = !label.is_empty()
                && label.chars().count() <= MAX_LABEL_CHARACTERS
                && label.parse::<f64>().is_err()
                && !label.contains('\n');
            if !is_label {
                return Ok(None);
            }
            if !labels.contains(label) {
                labels.insert(label.to_owned());
            }
            if labels.len() > MAX_LABELS {
                return Ok(None);
            }
            n_items += 1;
        }
    }
    let are_classes = labels.len() >= 2 && n_items >= 3 * labels.len();
    Ok(are_classes.then(|| labels.into_iter().collect()))
}

/// The files at a path, and whether they are the parts of a split.
fn files(path: &Path) -> Result<(Vec<PathBuf>, bool), EnvError> {
    Ok(match find(path, &Split::ALL)? {
        DataFiles::Whole(files) => (files, false),
        DataFiles::Parts(parts) => (parts.into_iter().map(|(_, file)| file).collect(), true),
    })
}

/// A field in a template; one whose name is no word there is looked up by it.
fn reference(name: &str) -> String {
    let is_word = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_word { format!("{{{{ {name} }}}}") } else { format!("{{{{ item[{}] }}}}", Value::from(name)) }
}
