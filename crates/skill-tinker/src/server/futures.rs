//! Results that clients ask for later.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, watch};

/// How long a request for a result waits for it.
const LONGEST_WAIT: Duration = Duration::from_secs(45);
/// Results that are kept.
const MAX_RESULTS: usize = 20_000;
/// The bytes of the results that are kept.
const MAX_RESULT_BYTES: usize = 512 << 20;

/// What became of a request: its result, or the status and reason of a refusal.
pub(super) type Outcome = Result<Content, (u16, String)>;

/// The result of a request, as it is sent.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Json(Bytes),
    /// An archive.
    Archive(Bytes),
}

/// Requests by number.
///
/// Results are bounded by number and by bytes. The oldest go first: those that were sent before those that nobody has
/// asked for yet, and never the newest one.
#[derive(Debug)]
pub(super) struct Futures {
    known: Mutex<Known>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Known {
    next: u64,
    entries: BTreeMap<u64, Entry>,
    /// The bytes of all results.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    outcome: watch::Sender<Option<Outcome>>,
    /// What the body of the request takes of the bytes that may wait.
    seat: Option<OwnedSemaphorePermit>,
    was_sent: bool,
}

/// What is known of a request.
#[derive(Debug)]
pub(super) enum Found {
    Unknown,
    Pending,
    Finished(Outcome),
}

impl Default for Futures {
    fn default() -> Self {
        Self { known: Mutex::default(), max_bytes: MAX_RESULT_BYTES }
    }
}

impl Futures {
    /// A new request without a result.
    pub(super) fn open(&self, seat: Option<OwnedSemaphorePermit>) -> u64 {
        let mut known = self.known.lock();
        known.next += 1;
        let number = known.next;
        known.entries.insert(number, Entry { outcome: watch::Sender::new(None), seat, was_sent: false });
        number
    }

    pub(super) fn finish(&self, number: u64, outcome: Outcome) {
        let mut known = self.known.lock();
        let Some(entry) = known.entries.get_mut(&number) else { return };
        entry.seat = None;
        let bytes = n_bytes(&outcome);
        entry.outcome.send_replace(Some(outcome));
        known.bytes += bytes;
        known.make_room(self.max_bytes, number);
    }

    /// The result of a request, for which this waits a while.
    pub(super) async fn result(&self, number: u64) -> Found {
        let subscribed = self.known.lock().entries.get(&number).map(|entry| entry.outcome.subscribe());
        let Some(mut outcome) = subscribed else { return Found::Unknown };
        let finished = outcome.wait_for(Option::is_some);
        match tokio::time::timeout(LONGEST_WAIT, finished).await {
            Ok(Ok(outcome)) => {
                if let Some(entry) = self.known.lock().entries.get_mut(&number) {
                    entry.was_sent = true;
                }
                outcome.clone().map_or(Found::Pending, Found::Finished)
            }
            Ok(Err(_)) => Found::Unknown,
            Err(_) => Found::Pending,
        }
    }
}

impl Known {
    fn make_room(&mut self, max_bytes: usize, newest: u64) {
        while self.bytes > max_bytes || self.entries.len() > MAX_RESULTS {
            let finished = || {
                let is_finished = |entry: &Entry| entry.outcome.borrow().is_some();
                self.entries.iter().filter(move |(number, entry)| **number != newest && is_finished(entry))
            };
            let oldest = finished().find(|(_, entry)| entry.was_sent).or_else(|| finished().next());
            let Some(gone) = oldest.map(|(number, _)| *number) else { return };
            if let Some(entry) = self.entries.remove(&gone) {
                self.bytes -= entry.outcome.borrow().as_ref().map_or(0, n_bytes);
            }
        }
    }
}

fn n_bytes(outcome: &Outcome) -> usize {
    match outcome {
        Ok(Content::Json(bytes) | Content::Archive(bytes)) => bytes.len(),
        Err((_, detail)) => detail.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Found, Futures};

    fn of_bytes(n: usize) -> super::Outcome {
        Ok(Content::Json(vec![b'1'; n].into()))
    }

    #[tokio::test]
    async fn results_are_bounded_by_bytes_and_those_that_were_sent_go_first() {
        let futures = Futures { max_bytes: 100, ..Futures::default() };
        let numbers: Vec<u64> = (0..4).map(|_| futures.open(None)).collect();
        futures.finish(numbers[0], of_bytes(40));
        futures.finish(numbers[1], of_bytes(40));
        assert!(matches!(futures.result(numbers[1]).await, Found::Finished(_)));
        futures.finish(numbers[2], of_bytes(40));
        assert!(matches!(futures.result(numbers[1]).await, Found::Unknown), "it was sent");
        assert!(matches!(futures.result(numbers[0]).await, Found::Finished(_)), "nobody had asked for it");
        // One that is larger than the bound stays until the next.
        futures.finish(numbers[3], of_bytes(400));
        assert!(matches!(futures.result(numbers[3]).await, Found::Finished(_)));
        assert!(matches!(futures.result(numbers[2]).await, Found::Unknown));
        assert_eq!(futures.known.lock().bytes, 400);
    }

    #[test]
    fn a_request_gives_its_seat_back_when_it_has_a_result() {
        let seats = std::sync::Arc::new(tokio::sync::Semaphore::new(10));
        let futures = Futures::default();
        let number = futures.open(seats.clone().try_acquire_many_owned(7).ok());
        assert_eq!(seats.available_permits(), 3);
        futures.finish(number, of_bytes(1));
        assert_eq!(seats.available_permits(), 10);
    }
}
