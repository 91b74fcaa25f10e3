//! The directory of a measurement: `eval --out`, of a skill or of a bank.
//!
//! Beside its files lies `SHA256SUMS`, with their hashes in the form of a policy's folder. It finds damage, not forgery:
//! who changes a result can change its hash. A directory of an earlier version has none, and is read as it is.
//!
//! # Invariants
//!
//! - The hashes are removed before a file is replaced and written after the last one, so that a kill in between leaves a
//!   directory without hashes and never one with those of other files.

use super::atomic;
use super::files::{FILES_FILE, FilesLine, lines_of_state};
use super::line_log::whole_lines;
use super::path::{RESULTS_FILE, SUMMARY_FILE};
use super::policy_hashes::{HASHES_FILE, parse_hashes, verify_policy, write_hashes};
use super::read::{is_held, is_run, read_bytes};
use crate::error::PipelineError;
use skill_core::canonical::hex_sha256;
use skill_llm::regular_file;
use std::collections::BTreeMap;
use std::path::Path;

/// The settings that a measurement of a skill was made with.
pub const MEASURED_WITH_FILE: &str = "measured_with.json";
/// The result of a measurement of a bank.
pub const BANK_EVALUATION_FILE: &str = "bank_evaluation.json";
/// The spend of a directory's calls before the measurement that is in it, by which caps count.
pub const SPENT_FILE: &str = "spent_before.json";

/// The files of a measurement that are hashed, if they exist.
const FILES: [&str; 4] = [RESULTS_FILE, SUMMARY_FILE, MEASURED_WITH_FILE, BANK_EVALUATION_FILE];

/// True for a directory that holds a measurement, damaged or not, and no run.
pub fn is_measurement(dir: &Path) -> bool {
    let names_one = || {
        let text = regular_file::read_to_string(&dir.join(HASHES_FILE)).unwrap_or_default();
        parse_hashes(&text).is_some_and(|files| files.iter().any(|(name, _)| FILES.contains(name)))
    };
    let has = |name: &str| dir.join(name).is_file();
    !is_run(dir) && (has(MEASURED_WITH_FILE) || has(BANK_EVALUATION_FILE) || names_one())
}

/// Removes the hashes, before a file that they name is replaced.
///
/// # Errors
///
/// A file that cannot be removed.
pub fn unseal(dir: &Path) -> Result<(), PipelineError> {
    atomic::remove_file(&dir.join(HASHES_FILE))
}

/// Writes the hashes of the files of a measurement.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn seal(dir: &Path) -> Result<(), PipelineError> {
    write_hashes(dir, FILES.into_iter().filter(|name| dir.join(name).exists()))
}

/// Verifies the files of a measurement; returns false for one of an earlier version, which has no hashes.
///
/// # Errors
///
/// [`PipelineError::ChangedFile`] for a file that is missing or was changed, and a file that cannot be read.
pub fn verify(dir: &Path) -> Result<bool, PipelineError> {
    verify_policy(dir)
}

/// Verifies the results of a run's evaluations, which others are compared with, against the hashes in `files.jsonl`.
///
/// # Errors
///
/// As [`verify`], and a damaged line of `files.jsonl`; a run of an earlier version has no hashes and is taken as it is.
pub fn verify_evaluations(run: &Path) -> Result<(), PipelineError> {
    let lines_path = run.join(FILES_FILE);
    let Some(bytes) = read_bytes(&lines_path)? else { return Ok(()) };
    let (n_of_state, is_training) = (lines_of_state(run)?.unwrap_or_default(), is_held(run));
    // Of a file that was written again the last line holds.
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    for (number, line) in (1_u64..).zip(whole_lines(&bytes)) {
        let Some(line) = FilesLine::read(number, line) else {
            let message = format!("line {number} is damaged");
            return Err(PipelineError::Corrupt { path: lines_path, message });
        };
        if number > n_of_state && !line.part.holds_by_itself(is_training) {
            break;
        }
        hashes.extend(line.files);
    }
    for (name, hash) in &hashes {
        let is_results =
            name.split_once('/').is_some_and(|(dir, file)| dir.contains("_eval") && file == RESULTS_FILE);
        if !is_results {
            continue;
        }
        let path = run.join(name);
        match read_bytes(&path)? {
            Some(bytes) if hex_sha256(&bytes) == *hash => {}
            Some(_) => return Err(PipelineError::ChangedFile { path }),
            None => return Err(PipelineError::missing(path)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_dir::check::{Fault, check};
    use crate::run_dir::files::RunPart;
    use std::fs;

    #[test]
    fn damage_of_a_measurement_is_found_file_by_file() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(!is_measurement(dir) && check(dir).is_err());
        for name in [RESULTS_FILE, SUMMARY_FILE, MEASURED_WITH_FILE] {
            fs::write(dir.join(name), format!("{{\"of\": \"{name}\"}}")).unwrap();
        }
        assert!(is_measurement(dir) && !verify(dir).unwrap());
        assert!(check(dir).unwrap().is_unrecorded);
        seal(dir).unwrap();
        let whole = check(dir).unwrap();
        assert_eq!((whole.n_whole, whole.damage.len(), whole.is_unrecorded), (4, 0, false));
        for name in [RESULTS_FILE, SUMMARY_FILE, MEASURED_WITH_FILE] {
            let path = dir.join(name);
            let bytes = fs::read(&path).unwrap();
            let mut changed = bytes.clone();
            changed[3] ^= 1;
            for (fault, damaged) in
                [(Fault::Changed, Some(changed)), (Fault::Empty, Some(Vec::new())), (Fault::Missing, None)]
            {
                match damaged {
                    Some(damaged) => fs::write(&path, damaged).unwrap(),
                    None => fs::remove_file(&path).unwrap(),
                }
                let found = check(dir).unwrap().damage;
                assert_eq!(found.iter().map(|of| (&*of.file, of.fault)).collect::<Vec<_>>(), [(name, fault)]);
                assert!(matches!(verify(dir), Err(PipelineError::ChangedFile { .. })), "{name}");
            }
            fs::write(&path, bytes).unwrap();
        }
        assert!(verify(dir).unwrap());
        fs::write(dir.join(HASHES_FILE), "").unwrap();
        assert_eq!(check(dir).unwrap().damage.len(), 1);
        unseal(dir).unwrap();
        assert!(!verify(dir).unwrap());
    }
    /// A run of these lines of `files.jsonl`, without a state.
    #[track_caller]
    fn check_evaluations(lines: &[(RunPart, &str)], damage: fn(&Path), expect: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut text = String::new();
        for (number, (part, name)) in (1..).zip(lines) {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), "[]").unwrap();
            let files = [((*name).to_owned(), hex_sha256(b"[]"))].into_iter().collect();
            text += &serde_json::to_string(&FilesLine::new(number, part.clone(), files)).unwrap();
            text.push('\n');
        }
        fs::write(dir.join(FILES_FILE), text).unwrap();
        assert!(verify_evaluations(dir).is_ok());
        damage(dir);
        let named = match verify_evaluations(dir) {
            Ok(()) => None,
            Err(PipelineError::ChangedFile { path } | PipelineError::Corrupt { path, .. }) => Some(path),
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(named, expect.map(|name| dir.join(name)));
    }

    #[test]
    fn evaluations_that_changed_or_are_gone_and_lines_that_are_damaged_are_refused() {
        const BEST: &str = "test_eval_best/results.json";
        let dir = || "test_eval_best".to_owned();
        let ended = [(RunPart::Evaluation { dir: dir() }, BEST), (RunPart::End, "summary.json")];
        check_evaluations(&ended, |dir| fs::write(dir.join(BEST), "[1]").unwrap(), Some(BEST));
        check_evaluations(&ended, |dir| fs::remove_file(dir.join(BEST)).unwrap(), Some(BEST));
        check_evaluations(&ended, |dir| fs::remove_file(dir.join("summary.json")).unwrap(), None);
        let damaged = |dir: &Path| {
            let text = fs::read_to_string(dir.join(FILES_FILE)).unwrap();
            fs::write(dir.join(FILES_FILE), text.replacen("test_eval", "best_eval", 1)).unwrap();
        };
        check_evaluations(&ended, damaged, Some(FILES_FILE));
        // A part that no state names may have left its line and not its files.
        let begun = [(RunPart::Baseline, "baseline_selection_eval/results.json")];
        check_evaluations(
            &begun,
            |dir| fs::remove_dir_all(dir.join("baseline_selection_eval")).unwrap(),
            None,
        );
    }
}
