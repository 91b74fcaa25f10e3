//! Files of a run as values, and what can be known of a run without its lock.

use super::atomic::failed;
use super::path::{
    HISTORY_FILE, HISTORY_LOG, LOCK_FILE, META_SKILL_RESULT, SLOW_RESULT, SUMMARY_FILE, meta_skill_path,
    slow_update_path,
};
use super::seal::is_sealed_whole;
use crate::error::PipelineError;
use crate::kind::has_summary;
use crate::records::bank::BankSummary;
use crate::records::document::RuntimeState;
use crate::records::epoch::EpochRecords;
use crate::records::summary::Summary;
use crate::records::{ConfigFile, FORMAT_VERSION, is_supported};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use skill_core::canonical::RunningSha256;
use skill_core::{EpochIdx, StepIdx};
use skill_llm::regular_file;
use std::fs::TryLockError;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// A file is hashed in parts of this size.
const PART_BYTES: usize = 64 * 1024;

/// How far a run has come, for those who only look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// There is no run.
    Absent,
    /// The run has begun and has no summary yet.
    Unfinished,
    /// The run is complete.
    Finished,
}

/// Looks at a run directory without taking its lock.
pub fn run_status(path: &Path) -> RunStatus {
    if has_summary(path) {
        RunStatus::Finished
    } else if path.join("config.json").is_file() {
        RunStatus::Unfinished
    } else {
        RunStatus::Absent
    }
}

/// Whether a directory is that of a run, by the names of its files: a `config.json` alone may be anybody's.
pub fn is_run(path: &Path) -> bool {
    let has = |name: &str| path.join(name).exists();
    has("runtime_state.json")
        || (has("config.json")
            && [LOCK_FILE, HISTORY_FILE, HISTORY_LOG, "events.jsonl", "steps"].into_iter().any(has))
}

/// What a run that trains a bank came to; `None` if it is not finished.
///
/// # Errors
///
/// A file that cannot be read or is not JSON.
pub fn read_bank_summary(path: &Path) -> Result<Option<BankSummary>, PipelineError> {
    read_json(&path.join(crate::records::bank::SUMMARY_FILE))
}

/// Whether a process works on a run.
pub fn is_held(path: &Path) -> bool {
    let Ok(lock) = regular_file::open(&path.join(LOCK_FILE)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// What a run was asked, without taking its lock; `None` if there is no run.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of another format.
pub fn read_config(path: &Path) -> Result<Option<ConfigFile>, PipelineError> {
    read_versioned(&path.join("config.json"))
}

/// What a run came to; `None` if it is not finished.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of another format.
pub fn read_summary(path: &Path) -> Result<Option<Summary>, PipelineError> {
    read_versioned(&path.join(SUMMARY_FILE))
}

/// The last step of a run whose files are all written, without taking its lock; `None` before the baseline is
/// measured.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of another format.
pub fn read_finished_step(path: &Path) -> Result<Option<StepIdx>, PipelineError> {
    let state: Option<RuntimeState> = read_versioned(&path.join("runtime_state.json"))?;
    Ok(state.map(|state| state.last_completed_step))
}

/// The hash of a file of any size, which is never in memory as a whole.
///
/// # Errors
///
/// A file that cannot be read or is not a regular file.
pub fn hash_of_file(path: &Path) -> io::Result<RunningSha256> {
    let mut file = regular_file::open(path)?;
    let (mut hash, mut part) = (RunningSha256::default(), vec![0; PART_BYTES]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hash),
            n_read => hash.update(part.get(..n_read).unwrap_or_default()),
        }
    }
}

/// The bytes of a file of a run that may be absent: `None` if it does not exist.
///
/// # Errors
///
/// A file that cannot be read.
pub fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, PipelineError> {
    regular_file::read_if_there(path).map_err(failed("read", path))
}

/// As [`read_bytes`], of a file that holds text.
///
/// # Errors
///
/// A file that cannot be read, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<Option<String>, PipelineError> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    let not_text = |error| failed("read", path)(io::Error::new(io::ErrorKind::InvalidData, error));
    String::from_utf8(bytes).map(Some).map_err(not_text)
}

/// A file of JSON; it is never a tree of values in memory, which takes several times the room.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    read_bytes(path)?.map(|bytes| parse(path, &bytes)).transpose()
}

/// A file of JSON that is as it was written; one of an older version has no checksum.
pub(super) fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    let Some(bytes) = read_bytes(path)? else { return Ok(None) };
    if is_sealed_whole(&bytes) == Some(false) {
        return Err(PipelineError::ChangedFile { path: path.to_owned() });
    }
    parse(path, &bytes).map(Some)
}

/// The time that a run has taken; none where it has no file of it yet.
///
/// # Errors
///
/// A file that cannot be read or is not what it should be: a cap on the time holds for all of it.
pub fn read_times<T: DeserializeOwned + Default>(path: &Path) -> Result<T, PipelineError> {
    Ok(read_sealed(path)?.unwrap_or_default())
}

pub(super) fn parse<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, PipelineError> {
    serde_json::from_slice(bytes).map_err(|error| not_readable(path.to_owned(), &error))
}

pub(super) fn not_readable(path: PathBuf, error: &serde_json::Error) -> PipelineError {
    let what = if error.is_data() { "is not of the expected form" } else { "is not JSON" };
    PipelineError::Corrupt { path, message: format!("{what}: {error}") }
}

/// Reads a file with [`parse_versioned`]; `None` if it does not exist.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, is of another format, or was changed.
pub fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    read_bytes(path)?.map(|bytes| parse_versioned(path, &bytes)).transpose()
}

/// Reads an object that carries its version, and its checksum if it is sealed.
pub fn parse_versioned<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, PipelineError> {
    /// As much of a file as says whether it can be read.
    #[derive(Deserialize)]
    struct Versioned {
        #[serde(default)]
        format_version: Value,
    }
    let versioned: Option<Versioned> = match parse(path, bytes) {
        Ok(versioned) => Some(versioned),
        // JSON of another form has no version.
        Err(_) if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() => None,
        Err(error) => return Err(error),
    };
    let version =
        versioned.as_ref().and_then(|versioned| versioned.format_version.as_str()).unwrap_or_default();
    if version.is_empty() {
        let message = "has no `format_version`: it is not a file of this program".to_owned();
        return Err(PipelineError::Corrupt { path: path.to_owned(), message });
    }
    if !is_supported(version) {
        return Err(PipelineError::OtherFormat {
            path: path.to_owned(),
            found: version.to_owned(),
            supported: FORMAT_VERSION.to_owned(),
        });
    }
    if is_sealed_whole(bytes) == Some(false) {
        return Err(PipelineError::ChangedFile { path: path.to_owned() });
    }
    parse(path, bytes)
}

pub(super) fn read_epoch_end(run: &Path, epoch: EpochIdx) -> Result<EpochRecords, PipelineError> {
    Ok(EpochRecords {
        slow_update: read_versioned(&slow_update_path(run, epoch).join(SLOW_RESULT))?,
        meta_skill: read_versioned(&meta_skill_path(run, epoch).join(META_SKILL_RESULT))?,
    })
}
