//! The workers of a run on other machines, in words.

use crate::table::harmless;
use skillrl::pipeline::run_dir::live::{LiveState, WorkerPulse};

/// So many workers have a line of their own.
const MAX_LINES: usize = 8;
/// So many tasks of a worker are named.
const MAX_TASKS: usize = 3;

/// How many workers there are and what they do, in short; nothing for a run without them.
pub(crate) fn short(live: &LiveState) -> Option<String> {
    let workers = &live.pulse.workers;
    if workers.is_empty() {
        return None;
    }
    let (slots, doing): (u32, usize) =
        workers.iter().fold((0, 0), |(slots, doing), worker| (slots + worker.slots, doing + n_busy(worker)));
    let plural = if workers.len() == 1 { "" } else { "s" };
    Some(format!("{} worker{plural}, {doing} of {slots} slots busy", workers.len()))
}

/// The busy slots. A slot may have two tasks: the current one, and one whose result is not recorded yet.
fn n_busy(worker: &WorkerPulse) -> usize {
    worker.doing.len().min(worker.slots.try_into().unwrap_or(usize::MAX))
}

/// A line for each worker: what it does, and when it was heard of.
pub(crate) fn lines(live: &LiveState) -> Vec<String> {
    let workers = &live.pulse.workers;
    let mut lines: Vec<String> = workers.iter().take(MAX_LINES).map(line).collect();
    if let Some(more) = workers.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn line(worker: &WorkerPulse) -> String {
    let name = harmless(&worker.name);
    if let Some(problem) = &worker.problem {
        return format!("{name}: cannot work: {}", harmless(problem));
    }
    let mut tasks: Vec<String> = worker.doing.iter().take(MAX_TASKS).map(|task| harmless(task)).collect();
    if worker.doing.len() > MAX_TASKS {
        tasks.push("…".to_owned());
    }
    let tasks = if tasks.is_empty() { String::new() } else { format!(" ({})", tasks.join(", ")) };
    let (n_busy, slots) = (n_busy(worker), worker.slots);
    format!("{name}: {n_busy} of {slots} slots busy{tasks}, heard of {} s ago", worker.seen_seconds_ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_line_with_what_it_does_and_when_it_was_heard_of() {
        let worker = |name: &str, n_tasks: usize| WorkerPulse {
            name: name.to_owned(),
            slots: 8,
            seen_seconds_ago: 2,
            doing: (0..n_tasks).map(|n| format!("t{n}")).collect(),
            problem: None,
        };
        let idle = worker("a\u{1b}[31m/1", 0);
        let busy = worker("b/2", 5);
        let other = WorkerPulse { problem: Some("another version".to_owned()), ..worker("c/3", 0) };
        assert_eq!(line(&busy), "b/2: 5 of 8 slots busy (t0, t1, t2, …), heard of 2 s ago");
        assert_eq!(n_busy(&worker("d/4", 9)), 8);
        assert!(!line(&idle).contains('\u{1b}'));
        assert!(line(&other).contains("another version"));
    }
}
