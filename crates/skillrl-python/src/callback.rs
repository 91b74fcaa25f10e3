//! Calls from the engine into Python.
//!
//! A plain function runs in a thread of Python's (see `skillrl._threads`), so that no frame of the engine is below it:
//! a thread that Python code blocks for ever ends with the interpreter. A coroutine runs in the event loop of the
//! package. The interpreter's lock is held while Python code runs, and never while the engine waits.
//!
//! # Invariants
//!
//! - The interpreter's lock is held while Python code runs, and never while the engine waits. Held by
//!   `test_clients_that_sleep_hold_no_lock`.
//! - An exception, a wrong type or a timeout in a function of the caller is an error of the run, and no score. Held
//!   by the tests in `tests/test_callbacks.py`.

use crate::errors::is_model_error;
use crate::threads::{Finish, InTurn, Job, Pool, Start};
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skillrl::envs::EnvError;
use skillrl::llm::ChatReply;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// What all calls of a run share.
pub(crate) struct Shared {
    /// `describe(error) -> str`: the error with its traceback.
    describe: Py<PyAny>,
    /// `submit(coroutine, done) -> future`: runs a coroutine in the event loop of the package.
    submit: Py<PyAny>,
    /// The first exception: the cause of the error that ends the run.
    first: Mutex<Option<PyErr>>,
    /// The first exception that counted as a failure of an agent.
    aside: Mutex<Option<PyErr>>,
    threads: Arc<Pool>,
    /// Replies that are waited for, by their numbers.
    expected: Mutex<HashMap<u64, Expected>>,
    n_expected: AtomicU64,
}

/// A reply that a thread of a rollout waits for.
struct Expected {
    deadline: Instant,
    limit: Duration,
    rollout: Arc<Rollout>,
}

/// A reply is expected as long as this lives.
pub(crate) struct Expecting {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Expecting {
    fn drop(&mut self) {
        self.shared.expected.lock().remove(&self.number);
    }
}

/// Why a call has no result.
pub(crate) enum Failure {
    /// Python code raised this: the error with its traceback.
    Raised(String),
    /// The interpreter is ending, or the engine's runtime is.
    Ended,
}

impl Shared {
    /// The functions of a description that `skillrl._bridge` makes. At most `rollouts` rollouts run at once, and at most
    /// `most` threads run plain functions.
    pub(crate) fn new(described: &Bound<'_, PyAny>, rollouts: usize, most: usize) -> PyResult<Self> {
        let function = |name: &str| Ok::<_, PyErr>(described.getattr(name)?.unbind());
        let threads = Pool::new(function("spawn")?, rollouts, most);
        Ok(Self {
            describe: function("describe")?,
            submit: function("submit")?,
            first: Mutex::new(None),
            aside: Mutex::new(None),
            threads: Arc::new(threads),
            expected: Mutex::default(),
            n_expected: AtomicU64::new(0),
        })
    }

    /// The error that was raised first.
    pub(crate) fn take_first(&self) -> Option<PyErr> {
        self.first.lock().take()
    }

    /// Says that the error that was raised first counts as a failure of an agent: it does not end the run.
    pub(crate) fn set_aside(&self) {
        if let Some(error) = self.first.lock().take() {
            self.aside.lock().get_or_insert(error);
        }
    }

    /// The error that was set aside first.
    pub(crate) fn take_aside(&self) -> Option<PyErr> {
        self.aside.lock().take()
    }

    /// Ends the threads; nobody waits for them before the interpreter ends.
    pub(crate) fn end(&self, py: Python<'_>) {
        self.threads.leave(py);
    }

    /// The threads of Python's.
    pub(crate) const fn threads(&self) -> &Arc<Pool> {
        &self.threads
    }

    /// The next step for a Python thread that waits for a reply: a function to run, or the reply.
    pub(crate) fn receive(&self, py: Python<'_>, steps: &Mutex<mpsc::Receiver<Step>>) -> Option<Step> {
        self.threads.waiting(py, || steps.lock().recv().ok())
    }

    /// Ends rollouts that wait for a client for longer than they may: while a thread runs a function of a client, nobody
    /// polls its call.
    pub(crate) fn end_late(&self) {
        let now = Instant::now();
        for expected in self.expected.lock().values().filter(|expected| expected.deadline <= now) {
            expected.rollout.late.send_replace(Some(expected.limit));
        }
    }

    /// Expects the reply of a client within this time, until what this returns is dropped; None outside of rollouts.
    pub(crate) fn expect_reply(self: &Arc<Self>, limit: Duration) -> Option<Expecting> {
        let rollout = CALLER.try_with(|caller| Arc::clone(&caller.rollout)).ok()?;
        // A limit beyond all times is none.
        let deadline = Instant::now().checked_add(limit)?;
        let number = self.n_expected.fetch_add(1, Ordering::Relaxed);
        self.expected.lock().insert(number, Expected { deadline, limit, rollout });
        Some(Expecting { shared: Arc::clone(self), number })
    }

    fn failure(&self, error: PyErr) -> Failure {
        let described = Python::try_attach(|py| {
            let text = self
                .describe
                .call1(py, (error.clone_ref(py).into_value(py),))
                .and_then(|text| text.extract(py));
            let text: String = text.unwrap_or_else(|_| error.to_string());
            // What the engine itself has raised is not a cause of what it says.
            if !is_model_error(py, &error) {
                self.first.lock().get_or_insert(error);
            }
            text
        });
        described.map_or(Failure::Ended, Failure::Raised)
    }
}

tokio::task_local! {
    /// The thread of Python's that waits for the reply of this task: it makes the calls of clients, too.
    static CALLER: Caller;
}

/// A thread of Python's that waits for a reply.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) steps: mpsc::Sender<Step>,
    pub(crate) rollout: Arc<Rollout>,
}

impl Caller {
    /// Runs the future with this thread as its caller.
    pub(crate) async fn scope<T>(self, work: impl Future<Output = T>) -> T {
        CALLER.scope(self, work).await
    }
}

/// The next step for a thread that waits for a reply.
pub(crate) enum Step {
    /// A function of a client, which it runs.
    Job(Job),
    /// The reply.
    Reply(Result<ChatReply, EnvError>),
}

/// State shared by the threads of a rollout.
pub(crate) struct Rollout {
    late: watch::Sender<Option<Duration>>,
}

impl Default for Rollout {
    fn default() -> Self {
        Self { late: watch::Sender::new(None) }
    }
}

impl Rollout {
    /// Waits until a client's call in a thread of the rollout exceeds its limit, and returns the limit.
    pub(crate) async fn late(&self) -> Duration {
        let mut late = self.late.subscribe();
        loop {
            if let Some(limit) = *late.borrow_and_update() {
                return limit;
            }
            if late.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Reports that a client's call in this task exceeded its limit.
pub(crate) fn say_late(limit: Duration) {
    let _ = CALLER.try_with(|caller| caller.rollout.late.send_replace(Some(limit)));
}

/// Makes a call; the result is handed to `read` with the lock held.
///
/// A coroutine (`is_async` says that the call returns one without doing anything else) needs no thread. A plain function
/// runs in the thread that waits for the reply of this task, if one does, or else in one of those of the run. Dropping
/// the future cancels a coroutine; a plain function cannot be cancelled, and its thread is left to it. A plain function of
/// a rollout waits for its turn.
pub(crate) async fn call<T: Send + 'static>(
    shared: &Arc<Shared>,
    is_async: bool,
    turn: Option<&InTurn>,
    start: Start,
    read: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T> + Send + 'static,
) -> Result<T, Failure> {
    if is_async {
        let begun = Python::try_attach(|py| {
            let (function, arguments) = start(py)?;
            begun(py, shared, function.call1(arguments)?, read)
        });
        return ended(shared, begun).await;
    }
    let (sender, receiver) = oneshot::channel();
    let of_call = Arc::clone(shared);
    let turn = turn.map(InTurn::turn);
    let of_finish = turn.clone();
    let finish: Finish = Box::new(move |py, outcome| {
        // At once, so that this thread may take the next rollout.
        if let Some(turn) = of_finish {
            of_call.threads.end_turn(&turn);
        }
        // The engine may have stopped waiting.
        let _ = sender.send(outcome.and_then(|result| begun(py, &of_call, result, read)));
    });
    let job = Job::new(start, finish);
    match CALLER.try_with(Clone::clone) {
        Ok(caller) => caller.steps.send(Step::Job(job)).map_err(|_| Failure::Ended)?,
        Err(_) => shared.threads.push(turn, job),
    }
    ended(shared, receiver.await.ok()).await
}

async fn ended<T>(
    shared: &Shared,
    begun: Option<PyResult<Begun<T, impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>>>>,
) -> Result<T, Failure> {
    match begun.ok_or(Failure::Ended)?.map_err(|error| shared.failure(error))? {
        Begun::Done(result) => Ok(result),
        Begun::Pending(mut pending, read) => {
            let result = (&mut pending.result).await;
            pending.future = None;
            let result = result.map_err(|_| Failure::Ended)?.map_err(|error| shared.failure(error))?;
            let read = Python::try_attach(|py| read(result.bind(py))).ok_or(Failure::Ended)?;
            read.map_err(|error| shared.failure(error))
        }
    }
}

enum Begun<T, R> {
    Done(T),
    Pending(Pending, R),
}

/// The result of a function; if that is a coroutine, starts it.
fn begun<T, R: FnOnce(&Bound<'_, PyAny>) -> PyResult<T>>(
    py: Python<'_>,
    shared: &Shared,
    result: Bound<'_, PyAny>,
    read: R,
) -> PyResult<Begun<T, R>> {
    if !result.hasattr("__await__")? {
        return Ok(Begun::Done(read(&result)?));
    }
    let (sender, receiver) = oneshot::channel();
    let done = Done { sender: Mutex::new(Some(sender)) };
    let future = shared.submit.call1(py, (result, done))?;
    Ok(Begun::Pending(Pending { future: Some(future), result: receiver }, read))
}

/// A coroutine that runs; it is cancelled with this.
struct Pending {
    future: Option<Py<PyAny>>,
    result: oneshot::Receiver<PyResult<Py<PyAny>>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            // Nobody waits for it, so it does not matter whether it can still be cancelled.
            Python::try_attach(|py| future.call_method0(py, "cancel").is_ok());
        }
    }
}

/// Takes the result of a coroutine to the engine.
#[pyclass(frozen, module = "skillrl._native")]
pub(crate) struct Done {
    sender: Mutex<Option<oneshot::Sender<PyResult<Py<PyAny>>>>>,
}

#[pymethods]
impl Done {
    /// The coroutine returned `value`, or raised `error`.
    #[pyo3(signature = (value, error=None))]
    fn __call__(&self, value: Py<PyAny>, error: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let sender = self.sender.lock().take();
        let Some(sender) = sender else {
            return Err(PyRuntimeError::new_err("a coroutine has one result"));
        };
        // The engine may have stopped waiting.
        let _ = sender.send(match error {
            Some(error) => Err(PyErr::from_value(error)),
            None => Ok(value),
        });
        Ok(())
    }
}
