//! What runs have spent: as the process that works on one says, else as its journal says, else as its files say.
//!
//! Of a journal each call is added up once, however often somebody asks.

use super::signature::{FileState, Signature, journal_state};
use crate::data::uncounted;
use parking_lot::Mutex;
use serde::Serialize;
use skill_llm::error::with_causes;
use skill_llm::journal::{JournalReader, ModelSpent};
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::live::Spend;
use skill_pipeline::run_dir::{JOURNAL_FILE, Sent};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most runs whose sums are kept.
const MAX_KNOWN: usize = 4_096;

/// Caps over all processes of a run; `None` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Caps {
    /// Requests that may be sent, repeated ones included.
    pub calls: Option<u64>,
    /// Tokens of prompts and replies.
    pub tokens: Option<u64>,
    /// Money by the prices of the configuration.
    pub money: Option<f64>,
    /// Seconds of work.
    pub time_s: Option<f64>,
}

/// What a run may spend and what its requests cost.
pub trait Terms {
    /// What it may spend.
    fn caps(&self) -> Caps;
    /// What it paid for what it sent; `None` if no model has a price, or nothing was sent.
    fn money(&self, sent: &Sent) -> Option<f64>;
}

/// The terms of a run: `None` if it keeps none, or why they cannot be read, as a sentence.
pub type TermsRead = Result<Option<Box<dyn Terms>>, String>;

/// Reads the terms of a run from its directory.
pub type TermsOf = fn(&RunReader) -> TermsRead;

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
    /// True if nothing was sent for the replies of the run: a replay, for example.
    pub is_replay: bool,
    /// The caps that the process works under; where there is none, those of `config.toml`.
    pub caps: Caps,
    /// Numbers that are missing or incomplete since a file cannot be read, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

impl From<Spend> for Spent {
    fn from(spend: Spend) -> Self {
        let has_prices = spend.money > 0.0 || spend.cap_money.is_some();
        Self {
            requests: spend.calls,
            tokens: spend.tokens,
            money: has_prices.then_some(spend.money),
            seconds: spend.seconds,
            is_replay: false,
            caps: Caps {
                calls: spend.cap_calls,
                tokens: spend.cap_tokens,
                money: spend.cap_money,
                time_s: spend.cap_seconds,
            },
            cautions: Vec::new(),
        }
    }
}

impl Spent {
    /// What was sent, by the prices and caps of the run's configuration.
    fn of(sent: &Sent, terms: TermsRead) -> Self {
        let cautions = uncounted(sent).map(|caution| caution.words).into_iter();
        let (terms, unread) = match terms {
            Ok(terms) => (terms, None),
            Err(unread) => (None, Some(unread)),
        };
        Self {
            requests: sent.requests(),
            tokens: sent.tokens(),
            money: terms.as_ref().and_then(|terms| terms.money(sent)),
            seconds: sent.seconds().unwrap_or_default(),
            is_replay: sent.is_replay(),
            caps: terms.map(|terms| terms.caps()).unwrap_or_default(),
            cautions: cautions.chain(unread).collect(),
        }
    }
}

/// The sums of the runs that were asked about.
pub(crate) struct Ledger {
    terms_of: TermsOf,
    known: Mutex<HashMap<PathBuf, Arc<Mutex<Sum>>>>,
}

#[derive(Default)]
struct Sum {
    last_call: i64,
    spent: Vec<ModelSpent>,
    /// The files as they were when a list last asked, and what the run had spent.
    listed: Option<(Signature, [FileState; 2], Option<Spent>)>,
}

impl Ledger {
    pub(crate) fn new(terms_of: TermsOf) -> Self {
        Self { terms_of, known: Mutex::default() }
    }

    /// What a run has spent that somebody works on; `None` where nobody can say.
    pub(crate) fn spent_now(&self, run: &Path) -> Option<Spent> {
        let reader = RunReader::open(run).ok()?;
        if let Some(live) = reader.live() {
            return Some(live.pulse.spend.into());
        }
        let by_journal = JournalReader::open_at_rest(&run.join(JOURNAL_FILE)).ok();
        by_journal.and_then(|journal| self.spent(run, &journal)).or_else(|| {
            // This tells a journal that does not exist from one that cannot be read.
            let sent = Sent::of(&reader).ok()?;
            Some(Spent::of(&sent, (self.terms_of)(&reader)))
        })
    }

    /// As [`Ledger::spent_now`], read again if its files have changed: for lists of runs that nobody works on.
    pub(crate) fn spent_at_rest(&self, run: &Path) -> Option<Spent> {
        let (sum, files, journal) = (self.sum(run), Signature::of(run), journal_state(run));
        if let Some((known_files, known_journal, spent)) = &sum.lock().listed
            && (known_files, known_journal) == (&files, &journal)
        {
            return spent.clone();
        }
        let spent = self.spent_now(run);
        sum.lock().listed = Some((files, journal, spent.clone()));
        spent
    }

    fn sum(&self, run: &Path) -> Arc<Mutex<Sum>> {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN && !known.contains_key(run) {
            known.clear();
        }
        Arc::clone(known.entry(run.to_owned()).or_default())
    }

    /// What a run has spent; `None` where its journal holds nothing or cannot be read.
    pub(crate) fn spent(&self, run: &Path, journal: &JournalReader) -> Option<Spent> {
        let sum = self.sum(run);
        let mut sum = sum.lock();
        let mut since = journal.spent_since(sum.last_call).ok()?;
        if since.last_call < sum.last_call {
            // Calls were taken out of it: everything is added up again.
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
        let sent = Sent::of_journal(journal, spent).ok()??;
        let terms = RunReader::open(run).map_err(|error| with_causes(&error));
        Some(Spent::of(&sent, terms.and_then(|run| (self.terms_of)(&run))))
    }
}
