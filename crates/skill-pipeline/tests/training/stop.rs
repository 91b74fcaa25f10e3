//! `stop_after_step`: a file that asks the process that trains to end after the step under way.

use crate::run_files::files;
use crate::world::{Job, settings};
use skill_pipeline::run_dir::{STOP_FILE, is_held, is_stop_requested, request_stop, withdraw_stop};
use skill_pipeline::{Event, Evidence, PipelineError, Stage, Summary, TrainSettings, Trainer};
use std::path::Path;
use std::sync::Arc;

/// Trains, and does something when an event comes.
fn train(
    dir: &Path,
    on_event: impl Fn(&Path, &Event) + Send + Sync + 'static,
) -> Result<Summary, PipelineError> {
    train_with(settings(), dir, on_event)
}

fn train_with(
    settings: TrainSettings,
    dir: &Path,
    on_event: impl Fn(&Path, &Event) + Send + Sync + 'static,
) -> Result<Summary, PipelineError> {
    let run = dir.to_owned();
    let events = Arc::new(move |event: &Event| on_event(&run, event));
    let further = Box::new(|trainer: Trainer| trainer.with_events(events));
    Job { settings, further, ..Job::default() }.run(dir)
}

#[test]
fn a_request_to_stop_is_obeyed_after_the_step_and_the_run_goes_on_to_the_same_files() {
    let undisturbed = tempfile::tempdir().unwrap();
    train(undisturbed.path(), |_, _| {}).unwrap();
    for stop_in in 0..=4 {
        let dir = tempfile::tempdir().unwrap();
        let stopped = train(dir.path(), move |run, event| {
            let is_then = match event {
                Event::StageStarted { step: None, .. } => stop_in == 0,
                Event::StepStarted { step, .. } => step.0 == stop_in,
                _ => false,
            };
            if is_then {
                assert!(is_held(run));
                request_stop(run).unwrap();
                assert!(is_stop_requested(run));
            }
        });
        let error = stopped.unwrap_err();
        assert!(error.is_stop(), "{error}");
        assert!(matches!(error, PipelineError::Stopped { last_step, .. } if last_step == stop_in), "{error}");
        // Nothing of it is left, nobody holds the run, and anyone who trains on is not stopped again.
        assert!(!is_stop_requested(dir.path()) && !is_held(dir.path()));
        train(dir.path(), |_, _| {}).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "asked in step {stop_in}");
    }
}

/// What is measured after the last step may take longer than all steps.
#[test]
fn a_request_after_the_last_step_is_obeyed_between_the_last_evaluations() {
    let with_fresh = || {
        let evidence = Evidence { fresh: true, ..settings().evidence };
        TrainSettings { evidence, ..settings() }
    };
    let undisturbed = tempfile::tempdir().unwrap();
    train_with(with_fresh(), undisturbed.path(), |_, _| {}).unwrap();
    for asked_in in [Stage::FreshBaseline, Stage::FreshBest, Stage::TestBaseline] {
        let dir = tempfile::tempdir().unwrap();
        let stopped = train_with(with_fresh(), dir.path(), move |run, event| {
            if matches!(event, Event::StageStarted { stage, .. } if *stage == asked_in) {
                request_stop(run).unwrap();
            }
        });
        let error = stopped.unwrap_err();
        assert!(matches!(error, PipelineError::Stopped { last_step: 6, total_steps: 6 }), "{error}");
        assert!(!dir.path().join("summary.json").exists());
        train_with(with_fresh(), dir.path(), |_, _| {}).unwrap();
        assert_eq!(files(dir.path()), files(undisturbed.path()), "asked in {asked_in:?}");
    }
}

#[test]
fn a_request_that_is_older_than_the_process_or_comes_too_late_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    // Anybody may ask by hand, and what is in the file does not matter.
    std::fs::write(dir.path().join(STOP_FILE), "").unwrap();
    let late = |run: &Path, event: &Event| {
        if matches!(event, Event::TestMeasured { stage: Stage::TestBest, .. }) {
            request_stop(run).unwrap();
        }
    };
    train(dir.path(), late).unwrap();
    assert!(!is_stop_requested(dir.path()));
}

#[test]
fn a_request_can_be_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let undecided = |run: &Path, event: &Event| match event {
        Event::StepStarted { .. } => request_stop(run).unwrap(),
        Event::StageFinished { .. } => withdraw_stop(run).unwrap(),
        _ => {}
    };
    train(dir.path(), undecided).unwrap();
    assert!(dir.path().join("summary.json").is_file());
}
