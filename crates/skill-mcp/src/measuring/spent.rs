//! What measurements have spent, by the journals of their calls, and what that leaves of the caps of the server.

use super::files::{Started, read_started};
use super::{Measurement, Measurements, Works};
use crate::caps::Caps;
use crate::error::ToolError;
use crate::places::Configs;
use skill_llm::error::with_causes;
use skill_llm::journal::{JournalError, JournalReader, StageCalls, requests_written};
use skill_pipeline::run_dir::measurement::BANK_EVALUATION_FILE;
use skill_pipeline::run_dir::{JOURNAL_FILE, is_held};
use skillrl::config::Config;
use skillrl::cost::calls_cost;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The most measurements that are counted; beyond that nothing is started under a cap of the server.
const MAX_MEASUREMENTS: usize = 2_000;

/// A smaller share of the maximum in money is an error of rounding.
const LEAST_SHARE: f64 = 1e-9;

/// What a measurement has spent, over all its processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent {
    pub(crate) requests: u64,
    /// By the prices of its configuration; `None` where that has none, or is not known.
    pub(crate) money: Option<f64>,
}

/// The directories with calls of a measurement: its own if it is of a skill, one beside the result if it is of a bank.
pub(super) fn calls_dirs(dir: &Path) -> [PathBuf; 2] {
    [dir.to_owned(), dir.join(format!("{BANK_EVALUATION_FILE}.calls"))]
}

/// What the measurement in a directory has spent, with money by the prices of a configuration.
pub(crate) fn spent_in(dir: &Path, config: Option<&Config>) -> Result<Spent, ToolError> {
    let (mut requests, mut rows) = (0_u64, Vec::new());
    for calls in calls_dirs(dir) {
        let journal = calls.join(JOURNAL_FILE);
        let of_journal = |error: JournalError| {
            ToolError::new(
                format!("cannot tell what {} has spent: {}", dir.display(), with_causes(&error)),
                "tell the person whom you work for: the calls of that measurement have to be readable",
            )
        };
        let Some(n) = requests_written(&journal).map_err(of_journal)? else { continue };
        requests = requests.saturating_add(n);
        if config.is_some() {
            let reader = JournalReader::open(&journal).map_err(of_journal)?;
            rows.extend(reader.by_stage().map_err(of_journal)?);
        }
    }
    Ok(Spent { requests, money: config.and_then(|config| money(config, &rows)) })
}

/// The money that calls cost; `None` where nobody knows.
fn money(config: &Config, rows: &[StageCalls]) -> Option<f64> {
    let models = [Some(&config.models.target), config.models.judge.as_ref()];
    let paid: Vec<_> = models.into_iter().flatten().filter(|model| model.is_paid()).collect();
    // Simulated models have no price, and cost nothing.
    let is_free = |row: &StageCalls| {
        paid.iter().all(|model| model.served().is_some_and(|served| served.model != row.model))
    };
    let sent = rows.iter().filter(|row| row.requests > 0);
    let costs = sent.map(|row| calls_cost(config, row).or_else(|| is_free(row).then_some(0.0)));
    costs.reduce(|sum, cost| Some(sum? + cost?)).flatten()
}

/// What the other measurements leave of the caps of the server, for one that is to be started; refused where that is
/// nothing, or too many are at work. What is at work counts with all that it may still spend.
///
/// `is_resumed` is true if the earlier calls of this measurement count against its own cap.
pub(super) fn left(
    all: &Measurements,
    works: &Works,
    (measurement, is_resumed): (&Measurement, bool),
    max_at_work: usize,
) -> Result<Caps, ToolError> {
    let mut sum = Sum { caps: all.caps, calls: 0, money: 0.0, n_at_work: 0 };
    for name in names(&measurement.dir, works)? {
        let dir = measurement.dir.with_file_name(&name);
        if dir == measurement.dir && is_resumed {
            continue;
        }
        let work = works.get(&name).filter(|work| !work.has_ended());
        let is_at_work = work.is_some() || calls_dirs(&dir).iter().any(|dir| is_held(dir));
        sum.n_at_work += usize::from(is_at_work);
        if all.caps == Caps::default() {
            continue;
        }
        let started = read_started(&dir)?;
        let reserved = match work {
            Some(work) => Some(work.caps),
            None => started.as_ref().filter(|_| is_at_work).map(|started| started.caps),
        };
        sum.add(&all.configs, (&dir, started.as_ref(), &measurement.config), reserved.unwrap_or_default())?;
    }
    if sum.n_at_work >= max_at_work {
        return Err(ToolError::new(
            format!("{max_at_work} measurements are at work, which is the most at once"),
            "wait for one of them: call measure with its arguments",
        ));
    }
    sum.left()
}

/// The sum over measurements.
struct Sum {
    /// Those of the server.
    caps: Caps,
    calls: u64,
    money: f64,
    n_at_work: usize,
}

impl Sum {
    fn add(
        &mut self,
        configs: &Configs,
        (dir, started, config): (&Path, Option<&Started>, &Config),
        reserved: Caps,
    ) -> Result<(), ToolError> {
        let own = started
            .filter(|_| self.caps.money.is_some())
            .map(|Started { asked, .. }| configs.load(&asked.config, &asked.set));
        // Earlier calls never cost what another configuration says.
        let (prices, not_loaded) = match &own {
            None => (Some(config), None),
            Some(Ok((_, loaded))) => (Some(&loaded.config), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let spent = spent_in(dir, prices.filter(|_| self.caps.money.is_some()))?;
        self.calls = self.calls.saturating_add(spent.requests.max(reserved.calls.unwrap_or_default()));
        if self.caps.money.is_some() {
            let money = match spent.money {
                None if spent.requests > 0 => return Err(unknown_cost(dir, not_loaded)),
                money => money.unwrap_or_default(),
            };
            self.money += money.max(reserved.money.unwrap_or_default());
        }
        Ok(())
    }

    fn left(self) -> Result<Caps, ToolError> {
        let calls = self.caps.calls.map(|cap| cap.saturating_sub(self.calls));
        let money = self.caps.money.map(|cap| cap - self.money);
        let least = self.caps.money.map(|cap| cap * LEAST_SHARE);
        if calls == Some(0) || money <= least && money.is_some() {
            let hint = match self.n_at_work {
                0 => {
                    "ask the person whom you work for: only they can start this server with a higher maximum"
                }
                _ => {
                    "wait for the measurements at work, which count with all that they may spend, and pass a lower \
                     max_calls or max_money for several at once; only a person can start this server with a higher maximum"
                }
            };
            return Err(ToolError::new(
                "nothing is left of what all measurements of this server may spend together",
                hint,
            ));
        }
        Ok(Caps { calls, money, ..Caps::default() })
    }
}

/// `not_loaded` is why its configuration cannot be read, if that is the cause.
fn unknown_cost(dir: &Path, not_loaded: Option<&ToolError>) -> ToolError {
    let message = format!(
        "the cost of the measurement {} is not known, so no maximum in money can be kept",
        dir.display()
    );
    match not_loaded {
        None => ToolError::new(
            message,
            "tell the person whom you work for: its configuration needs prices, or it has to be moved elsewhere",
        ),
        Some(cause) => ToolError::new(
            message,
            "tell the person whom you work for: its configuration has to be readable, or the measurement has to be \
             moved elsewhere",
        )
        .because(cause),
    }
}

/// The names of all measurements beside this one: those with a directory, and those that have begun to work.
fn names(dir: &Path, works: &Works) -> Result<BTreeSet<String>, ToolError> {
    let of_system = |error: io::Error| crate::start::of_system("look at the other measurements", &error);
    let mut found: BTreeSet<String> =
        works.iter().filter(|(_, work)| !work.has_ended()).map(|(name, _)| name.clone()).collect();
    let entries = match std::fs::read_dir(dir.parent().unwrap_or(dir)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(of_system(error)),
    };
    for entry in entries {
        let entry = entry.map_err(of_system)?;
        if entry.file_type().map_err(of_system)?.is_dir() {
            found.insert(entry.file_name().to_string_lossy().into_owned());
        }
        if found.len() > MAX_MEASUREMENTS {
            return Err(ToolError::new(
                format!("there are more than {MAX_MEASUREMENTS} measurements"),
                "ask the person whom you work for to move old ones elsewhere",
            ));
        }
    }
    Ok(found)
}
