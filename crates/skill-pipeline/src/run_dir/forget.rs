//! The beginning of a run that came to nothing, taken away so that the next one may have other settings.

use super::atomic::{remove_dir, remove_file};
use super::checks::CHECKS_FILE;
use super::held::{RUN_FILES, RunDir};
use super::path::REPORT_FILE;
use crate::error::PipelineError;
use crate::kind::has_weights;
use skill_llm::journal::JOURNAL_FILE;
use std::path::Path;

/// What a run writes besides [`RUN_FILES`] before a model has answered.
const BEGUN: [&str; 6] =
    ["config.json", "events.jsonl", "timings.json", "timings.jsonl", REPORT_FILE, CHECKS_FILE];
/// What lies beside the journal.
const BESIDE_JOURNAL: [&str; 5] = ["", "-wal", "-shm", "-sent", "-sum"];

/// Removes what a run wrote; notes of people and files of others stay. False, and nothing is removed, for a run that
/// trains weights: what these have learnt is in no journal.
///
/// The caller has seen that no model has answered: this does not look, and what the journal holds is lost.
///
/// # Errors
///
/// A run that another process holds, and files that cannot be removed.
pub fn forget_unanswered(run: &Path) -> Result<bool, PipelineError> {
    let held = RunDir::open(run)?;
    if has_weights(held.path(), held.read_config()?.as_ref().map(|config| &config.identity)) {
        return Ok(false);
    }
    for name in RUN_FILES.iter().chain(&BEGUN) {
        let path = held.path().join(name);
        if path.is_dir() { remove_dir(&path)? } else { remove_file(&path)? }
    }
    for end in BESIDE_JOURNAL {
        remove_file(&held.path().join(format!("{JOURNAL_FILE}{end}")))?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::MODE;
    use crate::records::{ConfigFile, RunIdentity};
    use serde_json::json;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The directory of a run of this kind, with these files too.
    fn begun(kind: Option<&str>, files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mode = kind.map(|kind| (MODE.to_owned(), json!(kind)));
        let config = ConfigFile::new(json!({}), RunIdentity::from_iter(mode));
        RunDir::open(dir.path()).unwrap().write_config(&config, Some("")).unwrap();
        for name in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
        dir
    }

    #[test]
    fn a_begun_run_is_forgotten_and_what_people_put_there_is_not() {
        let journal = ["journal.sqlite", "journal.sqlite-sent", "journal.sqlite-sum"];
        let files = [&["skills/a.md", "notes.jsonl", "mine.txt"][..], &journal].concat();
        for kind in [None, Some("bank")] {
            let dir = begun(kind, &files);
            assert!(forget_unanswered(dir.path()).unwrap());
            assert_eq!(names(dir.path()), ["mine.txt", "notes.jsonl", "run.lock"]);
        }
    }

    #[test]
    fn what_weights_have_learnt_is_not_forgotten() {
        let of_rl = &["iterations.jsonl"][..];
        for (kind, files) in
            [(Some("sft"), &[][..]), (Some("rl"), of_rl), (Some("weights"), &[]), (None, of_rl)]
        {
            let dir = begun(kind, files);
            let before = names(dir.path());
            assert!(!forget_unanswered(dir.path()).unwrap());
            assert_eq!(names(dir.path()), before);
        }
    }
}
