//! What the server has seen.

use crate::fault::Fault;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the server has seen since it began or was reset; `GET /stats` gives it as JSON.
///
/// A request is counted once its body is here. Only `POST /v1/chat/completions` and `POST /v1/embeddings` are counted,
/// but for [`Stats::other_requests`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stats {
    /// Requests for a completion or for embeddings.
    pub requests: u64,
    /// Those that were answered with a complete reply: a 200 without a fault, handed to the socket.
    pub answered: u64,
    /// Those whose client was gone before the answer; every [`Fault::Hang`] ends here.
    pub abandoned: u64,
    /// Requests whose identical body had been answered with a complete reply before.
    pub repeated: u64,
    /// Requests whose identical body from the same place had been answered with a complete reply before.
    ///
    /// The place is the header `x-skillrl-place`; without it this counts as [`Stats::repeated`] does.
    pub repeated_in_place: u64,
    /// Different bodies.
    pub distinct_bodies: u64,
    /// Different pairs of body and place.
    pub distinct_places: u64,
    /// Requests being answered now.
    pub in_flight: u64,
    /// The most requests that were being answered at a time.
    pub max_in_flight: u64,
    /// Connections that were made.
    pub connections: u64,
    /// Bytes of the requests' bodies.
    pub bytes_received: u64,
    /// Bytes of the answers' bodies.
    pub bytes_sent: u64,
    /// Answers by status; a fault without one is in `by_fault` alone.
    pub by_status: BTreeMap<u16, u64>,
    /// Faults by kind.
    pub by_fault: BTreeMap<Fault, u64>,
    /// Requests for anything else, this one included.
    pub other_requests: u64,
}

/// What a request is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestKey {
    /// The hash of the body.
    pub(crate) body: u64,
    /// The hash of body and place; that of the body where no place is named.
    pub(crate) in_place: u64,
}

/// How often one body was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    requests: u64,
    is_answered: bool,
}

/// Counts requests; all methods take a moment only.
#[derive(Debug, Default)]
pub(crate) struct Counter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    stats: Stats,
    bodies: HashMap<u64, Seen>,
    places: HashMap<u64, Seen>,
}

impl Counter {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A thread that panicked has at worst left one count behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats.clone()
    }

    /// Forgets everything but the requests that are being answered now.
    pub(crate) fn reset(&self) {
        let mut counts = self.lock();
        let in_flight = counts.stats.in_flight;
        let stats = Stats { in_flight, max_in_flight: in_flight, ..Stats::default() };
        *counts = Counts { stats, ..Counts::default() };
    }

    pub(crate) fn connected(&self) {
        self.lock().stats.connections += 1;
    }

    pub(crate) fn asked_for_something_else(&self) {
        self.lock().stats.other_requests += 1;
    }

    /// Counts a request; gives how often it came before from the same place.
    pub(crate) fn arrived(&self, key: RequestKey, n_bytes: usize) -> (u64, InFlight<'_>) {
        let mut counts = self.lock();
        let Counts { stats, bodies, places } = &mut *counts;
        stats.requests += 1;
        stats.bytes_received += n_bytes as u64;
        stats.in_flight += 1;
        stats.max_in_flight = stats.max_in_flight.max(stats.in_flight);
        let body = bodies.entry(key.body).or_default();
        body.requests += 1;
        stats.repeated += u64::from(body.is_answered);
        let place = places.entry(key.in_place).or_default();
        let occurrence = place.requests;
        place.requests += 1;
        stats.repeated_in_place += u64::from(place.is_answered);
        stats.distinct_bodies = bodies.len() as u64;
        stats.distinct_places = places.len() as u64;
        (occurrence, InFlight { counter: self, key, outcome: None })
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    status: Option<u16>,
    is_answered: bool,
    n_bytes: usize,
}

/// A request that is being answered; it is abandoned if it is dropped without an outcome.
pub(crate) struct InFlight<'a> {
    counter: &'a Counter,
    key: RequestKey,
    outcome: Option<Outcome>,
}

impl InFlight<'_> {
    /// Notes a fault when it is decided.
    pub(crate) fn has(&self, fault: Fault) {
        *self.counter.lock().stats.by_fault.entry(fault).or_default() += 1;
    }

    /// Ends with a complete reply.
    pub(crate) fn answered(mut self, n_bytes: usize) {
        self.outcome = Some(Outcome { status: Some(200), is_answered: true, n_bytes });
    }

    /// Ends with something else, of this status if the client gets to see one.
    pub(crate) fn failed(mut self, status: Option<u16>, n_bytes: usize) {
        self.outcome = Some(Outcome { status, is_answered: false, n_bytes });
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut counts = self.counter.lock();
        let Counts { stats, bodies, places } = &mut *counts;
        stats.in_flight = stats.in_flight.saturating_sub(1);
        let Some(outcome) = self.outcome else {
            stats.abandoned += 1;
            return;
        };
        stats.bytes_sent += outcome.n_bytes as u64;
        if let Some(status) = outcome.status {
            *stats.by_status.entry(status).or_default() += 1;
        }
        if outcome.is_answered {
            stats.answered += 1;
            bodies.entry(self.key.body).or_default().is_answered = true;
            places.entry(self.key.in_place).or_default().is_answered = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(body: u64, place: u64) -> RequestKey {
        RequestKey { body, in_place: 100 * body + place }
    }

    #[test]
    fn only_a_body_that_was_answered_is_repeated() {
        let counter = Counter::default();
        let (first, in_flight) = counter.arrived(key(1, 0), 10);
        in_flight.failed(Some(429), 3);
        let (second, in_flight) = counter.arrived(key(1, 0), 10);
        let (third, concurrent) = counter.arrived(key(1, 0), 10);
        assert_eq!((first, second, third), (0, 1, 2));
        in_flight.answered(5);
        drop(concurrent);
        assert_eq!(counter.stats().repeated, 0);
        let (elsewhere, in_flight) = counter.arrived(key(1, 1), 10);
        in_flight.answered(5);
        let (again, in_flight) = counter.arrived(key(1, 1), 10);
        in_flight.answered(5);
        assert_eq!((elsewhere, again), (0, 1));
        let stats = counter.stats();
        assert_eq!((stats.repeated, stats.repeated_in_place), (2, 1));
        assert_eq!((stats.distinct_bodies, stats.distinct_places), (1, 2));
        assert_eq!((stats.requests, stats.answered, stats.abandoned), (5, 3, 1));
        assert_eq!((stats.in_flight, stats.max_in_flight), (0, 2));
        assert_eq!((stats.bytes_received, stats.bytes_sent), (50, 18));
        assert_eq!(stats.by_status, BTreeMap::from([(200, 3), (429, 1)]));
    }

    #[test]
    fn a_reset_keeps_what_is_in_flight() {
        let counter = Counter::default();
        let (_, in_flight) = counter.arrived(key(1, 0), 10);
        counter.arrived(key(2, 0), 10).1.answered(1);
        counter.reset();
        assert_eq!(counter.stats(), Stats { in_flight: 1, max_in_flight: 1, ..Stats::default() });
        in_flight.answered(1);
        assert_eq!(counter.arrived(key(1, 0), 10).0, 0);
        assert_eq!(counter.stats().repeated, 1, "the answer after the reset counts");
    }
}
