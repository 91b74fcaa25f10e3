//! The lists of a SkillOpt split directory: items of each split, or only their ids.

use super::NewFile;
use super::source::read_json;
use crate::error::ImportError;
use serde_json::Value;
use std::path::Path;

/// Other names of splits.
const SPLITS: [(&str, [&str; 3]); 3] = [
    ("train", ["train", "", ""]),
    ("val", ["val", "valid_seen", "selection"]),
    ("test", ["test", "valid_unseen", ""]),
];

/// Fields that a manifest of ids has besides the id.
const MANIFEST_FIELDS: [&str; 14] = [
    "id",
    "uid",
    "questionId",
    "question_id",
    "task_id",
    "files",
    "source_files",
    "split",
    "index",
    "gamefile",
    "task_type",
    "source_docs",
    "spreadsheet_path",
    "instruction_type",
];

/// A split with its items; `None` if its file is not a list.
pub(super) type SplitItems = (&'static str, Option<Vec<Value>>);

/// The lists of ids that a split directory is, by the name of their file; `None` where it holds the items themselves.
pub(super) fn manifest(dir: &Path) -> Result<Option<Vec<NewFile>>, ImportError> {
    let mut files = Vec::new();
    for (split, items) in items(dir)? {
        let ids = items.and_then(|items| items.iter().map(id_of_manifest).collect::<Option<Vec<Value>>>());
        let Some(ids) = ids else { return Ok(None) };
        let list = serde_json::to_vec_pretty(&ids).expect("ids are texts and numbers");
        files.push((format!("split_ids/{split}.json"), [list.as_slice(), b"\n"].concat()));
    }
    Ok((!files.is_empty()).then_some(files))
}

/// The id of an item that has nothing but an id and where it comes from.
fn id_of_manifest(item: &Value) -> Option<Value> {
    match item {
        Value::String(_) | Value::Number(_) => Some(item.clone()),
        Value::Object(fields) => {
            let is_bare = fields.keys().all(|key| MANIFEST_FIELDS.contains(&key.as_str()));
            let id = ["id", "uid", "questionId", "question_id", "task_id"]
                .iter()
                .find_map(|key| fields.get(*key))?;
            is_bare.then(|| id.clone())
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

/// The items of each split that a directory has: the first JSON file in the directory of each.
///
/// A directory or a file that cannot be read is an error: without it the split would not be there.
pub(super) fn items(dir: &Path) -> Result<Vec<SplitItems>, ImportError> {
    let mut found = Vec::new();
    for (split, names) in SPLITS {
        let part = names
            .iter()
            .filter(|name| !name.is_empty())
            .map(|name| dir.join(name))
            .find(|part| part.is_dir());
        let Some(part) = part else { continue };
        let cannot = |source| ImportError::Read { path: part.clone(), source };
        let entries = std::fs::read_dir(&part).map_err(cannot)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
        let mut paths = paths.map_err(cannot)?;
        paths.sort();
        let file = paths.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "json"));
        let Some(file) = file else { continue };
        let items = match read_json(&file)? {
            Value::Array(items) => Some(items),
            _ => None,
        };
        found.push((split, items));
    }
    Ok(found)
}
