//! What coding agents came to on the cases of a skill, as it is kept in the directory of their measurements.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// The outcome of an agent, in its directory: what `--json` prints of it (`outcome`), and its `text`.
pub(crate) const OUTCOME_FILE: &str = "outcome.json";

/// The outcomes in a directory of measurements, by agent; empty for any other directory.
pub(crate) fn outcomes_in(dir: &Path) -> Vec<Value> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.chain([dir.to_owned()]).collect();
    folders.sort();
    let read = |folder: &PathBuf| {
        let bytes = skillrl::llm::regular_file::read(&folder.join(OUTCOME_FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    };
    folders.iter().filter_map(read).collect()
}
