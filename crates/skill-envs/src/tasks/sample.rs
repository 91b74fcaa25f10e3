//! A look at data before there is a configuration: its fields, and which settings would fit them.

use super::task::{ANSWER_FIELDS, CHOICE_FIELDS, SHOWN_FIELDS, TYPE_FIELDS};
use crate::data::{DataFiles, bad_data, find, read_records};
use crate::error::EnvError;
use crate::item::Split;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The choices of a template, one a line.
const CHOICES: &str =
    r#"{% for choice in choice_list %}{{ choice.label }}. {{ choice.text }}{{ "\n" }}{% endfor %}"#;

/// The fields of a data set, and what they suggest.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSample {
    /// The fields of all records, each with the first value that is not null.
    pub fields: Map<String, Value>,
    /// The field with what is right, by its usual names.
    pub answer_field: Option<&'static str>,
    /// Whether there are choices, by their usual names.
    pub has_choices: bool,
    /// Whether the data is in parts already, so that nothing has to be split.
    pub is_split: bool,
    /// Fields that are missing, null, a list or an object in some records.
    uneven: BTreeSet<String>,
}

impl DataSample {
    /// Reads the records at a path: of a file, or of all files of a directory.
    ///
    /// # Errors
    ///
    /// Data that cannot be read, or holds no record.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let (files, is_split) = files(path)?;
        let mut fields = Map::new();
        // How many records have a text, a number or a truth there.
        let mut n_plain = BTreeMap::<String, usize>::new();
        let mut n_records = 0_usize;
        for file in files {
            let records = read_records(&file)?;
            n_records += records.len();
            for (name, value) in records.into_iter().flat_map(|record| record.fields) {
                if matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_)) {
                    match n_plain.get_mut(&name) {
                        Some(count) => *count += 1,
                        None => drop(n_plain.insert(name.clone(), 1)),
                    }
                }
                if fields.get(&name).is_none_or(Value::is_null) {
                    fields.insert(name, value);
                }
            }
        }
        if n_records == 0 {
            return Err(bad_data(path, "holds no record that can be read".to_owned()));
        }
        let is_uneven = |name: &&String| n_plain.get(*name) != Some(&n_records);
        let uneven = fields.keys().filter(is_uneven).cloned().collect();
        Ok(Self::of(fields, is_split, uneven))
    }

    pub(super) fn of(fields: Map<String, Value>, is_split: bool, uneven: BTreeSet<String>) -> Self {
        let first_of = |names: &[&'static str]| names.iter().copied().find(|name| fields.contains_key(*name));
        let (answer_field, has_choices) = (first_of(&ANSWER_FIELDS), first_of(&CHOICE_FIELDS).is_some());
        Self { answer_field, has_choices, is_split, fields, uneven }
    }

    /// What an agent would be asked with these fields; `None` for none of them, and no choices.
    ///
    /// A field that is missing or null in a record is empty there, and a list or an object is JSON.
    pub fn prompt(&self, shown: &[String]) -> Option<String> {
        let part = |name: &String| match self.only_member(name) {
            Some(member) => {
                format!("{{{{ item[{}][{}] | as_text }}}}", Value::from(name.as_str()), Value::from(member))
            }
            None if self.fields.contains_key(name) => reference(name, self.uneven.contains(name)),
            None => {
                let members: String =
                    name.split('.').map(|member| format!("[{}]", Value::from(member))).collect();
                format!("{{{{ item{members} | as_text }}}}")
            }
        };
        let mut parts: Vec<String> = shown.iter().map(part).collect();
        if self.has_choices {
            parts.push(CHOICES.to_owned());
        }
        (!parts.is_empty()).then(|| parts.join("\n\n"))
    }

    /// True if a name with points, such as `reward_model.ground_truth`, leads into an object of the data.
    pub fn leads_into(&self, name: &str) -> bool {
        super::task::leads_into(&self.fields, name)
    }

    /// The only text of a field that is an object, such as `question` in `inputs`.
    fn only_member(&self, name: &str) -> Option<&str> {
        let mut members = self.fields.get(name)?.as_object()?.iter();
        let (member, value) = members.next().filter(|(_, value)| value.is_string())?;
        (members.next().is_none() && value.is_string()).then_some(member.as_str())
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
fn reference(name: &str, is_uneven: bool) -> String {
    let is_word = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    let filter = if is_uneven { " | as_text" } else { "" };
    match is_word {
        true => format!("{{{{ {name}{filter} }}}}"),
        false => format!("{{{{ item[{}]{filter} }}}}", Value::from(name)),
    }
}
