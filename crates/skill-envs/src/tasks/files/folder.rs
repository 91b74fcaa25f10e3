//! A directory of documents: which files there are, and how one is opened.

use crate::data::field_names;
use crate::error::{EnvError, read_error};
use crate::tasks::python_literal::structured;
use serde_json::{Map, Value};
use skill_core::canonical::hex_sha256;
use skill_core::encoding;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The largest file: 64 MiB.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// The most files of an item.
const MAX_FILES: usize = 20_000;
/// The most directories within each other.
const MAX_DEPTH: usize = 32;
/// The most characters of one page in the context, as SkillOpt has it.
const MAX_PAGE_CHARACTERS: usize = 24_000;
/// The most characters of all pages in the context, as SkillOpt has it.
const MAX_CONTEXT_CHARACTERS: usize = 80_000;
/// What ends a page of a text.
const PAGE_BREAK: char = '\u{c}';

/// A directory whose files items name.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    field: Option<String>,
    pages_field: Option<String>,
    /// Every file, where items name none.
    all: Arc<[String]>,
}

impl Folder {
    /// Looks into the directory.
    pub(in crate::tasks) fn open(
        root: &Path,
        field: Option<&str>,
        pages_field: Option<&str>,
    ) -> Result<Self, EnvError> {
        if !root.is_dir() {
            let message = "is not a directory; `files_dir` names one".to_owned();
            return Err(EnvError::BadData { path: root.to_path_buf(), message });
        }
        let mut all = Vec::new();
        if field.is_none() {
            walk(root, "", 0, &mut all)?;
            all.sort();
            if all.is_empty() {
                return Err(EnvError::BadData {
                    path: root.to_path_buf(),
                    message: "holds no files".to_owned(),
                });
            }
        }
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Ok(Self {
            root: root.to_path_buf(),
            field: owned(field),
            pages_field: owned(pages_field),
            all: all.into(),
        })
    }

    /// The files of a record; the error says what is wrong with which field.
    pub(in crate::tasks) fn files_of(&self, fields: &Map<String, Value>) -> Result<Arc<[String]>, String> {
        let Some(field) = &self.field else { return Ok(Arc::clone(&self.all)) };
        let Some(value) = fields.get(field) else {
            let known = field_names(fields);
            return Err(format!("has no field `{field}`, which names its files; its fields are {known}"));
        };
        let names = names(field, value, |name| self.path(name).is_ok())?;
        if names.len() > MAX_FILES {
            return Err(format!("`{field}` names {} files; expected at most {MAX_FILES}", names.len()));
        }
        for name in &names {
            self.path(name).map_err(|fault| format!("`{field}` names the file {name:?}, which {fault}"))?;
        }
        Ok(names.into())
    }

    /// The text of the pages that a record names; `None` if it names none.
    pub(in crate::tasks) fn context_of(
        &self,
        fields: &Map<String, Value>,
        files: &[String],
    ) -> Result<Option<String>, String> {
        let Some(field) = &self.pages_field else { return Ok(None) };
        let value = fields.get(field).filter(|value| !value.is_null());
        let Some(value) = value else { return Ok(None) };
        let references = match value {
            Value::Number(number) => vec![number.to_string()],
            value => names(field, value, |_| false)?,
        };
        let mut context = String::new();
        for (place, reference) in references.iter().enumerate() {
            let fault = |what: &str| format!("`{field}` names the page {reference:?}, {what}");
            let number = page_number(reference).ok_or_else(|| {
                fault("which holds no number; expected one such as 12 or \"report.txt page=12\"")
            })?;
            let named = files.iter().find(|name| reference.contains(name.as_str()));
            let beside = if files.len() == references.len() { files.get(place) } else { None };
            let only = files.first().filter(|_| files.len() == 1);
            let name = named.or(beside).or(only);
            let name = name.ok_or_else(|| fault("and it is not clear of which of its files"))?;
            let text = self.text(name).map_err(|what| fault(&format!("whose file {name:?} {what}")))?;
            let page = text.split(PAGE_BREAK).nth(number.saturating_sub(1)).ok_or_else(|| {
                let n_pages = text.split(PAGE_BREAK).count();
                fault(&format!("and {name:?} has {n_pages} pages (a form feed ends a page)"))
            })?;
            let page: String = page.trim().chars().take(MAX_PAGE_CHARACTERS).collect();
            context.push_str(&format!("[{name}, page {number}]\n{page}\n\n"));
        }
        let context: String = context.trim_end().chars().take(MAX_CONTEXT_CHARACTERS).collect();
        Ok((!context.is_empty()).then_some(context))
    }

    /// The hash of these files, which are read for it.
    pub(in crate::tasks) fn content<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> Result<String, EnvError> {
        let mut hashes = BTreeMap::new();
        for name in names {
            if !hashes.contains_key(name) {
                let bytes = self
                    .bytes(name)
                    .map_err(|fault| EnvError::BadData { path: self.root.join(name), message: fault })?;
                hashes.insert(name, hex_sha256(&bytes));
            }
        }
        let lines: String = hashes.iter().map(|(name, hash)| format!("{hash} {name}\n")).collect();
        Ok(hex_sha256(lines.as_bytes()))
    }

    /// The text of a file, as far as it is one.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        let bytes = self.bytes(name)?;
        // A document that is not text as a whole may be one for the most part.
        let lossy = String::from_utf8_lossy(&bytes).into_owned();
        Ok(encoding::decode(bytes).unwrap_or(lossy))
    }

    /// How many bytes a file has.
    pub(super) fn size(&self, name: &str) -> Result<u64, String> {
        let path = self.path(name)?;
        fs::symlink_metadata(path)
            .map(|metadata| metadata.len())
            .map_err(|error| format!("cannot be read: {error}"))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        let path = self.path(name)?;
        let size = self.size(name)?;
        if size > MAX_FILE_BYTES {
            return Err(format!("has {size} bytes, and no more than {MAX_FILE_BYTES} are read"));
        }
        fs::read(path).map_err(|error| format!("cannot be read: {error}"))
    }

    /// Where a file is; no part of the way may lead elsewhere.
    fn path(&self, name: &str) -> Result<PathBuf, String> {
        let mut path = self.root.clone();
        let mut is_file = false;
        for part in Path::new(name).components() {
            let Component::Normal(part) = part else {
                return Err("leads out of the directory".to_owned());
            };
            path.push(part);
            let metadata =
                fs::symlink_metadata(&path).map_err(|_| format!("is not in {}", self.root.display()))?;
            if metadata.is_symlink() {
                return Err("is a symbolic link, or is behind one; links are not followed".to_owned());
            }
            is_file = metadata.is_file();
        }
        if is_file { Ok(path) } else { Err("is not a file".to_owned()) }
    }
}

/// Every file below a directory, except hidden files and links. A file that an item could not name is an error.
fn walk(directory: &Path, prefix: &str, depth: usize, found: &mut Vec<String>) -> Result<(), EnvError> {
    for entry in fs::read_dir(directory).map_err(|source| read_error(directory, source))? {
        let entry = entry.map_err(|source| read_error(directory, source))?;
        let bad = |message: &str| EnvError::BadData { path: entry.path(), message: message.to_owned() };
        let name = match entry.file_name().into_string() {
            Ok(name) if name.starts_with('.') => continue,
            Ok(name) => name,
            Err(_) => {
                return Err(bad(
                    "has a name that is not Unicode; rename it, or name the files of each item with `files_field`",
                ));
            }
        };
        let kind = entry.file_type().map_err(|source| read_error(&entry.path(), source))?;
        let name = format!("{prefix}{name}");
        if kind.is_file() {
            found.push(name);
        } else if kind.is_dir() {
            if depth >= MAX_DEPTH {
                return Err(bad("is too deep: directories within each other are read down to 32"));
            }
            walk(&entry.path(), &format!("{name}/"), depth + 1, found)?;
        }
        if found.len() > MAX_FILES {
            let message =
                format!("holds more than {MAX_FILES} files; name those of each item with `files_field`");
            return Err(EnvError::BadData { path: directory.to_path_buf(), message });
        }
    }
    Ok(())
}

/// Texts of a field: a list, JSON text of one, or texts with a line, a comma or a semicolon between them.
fn names(field: &str, value: &Value, is_one: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let listed = |list: &[Value]| {
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let texts: Option<Vec<String>> = list.iter().map(text).collect();
        texts.ok_or_else(|| format!("`{field}` holds something else than texts; expected names of files"))
    };
    let mut names = match value {
        Value::Null => Vec::new(),
        Value::Array(list) => listed(list)?,
        Value::String(text) if is_one(text.trim()) => vec![text.trim().to_owned()],
        Value::String(text) => match structured(text) {
            Some(Value::Array(list)) => listed(&list)?,
            _ => text.split(['\n', ',', ';']).map(|name| name.trim().to_owned()).collect(),
        },
        other => {
            return Err(format!(
                "`{field}` is {}; expected names of files",
                skill_core::member::kind_of(other)
            ));
        }
    };
    names.retain(|name| !name.is_empty());
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// The number of a page: the first one behind the last `page`, else the last one of the reference.
fn page_number(reference: &str) -> Option<usize> {
    let lower = reference.to_ascii_lowercase();
    let behind = lower.rfind("page").and_then(|at| lower.get(at + "page".len()..));
    let mut numbers = behind.unwrap_or(&lower).split(|letter: char| !letter.is_ascii_digit());
    let found = match behind {
        Some(_) => numbers.find(|digits| !digits.is_empty()),
        None => numbers.rfind(|digits| !digits.is_empty()),
    };
    found?.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_named_in_many_ways() {
        let check = |reference, expect| assert_eq!(page_number(reference), expect, "{reference}");
        check("12", Some(12));
        check("report_1941.txt: page 12 of 40", Some(12));
        check("https://example.org/bulletin-407/1941-6529?page=15", Some(15));
        check("report_1941.txt:7", Some(7));
        check("page 0", None);
        check("the last page", None);
    }
}
