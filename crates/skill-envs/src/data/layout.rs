//! Finds the files of a data set.

use super::read::Format;
use crate::error::{EnvError, read_error};
use crate::item::Split;
use std::fs;
use std::path::{Path, PathBuf};

/// The files that a data set consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataFiles {
    /// Files that are still to be split; there is at least one.
    Whole(Vec<PathBuf>),
    /// A file for each split, in the order of [`Split::ALL`]; optional ones that are not there are left out.
    Parts(Vec<(Split, PathBuf)>),
}

/// The files at this path: itself, or the parts in a directory.
///
/// # Errors
///
/// Nothing at this path, a directory that cannot be read, or one in which a part is missing or ambiguous.
pub(crate) fn find(path: &Path, optional: &[Split]) -> Result<DataFiles, EnvError> {
    let metadata = fs::metadata(path).map_err(|source| read_error(path, source))?;
    if !metadata.is_dir() {
        return Ok(DataFiles::Whole(vec![path.to_path_buf()]));
    }
    let names = entry_names(path)?;
    if !Split::ALL.iter().any(|split| part(path, &names, *split).is_ok_and(|found| found.is_some())) {
        let files = data_files(path, &names);
        if !files.is_empty() {
            return Ok(DataFiles::Whole(files));
        }
    }
    let mut parts = Vec::with_capacity(Split::ALL.len());
    for split in Split::ALL {
        match part(path, &names, split)? {
            Some(file) => parts.push((split, file)),
            None if optional.contains(&split) => {}
            None => {
                let message = format!(
                    "has no part for the split `{split}`; expected {split}.jsonl, {split}.json, {split}.csv or a \
                     directory {split}"
                );
                return Err(bad_data(path, message));
            }
        }
    }
    Ok(DataFiles::Parts(parts))
}

/// All data files of a directory without parts, in the order of their names.
pub(crate) fn all_files(path: &Path) -> Result<Vec<PathBuf>, EnvError> {
    let metadata = fs::metadata(path).map_err(|source| read_error(path, source))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    let names = entry_names(path)?;
    for name in names.iter().filter(|name| path.join(name.as_str()).is_dir()) {
        let inner = path.join(name.as_str());
        files.extend(data_files(&inner, &entry_names(&inner)?));
    }
    files.extend(data_files(path, &names));
    if files.is_empty() {
        return Err(bad_data(path, "holds no .jsonl, .json or .csv file".to_owned()));
    }
    Ok(files)
}

fn data_files(directory: &Path, names: &[String]) -> Vec<PathBuf> {
    let is_data =
        |name: &&String| Format::of(Path::new(name)).is_some() && directory.join(name.as_str()).is_file();
    names.iter().filter(is_data).map(|name| directory.join(name)).collect()
}

/// The names under which a split's part is looked for.
pub(crate) fn part_names(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["train"],
        Split::Val => &["val", "valid", "validation", "selection", "valid_seen"],
        Split::Test => &["test", "valid_unseen"],
    }
}

fn part(directory: &Path, names: &[String], split: Split) -> Result<Option<PathBuf>, EnvError> {
    let is_part = |name: &&String| {
        let stem = Format::of(Path::new(name)).and_then(|_| Path::new(name).file_stem()?.to_str());
        part_names(split).contains(&stem.unwrap_or(name))
    };
    let found: Vec<&String> = names.iter().filter(is_part).collect();
    match found.as_slice() {
        [] => Ok(None),
        [name] => {
            let part = directory.join(name);
            if part.is_dir() { only_data_file(&part).map(Some) } else { Ok(Some(part)) }
        }
        several => Err(bad_data(
            directory,
            format!("has several parts for the split `{split}`: {}; keep one", joined(several)),
        )),
    }
}

fn only_data_file(directory: &Path) -> Result<PathBuf, EnvError> {
    let names = entry_names(directory)?;
    let found: Vec<&String> = names.iter().filter(|name| Format::of(Path::new(name)).is_some()).collect();
    match found.as_slice() {
        [] => {
            Err(bad_data(directory, "holds no .jsonl, .json or .csv file; expected exactly one".to_owned()))
        }
        [name] => Ok(directory.join(name)),
        several => {
            Err(bad_data(directory, format!("holds several data files: {}; keep one", joined(several))))
        }
    }
}

/// The names in a directory, sorted; hidden entries and names that are not Unicode are nobody's data.
pub(crate) fn entry_names(directory: &Path) -> Result<Vec<String>, EnvError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|source| read_error(directory, source))? {
        let entry = entry.map_err(|source| read_error(directory, source))?;
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn joined(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn bad_data(path: &Path, message: String) -> EnvError {
    EnvError::BadData { path: path.to_path_buf(), message }
}
