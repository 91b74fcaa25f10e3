//! The files that two equal runs have in common.

use super::TRANSFER_DIR;
use crate::error::Error;
use crate::prune::PRUNED_DIR;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use skill_core::RolloutResult;
use skill_pipeline::PipelineError;
use skill_pipeline::run_dir::notes::NOTES_FILE;
use skill_pipeline::run_dir::timings::{TIMINGS_FILE, TIMINGS_LOG};
use skill_pipeline::run_dir::{FILES_FILE, HISTORY_LOG, JOURNAL_FILE, STOP_FILE, is_kept_by_hand};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files and directories of a run in which two equal runs may differ: they hold times, or belong to the process.
const FILES_OF_THEIR_OWN: [&str; 12] = [
    "agent_traces",
    JOURNAL_FILE,
    "journal.sqlite-wal",
    "journal.sqlite-shm",
    "journal.sqlite-sent",
    "events.jsonl",
    NOTES_FILE,
    TIMINGS_FILE,
    TIMINGS_LOG,
    "report.html",
    "live.json",
    "run.lock",
];

/// The files below a directory that two equal runs have in common, by their path below it.
pub(super) fn files_of(root: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let mut files = BTreeSet::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let path = root.join(&dir);
        let cannot_read = |source| PipelineError::RunDir { action: "read", path: path.clone(), source };
        for entry in std::fs::read_dir(&path).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            let below = dir.join(entry.file_name());
            let is_own = FILES_OF_THEIR_OWN.iter().any(|own| below == Path::new(own));
            if is_own || is_of_others(&below) {
                continue;
            }
            if entry.file_type().map_err(cannot_read)?.is_dir() {
                dirs.push(below);
            } else {
                files.insert(below);
            }
        }
    }
    Ok(files)
}

/// Whether something in the directory of a run is not the trainer's: what `skillrl prune`, `skillrl transfer` and people
/// put there.
fn is_of_others(below: &Path) -> bool {
    let name = below.to_string_lossy();
    name == PRUNED_DIR
        || name == TRANSFER_DIR
        || name == STOP_FILE
        || name.starts_with('.')
        || is_kept_by_hand(&name)
}

/// Whether a run of format 1 has no such file.
pub(super) fn is_new_in_format_2(below: &Path) -> bool {
    [FILES_FILE, HISTORY_LOG].iter().any(|name| below == Path::new(name))
}

/// Whether a file of a run of an older format says what a replay of it says: with other fields besides, or a layout of
/// its own.
pub(super) fn says_the_same(recorded: &[u8], replayed: &[u8]) -> bool {
    if recorded == replayed {
        return true;
    }
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    json(recorded).zip(json(replayed)).is_some_and(|(recorded, replayed)| holds(&replayed, &recorded))
}

/// Whether a value holds all fields of an older one; only the version of the format may differ.
fn holds(newer: &Value, older: &Value) -> bool {
    match (newer, older) {
        (Value::Object(fields), Value::Object(older_fields)) => {
            older_fields.iter().all(|(name, value)| match name.as_str() {
                "format_version" => true,
                "conversation" if fields.contains_key("trajectory") => is_same_talk(newer, older),
                "extras" if older_fields.contains_key("conversation") => {
                    let mut left = value.clone();
                    if let Some(extras) = left.as_object_mut() {
                        extras.retain(|name, _| !PARTS_OF_TRAJECTORIES.contains(&name.as_str()));
                    }
                    left == Value::Object(Map::new())
                        || fields.get(name).is_some_and(|newer| holds(newer, &left))
                }
                name => fields.get(name).is_some_and(|newer| holds(newer, value)),
            })
        }
        (Value::Array(newer), Value::Array(older)) => {
            newer.len() == older.len() && newer.iter().zip(older).all(|(newer, older)| holds(newer, older))
        }
        (newer, older) => newer == older,
    }
}

/// Extras of older results that are parts of the trajectory now.
const PARTS_OF_TRAJECTORIES: [&str; 6] =
    ["turns", "messages", "ended", "invalid_actions", "draw", "finish_reason"];

/// Whether two results tell of the same conversation; older ones had tool calls in the text.
fn is_same_talk(newer: &Value, older: &Value) -> bool {
    let [newer, older] = [newer, older].map(|result| RolloutResult::deserialize(result).ok());
    let Some((newer, older)) = newer.zip(older) else { return false };
    newer.trajectory.conversation().count() == older.trajectory.conversation().count()
        && newer.trajectory.conversation().zip(older.trajectory.conversation()).all(|(new, old)| {
            new.role == old.role && (!new.tool_calls.is_empty() || new.as_text().trim() == old.content.trim())
        })
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| {
        Error::Pipeline(PipelineError::RunDir { action: "read", path: path.to_owned(), source })
    })
}
