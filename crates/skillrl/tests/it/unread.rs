//! Configurations, journals and results of runs that cannot be read: named wherever prices and scores are shown.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::import::{copy_dir, data, import_to};
use skillrl::pipeline::run_dir::JOURNAL_FILE;
use skillrl::pipeline::{PipelineError, RunReader};
use skillrl::reports::CautionKind;
use skillrl::runs::{Depth, table, table_of};
use skillrl::spend::{Spending, terms_of};
use skillrl::{Error, report};
use std::fs;
use std::path::Path;

fn is_about(error: &Error, file: &str) -> bool {
    skillrl::llm::error::with_causes(error).contains(file)
}

/// Replaces a file; without bytes by a directory.
fn put(path: &Path, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::create_dir(path).unwrap(),
    }
}

/// How many cautions of the report, of the verdict and of the overview of a run, and how many notes of its row, name a file.
fn n_named(run: &Path, file: &str) -> [usize; 4] {
    let of_verdict = |verdict: &skillrl::reports::Verdict| {
        let cautions = verdict.cautions.iter().filter(|caution| caution.kind == CautionKind::DamagedFile);
        cautions.filter(|caution| caution.words.contains(file)).count()
    };
    let in_words = |words: &[String]| words.iter().filter(|words| words.contains(file)).count();
    let rows = table(&[run.to_owned()], &[], Depth::Courses).unwrap().runs;
    [
        of_verdict(&report::read(run).unwrap().verdict),
        of_verdict(&report::verdict(run).unwrap()),
        in_words(&report::overview(run).unwrap().cautions),
        rows.iter().map(|row| in_words(&row.notes)).sum(),
    ]
}

#[test]
fn a_configuration_that_cannot_be_read_is_not_one_without_prices() {
    let dir = tempfile::tempdir().unwrap();
    for (number, (bytes, is_unread)) in [
        (None, false),
        (Some(Some(&b"[[env"[..])), true),
        (Some(Some(b"[env]\nno_such_key = 1\n")), true),
        (Some(Some(&[0xff])), true),
        (Some(None), true),
    ]
    .into_iter()
    .enumerate()
    {
        let run = dir.path().join(number.to_string());
        import_to(&data("skillopt-run"), &run).unwrap();
        if let Some(bytes) = bytes {
            put(&run.join("config.toml"), bytes);
        }
        assert_eq!(n_named(&run, "config.toml"), [usize::from(is_unread); 4], "{number}");
        let reader = RunReader::open(&run).unwrap();
        match Spending::of(&reader) {
            Err(error) => assert!(is_unread && is_about(&error, "config.toml"), "{error:?}"),
            Ok(spending) => assert!(!is_unread && spending.is_none()),
        }
        assert_eq!(terms_of(&reader).is_err_and(|words| words.contains("config.toml")), is_unread);
    }
}

#[test]
fn a_journal_that_cannot_be_read_is_not_one_without_calls() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    import_to(&data("skillopt-run"), &run).unwrap();
    assert_eq!(n_named(&run, JOURNAL_FILE), [0; 4]);
    put(&run.join(JOURNAL_FILE), Some(&[b'x'; 4096]));
    assert_eq!(n_named(&run, JOURNAL_FILE), [1; 4]);
    // The calls of its results are known.
    assert_eq!(report::overview(&run).unwrap().calls, 2);
}

#[test]
fn results_that_cannot_be_read_are_named_in_the_row_and_paired_with_none() {
    let dir = tempfile::tempdir().unwrap();
    let runs = ["one", "two"].map(|name| dir.path().join(name));
    import_to(&data("skillopt-run"), &runs[0]).unwrap();
    copy_dir(&runs[0], &runs[1]);
    let n_noted = || {
        let rows = table(&runs, &[], Depth::Rows).unwrap().runs;
        rows.iter().map(|row| row.notes.iter().filter(|note| note.contains("results.json")).count()).collect()
    };
    let none: Vec<usize> = n_noted();
    assert_eq!(none, [0, 0]);
    put(&runs[1].join("test_eval_best/results.json"), Some(b"[{"));
    assert_eq!(n_noted(), [0, 1]);
}

#[test]
fn a_directory_of_runs_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |path: &Path| table_of(path, &[], Depth::Rows).unwrap_err();
    assert!(matches!(refused(dir.path()), Error::Pipeline(PipelineError::NoRun { .. })));
    #[cfg(unix)]
    {
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let error = refused(&circle);
        assert!(
            matches!(&error, Error::Pipeline(PipelineError::RunDir { path, .. }) if *path == circle),
            "{error:?}"
        );
    }
}
