//! A bounded number of processes, started when they are needed and again when they die.

use super::config::{ExecConfig, seconds};
use super::fault::{Fault, FaultKind};
use super::process::Process;
use super::protocol::HelloAnswer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The longest wait before a process is started again.
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The processes of a program.
pub(super) struct Pool {
    config: Arc<ExecConfig>,
    /// What the first process said; every other one has to say the same.
    hello: HelloAnswer,
    seats: Vec<Seat>,
    /// How many of each seat's places are taken.
    taken: Mutex<Vec<u32>>,
    parallel: u32,
    permits: Arc<Semaphore>,
    next_number: AtomicU64,
}

/// A place for one process after the other.
#[derive(Default)]
struct Seat {
    process: AsyncMutex<Option<Arc<Process>>>,
    /// The end of the process before, so that two never run in one seat.
    last_end: Mutex<Option<CancellationToken>>,
    /// How many processes in a row have died without having finished anything.
    n_failures: AtomicU32,
    /// What the last of them died of.
    last_failure: Mutex<String>,
}

impl Pool {
    /// A pool whose first process has been started already.
    pub(super) fn new(config: Arc<ExecConfig>, first: Process, hello: HelloAnswer) -> Self {
        let parallel = if config.process_per_rollout { 1 } else { first.parallel };
        let n_seats = usize::try_from(config.processes).unwrap_or(1);
        let mut seats: Vec<Seat> = std::iter::repeat_with(Seat::default).take(n_seats).collect();
        if let Some(seat) = seats.first_mut()
            && !config.process_per_rollout
        {
            *seat.process.get_mut() = Some(Arc::new(first));
        }
        let n_permits = n_seats.saturating_mul(usize::try_from(parallel).unwrap_or(1));
        Self {
            taken: Mutex::new(vec![0; n_seats]),
            permits: Arc::new(Semaphore::new(n_permits.min(Semaphore::MAX_PERMITS))),
            next_number: AtomicU64::new(2),
            config,
            hello,
            seats,
            parallel,
        }
    }

    /// A process to work with; waits until one is free.
    pub(super) async fn lease(self: &Arc<Self>, own_env: &[(&'static str, String)]) -> Result<Lease, Fault> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Fault::broken("the processes have been ended"))?;
        let place = Place::take(Arc::clone(self), permit);
        let process = self.process(place.seat_idx, own_env).await?;
        Ok(Lease { process, place, has_answered: AtomicBool::new(false) })
    }

    /// The live process of a seat, started if there is none.
    async fn process(
        &self,
        seat_idx: usize,
        own_env: &[(&'static str, String)],
    ) -> Result<Arc<Process>, Fault> {
        let Some(seat) = self.seats.get(seat_idx) else { return Err(Fault::broken("there is no such seat")) };
        let mut place = seat.process.lock().await;
        if let Some(process) = &*place {
            if process.failure().is_none() {
                return Ok(Arc::clone(process));
            }
            process.ended().await;
            *place = None;
        }
        let last_end = seat.last_end.lock().take();
        if let Some(last_end) = last_end {
            last_end.cancelled().await;
        }
        let process = Arc::new(self.start(seat, own_env).await?);
        if self.config.process_per_rollout {
            *seat.last_end.lock() = Some(process.end_token());
        } else {
            *place = Some(Arc::clone(&process));
        }
        Ok(process)
    }

    /// Starts a process, after a wait if the ones before have died, and only so many times.
    async fn start(&self, seat: &Seat, own_env: &[(&'static str, String)]) -> Result<Process, Fault> {
        loop {
            let n_failures = seat.n_failures.load(Ordering::Relaxed);
            if n_failures > self.config.limits.restarts {
                let last = seat.last_failure.lock().clone();
                return Err(Fault::given_up(n_failures, &last));
            }
            if n_failures > 0 {
                tokio::time::sleep(backoff(&self.config, n_failures)).await;
            }
            let number = self.next_number.fetch_add(1, Ordering::Relaxed);
            match Process::start(&self.config, number, own_env, false).await {
                Ok((process, hello)) => {
                    self.compare(&hello)?;
                    return Ok(process);
                }
                Err(fault) if fault.kind == FaultKind::Program => return Err(fault),
                Err(fault) => seat.failed(fault.message),
            }
        }
    }

    /// Refuses a process that says something else than the first.
    fn compare(&self, hello: &HelloAnswer) -> Result<(), Fault> {
        let first = &self.hello;
        let what = if hello.name != first.name {
            "name"
        } else if hello.version != first.version {
            "version"
        } else if hello.mode != first.mode {
            "mode"
        } else if hello.instructions != first.instructions {
            "instructions"
        } else if hello.capabilities != first.capabilities {
            "capabilities"
        } else {
            return Ok(());
        };
        let command = self.config.command.join(" ");
        Err(Fault::program(format!(
            "`{command}`: a later process says something else in its `hello` than the first one: its {what} differs"
        )))
    }

    /// Ends every process that nobody works with, and waits until they are gone.
    pub(super) async fn close(&self) {
        self.permits.close();
        for seat in &self.seats {
            let process = seat.process.lock().await.take();
            let end = process.as_ref().map(|process| process.end_token());
            drop(process);
            let end = end.or_else(|| seat.last_end.lock().take());
            if let Some(end) = end {
                end.cancelled().await;
            }
        }
    }
}

impl Seat {
    fn failed(&self, message: String) {
        self.n_failures.fetch_add(1, Ordering::Relaxed);
        *self.last_failure.lock() = message;
    }
}

/// One of the places of a seat, taken.
struct Place {
    pool: Arc<Pool>,
    seat_idx: usize,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Takes the place in the emptiest seat; with a permit there is one.
    fn take(pool: Arc<Pool>, permit: OwnedSemaphorePermit) -> Self {
        let mut taken = pool.taken.lock();
        let mut seat_idx = 0;
        let mut fewest = u32::MAX;
        for (idx, n_taken) in taken.iter().enumerate() {
            if *n_taken < fewest.min(pool.parallel) {
                (seat_idx, fewest) = (idx, *n_taken);
            }
        }
        if let Some(n_taken) = taken.get_mut(seat_idx) {
            *n_taken += 1;
        }
        drop(taken);
        Self { pool, seat_idx, _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(n_taken) = self.pool.taken.lock().get_mut(self.seat_idx) {
            *n_taken = n_taken.saturating_sub(1);
        }
    }
}

/// A process that is worked with.
pub(super) struct Lease {
    pub(super) process: Arc<Process>,
    place: Place,
    has_answered: AtomicBool,
}

impl Lease {
    /// Says that the process has done something useful.
    pub(super) fn has_answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(seat) = self.place.pool.seats.get(self.place.seat_idx) else { return };
        match self.process.failure() {
            // One that has done something useful before is no reason to give up.
            Some(FaultKind::Broken | FaultKind::Program) if !self.has_answered.load(Ordering::Relaxed) => {
                if let Some(message) = self.process.count_failure() {
                    seat.failed(message);
                }
            }
            Some(FaultKind::Broken | FaultKind::Program | FaultKind::Ended) => {}
            None if self.has_answered.load(Ordering::Relaxed) => seat.n_failures.store(0, Ordering::Relaxed),
            None => {}
        }
    }
}

/// The wait after so many failures: twice as long after each.
pub(super) fn backoff(config: &ExecConfig, n_failures: u32) -> Duration {
    let first = seconds(config.limits.backoff_seconds);
    let factor = 2_u32.checked_pow(n_failures.saturating_sub(1)).unwrap_or(u32::MAX);
    first.checked_mul(factor).unwrap_or(MAX_BACKOFF).min(MAX_BACKOFF)
}
