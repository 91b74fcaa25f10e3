//! Calls from the engine into Python.
//!
//! A plain function runs in a thread that may block; a coroutine runs in the event loop of the package. The interpreter's
//! lock is held while Python code runs, and never while the engine waits.

use crate::errors::is_model_error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What all calls of a run share.
pub(crate) struct Shared {
    /// `describe(error) -> str`: the error with its traceback.
    describe: Py<PyAny>,
    /// `submit(coroutine, done) -> future`: runs a coroutine in the event loop of the package.
    submit: Py<PyAny>,
    /// What was raised first: the cause of the error that ends the run.
    first: Mutex<Option<PyErr>>,
}

/// Why a call has no result.
pub(crate) enum Failure {
    /// Python code raised this: the error with its traceback.
    Raised(String),
    /// The interpreter is ending, or the engine's runtime is.
    Ended,
}

impl Shared {
    pub(crate) fn new(describe: Py<PyAny>, submit: Py<PyAny>) -> Self {
        Self { describe, submit, first: Mutex::new(None) }
    }

    /// The error that was raised first.
    pub(crate) fn take_first(&self) -> Option<PyErr> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
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
                let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(error);
            }
            text
        });
        described.map_or(Failure::Ended, Failure::Raised)
    }
}

/// What starts a call: it calls Python code and returns what that returned.
pub(crate) type Start = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send>;

thread_local! {
    /// What the thread of a rollout is kept by while it waits for a reply: it may block, since nothing else runs in it.
    static WAITING: RefCell<Option<Arc<Watched>>> = const { RefCell::new(None) };
}

/// The calls of clients that the threads of a rollout are in, for anyone who ends them at their deadlines.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Vec<Deadline>>);

/// When a call has to be over, and how long it may take.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Deadline {
    at: Instant,
    pub(crate) limit: Duration,
}

impl Watched {
    /// Runs `work` in a thread that may be blocked by the calls that `work` makes.
    pub(crate) fn waiting<T>(self: &Arc<Self>, work: impl FnOnce() -> T) -> T {
        let before = WAITING.replace(Some(Arc::clone(self)));
        let result = work();
        WAITING.set(before);
        result
    }

    /// The call that is late, if one is.
    pub(crate) fn late(&self) -> Option<Deadline> {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().find(|call| call.at <= Instant::now()).copied()
    }
}

/// Makes a call of a client: in this thread, if it waits for nothing else, and else as [`call`].
pub(crate) async fn call_of_client<T: Send + 'static>(
    shared: &Arc<Shared>,
    is_async: bool,
    limit: Duration,
    start: Start,
    read: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T> + Send + 'static,
) -> Result<T, Failure> {
    let watched = WAITING.with_borrow(Clone::clone).filter(|_| !is_async);
    let Some(watched) = watched else { return call(shared, is_async, start, read).await };
    let deadline = Deadline { at: Instant::now() + limit, limit };
    watched.0.lock().unwrap_or_else(PoisonError::into_inner).push(deadline);
    let begun = Python::try_attach(|py| begin(py, shared, start, read));
    watched.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|call| *call != deadline);
    ended(shared, begun).await
}

/// A call that is to be made.
pub(crate) fn start(
    work: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyAny>> + Send + 'static,
) -> Start {
    Box::new(work)
}

/// Makes a call; the result is handed to `read` with the lock held.
///
/// `is_async` says that the call returns a coroutine without doing anything else, so it needs no thread. Dropping the
/// future cancels a coroutine; a plain function cannot be cancelled, and its thread is left to it.
pub(crate) async fn call<T: Send + 'static>(
    shared: &Arc<Shared>,
    is_async: bool,
    start: Start,
    read: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T> + Send + 'static,
) -> Result<T, Failure> {
    let of_call = Arc::clone(shared);
    let begin = move || Python::try_attach(|py| begin(py, &of_call, start, read));
    let begun = if is_async {
        begin()
    } else {
        tokio::task::spawn_blocking(begin).await.map_err(|_| Failure::Ended)?
    };
    ended(shared, begun).await
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

fn begin<T, R: FnOnce(&Bound<'_, PyAny>) -> PyResult<T>>(
    py: Python<'_>,
    shared: &Shared,
    start: Start,
    read: R,
) -> PyResult<Begun<T, R>> {
    let result = start(py)?;
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
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
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
