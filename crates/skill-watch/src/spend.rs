//! What runs have spent: as the process that works on one says, else as its journal says.
//!
//! Of a journal each call is added up once, however often somebody asks.

use crate::lock;
use serde::Serialize;
use skill_llm::journal::{JournalReader, ModelSpent};
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::JOURNAL_FILE;
use skill_pipeline::run_dir::live::Spend;
use skillrl::config::BudgetConfig;
use skillrl::spend::Spending;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The most runs whose sums are kept.
const MAX_KNOWN: usize = 256;

/// What a run has spent in requests that were sent, over all its processes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Spent {
    /// Requests that were sent, every attempt counted.
    pub requests: u64,
    /// Of prompts and replies.
    pub tokens: u64,
    /// By the prices of the configuration, where it has any.
    pub money: Option<f64>,
    /// How long its processes worked, until their last commit.
    pub seconds: f64,
    /// The caps that the process works under; where there is none, those of `config.toml`.
    pub caps: BudgetConfig,
}

impl From<Spend> for Spent {
    fn from(spend: Spend) -> Self {
        let has_prices = spend.money > 0.0 || spend.cap_money.is_some();
        Self {
            requests: spend.calls,
            tokens: spend.tokens,
            money: has_prices.then_some(spend.money),
            seconds: spend.seconds,
            caps: BudgetConfig {
                calls: spend.cap_calls,
                tokens: spend.cap_tokens,
                money: spend.cap_money,
                time_s: spend.cap_seconds,
            },
        }
    }
}

/// The sums of the runs that were asked about.
#[derive(Default)]
pub struct Ledger {
    known: Mutex<HashMap<PathBuf, Arc<Mutex<Sum>>>>,
}

#[derive(Default)]
struct Sum {
    last_call: i64,
    spent: Vec<ModelSpent>,
}

impl Ledger {
    /// What a run has spent that somebody works on; `None` where nobody can say.
    pub fn spent_now(&self, run: &Path) -> Option<Spent> {
        match RunReader::open(run).ok()?.live() {
            Some(live) => Some(live.pulse.spend.into()),
            None => self.spent(run, &JournalReader::open(&run.join(JOURNAL_FILE)).ok()?),
        }
    }

    /// What a run has spent; `None` where it has no journal that can be read.
    pub fn spent(&self, run: &Path, journal: &JournalReader) -> Option<Spent> {
        let sum = {
            let mut known = lock(&self.known);
            if known.len() >= MAX_KNOWN && !known.contains_key(run) {
                known.clear();
            }
            Arc::clone(known.entry(run.to_owned()).or_default())
        };
        let mut sum = lock(&sum);
        let mut since = journal.spent_since(sum.last_call).ok()?;
        if since.last_call < sum.last_call {
            // Calls were taken out of it: everything is added up anew.
            sum.last_call = 0;
            since = journal.spent_since(0).ok()?;
        }
        if sum.last_call == 0 {
            sum.spent.clear();
        }
        sum.last_call = since.last_call;
        for new in since.spent {
            ModelSpent::add_to(&mut sum.spent, new);
        }
        // What has no answer may have one the next time, and then counts as what it used.
        let mut spent = sum.spent.clone();
        for unanswered in since.unanswered {
            ModelSpent::add_to(&mut spent, unanswered);
        }
        let spending = RunReader::open(run).ok().and_then(|run| Spending::of(&run));
        let total = |of: fn(&ModelSpent) -> u64| spent.iter().map(of).fold(0, u64::saturating_add);
        Some(Spent {
            requests: total(|spent| spent.requests),
            tokens: total(|spent| spent.usage.input.saturating_add(spent.usage.output)),
            money: spending.as_ref().and_then(|spending| spending.of_requests(&spent)),
            seconds: journal.elapsed().map(|elapsed| elapsed.as_secs_f64()).unwrap_or_default(),
            caps: spending.map(|spending| spending.caps()).unwrap_or_default(),
        })
    }
}
