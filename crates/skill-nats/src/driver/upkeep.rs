//! What a driver does from time to time: it announces the run, misses workers, and queues jobs again.

use super::Shared;
use super::state::{Holder, State, broker_fault};
use crate::broker::{BrokerError, Inbox};
use crate::times::Times;
use std::sync::Arc;
use tokio::time::Instant;

/// So many jobs are put into the queue in one round.
const MAX_QUEUED_AT_ONCE: usize = 256;

/// Announces the run to each worker that asks.
pub(super) async fn answer_asks(shared: Arc<Shared>, mut asks: Box<dyn Inbox>) {
    while asks.next().await.is_some() {
        shared.announce().await;
    }
}

pub(super) async fn keep(shared: Arc<Shared>) {
    let times = shared.config.times;
    let mut announced: Option<Instant> = None;
    let mut n_connections = shared.broker.n_connections();
    loop {
        let is_connected = shared.broker.is_connected();
        let n_made = shared.broker.n_connections();
        if is_connected && n_made != n_connections && shared.come_back().await.is_ok() {
            n_connections = n_made;
        }
        let now = Instant::now();
        if is_connected && announced.is_none_or(|at| now.duration_since(at) >= times.announce) {
            shared.announce().await;
            announced = Some(now);
        }
        let is_idle = shared.state.lock().look_after(&times, is_connected, now);
        if is_connected {
            shared.enqueue_waiting().await;
            if is_idle {
                shared.delete_idle_queue().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(times.tick) => {}
            () = shared.unqueued.notified() => {}
        }
    }
}

impl State {
    /// Forgets workers that were not heard of and looks for jobs that nobody works on; true if there has been no job for
    /// a while.
    fn look_after(&mut self, times: &Times, is_connected: bool, now: Instant) -> bool {
        if is_connected {
            self.away_since = None;
            self.miss_workers(times, now);
        } else {
            let since = *self.away_since.get_or_insert(now);
            // While the broker is away nobody can be heard of.
            for worker in self.workers.values_mut() {
                worker.seen = now;
            }
            for entry in self.jobs.values_mut() {
                entry.touched = now;
            }
            if now.duration_since(since) >= times.give_up {
                let message = format!("it has been away for {} s", times.give_up.as_secs());
                self.fail(&BrokerError::Unreachable { message });
            }
        }
        if let Some((error, since)) = self.unqueued.clone()
            && (!error.is_retryable() || now.duration_since(since) >= times.give_up)
        {
            self.fail(&error);
        }
        for entry in self.jobs.values_mut() {
            let is_forgotten = entry.queued.is_some_and(|at| now.duration_since(at) >= times.requeue);
            if entry.holder == Holder::Nobody && is_forgotten {
                entry.queued = None;
            }
        }
        if !self.jobs.is_empty() {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert(now);
        self.queue.is_some() && now.duration_since(since) >= times.linger
    }

    fn miss_workers(&mut self, times: &Times, now: Instant) {
        let is_lost = |seen: Instant| now.duration_since(seen) >= times.lost;
        let lost: Vec<String> = self
            .workers
            .iter()
            .filter(|(_, worker)| is_lost(worker.seen))
            .map(|(name, _)| name.clone())
            .collect();
        for worker in lost {
            tracing::info!(worker, "worker timed out; its jobs are requeued");
            self.lose(&worker, times, true);
        }
        for entry in self.jobs.values_mut() {
            // A worker that was started again, or gave the job up, does not name it any longer.
            if matches!(entry.holder, Holder::Worker(_)) && is_lost(entry.touched) {
                entry.release();
            }
        }
    }

    /// Ends all jobs that nobody works on.
    fn fail(&mut self, error: &BrokerError) {
        for entry in self.jobs.values_mut() {
            if !matches!(entry.holder, Holder::Delivered(_)) {
                entry.resolve(Err(broker_fault(error)));
            }
        }
        self.jobs.retain(|_, entry| matches!(entry.holder, Holder::Delivered(_)));
        self.unqueued = None;
        self.away_since = None;
    }
}

impl Shared {
    /// After a reconnect: the queue may be gone, and workers have time to be heard of.
    ///
    /// # Errors
    ///
    /// A broker that cannot say which queues it has.
    async fn come_back(&self) -> Result<(), BrokerError> {
        let now = Instant::now();
        {
            let mut state = self.state.lock();
            for worker in state.workers.values_mut() {
                worker.seen = now;
            }
        }
        let Some(name) = self.state.lock().queue.as_ref().map(|queue| queue.name.clone()) else {
            return Ok(());
        };
        if !self.broker.queues(&name).await?.contains(&name) {
            tracing::info!(name, "the broker has lost a stream; its jobs are put into another one");
            let mut state = self.state.lock();
            state.queue = None;
            for entry in state.jobs.values_mut() {
                entry.queued = None;
            }
        }
        Ok(())
    }

    /// Puts jobs that nobody works on into the queue.
    async fn enqueue_waiting(&self) {
        let waiting: Vec<String> = {
            let state = self.state.lock();
            let waiting = state
                .jobs
                .iter()
                .filter(|(_, entry)| entry.holder == Holder::Nobody && entry.queued.is_none());
            waiting.take(MAX_QUEUED_AT_ONCE).map(|(key, _)| key.clone()).collect()
        };
        for key in waiting {
            if !self.enqueue(&key).await {
                break;
            }
        }
    }
}
