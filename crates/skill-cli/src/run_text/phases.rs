//! A run of several phases in words, for `train`, `status` and lists.

use crate::table::grouped;
use skillrl::pipeline::records::phases::{Phase, PhaseRecord, TestGames};
use skillrl::reports::PhasesBrief;

/// The phase with its number.
pub(crate) fn place(phase: Phase) -> String {
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

/// What a finished phase came to, in a line.
pub(crate) fn line(record: &PhaseRecord) -> String {
    let taken = if record.is_reused { " (taken over from another run)" } else { "" };
    let figures = figures(record.figures.iter().map(|(name, value)| (name.as_str(), *value)));
    format!("{} is finished{taken}: {figures}", record.phase.as_str())
}

fn figures<'a>(figures: impl Iterator<Item = (&'a str, f64)>) -> String {
    let one = |(name, value): (&str, f64)| {
        let value = match value.fract() == 0.0 && (0.0..1e15).contains(&value) {
            true => grouped(value as u64),
            false => format!("{value:.4}"),
        };
        format!("{} {value}", name.replace('_', " "))
    };
    figures.map(one).collect::<Vec<_>>().join(", ")
}

/// What there is to say of a run, each with its name of at most seven characters.
pub(crate) fn brief(brief: &PhasesBrief) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> = brief
        .phases
        .iter()
        .map(|found| {
            let figures = figures(found.figures.iter().map(|(name, value)| (name.as_str(), *value)));
            let figures = if figures.is_empty() { figures } else { format!(", {figures}") };
            let time = found.seconds.map(|seconds| format!(" in {seconds:.0} s")).unwrap_or_default();
            (found.phase.as_str(), format!("{}{time}{figures}", found.state.as_str()))
        })
        .collect();
    lines.extend(brief.test.iter().map(|games| ("won", tested(games))));
    lines.extend(brief.gains().iter().map(|gain| ("verdict", gain.sentence())));
    lines
}

/// What a policy wins of the test split.
pub(crate) fn tested(found: &TestGames) -> String {
    let policy = match found.policy {
        None => "before training",
        Some(Phase::Sft) => "after fine-tuning",
        Some(_) if found.has_skills => "after reinforcement learning",
        Some(_) => "the same without skills",
    };
    let [low, high] = found.games.interval.map(|share| 100.0 * share);
    format!(
        "{policy}: {} of {} test games ({:.1} %, 95 % interval {low:.1} to {high:.1})",
        found.games.won,
        found.games.played,
        100.0 * found.games.score
    )
}
