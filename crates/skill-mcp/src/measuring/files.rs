//! Files beside the directory of a measurement: what it was asked to do, and what its process has printed.

use super::beside;
use crate::caps::Caps;
use crate::error::ToolError;
use crate::room::start_of;
use crate::start::{LOG_ENDING, of_system};
use serde::{Deserialize, Serialize};
use skill_llm::regular_file;
use skill_pipeline::run_dir::atomic;
use std::fs::{DirEntry, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const RESULT_ENDING: &str = ".json";
const STARTED_ENDING: &str = ".started.json";
/// What a process is printing.
const PART_ENDING: &str = ".part";

/// A file that nobody has written to for so long, of a measurement that nobody works on, was left.
const LEFT_AFTER: Duration = Duration::from_secs(60);

/// Endings of the files beside a measurement: no measurement is called so.
pub(crate) const RESERVED_ENDINGS: [&str; 3] = [RESULT_ENDING, LOG_ENDING, PART_ENDING];

/// What a measurement is asked to do, by which a later call is compared with it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) config: String,
    pub(crate) skill: Option<String>,
    pub(crate) bank: Option<String>,
    pub(crate) split: String,
    pub(crate) set: Vec<String>,
    /// The hash of the skill, or the version of the bank; none where no skill is named.
    pub(crate) content: Option<String>,
    pub(crate) against: Option<String>,
    /// The caps of the call.
    pub(crate) caps: Caps,
}

impl Asked {
    /// True if both measure the same: the results of one answer the other.
    pub(super) fn is_same_work(&self, other: &Self) -> bool {
        let work = |asked: &Self| Self { against: None, caps: Caps::default(), ..asked.clone() };
        work(self) == work(other)
    }
}

/// The record of the last process that a server started for a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Started {
    pub(crate) asked: Asked,
    /// What it may spend, over all its processes.
    pub(crate) caps: Caps,
}

/// The record; `None` if there is none.
///
/// One that cannot be read is an error: it says what its process may spend, and that is not given to another one.
pub(super) fn read_started(dir: &Path) -> Result<Option<Started>, ToolError> {
    let path = beside(dir, STARTED_ENDING);
    let unreadable = |cause: String| {
        ToolError::new(
            format!("the record of a started measurement cannot be read: {}", path.display()),
            "tell the person whom you work for: another version wrote that file, or it is damaged; it can be moved \
             elsewhere, together with the directory of its measurement, when no process works on it",
        )
        .with_untrusted(start_of(&cause))
    };
    let bytes = regular_file::read_if_there(&path).map_err(|error| unreadable(error.to_string()))?;
    let parse =
        |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()));
    bytes.map(parse).transpose()
}

pub(super) fn write_started(dir: &Path, started: &Started) -> Result<(), ToolError> {
    let path = beside(dir, STARTED_ENDING);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| of_system("start the measurement", &error))?;
    }
    Ok(atomic::write_json(&path, started)?)
}

/// What the last process has printed that came to its end.
pub(super) fn read_result(dir: &Path) -> Result<Vec<u8>, ToolError> {
    regular_file::read(&beside(dir, RESULT_ENDING))
        .map_err(|error| of_system("read the result of the measurement", &error))
}

/// A file of one process alone, until it becomes the result.
pub(super) struct Part {
    path: PathBuf,
    result: PathBuf,
}

impl Part {
    /// Creates it, and removes those of processes whose server did not wait for their end.
    pub(super) fn create(dir: &Path) -> io::Result<(Self, File)> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        remove_left_parts(dir);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = beside(dir, &format!(".{}-{count}{PART_ENDING}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok((Self { path, result: beside(dir, RESULT_ENDING) }, file))
    }

    /// Makes it the result.
    pub(super) fn keep(self) -> io::Result<()> {
        std::fs::rename(self.path, self.result)
    }

    /// Removes it.
    pub(super) fn discard(self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "a file could not be removed");
    }
}

/// A process that has begun a moment ago does not hold its directory yet.
fn is_old(entry: &DirEntry) -> bool {
    let changed = entry.metadata().ok().and_then(|metadata| metadata.modified().ok());
    changed.and_then(|changed| changed.elapsed().ok()).is_some_and(|age| age > LEFT_AFTER)
}

/// Nobody works on the measurement, so that nobody writes them.
fn remove_left_parts(dir: &Path) {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(is_old) {
        let file_name = entry.file_name();
        let part = file_name.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('.'));
        let number = part.and_then(|part| part.strip_suffix(PART_ENDING));
        // Those of a measurement whose name only begins so have a dot more.
        if number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')) {
            remove(&entry.path());
        }
    }
}
