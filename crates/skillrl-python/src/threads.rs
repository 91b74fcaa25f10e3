//! Threads of Python's, and the calls that wait for one.
//!
//! # Invariants
//!
//! - At most as many rollouts run at once as the run has workers, and one that waits uses up none of its time. Held by
//!   `test_waiting_rollouts_neither_run_nor_use_up_their_time`.

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A function of Python with its arguments.
pub(crate) type Call<'py> = (Bound<'py, PyAny>, Bound<'py, PyTuple>);
/// Builds a call, with the interpreter's lock held.
pub(crate) type Start = Box<dyn for<'py> FnOnce(Python<'py>) -> PyResult<Call<'py>> + Send>;
pub(crate) type Finish = Box<dyn for<'py> FnOnce(Python<'py>, PyResult<Bound<'py, PyAny>>) + Send>;

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
        let start = self.start.lock().take();
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
    pub(crate) fn new(start: Start, finish: Finish) -> Self {
        Self { start: Mutex::new(Some(start)), finish: Mutex::new(Some(finish)) }
    }

    fn finish<'py>(&self, py: Python<'py>, outcome: PyResult<Bound<'py, PyAny>>) {
        let finish = self.finish.lock().take();
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
        let mut is_taken = self.is_taken.lock();
        while *is_taken {
            self.changed.wait(&mut is_taken);
        }
        *is_taken = true;
    }

    fn free(&self) {
        *self.is_taken.lock() = false;
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
    /// What a call of the rollout is given.
    pub(crate) fn turn(&self) -> Arc<Turn> {
        Arc::clone(&self.turn)
    }

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
pub(crate) struct Pool {
    state: Mutex<Waiting>,
    entrance: Entrance,
    changed: Condvar,
    /// `spawn(threads)`: starts a thread that works on the jobs of `threads.next()`.
    spawn: Py<PyAny>,
    most_rollouts: usize,
    most: usize,
    /// The process whose threads they are: a forked one has none of them.
    pid: u32,
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
    /// `spawn(threads)` starts a thread; see [`Shared::new`](crate::callback::Shared::new).
    pub(crate) fn new(spawn: Py<PyAny>, most_rollouts: usize, most: usize) -> Self {
        let (state, entrance, changed) = (Mutex::default(), Entrance::default(), Condvar::new());
        Self { state, entrance, changed, spawn, most_rollouts, most, pid: std::process::id() }
    }

    /// How many rollouts may wait for a thread: enough that one that has ended a rollout finds the next.
    pub(crate) fn ahead(&self) -> usize {
        self.most_rollouts.div_ceil(4).min(MOST_AHEAD)
    }

    /// A turn of a rollout, which ends at the latest when what this returns is dropped.
    pub(crate) fn turn(self: &Arc<Self>) -> InTurn {
        InTurn { turn: Arc::default(), threads: Arc::clone(self) }
    }

    /// Waits in a thread of Python's, without the interpreter's lock.
    pub(crate) fn waiting<T: Send>(&self, py: Python<'_>, wait: impl FnOnce() -> T + Send) -> T {
        self.state.lock().asking += 1;
        let done = py.detach(wait);
        self.state.lock().asking -= 1;
        done
    }

    /// Hands a call to a thread; one of a rollout waits for its turn.
    pub(crate) fn push(self: &Arc<Self>, turn: Option<Arc<Turn>>, job: Job) {
        let mut waiting = self.state.lock();
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
            self.state.lock().alive -= 1;
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
        let mut waiting = self.state.lock();
        waiting.busy -= usize::from(is_done);
        let job = self.take(&mut waiting, &mut unwanted);
        waiting.busy += usize::from(job.is_some());
        job
    }

    /// Ends a turn, if it has not ended before.
    pub(crate) fn end_turn(&self, turn: &Turn) {
        let mut waiting = self.state.lock();
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
    pub(crate) fn close(&self) {
        let mut waiting = self.state.lock();
        waiting.is_closed = true;
        // They may run Python code when they are dropped, which must not happen with the lock held.
        let unwanted = (std::mem::take(&mut waiting.jobs), std::mem::take(&mut waiting.rollouts));
        drop(waiting);
        self.changed.notify_all();
        drop(unwanted);
    }

    /// Ends the idle threads, and leaves those behind that are inside a function. [`wait_for_threads`] waits for them.
    pub(crate) fn leave(self: &Arc<Self>, py: Python<'_>) {
        py.detach(|| self.close());
        // The interpreter's lock is held, so that no fork finds this one taken.
        let mut left = LEFT.lock();
        left.retain(|pool| pool.is_of_this_process() && pool.state.lock().alive > 0);
        left.push(Arc::clone(self));
    }

    fn is_of_this_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Waits until no thread is inside the engine.
    fn wait(&self) {
        let mut waiting = self.state.lock();
        for _ in 0..MOST_LOOKS {
            if waiting.alive == waiting.busy && waiting.asking == 0 {
                return;
            }
            self.changed.wait_for(&mut waiting, LOOK);
        }
    }
}

/// Those whose threads may not have ended.
static LEFT: Mutex<Vec<Arc<Pool>>> = Mutex::new(Vec::new());

/// Waits for the threads of all runs: one that is inside the engine when the interpreter ends would crash it.
#[pyfunction]
pub(crate) fn wait_for_threads(py: Python<'_>) {
    let left = std::mem::take(&mut *LEFT.lock());
    py.detach(|| left.iter().filter(|pool| pool.is_of_this_process()).for_each(|pool| pool.wait()));
}

/// Interval and number of the checks for threads at the end of the interpreter.
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
            let mut waiting = self.0.state.lock();
            let job = loop {
                match self.0.take(&mut waiting, &mut unwanted) {
                    None if !waiting.is_closed => {
                        self.0.changed.wait(&mut waiting);
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
        self.0.state.lock().alive -= 1;
        self.0.changed.notify_all();
    }
}
