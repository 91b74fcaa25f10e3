//! The files that two equal runs have in common.

use super::TRANSFER_DIR;
use crate::error::Error;
use crate::prune::PRUNED_DIR;
use skill_llm::regular_file;
use skill_pipeline::run_dir::atomic::failed;
use skill_pipeline::run_dir::checks::CHECKS_FILE;
use skill_pipeline::run_dir::notes::NOTES_FILE;
use skill_pipeline::run_dir::timings::{TIMINGS_FILE, TIMINGS_LOG};
use skill_pipeline::run_dir::{JOURNAL_FILE, STOP_FILE, is_kept_by_hand};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files and directories of a run in which two equal runs may differ: they hold times, or belong to the process.
const FILES_OF_THEIR_OWN: [&str; 13] = [
    "agent_traces",
    JOURNAL_FILE,
    "journal.sqlite-wal",
    "journal.sqlite-shm",
    "journal.sqlite-sent",
    "journal.sqlite-sum",
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
        for entry in std::fs::read_dir(&path).map_err(failed("read", &path))? {
            let entry = entry.map_err(failed("read", &path))?;
            let below = dir.join(entry.file_name());
            let is_own = FILES_OF_THEIR_OWN.iter().any(|own| below == Path::new(own));
            if is_own || is_of_others(&below) {
                continue;
            }
            if entry.file_type().map_err(failed("read", &path))?.is_dir() {
                dirs.push(below);
            } else {
                files.insert(below);
            }
        }
    }
    Ok(files)
}

/// Whether something in the directory of a run is not the trainer's: what `skillrl prune`, `skillrl eval --targets` and people
/// put there.
fn is_of_others(below: &Path) -> bool {
    let name = below.to_string_lossy();
    name == PRUNED_DIR
        || name == TRANSFER_DIR
        || name == STOP_FILE
        || name == CHECKS_FILE
        || name.starts_with('.')
        || is_kept_by_hand(&name)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    Ok(regular_file::read(path).map_err(failed("read", path))?)
}
