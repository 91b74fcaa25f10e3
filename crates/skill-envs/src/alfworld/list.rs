//! Finds the games of a split: in a directory of the data set, or by a list.

use super::files::{GAME_FILE, read_text};
use crate::error::EnvError;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// How deep directories are searched for games; the data set's are two deep.
const MAX_DEPTH: usize = 6;
/// The directory below which some releases hold the splits.
const RELEASE: &str = "json_2.1.1";

/// The games that a path names: all below a directory, or those of a list; with whether each was named by itself.
pub(super) fn games(source: &Path, data: &Path) -> Result<Vec<PathBuf>, EnvError> {
    if source.is_dir() {
        let mut found = Vec::new();
        walk(source, 0, &mut found)?;
        found.sort();
        return Ok(found);
    }
    let text = read_text(source)?;
    let named = if source.extension().is_some_and(|extension| extension == "json") {
        json_list(source, &text)?
    } else {
        let lines = text.lines().enumerate().map(|(line_idx, line)| (line_idx + 1, line.trim().to_owned()));
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).collect()
    };
    named
        .into_iter()
        .map(|(number, name)| {
            resolve(&name, source, data).ok_or_else(|| EnvError::BadLine {
                path: source.to_path_buf(),
                line: number,
                message: format!("no game found at `{name}` below {}", data.display()),
            })
        })
        .collect()
}

/// The data set's own directory of a split.
pub(super) fn split_directory(data: &Path, name: &str) -> Option<PathBuf> {
    [data.join(name), data.join(RELEASE).join(name)].into_iter().find(|directory| directory.is_dir())
}

/// A list in JSON, each name with the number of its element.
fn json_list(source: &Path, text: &str) -> Result<Vec<(usize, String)>, EnvError> {
    let bad = |line: usize, message: String| EnvError::BadLine { path: source.to_path_buf(), line, message };
    let elements: Vec<serde_json::Value> = serde_json::from_str(text)
        .map_err(|error| bad(error.line().max(1), format!("is not an array of games: {error}")))?;
    let numbered = elements.into_iter().zip(1..);
    numbered
        .map(|(element, number)| {
            let name = match element {
                serde_json::Value::String(name) => name,
                other => Named::deserialize(other).map(|named| named.gamefile).map_err(|_| {
                    EnvError::BadElement {
                        path: source.to_path_buf(),
                        element: number,
                        line: 1,
                        message: "names no game; expected a path, or an object with `gamefile`".to_owned(),
                    }
                })?,
            };
            Ok((number, name))
        })
        .collect()
}

#[derive(Deserialize)]
struct Named {
    gamefile: String,
}

/// The file of a game that a list names, whatever its path begins with: lists are written on other machines.
fn resolve(name: &str, source: &Path, data: &Path) -> Option<PathBuf> {
    let name = name.replace('\\', "/");
    let relative = name.split_once(&format!("{RELEASE}/")).map_or(name.as_str(), |(_, after)| after);
    let beside = source.parent().unwrap_or(Path::new("."));
    let candidates =
        [data.join(&name), data.join(relative), data.join(RELEASE).join(relative), beside.join(&name)];
    let file = |path: PathBuf| {
        if path.is_dir() {
            Some(path.join(GAME_FILE)).filter(|file| file.is_file())
        } else {
            path.is_file().then_some(path)
        }
    };
    candidates.into_iter().find_map(file)
}

fn walk(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), EnvError> {
    let read_error = |source| EnvError::ReadData { path: directory.to_path_buf(), source };
    for entry in fs::read_dir(directory).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        if path.is_dir() {
            if depth < MAX_DEPTH {
                walk(&path, depth + 1, found)?;
            }
        } else if path.file_name().is_some_and(|name| name == GAME_FILE) {
            found.push(path);
        }
    }
    Ok(())
}
