//! A look at data before there is a configuration: its first record, and which settings would fit it.

use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, ID_FIELDS, SHOWN_FIELDS, TYPE_FIELDS};
use crate::data::{DataFiles, bad_data, find, read_records};
use crate::error::EnvError;
use crate::item::Split;
use serde_json::{Map, Value};
use skill_core::labels::class_counts;
use std::collections::{BTreeMap, BTreeSet};
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

    /// What an agent would be asked: the fields with their usual names, or all texts that are not the answer.
    pub fn prompt(&self, answer_field: &str) -> Option<String> {
        let is_other = |name: &str| {
            name == answer_field
                || is_named_as_id(name)
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

    /// True if a field with a usual name holds a category.
    pub fn has_task_type(&self) -> bool {
        TYPE_FIELDS.iter().any(|name| self.fields.contains_key(*name))
    }

    /// Whether the built-in prompt shows what such an item is asked with.
    pub fn has_usual_fields(&self) -> bool {
        SHOWN_FIELDS.iter().any(|name| self.fields.contains_key(*name))
    }
}

/// What all records of a data set have in common.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct DataSurvey {
    /// How many items have each label, if the answers are class labels: see [`class_counts`].
    pub labels: Option<BTreeMap<String, usize>>,
    /// The field with a name such as `ticket_id` whose values are all different, where no field has a usual name of an id.
    pub id_field: Option<String>,
}

impl DataSurvey {
    /// Reads all records at a path; the right answers are in this field.
    ///
    /// # Errors
    ///
    /// Data that cannot be read.
    pub fn read(path: &Path, answer_field: &str) -> Result<Self, EnvError> {
        let (mut answers, mut are_texts) = (Vec::new(), true);
        let mut ids: Option<BTreeMap<String, BTreeSet<String>>> = None;
        let mut n_records = 0_usize;
        for file in files(path)?.0 {
            for mut record in read_records(&file)? {
                n_records += 1;
                let candidates = ids.get_or_insert_with(|| id_candidates(&record.fields, answer_field));
                candidates.retain(|name, seen| is_new(record.fields.get(name), seen));
                match record.fields.remove(answer_field) {
                    Some(Value::String(text)) => answers.push(text),
                    Some(Value::Null) | None => {}
                    Some(_) => are_texts = false,
                }
            }
        }
        let labels = are_texts.then(|| class_counts(answers.iter().map(String::as_str))).flatten();
        let id_field = ids.into_iter().flatten().map(|(name, _)| name).next().filter(|_| n_records > 1);
        Ok(Self { labels, id_field })
    }
}

/// The fields that are named as an id, each with the values seen so far; none where one has a usual name.
fn id_candidates(fields: &Map<String, Value>, answer_field: &str) -> BTreeMap<String, BTreeSet<String>> {
    if ID_FIELDS.iter().any(|name| fields.contains_key(*name)) {
        return BTreeMap::new();
    }
    let is_candidate = |name: &&String| *name != answer_field && is_named_as_id(name);
    fields.keys().filter(is_candidate).map(|name| (name.clone(), BTreeSet::new())).collect()
}

/// Whether a value can be an id that no earlier record has.
fn is_new(value: Option<&Value>, seen: &mut BTreeSet<String>) -> bool {
    match value {
        Some(Value::String(text)) => !text.trim().is_empty() && seen.insert(text.clone()),
        Some(Value::Number(number)) => seen.insert(number.to_string()),
        Some(_) | None => false,
    }
}

fn is_named_as_id(name: &str) -> bool {
    let lower = name.to_lowercase();
    [" id", "_id", "-id"].iter().any(|end| lower.ends_with(end))
}

/// The files at a path, and whether they are the parts of a split.
fn files(path: &Path) -> Result<(Vec<PathBuf>, bool), EnvError> {
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
