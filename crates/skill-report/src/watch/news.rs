//! Runs that somebody looks at: their news, gathered once for all who look.
//!
//! While a run is looked at, its files are looked at twice a second; when it is no longer watched, that ends.
//!
//! # Invariants
//!
//! - Each viewer gets an event once; dropped events are reported as lost. Held by `tests/news.rs`.

use super::discover::Found;
use super::log::{Line, Log, StageAt};
use super::rollouts::{RolloutView, SHOWN, shown};
use super::row::Row;
use super::runs::Runs;
use super::signature::{FileState, Signature, journal_state};
use super::spend::{Ledger, Spent};
use crate::{BankBrief, Fact, RunPhase};
use parking_lot::Mutex;
use serde::Serialize;
use skill_llm::journal::JournalReader;
use skill_pipeline::event::StageKind;
use skill_pipeline::run_dir::bank_progress::{BankProgress, TrialProgress};
use skill_pipeline::run_dir::live::{LiveState, WorkerPulse};
use skill_pipeline::run_dir::{JOURNAL_FILE, is_held};
use skill_pipeline::{RunReader, Stage};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the files of a run that is looked at are looked at.
const PERIOD: Duration = Duration::from_millis(500);

/// The runs that are looked at.
#[derive(Default)]
pub struct Watches {
    watched: Arc<Mutex<HashMap<String, Arc<Watch>>>>,
}

/// A run that is looked at.
pub struct Watch {
    /// Counts the times at which there was something new.
    news: watch::Sender<u64>,
    seen: Mutex<Seen>,
}

/// What is known of a run.
struct Seen {
    log: Log,
    rollouts: VecDeque<RolloutView>,
    last_result: i64,
    spent: Option<Spent>,
    done: u64,
    /// The state of the journal's files when it was read last, and for which stage.
    journal: ([FileState; 2], Option<StageAt>),
    now: Option<Now>,
}

/// Where a run is now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Now {
    /// How it is.
    pub state: RunPhase,
    /// What is wrong with its files.
    pub problem: Option<String>,
    /// Somebody asked for a stop, and the process has not come to it yet.
    pub is_stop_requested: bool,
    /// Finished steps.
    pub n_steps: u32,
    /// Steps of the whole run, where that is known.
    pub total_steps: Option<u32>,
    /// The step under way.
    pub step: Option<u32>,
    /// Its epoch.
    pub epoch: Option<u32>,
    /// The stage under way.
    pub stage: Option<StageNow>,
    /// What the run has spent, where anybody can say.
    pub spent: Option<Spent>,
    /// Requests that are not answered yet, where the process says so.
    pub in_flight: Option<usize>,
    /// Calls that wait for their turn, likewise.
    pub waiting: Option<usize>,
    /// Calls that have failed and are retried, likewise.
    pub retrying: Option<usize>,
    /// What the one of them came to last that has failed most often, in words.
    pub trouble: Option<String>,
    /// The workers on other machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerPulse>,
    /// Changes when the report does.
    pub report: String,
    /// Where the training of a bank is, while a process works on it.
    pub progress: Option<Box<BankProgress>>,
    /// The bank by the files of the run.
    pub bank: Option<Box<BankBrief>>,
    /// What it trains, where that is not a document.
    pub kind: Option<&'static str>,
    /// The name of one of its steps.
    pub unit: &'static str,
    /// What it has come to.
    pub facts: Vec<Fact>,
}

impl StageNow {
    fn of(live: &LiveState) -> Option<Self> {
        Some(Self {
            name: live.stage.clone()?,
            done: live.done as u64,
            total: live.total as u64,
            began_unix_ms: live.stage_started_unix_ms,
        })
    }
}

/// Where a run is, and when that is told: a viewer may have another clock.
#[derive(Debug, Serialize)]
pub struct Telling {
    #[serde(flatten)]
    now: Now,
    unix_ms: u64,
}

impl Now {
    /// With the time of now.
    pub fn tell(self) -> Telling {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Telling { now: self, unix_ms: u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX) }
    }
}

/// A stage that is under way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageNow {
    /// Its name.
    pub name: String,
    /// Units of its work that are done: items, or calls.
    pub done: u64,
    /// Units of its work.
    pub total: u64,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
}

/// What one viewer has been told.
#[derive(Debug, Default)]
pub struct Told {
    now: Option<Now>,
    /// Where the last line that was told ends in the log.
    line: u64,
    rollout: i64,
}

impl Told {
    /// A viewer that knows the log up to this place, which is that of an earlier [`Told::line`].
    pub fn after(line: u64) -> Self {
        Self { line, ..Self::default() }
    }

    /// How much of the log has been told; it stays what it is while nobody looks.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// What is new to a viewer.
#[derive(Debug, Default)]
pub struct News {
    /// Where the run is, if that has changed.
    pub now: Option<Now>,
    /// Lines of the log.
    pub lines: Vec<Line>,
    /// Lines before these are no longer kept.
    pub has_lost_lines: bool,
    /// Rollouts.
    pub rollouts: Vec<RolloutView>,
}

impl Watches {
    /// Looks at a run from now on, until the watch is dropped by all who hold it.
    pub fn watch(
        &self,
        runs: &Arc<Runs>,
        name: &str,
        path: &Path,
        stop: &CancellationToken,
    ) -> (Arc<Watch>, watch::Receiver<u64>) {
        let mut watched = self.watched.lock();
        if let Some(watch) = watched.get(name) {
            return (Arc::clone(watch), watch.news.subscribe());
        }
        let (news, receiver) = watch::channel(0);
        let watch = Arc::new(Watch { news, seen: Mutex::new(Seen::new(path)) });
        watched.insert(name.to_owned(), Arc::clone(&watch));
        let work = look(
            Arc::clone(&self.watched),
            runs.ledger(),
            Arc::clone(runs),
            name.to_owned(),
            Arc::clone(&watch),
        );
        let stop = stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(work).await });
        (watch, receiver)
    }
}

/// Looks at a run until nobody wants to know any more.
async fn look(
    watched: Arc<Mutex<HashMap<String, Arc<Watch>>>>,
    ledger: Arc<Ledger>,
    runs: Arc<Runs>,
    name: String,
    watch: Arc<Watch>,
) {
    loop {
        let listing = runs.fresh().await;
        let looking = {
            let (watch, ledger, name) = (Arc::clone(&watch), Arc::clone(&ledger), name.clone());
            tokio::task::spawn_blocking(move || {
                let is_new = watch.seen.lock().look(listing.find(&name), &ledger);
                if is_new {
                    watch.news.send_modify(|count| *count += 1);
                }
            })
        };
        if let Err(error) = looking.await {
            tracing::error!(%error, name, "a run could not be looked at");
        }
        tokio::time::sleep(PERIOD).await;
        let mut watched = watched.lock();
        // Nobody can begin to look while the map is held.
        if watch.news.receiver_count() == 0 {
            watched.remove(&name);
            return;
        }
    }
}

impl Watch {
    /// What a viewer has not been told yet.
    pub fn news(&self, told: &mut Told) -> News {
        let seen = self.seen.lock();
        let mut news = News::default();
        if seen.now != told.now {
            told.now.clone_from(&seen.now);
            news.now.clone_from(&seen.now);
        }
        let last = seen.log.lines.back().map_or(told.line, |(end, _)| *end);
        // A log that has become shorter is another one.
        let from = if last < told.line { 0 } else { told.line };
        let lines = seen.log.lines.iter().filter(|(end, _)| *end > from);
        news.lines = lines.map(|(_, line)| line.clone()).collect();
        news.has_lost_lines = from < seen.log.kept_from;
        told.line = last;
        news.rollouts = seen.rollouts.iter().filter(|shown| shown.id > told.rollout).cloned().collect();
        told.rollout = seen.rollouts.back().map_or(told.rollout, |shown| shown.id);
        news
    }
}

impl Seen {
    fn new(run: &Path) -> Self {
        Self {
            log: Log::new(run),
            rollouts: VecDeque::new(),
            last_result: 0,
            spent: None,
            done: 0,
            journal: Default::default(),
            now: None,
        }
    }

    /// Looks once; says whether anything is new.
    fn look(&mut self, listed: Option<(&Found, &Row)>, ledger: &Ledger) -> bool {
        let Some((found, row)) = listed else {
            let gone = Now::gone();
            let is_new = self.now.as_ref() != Some(&gone);
            self.now = Some(gone);
            return is_new;
        };
        let may_read = found.leaving.is_none();
        let has_lines = may_read && self.log.read();
        let is_training = row.state == RunPhase::Training;
        // A process that was killed leaves a stage in the log that nobody works on.
        let stage = self.log.position.stage.clone().filter(|_| is_training);
        let has_results = may_read && self.look_into_journal(&found.path, stage.as_ref(), ledger);
        let position = &self.log.position;
        let trial = position.bank.as_ref().and_then(|bank| bank.trial.as_ref());
        let stage = stage.map(|stage| StageNow {
            // A trial is told as a whole and not by its passes.
            total: trial.map_or(stage.total, |trial| trial.max_rollouts),
            done: self.done,
            name: stage.name,
            began_unix_ms: stage.began_unix_ms,
        });
        let stage = stage.map(|stage| StageNow { done: stage.done.min(stage.total), ..stage });
        // The process itself knows best; not every one says, since a program may train by the library.
        let live = if is_training && may_read { RunReader::open(&found.path).ok() } else { None };
        let live = live.and_then(|run| run.live());
        let now = Now {
            state: row.state,
            problem: row.problem.clone(),
            is_stop_requested: row.is_stop_requested,
            n_steps: row.files.n_steps,
            total_steps: position.total_steps.or(row.files.total_steps),
            step: live
                .as_ref()
                .map_or(position.step, |live| live.step.map(|step| step.0))
                .filter(|_| is_training),
            epoch: position.epoch.filter(|_| is_training),
            stage: live.as_ref().map_or(stage, StageNow::of),
            spent: live.as_ref().map(|live| live.pulse.spend.into()).or_else(|| self.spent.clone()),
            in_flight: live.as_ref().map(|live| live.pulse.in_flight),
            waiting: live.as_ref().map(|live| live.pulse.waiting),
            retrying: live.as_ref().map(|live| live.pulse.retrying),
            trouble: live.as_ref().and_then(|live| live.pulse.trouble.clone()),
            workers: live.as_ref().map(|live| live.pulse.workers.clone()).unwrap_or_default(),
            report: report_version(&found.path),
            progress: match &live {
                Some(live) => live.bank.clone(),
                None => self.progress(),
            }
            .filter(|_| is_training),
            bank: row.files.bank().cloned().map(Box::new),
            kind: row.files.kind_words(),
            unit: row.files.unit(),
            facts: row.files.facts(),
        };
        let is_new = has_lines || has_results || self.now.as_ref() != Some(&now);
        self.now = Some(now);
        is_new
    }

    /// Where the training of a bank is by the log, with the rollouts of its trial by the journal.
    fn progress(&self) -> Option<Box<BankProgress>> {
        let mut progress = self.log.position.bank.clone()?;
        if let (Some(trial), Some(_)) = (&mut progress.trial, &self.log.position.stage) {
            trial.rollouts = trial.rollouts.max(self.done).min(trial.max_rollouts);
        }
        Some(progress)
    }

    /// Reads the journal if it has changed; says whether rollouts came.
    fn look_into_journal(&mut self, run: &Path, stage: Option<&StageAt>, ledger: &Ledger) -> bool {
        let journal = run.join(JOURNAL_FILE);
        let state = (journal_state(run), stage.cloned());
        if state == self.journal {
            return false;
        }
        let Ok(reader) = JournalReader::open(&journal) else { return false };
        self.spent = ledger.spent(run, &reader);
        let trial = self.log.position.bank.as_ref().and_then(|bank| bank.trial.as_ref());
        self.done = stage.map_or(0, |stage| n_done(&reader, stage, trial));
        let Ok(rows) = reader.last_results(self.last_result, SHOWN) else { return false };
        // What could not be read is looked at again, whether it changes or not.
        self.journal = state;
        let n_before = self.rollouts.len();
        self.last_result = rows.last().map_or(self.last_result, |row| row.id);
        self.rollouts.extend(rows.iter().filter_map(shown));
        let has_new = self.rollouts.len() > n_before;
        let n_over = self.rollouts.len().saturating_sub(SHOWN as usize);
        self.rollouts.drain(..n_over);
        has_new
    }
}

/// How many units of work of a stage are done, by what it has left in the journal.
///
/// A trial has several passes in one place: they count together, but for those before a fresh measurement.
fn n_done(journal: &JournalReader, stage: &StageAt, trial: Option<&TrialProgress>) -> u64 {
    let place = match stage.step {
        Some(step) => format!("step {step} / {}", stage.name),
        None => stage.name.clone(),
    };
    if let Some(trial) = trial.filter(|_| stage.name == Stage::Trial.as_str()) {
        let n_made =
            journal.n_results_within(&format!("{place} / batch {}", trial.trial)).unwrap_or_default();
        return if trial.is_fresh { n_made.saturating_sub(trial.n_measured) } else { n_made };
    }
    let kind = Stage::parse(&stage.name).map(Stage::kind);
    let counted = if kind == Some(StageKind::Optimizer) {
        journal.n_replies_within(&place)
    } else {
        journal.n_results_within(&place)
    };
    counted.unwrap_or_default()
}

impl Now {
    fn gone() -> Self {
        Self { problem: Some("the run no longer exists".to_owned()), unit: "step", ..Self::default() }
    }
}

/// Changes when the files do on which a report of a run stands.
pub fn report_version(run: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    Signature::of(run).hash(&mut hasher);
    // It says whether a process works on the run, and one that is killed changes no file.
    is_held(run).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
