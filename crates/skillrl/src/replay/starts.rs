//! What the log of a run says about how it was started: where its configuration lay, and how long it was to be when
//! each of its steps was made, which schedules go by.

use serde::Deserialize;
use skill_core::StepIdx;
use skill_llm::regular_file;
use skill_pipeline::{Event, EventSink, StopSignal};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

/// A part of a run that was made when the run was to be shorter than it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shorter {
    /// How many epochs it was to have.
    pub(super) epochs: u32,
    /// The last step that was made then.
    pub(super) until: StepIdx,
}

/// As much of an event as says how the run was started.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Told {
    RunStarted {
        total_steps: u32,
        finished_steps: u32,
        config_dir: Option<String>,
    },
    #[serde(other)]
    Other,
}

/// How a run was started, once for each process that took it up.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// Steps of the whole run, and those that were finished.
    lengths: Vec<(u32, u32)>,
    /// Where the configuration lay, from the directory of the run; what the last process says.
    pub(super) config_dir: Option<String>,
}

impl Starts {
    /// Reads the run's log; what cannot be read says nothing.
    pub(super) fn of(run: &Path) -> Self {
        let mut starts = Self::default();
        let Ok(file) = regular_file::open(&run.join("events.jsonl")) else { return starts };
        for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
            if let Ok(Told::RunStarted { total_steps, finished_steps, config_dir }) =
                serde_json::from_slice(&line)
            {
                starts.lengths.push((total_steps, finished_steps));
                starts.config_dir = config_dir;
            }
        }
        starts
    }

    /// The lengths that a run had before it was extended to `epochs`, in order; none where its log does not say it.
    pub(super) fn shorter(&self, epochs: u32) -> Vec<Shorter> {
        shorter(&self.lengths, epochs)
    }
}

fn shorter(starts: &[(u32, u32)], epochs: u32) -> Vec<Shorter> {
    let Some((last_total, _)) = starts.last().copied() else { return Vec::new() };
    let changes = starts.windows(2).filter_map(|pair| match pair {
        [(before, _), (after, done)] if before < after && *done > 0 => Some((*before, *done)),
        _ => None,
    });
    let of_total = |(total, done): (u32, u32)| {
        let steps = u64::from(total) * u64::from(epochs);
        let is_whole = last_total > 0 && steps.is_multiple_of(u64::from(last_total));
        let epochs = is_whole.then(|| steps / u64::from(last_total))?;
        Some(Shorter { epochs: u32::try_from(epochs).ok()?, until: StepIdx(done) })
    };
    changes.map(of_total).collect::<Option<_>>().unwrap_or_default()
}

/// Ends a part of a replay where that of the run ended.
pub(super) struct Until {
    pub(super) step: StepIdx,
    pub(super) stop: StopSignal,
    pub(super) events: Arc<dyn EventSink>,
}

impl EventSink for Until {
    fn emit(&self, event: &Event) {
        if matches!(event, Event::StepFinished { record } if record.step == self.step) {
            self.stop.after_step.cancel();
        }
        self.events.emit(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(starts: &[(u32, u32)]) -> Vec<Shorter> {
        let dir = tempfile::tempdir().unwrap();
        let lines = starts.iter().map(|(total, done)| {
            format!(
                "{{\"event\": \"run_started\", \"total_steps\": {total}, \"finished_steps\": {done}}}\n\
                 {{\"event\": \"stage_started\"}}\n"
            )
        });
        std::fs::write(dir.path().join("events.jsonl"), lines.collect::<String>()).unwrap();
        Starts::of(dir.path()).shorter(4)
    }

    #[test]
    fn a_run_was_shorter_until_it_was_extended() {
        let part = |epochs, until| Shorter { epochs, until: StepIdx(until) };
        assert_eq!(told(&[(12, 0), (12, 5)]), []);
        assert_eq!(told(&[(3, 0), (6, 3), (12, 5), (12, 7)]), [part(1, 3), part(2, 5)]);
        assert_eq!(told(&[(3, 0), (12, 0)]), [], "no step was made with the shorter one");
        assert_eq!(told(&[(5, 0), (12, 5)]), [], "what is no number of epochs says nothing");
        assert_eq!(told(&[]), []);
    }
}
