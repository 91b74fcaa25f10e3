//! What two equal runs have in common.

use std::collections::BTreeMap;
use std::path::Path;

/// What differs between two equal runs.
fn is_of_its_process(name: &str) -> bool {
    ["events.jsonl", "timings.json", "timings.jsonl"].contains(&name) || name.starts_with("journal.sqlite")
}

/// Every file of a run that has to be the same whenever the run is made, by path.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                open.push(path);
            } else if !is_of_its_process(&name) {
                files.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}
