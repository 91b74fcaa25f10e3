//! What two equal runs have in common.

use crate::all_files::all_files;
use std::collections::BTreeMap;
use std::path::Path;

/// What differs between two equal runs.
fn is_of_its_process(name: &str) -> bool {
    ["events.jsonl", "timings.json", "timings.jsonl"].contains(&name) || name.starts_with("journal.sqlite")
}

/// Every file of a run that has to be the same whenever the run is made, by path.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, String> {
    let files = all_files(dir).into_iter().filter(|(name, _)| !is_of_its_process(name));
    files.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}
