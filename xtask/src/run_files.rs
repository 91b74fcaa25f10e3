//! The files that equal runs have in common.

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files with times, and files about the process that holds the run: two equal runs may differ in them.
const MAY_DIFFER: [&str; 9] = [
    "events.jsonl",
    "live.json",
    "phase_times.json",
    "report.html",
    "rl_times.json",
    "run.lock",
    "sft_times.json",
    "timings.json",
    "timings.jsonl",
];

/// The files of a run with their contents, without those that may differ and without the journal, in which the order of
/// calls may.
pub(crate) fn comparable_files(dir: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let (mut found, mut left) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                left.push(path);
            } else if !MAY_DIFFER.contains(&name.as_str()) && !name.starts_with("journal.sqlite") {
                found.insert(path.strip_prefix(dir)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}
