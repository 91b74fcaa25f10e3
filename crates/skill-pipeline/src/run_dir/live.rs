//! `live.json`: what the process that works on a run is doing, for those who look on from outside.
//!
//! The file is there while a process trains, is written again about twice a second, and is removed at the end. Nothing
//! is decided by it: a run is resumed from its other files alone.

use super::atomic::TEMPORARY_PREFIX;
use super::bank_progress::BankProgress;
use super::event_log::unix_millis;
use crate::error::LockHolder;
use crate::event::{Event, EventSink};
use crate::records::FORMAT_VERSION;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use skill_core::StepIdx;
use skill_llm::regular_file;
use skill_llm::{BudgetCaps, Spent};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The file in the run directory.
pub(crate) const LIVE_FILE: &str = "live.json";

/// How often the file is written again.
const PERIOD: Duration = Duration::from_millis(500);

/// A stage that has worked for less time has no rate yet: what comes from the journal comes at once.
pub const LEAST_RATED: Duration = Duration::from_secs(1);

/// What is done so soon after a stage began was kept in the journal.
pub const AT_ONCE: Duration = Duration::from_millis(100);

/// A file that is older says that its process is gone.
const STALE_AFTER_MS: u64 = 10_000;

/// What a run is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LiveState {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The process that works on the run.
    pub pid: u32,
    /// When it took up the run, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// When this was written.
    pub updated_unix_ms: u64,
    /// Steps of the whole run.
    pub total_steps: u32,
    /// Steps that were finished when the process took up the run.
    pub finished_at_start: u32,
    /// Steps that are finished.
    pub finished_steps: u32,
    /// The step under way; absent outside of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepIdx>,
    /// The stage under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// When the stage began.
    pub stage_started_unix_ms: u64,
    /// Units of the stage's work that are done: items, or model calls.
    pub done: usize,
    /// As many of them were done as soon as the stage began: they come from the journal, and say nothing of how long the
    /// others take.
    #[serde(default)]
    pub done_at_once: usize,
    /// Units of the stage's work.
    pub total: usize,
    /// Where the training of a bank is, with rounds in the place of steps; `None` for a run that trains a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<Box<BankProgress>>,
    /// What its models do.
    #[serde(flatten)]
    pub pulse: Pulse,
}

/// What the models of a run do at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Pulse {
    /// Requests that are sent and not answered.
    pub in_flight: usize,
    /// Requests that may be in flight now.
    pub limit: usize,
    /// Calls that wait for their turn: for a place in flight, or for the provider's rates.
    pub waiting: usize,
    /// Calls that have failed and are tried again.
    #[serde(default)]
    pub retrying: usize,
    /// What the one of them came to last that has failed most often, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The workers on other machines; none where rollouts are made in this process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerPulse>,
    /// What the run has used, over all its processes, and what it may use.
    #[serde(flatten)]
    pub spend: Spend,
}

/// A worker as the driver of its run sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkerPulse {
    /// Its name.
    pub name: String,
    /// The rollouts that it makes at a time.
    pub slots: u32,
    /// How many seconds ago it was heard of.
    pub seen_seconds_ago: u64,
    /// The tasks that it works on.
    #[serde(default)]
    pub doing: Vec<String>,
    /// What is in the way of its working on the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a run has used and may use; money in the currency of the prices.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Requests that were sent, every attempt counted.
    pub calls: u64,
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// What that cost.
    pub money: f64,
    /// Seconds of work.
    pub seconds: f64,
    /// The cap on calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_calls: Option<u64>,
    /// The cap on tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_tokens: Option<u64>,
    /// The cap on money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_money: Option<f64>,
    /// The cap on time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_seconds: Option<f64>,
}

impl Spend {
    /// What was spent under these caps.
    pub fn new(spent: Spent, caps: BudgetCaps) -> Self {
        Self {
            calls: spent.calls,
            tokens: spent.tokens,
            money: spent.money,
            seconds: (spent.time.as_secs_f64() * 10.0).round() / 10.0,
            cap_calls: caps.calls,
            cap_tokens: caps.tokens,
            cap_money: caps.money,
            cap_seconds: caps.time.map(|time| time.as_secs_f64()),
        }
    }
}

impl LiveState {
    /// Whether the process still worked on the run a moment ago.
    pub(crate) fn is_working(&self) -> bool {
        unix_millis().saturating_sub(self.updated_unix_ms) < STALE_AFTER_MS
    }

    /// Units of the stage per second, those aside that were kept; `None` before the first is done, and before
    /// [`LEAST_RATED`] has passed.
    pub fn rate(&self) -> Option<f64> {
        let worked = Duration::from_millis(self.updated_unix_ms.saturating_sub(self.stage_started_unix_ms));
        let n_worked = self.done.saturating_sub(self.done_at_once);
        (n_worked > 0 && worked >= LEAST_RATED).then(|| n_worked as f64 / worked.as_secs_f64())
    }

    /// Seconds until the stage is done, at its rate until now.
    pub fn stage_seconds_left(&self) -> Option<f64> {
        self.rate().map(|rate| self.total.saturating_sub(self.done) as f64 / rate)
    }

    /// Seconds until the last step is done, if steps go on to take as long as this process took for one; `None` before
    /// it has finished one.
    pub fn run_seconds_left(&self) -> Option<f64> {
        let n_own = self.finished_steps.checked_sub(self.finished_at_start).filter(|n_own| *n_own > 0)?;
        if self.finished_steps >= self.total_steps {
            // What is measured after the last step takes as long as it takes.
            return None;
        }
        let seconds = self.updated_unix_ms.saturating_sub(self.started_unix_ms) as f64 / 1000.0;
        Some(seconds / f64::from(n_own) * f64::from(self.total_steps.saturating_sub(self.finished_steps)))
    }

    fn apply(&mut self, event: &Event, now: u64) {
        if let Some(bank) = &mut self.bank {
            bank.apply(event);
        }
        match event {
            Event::StepStarted { step, total_steps, .. } => {
                (self.step, self.total_steps) = (Some(*step), *total_steps);
            }
            Event::StageStarted { step, stage, total } => {
                self.step = *step;
                self.stage = Some(stage.as_str().to_owned());
                self.stage_started_unix_ms = now;
                (self.done, self.done_at_once, self.total) = (0, 0, *total);
            }
            Event::StageProgress { done, total, .. } => {
                (self.done, self.total) = (*done, *total);
                if now.saturating_sub(self.stage_started_unix_ms) <= AT_ONCE.as_millis() as u64 {
                    self.done_at_once = *done;
                }
            }
            Event::StageFinished { .. } => {
                self.stage = None;
                (self.done, self.done_at_once, self.total) = (0, 0, 0);
            }
            Event::StepFinished { record } => {
                self.finished_steps = record.step.0;
                self.step = None;
            }
            Event::RoundFinished { record } => {
                // A process that goes on with a run comes to the rounds of earlier ones again.
                self.finished_steps = self.finished_steps.max(record.round);
                self.step = None;
            }
            Event::SftStepFinished { record, .. } => {
                self.finished_steps = u32::try_from(record.step).unwrap_or(u32::MAX);
                self.step = None;
            }
            Event::RlIterationFinished { record, .. } => {
                self.finished_steps = u32::try_from(record.iteration).unwrap_or(u32::MAX);
                self.step = None;
            }
            _ => {}
        }
    }
}

/// Reads what a run is doing; `None` where no process works on it, or the file is of a version that this one does not
/// know.
pub(super) fn read(run_dir: &Path) -> Option<LiveState> {
    last_seen(run_dir).filter(LiveState::is_working)
}

/// The process that works on a run, if it says so.
pub(super) fn holder(run_dir: &Path) -> Option<LockHolder> {
    let live = read(run_dir)?;
    let seconds = unix_millis().saturating_sub(live.started_unix_ms) / 1000;
    Some(LockHolder { pid: live.pid, seconds })
}

/// What the last process said last, which may be gone since: one that is killed leaves the file. `None` where there is
/// none, or one of a version that this one does not know.
pub fn last_seen(run_dir: &Path) -> Option<LiveState> {
    let bytes = regular_file::read(&run_dir.join(LIVE_FILE)).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Says what the models of a run do now.
pub type ReadPulse = Arc<dyn Fn() -> Pulse + Send + Sync>;

/// Keeps `live.json` while events come, and passes them on.
pub struct LiveEvents {
    sink: Arc<dyn EventSink>,
    read_pulse: ReadPulse,
    writer: Mutex<Option<Writer>>,
}

impl LiveEvents {
    /// Events go on to `sink`; the file is written from the start of a run to its end.
    pub fn new(sink: Arc<dyn EventSink>, read_pulse: ReadPulse) -> Self {
        Self { sink, read_pulse, writer: Mutex::new(None) }
    }
}

impl EventSink for LiveEvents {
    fn emit(&self, event: &Event) {
        let mut writer = self.writer.lock();
        match event {
            Event::RunStarted { dir, total_steps, finished_steps, .. } => {
                *writer = Writer::start(dir, [*total_steps, *finished_steps], Arc::clone(&self.read_pulse));
            }
            // Dropping the writer removes the file.
            Event::RunFinished { .. }
            | Event::BankFinished { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseFinished { .. }
            | Event::SftFinished { .. }
            | Event::RunStopped { .. } => *writer = None,
            other => {
                if let Some(writer) = writer.as_ref() {
                    writer.shared.state.lock().apply(other, unix_millis());
                }
            }
        }
        drop(writer);
        self.sink.emit(event);
    }
}

/// A thread that writes the file, so that no stage waits for the disk.
struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<LiveState>,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Writer {
    /// `None` if the system gives no thread: a run does without being looked at.
    fn start(run_dir: &Path, [total_steps, finished_steps]: [u32; 2], read_pulse: ReadPulse) -> Option<Self> {
        let now = unix_millis();
        let state = LiveState {
            format_version: FORMAT_VERSION.to_owned(),
            pid: std::process::id(),
            started_unix_ms: now,
            updated_unix_ms: now,
            total_steps,
            finished_at_start: finished_steps,
            finished_steps,
            step: None,
            stage: None,
            stage_started_unix_ms: now,
            done: 0,
            done_at_once: 0,
            total: 0,
            bank: crate::kind::trains_bank(run_dir)
                .then(|| Box::new(BankProgress { rounds: total_steps, ..BankProgress::default() })),
            pulse: Pulse::default(),
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), is_over: Mutex::new(false), over: Condvar::new() });
        // At once, so that anyone who starts a run can look at it.
        refresh(run_dir, &shared, &read_pulse);
        let (path, of_thread) = (run_dir.to_owned(), Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("live".to_owned());
        let thread = thread.spawn(move || keep_writing(&path, &of_thread, &read_pulse)).ok()?;
        Some(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        *self.shared.is_over.lock() = true;
        self.shared.over.notify_all();
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, there would be nothing to save.
            let _ = thread.join();
        }
    }
}

fn refresh(run_dir: &Path, shared: &Shared, read_pulse: &ReadPulse) {
    let state = {
        let mut state = shared.state.lock();
        state.updated_unix_ms = unix_millis();
        state.pulse = read_pulse();
        state.clone()
    };
    if let Err(error) = write(run_dir, &state) {
        tracing::debug!(%error, "live.json could not be written");
    }
}

fn keep_writing(run_dir: &Path, shared: &Shared, read_pulse: &ReadPulse) {
    loop {
        let mut is_over = shared.is_over.lock();
        shared.over.wait_while_for(&mut is_over, |is_over| !*is_over, PERIOD);
        if *is_over {
            break;
        }
        refresh(run_dir, shared, read_pulse);
    }
    if let Err(error) = fs::remove_file(run_dir.join(LIVE_FILE))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(%error, "live.json could not be removed");
    }
}

/// Replaces the file whole, but does not wait until the disk has it: after a crash it is of no use.
fn write(run_dir: &Path, state: &LiveState) -> io::Result<()> {
    let temporary: PathBuf = run_dir.join(format!("{TEMPORARY_PREFIX}{LIVE_FILE}"));
    fs::write(&temporary, serde_json::to_vec(state)?)?;
    fs::rename(&temporary, run_dir.join(LIVE_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{NoEvents, Stage};

    fn started(dir: &Path) -> Event {
        Event::RunStarted {
            dir: dir.to_owned(),
            env: "qa".to_owned(),
            n_items: [4, 4, 4],
            total_steps: 3,
            finished_steps: 1,
            workers: 2,
            config_dir: None,
        }
    }

    fn stage_started() -> Event {
        Event::StageStarted { step: Some(StepIdx(2)), stage: Stage::Evaluate, total: 40 }
    }

    #[test]
    fn the_file_is_there_while_a_run_works_and_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let pulse = Pulse { in_flight: 3, limit: 8, ..Pulse::default() };
        let events = LiveEvents::new(
            Arc::new(NoEvents),
            Arc::new({
                let pulse = pulse.clone();
                move || pulse.clone()
            }),
        );
        assert_eq!(read(dir.path()), None);
        events.emit(&started(dir.path()));
        let live = read(dir.path()).unwrap();
        assert_eq!((live.total_steps, live.finished_steps, live.pulse), (3, 1, pulse));
        assert_eq!(live.pid, std::process::id());
        events.emit(&stage_started());
        events.emit(&Event::RunStopped { reason: "stopped".to_owned(), hint: String::new() });
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_process_that_is_gone_is_not_working() {
        let dir = tempfile::tempdir().unwrap();
        let events = LiveEvents::new(Arc::new(NoEvents), Arc::new(Pulse::default));
        events.emit(&started(dir.path()));
        let mut live = read(dir.path()).unwrap();
        drop(events);
        live.updated_unix_ms -= STALE_AFTER_MS;
        write(dir.path(), &live).unwrap();
        assert_eq!(read(dir.path()), None);
        // Another version's file is no reason to fail.
        fs::write(dir.path().join(LIVE_FILE), "{\"pid\": 1}").unwrap();
        assert_eq!(read(dir.path()), None);
    }

    #[test]
    fn events_say_how_far_a_stage_has_come_and_when_it_will_be_done() {
        let dir = tempfile::tempdir().unwrap();
        let events = LiveEvents::new(Arc::new(NoEvents), Arc::new(Pulse::default));
        events.emit(&started(dir.path()));
        let mut live = read(dir.path()).unwrap();
        let now = live.started_unix_ms;
        live.apply(&stage_started(), now);
        assert_eq!((live.rate(), live.run_seconds_left()), (None, None));
        let progress =
            |done| Event::StageProgress { step: Some(StepIdx(2)), stage: Stage::Evaluate, done, total: 40 };
        live.apply(&progress(5), now + 1);
        live.updated_unix_ms = now + 2_000;
        assert_eq!(live.rate(), None, "what was kept is no work");
        live.apply(&progress(15), now + 400);
        live.updated_unix_ms = now + 999;
        assert_eq!((live.rate(), live.stage_seconds_left()), (None, None));
        live.updated_unix_ms = now + 5_000;
        assert_eq!((live.rate(), live.stage_seconds_left()), (Some(2.0), Some(12.5)));
        let finished = Event::StageFinished { step: Some(StepIdx(2)), stage: Stage::Evaluate, seconds: 5.0 };
        live.apply(&finished, now + 5_000);
        assert_eq!((live.stage.as_deref(), live.done, live.total), (None, 0, 0));
        live.finished_steps = 2;
        assert_eq!(live.run_seconds_left(), Some(5.0));
    }
}
