//! `train`: a run of the engine, under the eyes of the thread that called it.
//!
//! # Invariants
//!
//! - A run is interrupted in the caller's thread alone, and its files are whole when `KeyboardInterrupt` is raised;
//!   `tests/test_notebook.py` runs it in a notebook. Held by
//!   `test_ctrl_c_lets_calls_finish_and_the_same_call_resumes`.
//! - Nothing of the engine outlives a fork: each run has a runtime of its own. Held by
//!   `test_a_forked_process_trains_even_after_its_parent_has`.

use crate::callback::Shared;
use crate::errors::run_error;
use crate::events::Events;
use crate::job::Job;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;
use skillrl::Error;
use skillrl::envs::{EnvError, Item};
use skillrl::pipeline::{PipelineError, StopSignal, Summary};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long the caller's thread waits before it looks for signals and tells what has happened.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Makes the run that is described and writes its report. Returns JSON: its directory, its summary, what it spent, and the
/// reason if its report could not be written.
///
/// `on_events(list of JSON)` is called in this thread. Ctrl-C lets the calls in flight finish and ends the run; a second
/// one ends it at once. `KeyboardInterrupt` is raised when the run has ended, so that its files are whole.
#[pyfunction]
pub(crate) fn train(
    py: Python<'_>,
    described: &Bound<'_, PyAny>,
    on_events: &Bound<'_, PyAny>,
) -> PyResult<String> {
    let (events, stop) = (Events::default(), StopSignal::default());
    let Job { trainer, dir, is_priced, is_target_native, shared } =
        Job::new(described, Arc::new(events.clone()), stop.clone())?;
    // A runtime for each run: it is of this process, even if this one was forked from one that trains.
    let runtime = runtime(is_target_native)?;
    let (sender, receiver) = channel();
    let (of_run, of_worker) = (trainer.clone(), dir.clone());
    let worker = thread::Builder::new().name("skillrl".to_owned()).spawn(move || {
        let outcome = runtime.block_on(of_run.train(&of_worker));
        runtime.shutdown_background();
        // The caller waits as long as this thread lives.
        let _ = sender.send(outcome);
    });
    worker.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    let (outcome, raised) = watch(py, &Mutex::new(receiver), &events, &stop, on_events, &shared);
    shared.end(py);
    let is_over = raised.is_none() && matches!(outcome, Some(Ok(_)));
    let report = if is_over { py.detach(|| skillrl::report::write(&dir, None)).err() } else { None };
    match (raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Some(Ok(summary))) => {
            let no_report = report.map(|error| error.to_string());
            let spent = trainer.spent().map(|spent| {
                let money = is_priced.then_some(spent.money);
                json!({"calls": spent.calls, "tokens": spent.tokens, "money": money})
            });
            Ok(json!({"dir": dir, "summary": summary, "spent": spent, "no_report": no_report}).to_string())
        }
        (None, Some(Err(error))) => {
            // Where too many agents raised, what the first of them raised is the cause.
            let is_broken = matches!(&error, PipelineError::Rollout { source: EnvError::Broken { .. }, .. });
            let cause = shared.take_first().or_else(|| shared.take_aside().filter(|_| is_broken));
            Err(run_error(py, &Error::from(error), cause))
        }
        (None, None) => Err(PyRuntimeError::new_err("the thread of the run ended without a result")),
    }
}

/// The engine's threads: several where it asks the target itself, and the one of the run where a client in Python does,
/// since that is waiting for the interpreter's lock and each change of threads costs it time.
pub(crate) fn runtime(is_target_native: bool) -> PyResult<Runtime> {
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let mut builder =
        if is_target_native { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder
        .worker_threads(cores.clamp(2, 4))
        .thread_name("skillrl-worker")
        .enable_all()
        .build()
        .map_err(|error| PyRuntimeError::new_err(format!("the engine cannot be started: {error}")))
}

/// Waits for the end of the run without holding the interpreter's lock; returns what was raised here meanwhile too.
pub(crate) fn watch<T: Send>(
    py: Python<'_>,
    receiver: &Mutex<Receiver<T>>,
    events: &Events,
    stop: &StopSignal,
    on_events: &Bound<'_, PyAny>,
    shared: &Shared,
) -> (Option<T>, Option<PyErr>) {
    let mut raised: Option<PyErr> = None;
    loop {
        let received = py.detach(|| Ended(receiver.lock().recv_timeout(TICK)));
        shared.end_late();
        let news = events.take();
        let told =
            if news.is_empty() || raised.is_some() { Ok(()) } else { on_events.call1((news,)).map(drop) };
        match received.0 {
            Ok(outcome) => return (Some(outcome), raised.or(told.err())),
            Err(RecvTimeoutError::Disconnected) => return (None, raised.or(told.err())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(error) = told.and_then(|()| py.check_signals()) {
            if raised.is_some() {
                stop.now.cancel();
            }
            stop.after_step.cancel();
            stop.soon.cancel();
            raised = Some(error);
        }
    }
}

/// What the worker has sent; it holds nothing of Python.
struct Ended<T>(Result<T, RecvTimeoutError>);

/// Splits items, given as pairs of id and type, into train, selection and test: the positions of each.
#[pyfunction]
pub(crate) fn split(types: Vec<String>) -> [Vec<usize>; 3] {
    let items = types.into_iter().enumerate().map(|(position, task_type)| Item {
        task_type,
        ..Item::new(position.to_string(), serde_json::Value::Null)
    });
    let position = |item: &Item| item.id.as_str().parse().expect("the ids are positions");
    skillrl::env::split(items.collect()).map(|items| items.iter().map(position).collect())
}

/// Writes the report of a run, one HTML page, and returns its path.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, directory: PathBuf) -> PyResult<PathBuf> {
    let written = py.detach(|| skillrl::report::write(&directory, None));
    written.map_err(|error| run_error(py, &error, None))
}

/// What a run came to: the line that every other medium shows, and the verdict with its cautions as JSON.
#[pyfunction]
pub(crate) fn verdict(py: Python<'_>, directory: PathBuf) -> PyResult<(String, String)> {
    let verdict =
        py.detach(|| skillrl::report::verdict(&directory)).map_err(|error| run_error(py, &error, None))?;
    let fields = serde_json::to_string(&verdict).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((verdict.line(), fields))
}

/// What a run came to in one line, by its summary as JSON and the number of its test items.
#[pyfunction]
pub(crate) fn verdict_line(summary: &str, n_test: Option<usize>) -> PyResult<String> {
    let summary: Summary =
        serde_json::from_str(summary).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(skillrl::reports::Verdict::of_summary(&summary, n_test).line())
}
