//! What a simulated provider counts.

use super::faults::InjectedFault;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// What a simulated provider has seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimReport {
    /// Requests that came, whatever became of them.
    pub requests: u64,
    /// Different bodies among them.
    pub bodies: u64,
    /// Requests that got a whole reply.
    pub answered: u64,
    /// Bodies that got a whole reply more than once: paid twice.
    pub answered_again: u64,
    /// Requests that failed, by how.
    pub faults: BTreeMap<InjectedFault, u64>,
    /// The most requests that were in flight at once.
    pub max_in_flight: usize,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    bodies: HashMap<[u8; 32], OfBody>,
    faults: BTreeMap<InjectedFault, u64>,
    arrivals: Vec<Instant>,
    in_flight: usize,
    max_in_flight: usize,
}

#[derive(Debug, Default)]
struct OfBody {
    seen: u64,
    answered: u64,
}

impl Counts {
    /// Counts a request; how often its body was seen before, and how many are in flight with it.
    pub(super) fn arrived(&mut self, digest: [u8; 32], now: Instant) -> (u64, usize) {
        self.arrivals.push(now);
        self.in_flight += 1;
        self.max_in_flight = self.max_in_flight.max(self.in_flight);
        let body = self.bodies.entry(digest).or_default();
        body.seen += 1;
        (body.seen - 1, self.in_flight)
    }

    pub(super) fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(super) fn answered(&mut self, digest: [u8; 32]) {
        self.bodies.entry(digest).or_default().answered += 1;
    }

    pub(super) fn failed(&mut self, fault: InjectedFault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(super) fn report(&self) -> SimReport {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        SimReport {
            requests: count(self.arrivals.len()),
            bodies: count(self.bodies.len()),
            answered: self.bodies.values().map(|body| body.answered).sum(),
            answered_again: count(self.bodies.values().filter(|body| body.answered > 1).count()),
            faults: self.faults.clone(),
            max_in_flight: self.max_in_flight,
        }
    }

    pub(super) fn most_within(&self, span: Duration) -> usize {
        let mut from = 0;
        let mut most = 0;
        for (to, at) in self.arrivals.iter().enumerate() {
            // Time does not run backwards, so arrivals are in order.
            while self.arrivals.get(from).is_some_and(|first| at.saturating_duration_since(*first) >= span) {
                from += 1;
            }
            most = most.max(to + 1 - from);
        }
        most
    }
}
