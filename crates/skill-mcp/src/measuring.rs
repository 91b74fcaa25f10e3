//! Measurements that are started here: each is a process of its own, which the next call with the same arguments waits for.
//!
//! # Invariants
//!
//! - The caps of the server hold for all measurements of its directory together. Held by
//!   `all_measurements_count_against_the_caps_of_the_server`.
//! - No file that a process of another server writes is written to. Held by
//!   `a_measurement_that_another_server_started_is_waited_for_and_not_started_twice`.

mod files;
mod process;
mod spent;

pub(crate) use files::{Asked, RESERVED_ENDINGS, Started};
pub(crate) use spent::spent_in;

use crate::caps::Caps;
use crate::error::ToolError;
use crate::places::Configs;
use files::{read_result, read_started, write_started};
use process::Outcome;
use skill_pipeline::run_dir::is_held;
use skillrl::config::Config;
use spent::{calls_dirs, left};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout_at};

/// The most measurements at work at once, those of other servers in the same directory too.
const MAX_AT_WORK: usize = 4;
/// The most measurements whose ends are remembered until somebody asks; what is forgotten is read from its directory.
const MAX_REMEMBERED: usize = 64;
/// How often a measurement of another process is looked at.
const PERIOD: Duration = Duration::from_millis(200);

/// The measurements that were started here, and what starting one takes.
pub(crate) struct Measurements {
    works: Mutex<Works>,
    program: PathBuf,
    configs: Configs,
    /// What all measurements may spend together.
    caps: Caps,
}

/// By name.
type Works = HashMap<String, Arc<Work>>;

impl Measurements {
    pub(crate) fn new(program: &Path, configs: &Configs, caps: Caps) -> Self {
        Self { works: Mutex::default(), program: program.to_owned(), configs: configs.clone(), caps }
    }
}

/// A measurement that was started here.
struct Work {
    asked: Asked,
    caps: Caps,
    /// What had been sent for it before.
    requests_before: u64,
    outcome: watch::Receiver<Option<Outcome>>,
}

impl Work {
    fn has_ended(&self) -> bool {
        self.outcome.borrow().is_some()
    }
}

/// A measurement as a call names it.
#[derive(Clone)]
pub(crate) struct Measurement {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) asked: Asked,
    /// By its prices.
    pub(crate) config: Arc<Config>,
    /// What it may spend by its configuration and the call.
    pub(crate) caps: Caps,
}

/// What has come of it when the time is up.
pub(crate) struct Waited {
    pub(crate) state: WaitedFor,
    /// What it may spend; `None` where another process started it and left no record.
    pub(crate) caps: Option<Caps>,
    /// Requests that were sent for it before this process was started; `None` where another one works on it.
    pub(crate) requests_before: Option<u64>,
}

pub(crate) enum WaitedFor {
    /// What the program has printed.
    Printed(Vec<u8>),
    /// It is at work.
    Here,
    /// A process works on it that was not started here.
    Elsewhere,
}

/// Who works on a measurement.
enum AtWork {
    Here(Arc<Work>),
    Elsewhere(Option<Caps>),
}

impl Measurement {
    /// Starts it unless it is at work, and waits for it until the time is up. `args` is the command without its caps.
    pub(crate) async fn wait(
        &self,
        all: &Arc<Measurements>,
        args: &[OsString],
        until: Instant,
    ) -> Result<Waited, ToolError> {
        loop {
            let (this, of_thread, args) = (self.clone(), Arc::clone(all), args.to_vec());
            let found = tokio::task::spawn_blocking(move || this.take_up(&of_thread, args));
            match found.await.map_err(|error| ToolError::internal(&error))?? {
                AtWork::Here(work) => return self.wait_for(all, &work, until).await,
                AtWork::Elsewhere(caps) if Instant::now() >= until => {
                    return Ok(Waited { state: WaitedFor::Elsewhere, caps, requests_before: None });
                }
                AtWork::Elsewhere(_) => sleep(PERIOD).await,
            }
        }
    }

    /// Finds who works on it, and starts it where nobody does.
    fn take_up(&self, all: &Measurements, args: Vec<OsString>) -> Result<AtWork, ToolError> {
        // Held for the whole decision: two calls share what is left of the caps.
        let mut works = all.works.blocking_lock();
        if let Some(work) = works.get(&self.name) {
            if work.asked == self.asked {
                return Ok(AtWork::Here(Arc::clone(work)));
            }
            if !work.has_ended() {
                return Err(other_arguments());
            }
        }
        works.remove(&self.name);
        let started = read_started(&self.dir)?;
        if calls_dirs(&self.dir).iter().any(|dir| is_held(dir)) {
            return match started {
                Some(Started { asked, .. }) if asked != self.asked => Err(other_arguments()),
                started => Ok(AtWork::Elsewhere(started.map(|started| started.caps))),
            };
        }
        let work = Arc::new(self.start(all, &works, started, args)?);
        if works.len() >= MAX_REMEMBERED {
            works.retain(|_, work| !work.has_ended());
        }
        works.insert(self.name.clone(), Arc::clone(&work));
        Ok(AtWork::Here(work))
    }

    fn start(
        &self,
        all: &Measurements,
        works: &Works,
        started: Option<Started>,
        mut args: Vec<OsString>,
    ) -> Result<Work, ToolError> {
        let requests_before = spent_in(&self.dir, None)?.requests;
        let is_same = started.as_ref().map(|started| started.asked.is_same_work(&self.asked));
        if is_same == Some(false) && requests_before > 0 {
            return Err(ToolError::new(
                "this is the name of a measurement with other arguments, or of a skill that has changed since",
                "pass another `name`; the same arguments resume that measurement",
            ));
        }
        let left = left(all, works, (self, is_same == Some(true)), MAX_AT_WORK)?;
        let caps = self.caps.and(left);
        args.extend(crate::start::settings(&caps.overrides()));
        write_started(&self.dir, &Started { asked: self.asked.clone(), caps })?;
        let outcome = process::begin(&all.program, &args, &self.dir)?;
        Ok(Work { asked: self.asked.clone(), caps, requests_before, outcome })
    }

    /// Waits for a measurement that was started here. No lock is held: others may ask meanwhile.
    async fn wait_for(
        &self,
        all: &Measurements,
        work: &Arc<Work>,
        until: Instant,
    ) -> Result<Waited, ToolError> {
        let mut outcome = work.outcome.clone();
        let waited =
            |state| Waited { state, caps: Some(work.caps), requests_before: Some(work.requests_before) };
        let ended = match timeout_at(until, outcome.wait_for(Option::is_some)).await {
            Err(_) => return Ok(waited(WaitedFor::Here)),
            Ok(Err(error)) => Err(ToolError::internal(&error)),
            Ok(Ok(ended)) => ended.clone().expect("it is waited for until there is one"),
        };
        let mut works = all.works.lock().await;
        if works.get(&self.name).is_some_and(|known| Arc::ptr_eq(known, work)) {
            works.remove(&self.name);
        }
        drop(works);
        ended?;
        let printed = read_result(&self.dir)?;
        Ok(waited(WaitedFor::Printed(printed)))
    }
}

fn other_arguments() -> ToolError {
    ToolError::new(
        "a measurement of this name is at work, with other arguments",
        "call measure with the arguments that it was started with, or pass another `name`",
    )
}

/// The directory of a measurement's calls and results is its own; what the server writes is beside it.
fn beside(dir: &Path, ending: &str) -> PathBuf {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    dir.with_file_name(name)
}
