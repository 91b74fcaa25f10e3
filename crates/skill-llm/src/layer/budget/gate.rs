//! What is known of one model's replies, and how many of its requests may be in flight while little is known.

use super::super::estimate::Seen;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

/// For each reply that is known, so many requests may be in flight whose replies no limit bounds.
const IN_FLIGHT_PER_REPLY: u64 = 2;

/// One model of a run, regardless of who asks.
#[derive(Debug)]
pub(super) struct ModelGate {
    state: Mutex<GateState>,
    /// The one permit belongs to the first of those that wait; the semaphore hands it on in order.
    turn: Semaphore,
    settled: Notify,
}

#[derive(Debug, Default)]
struct GateState {
    seen: Seen,
    in_flight: u64,
}

impl Default for ModelGate {
    fn default() -> Self {
        Self { state: Mutex::default(), turn: Semaphore::new(1), settled: Notify::new() }
    }
}

impl ModelGate {
    /// Reads or changes what is known.
    pub(super) fn with_seen<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        change(&mut self.state.lock().seen)
    }

    /// A place among the requests in flight. Where `is_guarded`, it waits: until the model has answered once, one request is
    /// in flight, and then at most twice as many as there are replies, so that few replies of unknown length are out.
    pub(super) async fn enter(self: &Arc<Self>, is_guarded: bool) -> InFlight {
        let _first = match is_guarded {
            // The semaphore is never closed; and if it were, calls would only lose their order.
            true => self.turn.acquire().await.ok(),
            false => None,
        };
        loop {
            // Before the state is read, so that no change in between is lost.
            let settled = self.settled.notified();
            {
                let mut state = self.state.lock();
                let most = state.seen.n_replies().saturating_mul(IN_FLIGHT_PER_REPLY).max(1);
                if !is_guarded || state.in_flight < most {
                    state.in_flight += 1;
                    return InFlight(Arc::clone(self));
                }
            }
            settled.await;
        }
    }
}

/// A request in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct InFlight(Arc<ModelGate>);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.0.settled.notify_one();
    }
}
