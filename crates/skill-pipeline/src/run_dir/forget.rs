//! The beginning of a run that came to nothing, taken away so that the next one may have other settings.

use super::atomic::{remove_dir, remove_file};
use super::checks::CHECKS_FILE;
use super::held::{RUN_FILES, RunDir};
use crate::error::PipelineError;
use skill_llm::journal::JOURNAL_FILE;
use std::path::Path;

/// What a run writes besides [`RUN_FILES`] before a model has answered.
const BEGUN: [&str; 6] =
    ["config.json", "events.jsonl", "timings.json", "timings.jsonl", "report.html", CHECKS_FILE];
/// What lies beside the journal.
const BESIDE_JOURNAL: [&str; 5] = ["", "-wal", "-shm", "-sent", "-sum"];

/// Removes what a run wrote; notes of people and files of others stay.
///
/// The caller has seen that no model has answered: this does not look, and what the journal holds is lost.
///
/// # Errors
///
/// A run that another process holds, and files that cannot be removed.
pub fn forget_unanswered(run: &Path) -> Result<(), PipelineError> {
    let held = RunDir::open(run)?;
    for name in RUN_FILES.iter().chain(&BEGUN) {
        let path = held.path().join(name);
        if path.is_dir() { remove_dir(&path)? } else { remove_file(&path)? }
    }
    for end in BESIDE_JOURNAL {
        remove_file(&held.path().join(format!("{JOURNAL_FILE}{end}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_run_is_forgotten_and_what_people_put_there_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        };
        for name in [
            "config.json",
            "config.toml",
            "skills/a.md",
            "journal.sqlite",
            "journal.sqlite-sent",
            "journal.sqlite-sum",
            "notes.jsonl",
            "mine.txt",
        ] {
            put(name);
        }
        forget_unanswered(dir.path()).unwrap();
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mine.txt", "notes.jsonl", "run.lock"]);
    }
}
