//! Session files below a home directory.
//!
//! Files are opened for reading only, and links are followed only to files. Main function: [`session_files`].

use crate::database;
use crate::record::records;
use crate::table::Agent;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The largest session file that is read.
const MAX_BYTES: u64 = 1 << 30;
/// The deepest folder that is looked into.
const MAX_DEPTH: usize = 12;

/// A session file: its records in order.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionFile {
    /// Where it lies.
    pub path: PathBuf,
    /// Its records.
    pub(crate) records: Vec<Value>,
    /// Lines that are no records.
    pub(crate) n_other: usize,
}

/// A session file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The home directory is not there.
    #[error("{} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than any session.
    #[error("{} is larger than {MAX_BYTES} bytes", path.display())]
    TooLarge {
        /// The path.
        path: PathBuf,
    },
    /// A database cannot be read.
    #[error("cannot read the sessions in {}", path.display())]
    Database {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
}

/// Folders that a user has moved out of the home directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moved(BTreeMap<String, PathBuf>);

impl Moved {
    /// The folders that the variables of an agent move, with the values that `value` gives.
    pub fn of(agent: &Agent, value: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let found = agent.moved_by().filter_map(|(name, folder)| Some((folder.to_owned(), value(name)?)));
        Self(found.filter(|(_, path)| path.is_absolute()).collect())
    }

    /// Where a path below the home directory is.
    pub fn place(&self, home: &Path, path: &str) -> PathBuf {
        let rest = |folder: &str| match folder {
            "" => Some(path),
            folder if path == folder => Some(""),
            folder => path.strip_prefix(folder)?.strip_prefix('/'),
        };
        // The longest folder comes last among those that hold the path.
        match self.0.iter().rev().find_map(|(folder, place)| Some((place, rest(folder)?))) {
            Some((place, "")) => place.clone(),
            Some((place, rest)) => place.join(rest),
            None => home.join(path),
        }
    }
}

/// The session files of an agent below a home directory, in the order of their paths; folders that are moved are looked
/// for where they are.
///
/// With ids, only files that contain one of them are read; with a time, only those that changed since.
///
/// # Errors
///
/// A home that is not a directory, files that cannot be read, and folders that cannot be read, unless what has the ids was
/// found beside them.
pub fn session_files(
    agent: &Agent,
    home: &Path,
    moved: &Moved,
    ids: &BTreeSet<String>,
    since: Option<SystemTime>,
) -> Result<Vec<SessionFile>, HomeError> {
    if !home.is_dir() {
        return Err(HomeError::NotADirectory { path: home.to_owned() });
    }
    let mut found = Found::default();
    for pattern in &agent.session_files {
        let fixed = pattern.split('/').take_while(|part| !part.contains('*')).count();
        let parts: Vec<&str> = pattern.split('/').collect();
        let (fixed, rest) = parts.split_at(fixed.min(parts.len().saturating_sub(1)));
        find(&moved.place(home, &fixed.join("/")), rest, 0, &mut found);
    }
    let mut files = Vec::new();
    for path in found.paths {
        if is_superseded(&path) || since.is_some_and(|since| is_older(&path, since)) {
            continue;
        }
        if let Some(file) = read_file(&path, ids)? {
            files.push(file);
        }
    }
    match found.unreadable {
        // Where a user's sessions are, folders may be of others.
        Some(error) if ids.is_empty() || files.is_empty() => Err(error),
        Some(_) | None => Ok(files),
    }
}

/// Paths that match, and the first folder that could not be looked into.
#[derive(Debug, Default)]
struct Found {
    paths: BTreeSet<PathBuf>,
    unreadable: Option<HomeError>,
}

/// True if a file did not change since then, with a margin for clocks of file systems.
fn is_older(path: &Path, since: SystemTime) -> bool {
    const MARGIN: Duration = Duration::from_secs(5);
    let changed = std::fs::metadata(path).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed + MARGIN < since)
}

/// A compressed file beside the plain one, or the dump of a database beside it.
fn is_superseded(path: &Path) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("zst") => path.with_extension("").exists(),
        Some("sql") => path.with_extension("db").exists(),
        _ => false,
    }
}

fn find(folder: &Path, parts: &[&str], depth: usize, found: &mut Found) {
    let Some((first, rest)) = parts.split_first() else { return };
    if depth > MAX_DEPTH {
        return;
    }
    if *first == "**" {
        find(folder, rest, depth, found);
    } else if !first.contains('*') {
        let next = folder.join(first);
        match rest.is_empty() {
            true if next.is_file() => drop(found.paths.insert(next)),
            true => {}
            false => find(&next, rest, depth + 1, found),
        }
        return;
    }
    let entries = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(entries) => entries,
        // A folder that is not there has no sessions.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return,
        Err(source) => {
            let error = HomeError::Read { path: folder.to_owned(), source };
            found.unreadable.get_or_insert(error);
            return;
        }
    };
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if *first == "**" {
            if is_folder {
                find(&path, parts, depth + 1, found);
            }
        } else if matches_name(&name, first) {
            match rest.is_empty() {
                true if path.is_file() => drop(found.paths.insert(path)),
                true => {}
                false if is_folder => find(&path, rest, depth + 1, found),
                false => {}
            }
        }
    }
}

/// A name by a pattern with `*` for any text.
fn matches_name(name: &str, pattern: &str) -> bool {
    let mut rest = name;
    let mut parts = pattern.split('*').peekable();
    let Some(first) = parts.next() else { return false };
    let Some(after) = rest.strip_prefix(first) else { return false };
    rest = after;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.is_empty()
}

fn read_file(path: &Path, ids: &BTreeSet<String>) -> Result<Option<SessionFile>, HomeError> {
    let fault = |source| HomeError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(fault)?.len();
    if size > MAX_BYTES {
        return Err(HomeError::TooLarge { path: path.to_owned() });
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let text = match extension {
        "db" => {
            let (records, n_other) = database::of_file(path, ids)
                .map_err(|source| HomeError::Database { path: path.to_owned(), source })?;
            return Ok(Some(SessionFile { path: path.to_owned(), records, n_other }));
        }
        "zst" => {
            let file = std::fs::File::open(path).map_err(fault)?;
            let mut decoder = ruzstd::decoding::StreamingDecoder::new(file).map_err(|error| {
                fault(std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))
            })?;
            let mut bytes = Vec::new();
            decoder.by_ref().take(MAX_BYTES).read_to_end(&mut bytes).map_err(fault)?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        _ => String::from_utf8_lossy(&std::fs::read(path).map_err(fault)?).into_owned(),
    };
    if extension == "sql" {
        let (records, n_other) = database::of_dump(&text, ids)
            .map_err(|source| HomeError::Database { path: path.to_owned(), source })?;
        return Ok(Some(SessionFile { path: path.to_owned(), records, n_other }));
    }
    let in_path = path.to_string_lossy();
    // File names of some agents have the first part of an id alone.
    if !ids.is_empty() && !ids.iter().any(|id| text.contains(id.as_str()) || in_path.contains(id.as_str())) {
        return Ok(None);
    }
    let (records, n_other) = records(&text);
    Ok(Some(SessionFile { path: path.to_owned(), records, n_other }))
}

#[cfg(test)]
mod tests {
    use super::{HomeError, Moved, matches_name, session_files};
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    #[test]
    fn moved_folders_are_found_where_they_are() {
        let agent = crate::agent("opencode").unwrap().unwrap();
        let moved = Moved::of(agent, |name| (name == "XDG_DATA_HOME").then(|| PathBuf::from("/data")));
        let place = |path: &str| moved.place(Path::new("/home/u"), path);
        assert_eq!(place(".local/share/opencode/auth.json"), Path::new("/data/opencode/auth.json"));
        assert_eq!(place(".local/share"), Path::new("/data"));
        assert_eq!(place(".local/shared/x"), Path::new("/home/u/.local/shared/x"));
        assert_eq!(place(".config/opencode"), Path::new("/home/u/.config/opencode"));
        let agent = crate::agent("gemini-cli").unwrap().unwrap();
        let moved = Moved::of(agent, |name| (name == "GEMINI_CLI_HOME").then(|| PathBuf::from("/g")));
        assert_eq!(
            moved.place(Path::new("/home/u"), ".gemini/settings.json"),
            Path::new("/g/.gemini/settings.json")
        );
        // A relative path would be another one in the directory of a run.
        let moved = Moved::of(agent, |_| Some(PathBuf::from("g")));
        assert_eq!(moved, Moved::default());
    }

    /// No permission, and a folder that is a link to itself, are not an agent without sessions.
    #[cfg(unix)]
    #[test]
    fn a_folder_that_cannot_be_read_is_not_without_sessions() {
        let agent = crate::agent("claude-code").unwrap().unwrap();
        let home = tempfile::tempdir().unwrap();
        let (claude, ids) = (home.path().join(".claude"), ["one".to_owned()].into());
        let read = |ids: &BTreeSet<String>| session_files(agent, home.path(), &Moved::default(), ids, None);
        assert_eq!(read(&BTreeSet::new()).unwrap(), []);
        std::fs::create_dir(&claude).unwrap();
        std::os::unix::fs::symlink(claude.join("projects"), claude.join("projects")).unwrap();
        for ids in [&BTreeSet::new(), &ids] {
            assert!(matches!(read(ids), Err(HomeError::Read { .. })), "{ids:?}");
        }
        std::fs::remove_file(claude.join("projects")).unwrap();
        std::fs::create_dir_all(claude.join("projects/p")).unwrap();
        std::fs::write(claude.join("projects/p/one.jsonl"), "{\"sessionId\": \"one\"}\n").unwrap();
        assert_eq!(read(&ids).unwrap().len(), 1);
    }

    #[test]
    fn names_match_patterns() {
        for (name, pattern, expect) in [
            ("opencode.db", "opencode*.db", true),
            ("opencode-beta.db", "opencode*.db", true),
            ("opencode.db-wal", "opencode*.db", false),
            ("x.jsonl", "*.jsonl", true),
            ("x.jsonl.zst", "*.jsonl", false),
            ("anything", "*", true),
        ] {
            assert_eq!(matches_name(name, pattern), expect, "{name} {pattern}");
        }
    }
}
