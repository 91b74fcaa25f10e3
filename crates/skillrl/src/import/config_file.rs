//! SkillOpt's YAML with its `_base_`, as one list of keys.

use super::source::read_text;
use crate::config::draft::merge;
use crate::config::mapping::draft::Entry;
use crate::error::ImportError;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// The most files that inherit from each other.
const MAX_CHAIN: usize = 32;

/// Sections of the structured form; a file with none of them as a mapping is flat.
const SECTIONS: [&str; 6] = ["model", "train", "gradient", "optimizer", "evaluation", "env"];

/// Keys whose name in a section is not that of the flat form.
const RENAMED: [(&str, &str); 7] = [
    ("model.backend", "model_backend"),
    ("model.optimizer", "optimizer_model"),
    ("model.target", "target_model"),
    ("optimizer.learning_rate", "edit_budget"),
    ("optimizer.min_learning_rate", "min_edit_budget"),
    ("optimizer.meta_learning_rate", "meta_edit_budget"),
    ("env.name", "env"),
];

/// Reads a file and what it inherits from.
pub(super) fn load(path: &Path) -> Result<Vec<Entry>, ImportError> {
    let merged = load_chain(path, &mut Vec::new())?;
    let is_structured = SECTIONS.iter().any(|section| merged.get(*section).is_some_and(Value::is_object));
    let is_misplaced =
        |section: &&&str| merged.get(**section).is_some_and(|value| !is_mapping_or_none(value));
    if is_structured && let Some(section) = SECTIONS.iter().find(is_misplaced) {
        let message = format!("has `{section}` as a value, where the other sections are mappings");
        return Err(ImportError::bad(path, message, "write its members below it, as in the other sections"));
    }
    let mut entries = Vec::new();
    for (name, value) in merged {
        match value {
            Value::Object(members) if is_structured => {
                for (member, value) in members {
                    let key = format!("{name}.{member}");
                    let renamed = RENAMED.iter().find(|(dotted, _)| *dotted == key);
                    let is_known = SECTIONS.contains(&name.as_str());
                    let flat = match renamed {
                        Some((_, flat)) => (*flat).to_owned(),
                        None if is_known => member,
                        None => key.clone(),
                    };
                    entries.push(Entry { key, flat, value });
                }
            }
            value => entries.push(Entry { key: name.clone(), flat: name, value }),
        }
    }
    Ok(entries)
}

fn is_mapping_or_none(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Null)
}

fn load_chain(path: &Path, seen: &mut Vec<PathBuf>) -> Result<Map<String, Value>, ImportError> {
    let bad = |message: String, advice| ImportError::bad(path, message, advice);
    let place = path.canonicalize().map_err(|source| ImportError::Read { path: path.to_owned(), source })?;
    if seen.contains(&place) {
        let chain: Vec<String> = seen.iter().map(|file| file_name(file)).chain([file_name(&place)]).collect();
        let message = format!("inherits from itself by `_base_`: {}", chain.join(" -> "));
        return Err(bad(message, "take `_base_` out of one of these files"));
    }
    if seen.len() >= MAX_CHAIN {
        return Err(bad(format!("inherits from more than {MAX_CHAIN} files"), "write them as fewer files"));
    }
    seen.push(place);
    let text = read_text(path)?;
    let mut map = match serde_saphyr::from_str::<Value>(&text) {
        Ok(Value::Object(map)) => map,
        Ok(Value::Null) => Map::new(),
        Ok(_) => {
            let message = "is not a mapping of names to values".to_owned();
            return Err(bad(message, "name a configuration of SkillOpt"));
        }
        Err(error) => {
            let line = error.location().map(|at| format!("line {}: ", at.line())).unwrap_or_default();
            let text = error.without_snippet().to_string();
            let message = format!("is not YAML: {line}{}", text.lines().next().unwrap_or_default());
            return Err(bad(message, "fix that line"));
        }
    };
    match map.shift_remove("_base_") {
        None | Some(Value::Null) => Ok(map),
        Some(Value::String(base)) if base.is_empty() => Ok(map),
        Some(Value::String(base)) => {
            let place = path.parent().unwrap_or(Path::new("")).join(&base);
            if !place.is_file() {
                let message = format!("inherits from `{base}`, but {} is missing", place.display());
                return Err(bad(
                    message,
                    "fix the path in `_base_`: it is relative to the file that names it",
                ));
            }
            let mut whole = load_chain(&place, seen)?;
            merge(&mut whole, map);
            Ok(whole)
        }
        Some(_) => {
            let message = "has a `_base_` that is not the path of one file".to_owned();
            Err(bad(message, "name one file, and let that one name the next"))
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
