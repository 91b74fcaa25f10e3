//! The calls of a provider that have failed and are retried: for those who look on.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// So many characters of a failure's words are told.
const MAX_CHARACTERS: usize = 200;

/// A call that has failed and is retried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What its last attempt came to, in words.
    pub message: String,
    /// The turn that is next, or under way.
    pub turn: u32,
    /// The most turns.
    pub max_turns: u32,
    /// When that turn begins; in the past if it is under way.
    pub next: Instant,
}

impl Trouble {
    /// How long until it is sent again; none if it was.
    pub fn wait(&self) -> Option<Duration> {
        Some(self.next.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }
}

/// `HTTP 500: boom; attempt 3 of 8 in 4.0 s`.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; attempt {} of {}", self.message, self.turn, self.max_turns)?;
        match self.wait() {
            Some(wait) => write!(f, " in {:.1} s", wait.as_secs_f64()),
            None => f.write_str(" is under way"),
        }
    }
}

/// The calls in trouble, by the order in which they got there.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    calls: Mutex<Calls>,
}

#[derive(Debug, Default)]
struct Calls {
    next_id: u64,
    by_id: BTreeMap<u64, Trouble>,
}

impl Troubles {
    /// How many calls are retried, and the one that has failed most often.
    pub(super) fn now(&self) -> Option<(usize, Trouble)> {
        let calls = self.calls.lock();
        let worst = calls.by_id.values().max_by_key(|trouble| trouble.turn)?;
        Some((calls.by_id.len(), worst.clone()))
    }
}

/// One call, in trouble from its first failure to its end.
#[derive(Debug)]
pub(super) struct InTrouble {
    troubles: Arc<Troubles>,
    id: u64,
}

impl InTrouble {
    pub(super) fn begin(troubles: &Arc<Troubles>) -> Self {
        let mut calls = troubles.calls.lock();
        calls.next_id += 1;
        let id = calls.next_id;
        drop(calls);
        Self { troubles: Arc::clone(troubles), id }
    }

    /// Says what it came to last.
    pub(super) fn is(&self, trouble: Trouble) {
        let message = trouble.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let message = match message.char_indices().nth(MAX_CHARACTERS) {
            Some((end, _)) => format!("{}…", message.get(..end).unwrap_or_default()),
            None => message,
        };
        self.troubles.calls.lock().by_id.insert(self.id, Trouble { message, ..trouble });
    }
}

impl Drop for InTrouble {
    fn drop(&mut self) {
        self.troubles.calls.lock().by_id.remove(&self.id);
    }
}
