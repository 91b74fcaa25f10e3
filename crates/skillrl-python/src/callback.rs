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
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use skillrl::envs::EnvError;
use skillrl::llm::ChatReply;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
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
        lock(&self.shared.expected).remove(&self.number);
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
        let pool = Pool {
            state: Mutex::default(),
            entrance: Entrance::default(),
            changed: Condvar::new(),
            spawn: function("spawn")?,
            most_rollouts: rollouts,
            most,
        };
        Ok(Self {
            describe: function("describe")?,
            submit: function("submit")?,
            first: Mutex::new(None),
            threads: Arc::new(pool),
            expected: Mutex::default(),
            n_expected: AtomicU64::new(0),
        })
    }

    /// The error that was raised first.
    pub(crate) fn take_first(&self) -> Option<PyErr> {
        lock(&self.first).take()
    }

    /// Begins to end the idle threads; those that are inside a function are left behind.
    pub(crate) fn begin_end(&self) {
        self.threads.close();
    }

    /// Ends the idle threads, and waits for them.
    pub(crate) fn end(&self, py: Python<'_>) {
        py.detach(|| {
            self.threads.close();
            self.threads.wait();
        });
    }

    /// How many rollouts may wait for a thread: enough that one that has ended a rollout finds the next.
    pub(crate) fn ahead(&self) -> usize {
        self.threads.most_rollouts.div_ceil(4).min(MOST_AHEAD)
    }

    /// A turn of a rollout, which ends at the latest when what this returns is dropped.
    pub(crate) fn turn(&self) -> InTurn {
        InTurn { turn: Arc::default(), threads: Arc::clone(&self.threads) }
    }

    /// The next step for a Python thread that waits for a reply: a function to run, or the reply.
    pub(crate) fn receive(&self, py: Python<'_>, steps: &Mutex<mpsc::Receiver<Step>>) -> Option<Step> {
        self.waiting(py, || lock(steps).recv().ok())
    }

    /// Waits in a thread of Python's, without the interpreter's lock.
    pub(crate) fn waiting<T: Send>(&self, py: Python<'_>, wait: impl FnOnce() -> T + Send) -> T {
        lock(&self.threads.state).asking += 1;
        let done = py.detach(wait);
        lock(&self.threads.state).asking -= 1;
        done
    }

    /// Ends rollouts that wait for a client for longer than they may: while a thread runs a function of a client, nobody
    /// polls its call.
    pub(crate) fn end_late(&self) {
        let now = Instant::now();
        for expected in lock(&self.expected).values().filter(|expected| expected.deadline <= now) {
            expected.rollout.late.send_replace(Some(expected.limit));
        }
    }

    /// Expects the reply of a client within this time, until what this returns is dropped; None outside of rollouts.
    pub(crate) fn expect_reply(self: &Arc<Self>, limit: Duration) -> Option<Expecting> {
        let rollout = CALLER.try_with(|caller| Arc::clone(&caller.rollout)).ok()?;
        // A limit beyond all times is none.
        let deadline = Instant::now().checked_add(limit)?;
        let number = self.n_expected.fetch_add(1, Ordering::Relaxed);
        lock(&self.expected).insert(number, Expected { deadline, limit, rollout });
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
                lock(&self.first).get_or_insert(error);
            }
            text
        });
        described.map_or(Failure::Ended, Failure::Raised)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while holding it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function of Python with its arguments.
pub(crate) type Call<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);
/// Builds a call, with the interpreter's lock held.
pub(crate) type Start = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Call<'py>> + Send>;
type Finish = Box<dyn for<'py> FnOnce(Python<'py>, PyResult<Bound<'py, PyAny>>) + Send>;

/// A call that is to be made.
pub(crate) fn start(
    work: impl for<'py> FnOnce(Python<'py>) -> PyResult<Call<'py>> + Send + 'static,
) -> Start {
    Box::new(work)
}

/// A call for a thread of Python's: `function, arguments = job.call()`, then `job.returned(value)` or
/// `job.raised(error)`.
#[pyclass(frozen, module = "skillrl._native")]
pub(crate) struct Job {
    start: Mutex<Option<Start>>,
    finish: Mutex<Option<Finish>>,
}

#[pymethods]
impl Job {
    /// The function and its arguments.
    fn call<'py>(&self, py: Python<'py>) -> PyResult<Call<'py>> {
        let start = lock(&self.start).take();
        start.ok_or_else(|| PyRuntimeError::new_err("a call is made once"))?(py)
    }

    /// The function returned this.
    fn returned(&self, py: Python<'_>, value: Bound<'_, PyAny>) {
        self.finish(py, Ok(value));
    }

    /// The function raised this.
    fn raised(&self, py: Python<'_>, error: Bound<'_, PyAny>) {
        self.finish(py, Err(PyErr::from_value(error)));
    }
}

impl Job {
    fn finish<'py>(&self, py: Python<'py>, outcome: PyResult<Bound<'py, PyAny>>) {
        let finish = lock(&self.finish).take();
        if let Some(finish) = finish {
            finish(py, outcome);
        }
    }
}

/// Where one thread at a time waits for the interpreter's lock: each that waits for it there wakes every 5 ms.
#[derive(Default)]
struct Entrance {
    is_taken: Mutex<bool>,
    changed: Condvar,
}

impl Entrance {
    fn pass(&self) {
        let mut is_taken = lock(&self.is_taken);
        while *is_taken {
            is_taken = self.changed.wait(is_taken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_taken = true;
    }

    fn free(&self) {
        *lock(&self.is_taken) = false;
        self.changed.notify_one();
    }
}

/// The most rollouts that wait for a thread.
const MOST_AHEAD: usize = 64;

/// Where a rollout is among those that wait for a thread and those that run.
#[derive(Default)]
pub(crate) struct Turn {
    /// When its function was called.
    began: OnceLock<Instant>,
    /// It has returned, or nobody waits for it any more.
    ended: OnceLock<()>,
}

/// Ends a turn when it is dropped: the thread of a function that never returns is left to it, and another rollout runs.
pub(crate) struct InTurn {
    turn: Arc<Turn>,
    threads: Arc<Pool>,
}

impl InTurn {
    /// When the function was called; None while it waits for a thread.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.turn.began.get().copied()
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.threads.end_turn(&self.turn);
    }
}

/// Threads of Python's and the calls that wait for one.
struct Pool {
    state: Mutex<Waiting>,
    entrance: Entrance,
    changed: Condvar,
    /// `spawn(threads)`: starts a thread that works on the jobs of `threads.next()`.
    spawn: Py<PyAny>,
    most_rollouts: usize,
    most: usize,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    rollouts: VecDeque<(Arc<Turn>, Job)>,
    /// Rollouts whose functions have been called.
    running: usize,
    /// Threads that have not ended.
    alive: usize,
    /// Those of them that have a job.
    busy: usize,
    /// Threads that wait for a reply.
    asking: usize,
    is_closed: bool,
}

impl Pool {
    fn push(self: &Arc<Self>, turn: Option<Arc<Turn>>, job: Job) {
        let mut waiting = lock(&self.state);
        if waiting.is_closed {
            return;
        }
        match turn {
            Some(turn) => waiting.rollouts.push_back((turn, job)),
            None => waiting.jobs.push_back(job),
        }
        let may_run = waiting.rollouts.len().min(self.most_rollouts.saturating_sub(waiting.running));
        let is_short =
            waiting.alive - waiting.busy < waiting.jobs.len() + may_run && waiting.alive < self.most;
        waiting.alive += usize::from(is_short);
        drop(waiting);
        self.changed.notify_one();
        if !is_short {
            return;
        }
        let started = Python::try_attach(|py| {
            let threads = Threads(Arc::clone(self));
            self.spawn.call1(py, (threads,)).map_err(|error| error.write_unraisable(py, None)).is_ok()
        });
        if started != Some(true) {
            lock(&self.state).alive -= 1;
        }
    }

    /// The job that is to be done now, after those of `unwanted` rollouts.
    fn take(&self, waiting: &mut Waiting, unwanted: &mut Vec<Job>) -> Option<Job> {
        if let Some(job) = waiting.jobs.pop_front() {
            return Some(job);
        }
        while waiting.running < self.most_rollouts {
            let (turn, job) = waiting.rollouts.pop_front()?;
            if turn.ended.get().is_none() {
                turn.began.get_or_init(Instant::now);
                waiting.running += 1;
                return Some(job);
            }
            unwanted.push(job);
        }
        None
    }

    /// The next job of a thread, if there is one now. `is_done` says that the thread has done one.
    fn next_now(&self, is_done: bool) -> Option<Job> {
        // They may run Python code when they are dropped, which must not happen with the lock held.
        let mut unwanted = Vec::new();
        let mut waiting = lock(&self.state);
        waiting.busy -= usize::from(is_done);
        let job = self.take(&mut waiting, &mut unwanted);
        waiting.busy += usize::from(job.is_some());
        job
    }

    fn end_turn(&self, turn: &Turn) {
        let mut waiting = lock(&self.state);
        if turn.ended.set(()).is_ok() && turn.began.get().is_some() {
            waiting.running -= 1;
            let is_awaited = !waiting.rollouts.is_empty();
            drop(waiting);
            if is_awaited {
                self.changed.notify_one();
            }
        }
    }

    /// Has no thread wait for a job any more.
    fn close(&self) {
        let mut waiting = lock(&self.state);
        waiting.is_closed = true;
        // They may run Python code when they are dropped, which must not happen with the lock held.
        let unwanted = (std::mem::take(&mut waiting.jobs), std::mem::take(&mut waiting.rollouts));
        drop(waiting);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// Waits until no thread is inside the engine: one that is when the interpreter ends would crash it.
    fn wait(&self) {
        let mut waiting = lock(&self.state);
        for _ in 0..MOST_LOOKS {
            if waiting.alive == waiting.busy && waiting.asking == 0 {
                return;
            }
            let waited = self.changed.wait_timeout(waiting, LOOK);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Interval and number of the checks for threads at the end of a run.
const LOOK: Duration = Duration::from_millis(5);
const MOST_LOOKS: u32 = 400;

/// The jobs of a run, for threads of Python's.
#[pyclass(frozen, module = "skillrl._native")]
pub(crate) struct Threads(Arc<Pool>);

#[pymethods]
impl Threads {
    /// The next job, for which this waits; None where the run is over. `is_done` says that the thread has done one.
    fn next(&self, py: Python<'_>, is_done: bool) -> Option<Job> {
        // With the interpreter's lock held: giving it away and taking it back costs more than all else here.
        if let Some(job) = self.0.next_now(is_done) {
            return Some(job);
        }
        let job = py.detach(|| {
            let mut unwanted = Vec::new();
            let mut waiting = lock(&self.0.state);
            let job = loop {
                match self.0.take(&mut waiting, &mut unwanted) {
                    None if !waiting.is_closed => {
                        waiting = self.0.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    }
                    job => break job,
                }
            };
            waiting.busy += usize::from(job.is_some());
            drop(waiting);
            self.0.entrance.pass();
            job
        });
        self.0.entrance.free();
        job
    }

    /// The thread ends.
    fn ended(&self) {
        lock(&self.0.state).alive -= 1;
        self.0.changed.notify_all();
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
    let turn = turn.map(|turn| Arc::clone(&turn.turn));
    let of_finish = turn.clone();
    let finish: Finish = Box::new(move |py, outcome| {
        // At once, so that this thread may take the next rollout.
        if let Some(turn) = of_finish {
            of_call.threads.end_turn(&turn);
        }
        // The engine may have stopped waiting.
        let _ = sender.send(outcome.and_then(|result| begun(py, &of_call, result, read)));
    });
    let job = Job { start: Mutex::new(Some(start)), finish: Mutex::new(Some(finish)) };
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
        let sender = lock(&self.sender).take();
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
