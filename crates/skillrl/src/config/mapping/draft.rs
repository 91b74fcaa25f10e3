//! The keys of a configuration of another system, and the text of ours that is made of them.

use super::{Mapping, Unmapped};
use crate::config::key::ValueType;
use crate::config::keys;
use crate::config::value::to_toml;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// One key of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// As it is in the file.
    pub(crate) key: String,
    /// As the flat form has it.
    pub(crate) flat: String,
    pub(crate) value: Value,
}

/// The keys that are read, and what was made of them.
pub(crate) struct Draft {
    entries: BTreeMap<String, Entry>,
    /// Keys here with their values in TOML.
    set: Vec<(String, String)>,
    pub(crate) mapping: Mapping,
    /// The first value that is nothing of what it should be.
    fault: Option<String>,
    /// True if the file is used as it stands, where nobody looks through a list of what was left out.
    is_strict: bool,
}

impl Draft {
    pub(crate) fn new(entries: Vec<Entry>) -> Self {
        let entries = entries.into_iter().map(|entry| (entry.flat.clone(), entry)).collect();
        Self { entries, set: Vec::new(), mapping: Mapping::default(), fault: None, is_strict: false }
    }

    /// Refuses values beyond what we take, which are listed as left out otherwise.
    pub(crate) fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Takes a key, so that nothing else speaks of it; blank ones are not set.
    pub(crate) fn take(&mut self, flat: &str) -> Option<Entry> {
        self.entries.remove(flat).filter(|entry| !is_blank(&entry.value))
    }

    /// Takes a key that may be blank.
    pub(crate) fn take_even_blank(&mut self, flat: &str) -> Option<Entry> {
        self.entries.remove(flat)
    }

    /// Looks at a key and leaves it for another.
    pub(crate) fn text(&self, flat: &str) -> Option<String> {
        self.entries.get(flat).and_then(|entry| text(&entry.value))
    }

    /// Sets a key here; the first value stays.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) {
        if !self.set.iter().any(|(set, _)| set == key) {
            self.set.push((key.to_owned(), to_toml(&value.into())));
        }
    }

    /// Sets a key here from one there.
    pub(crate) fn set_from(&mut self, entry: &Entry, key: &str, value: impl Into<Value>) {
        self.set(key, value);
        self.mapping.map(entry.key.as_str(), key);
    }

    pub(crate) fn lose(&mut self, entry: &Entry, reason: impl Into<String>) {
        self.mapping.lose(entry.key.as_str(), shown(&entry.key, &entry.value), reason);
    }

    pub(crate) fn idle(&mut self, entry: &Entry, reason: impl Into<String>) {
        let value = shown(&entry.key, &entry.value);
        self.mapping.idle.push(Unmapped::new(entry.key.as_str(), value, reason));
    }

    /// The value of a key that is left for another.
    pub(crate) fn value(&self, flat: &str) -> Option<&Value> {
        self.entries.get(flat).map(|entry| &entry.value).filter(|value| !is_blank(value))
    }

    /// The keys that nobody has taken, as the flat form has them.
    pub(crate) fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// Whether a key here has a value already.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.set.iter().any(|(set, _)| set == key)
    }

    /// Sets the keys of a section here to those that another has, where it has none of its own.
    pub(crate) fn copy_section(&mut self, from: &str, to: &str) {
        let copies: Vec<(String, String)> = self
            .set
            .iter()
            .filter_map(|(key, value)| {
                let name = key.strip_prefix(from)?.strip_prefix('.')?;
                Some((format!("{to}.{name}"), value.clone()))
            })
            .filter(|(key, _)| !self.has(key))
            .collect();
        self.set.extend(copies);
    }

    /// Sets a key here to the value of one there.
    pub(crate) fn same(&mut self, entry: &Entry, key: &str) {
        let Some((_, spec)) = keys::find(key) else { return self.lose(entry, "no counterpart") };
        if self.has(key) {
            // Several keys there are one here, and have been read together.
            return self.mapping.map(entry.key.as_str(), key);
        }
        match read_as(spec.value, &entry.value) {
            Ok(value) => self.set_from(entry, key, value),
            Err(Misfit::OutOfRange) if !self.is_strict => {
                self.lose(entry, format!("`{key}` takes {}", spec.value.expectation()));
            }
            Err(Misfit::OutOfRange | Misfit::Kind) => {
                let expected = spec.value.expectation();
                let fault = format!("has {} for `{}`, which takes {expected}", entry.value, entry.key);
                self.fault.get_or_insert(fault);
            }
        }
    }

    /// Lists the keys that nobody has taken, and returns the text of the configuration, complete or not; else the first
    /// value that is nothing of what it should be. `path` is where the file is.
    pub(crate) fn written(mut self, path: &Path) -> Result<(String, Mapping), String> {
        let rest: Vec<Entry> = std::mem::take(&mut self.entries).into_values().collect();
        for entry in rest.iter().filter(|entry| !is_blank(&entry.value)) {
            self.lose(entry, "no counterpart");
        }
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => Ok((self.render(path), self.mapping)),
        }
    }

    /// The configuration file: sections in the order of the table of keys.
    fn render(&self, path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut text = format!("# Made by `skillrl import` from {name}.\n");
        for section in keys::sections() {
            let mut lines = String::new();
            for key in section.keys() {
                let path = section.path_of(key);
                for (_, value) in self.set.iter().filter(|(set, _)| *set == path) {
                    let _ = writeln!(lines, "{} = {value}", key.name);
                }
            }
            if !lines.is_empty() {
                let _ = write!(text, "\n[{}]\n{lines}", section.path);
            }
        }
        text
    }
}

/// Why a value cannot be taken over.
enum Misfit {
    /// It is of the right kind, and beyond what we take.
    OutOfRange,
    /// It is nothing of the kind.
    Kind,
}

/// A value as one of our keys takes it.
fn read_as(value_type: ValueType, value: &Value) -> Result<Value, Misfit> {
    match value_type {
        ValueType::Flag => flag(value).map(Value::from).ok_or(Misfit::Kind),
        ValueType::Choice(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        ValueType::Integer { min, max } => match value.as_u64() {
            Some(number) if (min..=max).contains(&number) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None if value.is_number() => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        ValueType::Number { min, max } => match value.as_f64() {
            Some(number) if (min..=max).contains(&number) => Ok(value.clone()),
            Some(_) => Err(Misfit::OutOfRange),
            None => Err(Misfit::Kind),
        },
        _ => Ok(value.clone()),
    }
}

/// Whether a key is there without a value.
fn is_blank(value: &Value) -> bool {
    value.is_null()
        || value.as_str().is_some_and(|text| text.trim().is_empty())
        || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// A flag, also in the words of YAML 1.1.
pub(crate) fn flag(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(word) => match word.to_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value as text: names that look like numbers were meant as names.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A value for a list; secrets are not shown.
fn shown(key: &str, value: &Value) -> String {
    const MAX_CHARS: usize = 80;
    if key.ends_with("api_key") || key.ends_with("secret") || key.ends_with("token") {
        return "(a secret)".to_owned();
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).chars().take(MAX_CHARS).collect()
}
