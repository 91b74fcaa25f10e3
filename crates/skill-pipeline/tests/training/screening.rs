//! Several candidates of a step: `TrainSettings::candidates`.

use crate::run_files::files;
use crate::world::{Job, settings, target};
use skill_core::search_plan::SearchBudget;
use skill_pipeline::{Evidence, PipelineError, Protocol, RunReader, SearchLimits, TrainSettings};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

fn screened(candidates: usize) -> TrainSettings {
    let budget = SearchBudget { calls: Some(260.0), ..SearchBudget::default() };
    let evidence = Evidence { fresh: true, ..settings().evidence };
    let search = SearchLimits { budget, ..SearchLimits::default() };
    TrainSettings { protocol: Protocol::Auto, search, evidence, candidates, ..settings() }
}

fn run(settings: TrainSettings, dir: &Path) -> BTreeMap<String, String> {
    Job { settings, ..Job::default() }.run(dir).unwrap();
    files(dir)
}

#[test]
fn what_was_screened_is_on_record_and_the_best_goes_to_the_gate() {
    let dir = tempfile::tempdir().unwrap();
    run(screened(3), dir.path());
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    let screenings: Vec<_> = history.iter().filter_map(|record| record.screening.as_ref()).collect();
    assert!(!screenings.is_empty());
    for screening in screenings {
        assert!((2..=3).contains(&screening.candidates.len()), "{screening:?}");
        let most = screening.candidates.iter().map(|row| row.n_solved).max().unwrap();
        assert_eq!(screening.candidates[screening.chosen].n_solved, most, "{screening:?}");
        assert_eq!(screening.candidates[0].n_seen, screening.n_items, "the first one is tried on all");
    }
}

#[test]
fn one_candidate_is_tried_on_nothing() {
    let dir = tempfile::tempdir().unwrap();
    run(screened(1), dir.path());
    let history = RunReader::open(dir.path()).unwrap().history().unwrap();
    assert!(history.iter().all(|record| record.screening.is_none()));
}

#[test]
fn the_number_of_workers_changes_no_file() {
    let [one, many] = [1, 1000].map(|workers| {
        let dir = tempfile::tempdir().unwrap();
        run(TrainSettings { workers, ..screened(3) }, dir.path())
    });
    assert_eq!(one, many);
}

#[test]
fn a_run_that_fails_at_any_call_goes_on_to_the_same_files() {
    let undisturbed = tempfile::tempdir().unwrap();
    let whole = target(usize::MAX);
    let job = |target| Job { settings: screened(3), target, ..Job::default() };
    job(whole.clone()).run(undisturbed.path()).unwrap();
    for fails_from in (0..whole.n_calls.load(Ordering::Relaxed)).step_by(5) {
        let dir = tempfile::tempdir().unwrap();
        job(target(fails_from)).run(dir.path()).unwrap_err();
        job(target(usize::MAX)).run(dir.path()).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "failed from call {fails_from} on");
    }
}

#[test]
fn numbers_of_candidates_that_cannot_be_are_refused() {
    for candidates in [0, 6] {
        let dir = tempfile::tempdir().unwrap();
        let refused = Job { settings: screened(candidates), ..Job::default() }.run(dir.path());
        assert!(matches!(refused, Err(PipelineError::Settings(_))), "{refused:?}");
    }
}
