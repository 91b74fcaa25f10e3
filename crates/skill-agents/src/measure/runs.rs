//! The runs of a measurement: those that are on record are not made again, the others up to the caps.

use super::{
    Ended, Key, LaunchError, Launched, Launcher, Record, Setup, StartCosts, Store, StoreError, prepare,
};
use crate::home::{HomeError, SessionFile};
use crate::loads::{How, Loads, RunUsage};
use crate::outcome::TriggerOutcome;
use crate::query::Query;
use crate::read::{ReadOptions, base_name, read_case};
use crate::table::ListingIn;
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Failures in a row after which nothing more is started.
const MAX_FAILURES: usize = 3;

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Caps {
    /// Starts of the agent, over all processes that use the directory.
    pub calls: Option<usize>,
    /// US dollars, by the prices, or by the costs that the agent reports.
    pub budget: Option<f64>,
    /// US dollars for a million tokens of prompts and of replies, in place of what the agent reports.
    pub prices: Option<[f64; 2]>,
    /// Runs at the same time.
    pub concurrency: usize,
    /// Only the first run is made, for the estimate.
    pub only_first: bool,
}

impl Caps {
    /// What these tokens cost in US dollars; `None` where nothing says it.
    pub(crate) fn cost(&self, usage: Option<&RunUsage>) -> Option<f64> {
        let usage = usage?;
        match self.prices {
            Some([input, output]) => {
                Some((usage.tokens.input as f64 * input + usage.tokens.output as f64 * output) / 1e6)
            }
            None => usage.cost,
        }
    }

    /// Why nothing more may be started after so many starts at this cost; `None` where something may.
    pub(super) fn stop_after(&self, n_starts: usize, spending: &StartCosts) -> Option<Stop> {
        if self.calls.is_some_and(|most| n_starts >= most) {
            return Some(Stop::Calls(n_starts));
        }
        let reserved = spending.total() + spending.largest;
        self.budget.is_some_and(|budget| reserved > budget).then_some(Stop::Budget(spending.known))
    }
}

/// Why a measurement ended early.
#[derive(Debug, Clone, PartialEq)]
pub enum Stop {
    /// The cap on starts is reached.
    Calls(usize),
    /// The cap on money is reached, after this was spent.
    Budget(f64),
    /// The agent reports no cost, so a cap on money cannot be kept.
    NoCost,
    /// The program cannot be started.
    NotStarted(String),
    /// The account is not signed in, or refuses.
    Refused(String),
    /// The account has reached a limit, which is over hours or days later.
    Limited(String),
    /// The model's server takes no more requests at the moment.
    Busy(String),
    /// The agent failed several times in a row.
    KeepsFailing(String),
    /// Too few held-out queries come out wrong for any description to be accepted.
    NoRoom {
        /// The skill.
        skill: String,
        /// Held-out queries that come out wrong now.
        n_wrong: usize,
        /// Those that were measured.
        n_measured: usize,
        /// How many queries like these have to be added.
        n_to_add: usize,
    },
    /// A person stopped it.
    Stopped,
    /// Only an estimate was asked for.
    Estimated,
}

impl Stop {
    /// A program that could not be started, or was stopped.
    pub(crate) fn of_launch(error: &LaunchError) -> Self {
        match error {
            LaunchError::Start { .. } => Self::NotStarted(error.to_string()),
            LaunchError::Stopped => Self::Stopped,
        }
    }

    /// A failure that all later runs would share; `None` where the next one may succeed.
    pub(crate) fn of_trouble(trouble: Trouble, said: &str) -> Option<Self> {
        match trouble {
            Trouble::Refused => Some(Self::Refused(said.to_owned())),
            Trouble::Limited => Some(Self::Limited(said.to_owned())),
            Trouble::Busy => Some(Self::Busy(said.to_owned())),
            Trouble::Other => None,
        }
    }
}

/// What happens in a measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice<'a> {
    /// What the next runs are of, where a training makes several measurements.
    Of(&'static str),
    /// Before the first run: all runs, and those that are on record.
    Planned {
        /// All runs.
        n_runs: usize,
        /// Those on record.
        n_known: usize,
    },
    /// After the first run: what the runs that are left will take, if they are like it.
    Estimate {
        /// Runs that are left.
        n_left: usize,
        /// The first run.
        first: &'a Record,
    },
    /// A run came to its end.
    Run {
        /// Runs with a record.
        n_done: usize,
        /// All runs.
        n_runs: usize,
        /// Its record.
        record: &'a Record,
    },
}

/// The records of a measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// By query and repetition.
    pub records: BTreeMap<(String, usize), Record>,
    /// Why it ended early.
    pub stop: Option<Stop>,
    /// Runs that were planned.
    pub n_planned: usize,
}

struct State {
    measured: Measured,
    n_starts: usize,
    /// Starts that are under way are among those of unknown cost.
    spending: StartCosts,
    n_failures: usize,
}

/// Asks each query `repetitions` times, as far as that is not on record.
///
/// Runs that failed in an earlier process are retried. A stop is not an error: the result holds what was measured, and
/// the same call continues.
///
/// # Errors
///
/// A directory that cannot be used, and a project that cannot be written.
pub async fn measure(
    setup: &Setup,
    queries: &[Query],
    repetitions: usize,
    store: &Store,
    launcher: &dyn Launcher,
    caps: &Caps,
    notify: &(dyn Fn(&Notice<'_>) + Sync),
) -> Result<Measured, StoreError> {
    let skills = hash_of(setup);
    let mut missing = Vec::new();
    let mut state = State {
        measured: Measured::default(),
        n_starts: store.n_starts()?,
        spending: store.spending()?,
        n_failures: 0,
    };
    for repetition in 1..=repetitions {
        for query in queries {
            let key = Key::new(&skills, query, repetition);
            match store.record(&key)? {
                Some(record) if record.failed.is_none() => {
                    state.measured.records.insert((query.id.clone(), repetition), record);
                }
                Some(_) | None => missing.push((key, query)),
            }
        }
    }
    let n_runs = repetitions * queries.len();
    state.measured.n_planned = n_runs;
    notify(&Notice::Planned { n_runs, n_known: n_runs - missing.len() });
    let state = Mutex::new(state);
    let mut missing = missing.into_iter();
    // The first one alone, for the estimate and for what would fail every time.
    if let Some((key, query)) = missing.next() {
        one(setup, &key, query, store, launcher, caps, &state, notify).await?;
        let first = state.lock().measured.records.get(&(key.query.clone(), key.repetition)).cloned();
        if let Some(first) = first.filter(|_| missing.len() > 0) {
            notify(&Notice::Estimate { n_left: missing.len(), first: &first });
            if caps.only_first {
                state.lock().stop(Stop::Estimated);
            }
        }
    }
    let runs = stream::iter(missing).map(|(key, query)| {
        let state = &state;
        async move { one(setup, &key, query, store, launcher, caps, state, notify).await }
    });
    let mut runs = runs.buffer_unordered(caps.concurrency.max(1));
    while let Some(outcome) = runs.next().await {
        outcome?;
    }
    drop(runs);
    Ok(state.into_inner().measured)
}

/// The hash of the skills and of what lies beside them.
pub(crate) fn hash_of(setup: &Setup) -> String {
    use sha2::{Digest as _, Sha256};
    let mut hash = Sha256::new();
    for skill in setup.skills.iter().chain(&setup.competitors) {
        hash.update(skill.hash().as_bytes());
    }
    crate::skill::hex(&hash.finalize())
}

impl State {
    fn stop(&mut self, why: Stop) {
        self.measured.stop.get_or_insert(why);
    }

    /// Reserves a start; false if nothing more may be started.
    fn may_start(&mut self, caps: &Caps) -> bool {
        if self.measured.stop.is_some() {
            return false;
        }
        if let Some(stop) = caps.stop_after(self.n_starts, &self.spending) {
            self.stop(stop);
            return false;
        }
        self.n_starts += 1;
        self.spending.n_unknown += 1;
        true
    }
}

#[expect(clippy::too_many_arguments, reason = "one run needs all that a measurement has")]
async fn one(
    setup: &Setup,
    key: &Key,
    query: &Query,
    store: &Store,
    launcher: &dyn Launcher,
    caps: &Caps,
    state: &Mutex<State>,
    notify: &(dyn Fn(&Notice<'_>) + Sync),
) -> Result<(), StoreError> {
    if !state.lock().may_start(caps) {
        return Ok(());
    }
    let fault = |source| StoreError::File { path: store.folder(key), source };
    let workspace = launcher.workspace().map_err(fault)?;
    let prepared = prepare(setup, &query.query, workspace.path()).map_err(fault)?;
    let name = format!("{}-{}", key.query, key.repetition);
    store.note_start(&name)?;
    let since = SystemTime::now();
    let launched = match launcher.launch(&prepared.launch).await {
        Ok(launched) => launched,
        Err(error) => {
            state.lock().stop(Stop::of_launch(&error));
            return Ok(());
        }
    };
    let files = prepared.session_files(setup, &launched.stdout, since);
    let record = record_of(setup, key, &launched, files, caps);
    store.keep(key, &launched.stdout, &launched.stderr, &record)?;
    store.note_cost(&name, record.cost)?;
    let n_done = {
        let mut state = state.lock();
        if record.cost.is_some() {
            state.spending.n_unknown = state.spending.n_unknown.saturating_sub(1);
            state.spending.add(record.cost);
        }
        state.judge(&record, launcher, caps);
        state.measured.records.insert((key.query.clone(), key.repetition), record.clone());
        state.measured.records.len()
    };
    let n_runs = state.lock().measured.n_planned;
    notify(&Notice::Run { n_done, n_runs, record: &record });
    Ok(())
}

/// What a failure means for all runs after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The account refuses.
    Refused,
    /// The account has reached a limit, which is over hours or days later.
    Limited,
    /// The model's server takes no more requests at the moment.
    Busy,
    /// The next run may succeed.
    Other,
}

impl State {
    fn judge(&mut self, record: &Record, launcher: &dyn Launcher, caps: &Caps) {
        let Some(why) = &record.failed else {
            self.n_failures = 0;
            // A run that was ended at the turn limit may not have reported it.
            if caps.budget.is_some() && record.cost.is_none() && !record.at_turn_limit {
                self.stop(Stop::NoCost);
            }
            return;
        };
        self.n_failures += 1;
        let said = match record.message.trim() {
            "" => why.clone(),
            message => format!("{why}: {message}"),
        };
        match Stop::of_trouble(launcher.trouble(&record.message, record.status), &said) {
            Some(stop) => self.stop(stop),
            None if self.n_failures >= MAX_FAILURES => self.stop(Stop::KeepsFailing(said)),
            None => {}
        }
    }
}

/// What became of a run.
fn record_of(
    setup: &Setup,
    key: &Key,
    launched: &Launched,
    files: Result<Vec<SessionFile>, HomeError>,
    caps: &Caps,
) -> Record {
    let mut record = Record::new(&key.query, key.repetition);
    record.milliseconds = u64::try_from(launched.elapsed.as_millis()).unwrap_or(u64::MAX);
    record.at_turn_limit = launched.ended == Ended::TurnLimit;
    let agent = setup.agent;
    let skills: Vec<&str> =
        setup.skills.iter().chain(&setup.competitors).map(|skill| skill.listed_name(agent)).collect();
    let options = ReadOptions {
        skills: skills.iter().map(|name| (*name).to_owned()).collect(),
        is_stopped: record.at_turn_limit,
    };
    let (files, unread) = match files {
        Ok(files) => (files, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let found = read_case(agent, std::slice::from_ref(&launched.stdout), &files, &options);
    record.agent_version.clone_from(&found.version);
    record.model.clone_from(&found.model);
    (record.replies, record.calls) = (found.replies, found.tools.len());
    record.take_usage(found.usage);
    record.cost = caps.cost(found.usage.as_ref());
    fail(&mut record, launched, &found);
    if let Some(error) = unread.filter(|_| record.failed.is_none()) {
        record.failed = Some("the session files of the run cannot be read".to_owned());
        record.message = of_error(&error);
    }
    if record.failed.is_none() && found.replies == 0 && found.loads.is_empty() {
        record.failed = Some("no record shows a reply of the model".to_owned());
        record.message = last_words(launched);
    }
    for skill in skills {
        record.outcomes.insert(skill.to_owned(), outcome(setup, &found, skill, &mut record.failed));
    }
    for load in found.loads.iter().filter(|load| load.how != How::Person) {
        record.loaded.entry(base_name(&load.skill).to_owned()).or_insert(load.turn);
    }
    // A load that was seen is one, however the run ended.
    if record.failed.is_some() {
        for outcome in record.outcomes.values_mut() {
            if !matches!(outcome, TriggerOutcome::Triggered | TriggerOutcome::Attempted) {
                *outcome = TriggerOutcome::Failed;
            }
        }
    }
    record
}

fn fail(record: &mut Record, launched: &Launched, found: &Loads) {
    if let Some(failed) = found.failed.iter().flatten().next() {
        record.failed = Some(failed.why.clone());
        record.status = failed.status;
        record.message.clone_from(&failed.message);
    }
    match launched.ended {
        Ended::Deadline => {
            record.failed = Some("the run took longer than --timeout allows".to_owned());
            // What it printed last is a piece of its work, and no reason.
            record.message = format!("{:.0} s are over", launched.elapsed.as_secs_f64());
        }
        Ended::TooMuch => record.failed = Some("the program printed more than a run may".to_owned()),
        Ended::Exited(_) | Ended::TurnLimit => {}
    }
    if record.failed.is_some() && record.message.is_empty() {
        record.message = last_words(launched);
    }
}

/// An error with what the system said.
fn of_error(error: &HomeError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The end of what the program printed, on standard error if there is anything.
pub(super) fn last_words(launched: &Launched) -> String {
    const N_WORDS: usize = 60;
    let said = if launched.stderr.trim().is_empty() { &launched.stdout } else { &launched.stderr };
    let words: Vec<&str> = said.split_whitespace().collect();
    let end = words.len().saturating_sub(N_WORDS);
    words.get(end..).unwrap_or_default().join(" ")
}

/// The outcome of a skill; a run whose listing should be on record and is not has measured nothing.
fn outcome(setup: &Setup, found: &Loads, skill: &str, failed: &mut Option<String>) -> TriggerOutcome {
    let Some(row) = found.trigger.get(base_name(skill)) else { return TriggerOutcome::Failed };
    let shows_listing = setup.agent.listing_in != ListingIn::Nowhere;
    if row.outcome == TriggerOutcome::NotTriggered && row.offered.is_none() && shows_listing {
        failed.get_or_insert_with(|| "no record shows whether the skills were listed".to_owned());
        return TriggerOutcome::Failed;
    }
    row.outcome
}
