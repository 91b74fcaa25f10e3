//! The events of runs that train weights, and of runs of several phases, in words.

use super::EventLine;
use crate::data::rl::{RL_METRICS, RlRow};
use crate::words::results;
use skill_pipeline::Event;
use skill_pipeline::records::phases::{Phase, PhaseRecord};

/// The line of an event of such a run alone; `total` is the steps of the whole run.
pub(super) fn line(event: &Event, total: &str) -> Option<EventLine> {
    let line = match event {
        Event::PhaseStarted { phase } => EventLine::new(format!("phase {}", place(*phase))),
        Event::PhaseFinished { record } => EventLine::new(finished(record)),
        Event::SftStepFinished { record, seconds, peak_memory } => {
            let speed = record.tokens as f64 / seconds.max(1e-9);
            let memory =
                peak_memory.map(|bytes| format!(", {:.2} GB", bytes as f64 / 1e9)).unwrap_or_default();
            EventLine::new(format!(
                "step {}{total}: loss {:.4}, rate {:.2e}, gradient norm {:.3}, {speed:.0} tokens/s{memory}",
                record.step, record.loss, record.learning_rate, record.grad_norm
            ))
        }
        Event::SftValidated { record } => {
            let loss = record.loss.map(|loss| format!(" loss {loss:.4}")).unwrap_or_default();
            let games = record.games.map(|games| format!(", {} of {} games won", games.won, games.played));
            EventLine::new(format!(
                "validation after step {}:{loss}{}",
                record.step,
                games.unwrap_or_default()
            ))
        }
        Event::SftFinished { .. } => EventLine::ended("the model is fine-tuned"),
        Event::RlIterationFinished { record, seconds } => {
            let row = RlRow::new((**record).clone(), Some(*seconds));
            let numbers = RL_METRICS.iter().map(|metric| format!(", {}", metric.named(&row)));
            EventLine::new(format!(
                "iteration {}{total}: {} of {} won{}, {seconds:.1} s",
                record.iteration,
                record.won,
                record.episodes,
                numbers.collect::<String>()
            ))
        }
        Event::RlValidated { record } => EventLine::new(format!(
            "games after iteration {}: {} of {} won",
            record.iteration, record.games.won, record.games.played
        )),
        Event::RlFinished { .. } => EventLine::ended("the policy is trained"),
        _ => return None,
    };
    Some(line)
}

/// The phase with its number.
fn place(phase: Phase) -> String {
    let number = Phase::ALL.iter().position(|other| *other == phase).map_or(0, |place| place + 1);
    format!("{number} ({}): {}", phase.as_str(), described(phase))
}

fn described(phase: Phase) -> &'static str {
    match phase {
        Phase::Collect => "episodes for the teacher",
        Phase::Distill => "skills from the episodes",
        Phase::Sft => "fine-tuning on demonstrations",
        Phase::Rl => "GRPO with the bank in the loop",
        Phase::Test => "games of the test split",
    }
}

/// The results of a finished phase, in a line.
fn finished(record: &PhaseRecord) -> String {
    let taken = if record.is_reused { " (taken over from another run)" } else { "" };
    format!("{} is finished{taken}: {}", record.phase.as_str(), results(record.phase, &record.figures))
}
