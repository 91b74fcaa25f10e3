//! What a run is doing, by its files and its lock.

use super::ending::{Ending, last_event};
use skill_pipeline::RunReader;
use skill_pipeline::kind::is_over;
use skill_pipeline::run_dir::{SUMMARY_FILE, is_held};
use std::path::Path;

skill_core::named_enum! {
    /// What a run is doing.
    #[derive(Default)]
    pub enum RunPhase {
        /// A process works on it.
        Training = "training",
        /// It has come to its end.
        Finished = "finished",
        /// It has not, and no process works on it: the last one said why it ended, or nobody can say.
        Stopped = "stopped",
        /// It has not, and the last process died: it was killed or crashed.
        Interrupted = "interrupted",
        /// Its files cannot be read, or are of another format.
        #[default]
        Damaged = "damaged",
    }
}

impl RunPhase {
    /// What a run is doing whose files can be read: its lock says whether a process works on it.
    pub fn of(run_dir: &Path, is_finished: bool) -> Self {
        Standing::of(run_dir, is_finished).phase
    }
}

/// What a run is doing, and why it stands still where it does and that is known.
pub(super) struct Standing {
    pub(super) phase: RunPhase,
    pub(super) reason: Option<String>,
    /// What can be done about it.
    pub(super) hint: Option<String>,
}

impl Standing {
    /// Of a run whose files can be read.
    pub(super) fn of(run_dir: &Path, is_finished: bool) -> Self {
        let goes_on = |phase| Self { phase, reason: None, hint: None };
        if is_finished || is_over(run_dir) {
            return goes_on(RunPhase::Finished);
        }
        if is_held(run_dir) {
            return goes_on(RunPhase::Training);
        }
        if run_dir.join(SUMMARY_FILE).is_file() {
            // Its process came to the end of the run after that was looked for.
            return goes_on(RunPhase::Finished);
        }
        let ending = Ending::of(run_dir);
        let phase = match &ending {
            Ending::Unknown | Ending::Said { .. } => RunPhase::Stopped,
            Ending::Silent => RunPhase::Interrupted,
        };
        let (reason, hint) = ending.reason_and_hint(run_dir);
        Self { phase, reason, hint }
    }
}

/// Steps of the whole run, by its summary or by its events.
pub(super) fn total_steps(run: &RunReader, of_summary: Option<usize>) -> Option<u32> {
    // A planned search learns how many steps there are.
    let last = |kind: &str| last_event(run.path(), kind)?.get("total_steps")?.as_u64();
    let of_events = || last("step_started").or_else(|| last("run_started"));
    let steps = of_summary.map(|steps| steps as u64).or_else(of_events)?;
    u32::try_from(steps).ok()
}
