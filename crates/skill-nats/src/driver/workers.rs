//! The workers of a run as those see them who look on.

use super::state::State;
use crate::protocol::Doing;
use std::sync::Arc;
use std::time::Duration;

/// A worker as its driver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerNow {
    /// Its name for people.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// The rollouts that it makes at a time.
    pub slots: u32,
    /// How long ago it was heard of.
    pub seen_ago: Duration,
    /// What it works on.
    pub doing: Vec<Doing>,
    /// What is in the way of its working on the run.
    pub problems: Vec<String>,
}

/// The workers of a run, and what is wrong on the way to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkersNow {
    /// The workers, by name.
    pub workers: Vec<WorkerNow>,
    /// Jobs that wait for a worker.
    pub waiting: usize,
    /// Workers that were lost while they worked.
    pub lost: u64,
    /// Messages that nobody understood.
    pub malformed: u64,
    /// What is wrong, as one sentence; `None` if nothing is.
    pub trouble: Option<String>,
}

/// Looks at the workers of a run.
pub type ReadWorkers = Arc<dyn Fn() -> WorkersNow + Send + Sync>;

pub(super) fn snapshot(state: &State, now: tokio::time::Instant) -> WorkersNow {
    let workers: Vec<WorkerNow> = state
        .workers
        .values()
        // A sender that never announced itself is not a worker.
        .filter(|worker| !worker.facts.version.is_empty())
        .map(|worker| WorkerNow {
            name: worker.facts.name.clone(),
            version: worker.facts.version.clone(),
            slots: worker.facts.slots,
            seen_ago: now.saturating_duration_since(worker.seen),
            doing: worker.jobs.clone(),
            problems: worker.facts.problems.clone(),
        })
        .collect();
    let waiting = state.jobs.values().filter(|entry| entry.is_waiting()).count();
    let can_work = workers.iter().any(|worker| worker.problems.is_empty());
    let trouble = if let Some(since) = state.away_since {
        Some(format!("the broker has been away for {} s", now.saturating_duration_since(since).as_secs()))
    } else if let Some((error, _)) = &state.unqueued {
        Some(format!("jobs cannot be sent to workers: {error}"))
    } else if waiting > 0 && !can_work {
        let refusing = workers.iter().flat_map(|worker| &worker.problems).next();
        let reason = refusing.map_or_else(
            || "none has connected".to_owned(),
            |problem| format!("those that have connected cannot work on it: {problem}"),
        );
        Some(format!("{waiting} jobs wait for a worker, and {reason}"))
    } else {
        None
    };
    WorkersNow { workers, waiting, lost: state.n_lost, malformed: state.n_malformed, trouble }
}
