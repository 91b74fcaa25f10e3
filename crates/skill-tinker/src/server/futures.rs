//! Results that clients ask for later.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

/// How long a request for a result waits for it.
const LONGEST_WAIT: Duration = Duration::from_secs(45);
/// Results that are kept; the oldest go first.
const MAX_RESULTS: usize = 20_000;

/// What became of a request: its result, or the status and reason of a refusal.
pub(super) type Outcome = Result<Content, (u16, String)>;

/// The result of a request.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Json(Value),
    /// An archive.
    Bytes(Bytes),
}

/// Requests by number.
#[derive(Debug, Default)]
pub(super) struct Futures(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    next: u64,
    results: BTreeMap<u64, watch::Sender<Option<Outcome>>>,
}

/// What is known of a request.
#[derive(Debug)]
pub(super) enum Found {
    Unknown,
    Pending,
    Finished(Outcome),
}

impl Futures {
    /// A new request without a result.
    pub(super) fn open(&self) -> u64 {
        let mut known = self.0.lock();
        known.next += 1;
        let number = known.next;
        known.results.insert(number, watch::Sender::new(None));
        while known.results.len() > MAX_RESULTS {
            known.results.pop_first();
        }
        number
    }

    pub(super) fn finish(&self, number: u64, outcome: Outcome) {
        if let Some(result) = self.0.lock().results.get(&number) {
            result.send_replace(Some(outcome));
        }
    }

    /// The result of a request, for which this waits a while.
    pub(super) async fn result(&self, number: u64) -> Found {
        let Some(mut result) = self.0.lock().results.get(&number).map(watch::Sender::subscribe) else {
            return Found::Unknown;
        };
        let finished = result.wait_for(Option::is_some);
        match tokio::time::timeout(LONGEST_WAIT, finished).await {
            Ok(Ok(outcome)) => outcome.clone().map_or(Found::Pending, Found::Finished),
            Ok(Err(_)) => Found::Unknown,
            Err(_) => Found::Pending,
        }
    }
}
