//! Curves over the steps of a run, with an axis of their own.

use super::{BOTTOM, HEIGHT, LEAST_DISTANCE, LEFT, MAX_LABELS, RIGHT, TOP, WIDTH};
use crate::data::rl::{RlReport, RlRow, RlTaskType};
use serde::Serialize;
use skill_pipeline::records::sft::{SftGames, SftStep, SftValidation};
use std::fmt::Write as _;

/// Room for the numbers of the axis.
const AXIS: f64 = LEFT + 20.0;
/// Horizontal lines of the picture.
const N_LINES: u32 = 5;

/// A range of steps and a range of values in the picture.
struct Frame {
    last: f64,
    low: f64,
    high: f64,
}

impl Frame {
    fn new(last: u64, values: impl Iterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            return None;
        }
        // A flat line is drawn in the middle.
        let room = if high > low { (high - low) * 0.05 } else { high.abs().max(1e-9) * 0.5 };
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        Some(Self { last: last.max(1) as f64, low: (low - room).max(floor), high: high + room })
    }

    fn x(&self, step: u64) -> f64 {
        AXIS + (WIDTH - AXIS - RIGHT) * step as f64 / self.last
    }

    fn y(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)
    }

    fn begin(&self, label: &str, value: fn(f64) -> String) -> String {
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
        for line in 0..N_LINES {
            let at = self.low + (self.high - self.low) * f64::from(line) / f64::from(N_LINES - 1);
            let y = self.y(at);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{AXIS} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                AXIS - 6.0,
                y + 4.0,
                value(at)
            );
        }
        let last = self.last as u64;
        let every = last.div_ceil(u64::from(MAX_LABELS)).max(1);
        for step in (0..=MAX_LABELS).map(|label| u64::from(label) * every).take_while(|step| *step <= last) {
            let (x, y) = (self.x(step), HEIGHT - 10.0);
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{step}</text>");
        }
        svg
    }

    fn line(&self, svg: &mut String, class: &str, points: impl Iterator<Item = (u64, f64)>) {
        let (mut path, mut last_x) = (String::new(), f64::NEG_INFINITY);
        for (step, value) in points.filter(|(_, value)| value.is_finite()) {
            let x = self.x(step);
            // Nobody sees more, and the picture stays small however long the run is.
            if x - last_x < LEAST_DISTANCE {
                continue;
            }
            let sign = if path.is_empty() { "M" } else { "L" };
            let _ = write!(path, "{sign}{x:.1} {:.1}", self.y(value));
            last_x = x;
        }
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\" fill=\"none\"/>");
    }
}

/// The training loss by step, and the validation loss where it was measured; empty before the first step.
pub(crate) fn losses(steps: &[SftStep], validations: &[SftValidation], total_steps: Option<u64>) -> String {
    let measured = || validations.iter().filter_map(|found| Some((found.step, found.loss?)));
    let values = steps.iter().map(|step| step.loss).chain(measured().map(|(_, loss)| loss));
    let Some(frame) = Frame::new(last_step(steps, total_steps), values) else { return String::new() };
    let mut svg = frame.begin("Loss by step", |loss| format!("{loss:.3}"));
    frame.line(&mut svg, "current", steps.iter().map(|step| (step.step, step.loss)));
    frame.line(&mut svg, "best", measured());
    for (step, loss) in measured() {
        let (x, y) = (frame.x(step), frame.y(loss));
        let _ = write!(
            svg,
            "<circle class=\"first\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>validation after step {step}: {loss:.4}</title></circle>"
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The learning rate by step; empty before the first one.
pub(crate) fn learning_rates(steps: &[SftStep], total_steps: Option<u64>) -> String {
    of_steps(
        steps,
        total_steps,
        "Learning rate by step",
        |step| step.learning_rate,
        |rate| format!("{rate:.1e}"),
    )
}

/// The norm of the gradient by step; empty before the first one.
pub(crate) fn grad_norms(steps: &[SftStep], total_steps: Option<u64>) -> String {
    of_steps(
        steps,
        total_steps,
        "Norm of the gradient by step",
        |step| step.grad_norm,
        |norm| format!("{norm:.2}"),
    )
}

fn of_steps(
    steps: &[SftStep],
    total_steps: Option<u64>,
    label: &str,
    value: fn(&SftStep) -> f64,
    words: fn(f64) -> String,
) -> String {
    let points: Vec<(u64, f64)> = steps.iter().map(|step| (step.step, value(step))).collect();
    line(&points, last_step(steps, total_steps), label, words)
}

/// One line over steps; empty without a point.
fn line(points: &[(u64, f64)], last: u64, label: &str, words: fn(f64) -> String) -> String {
    let Some(frame) = Frame::new(last, points.iter().map(|(_, value)| *value)) else { return String::new() };
    let mut svg = frame.begin(label, words);
    frame.line(&mut svg, "current", points.iter().copied());
    svg.push_str("</svg>");
    svg
}

/// The share of games won after each measurement, with its 95 % interval; empty where none were played.
pub(crate) fn games(steps: &[SftStep], validations: &[SftValidation], total_steps: Option<u64>) -> String {
    let played: Vec<_> = validations.iter().filter_map(|found| Some((found.step, found.games?))).collect();
    games_won(&played, last_step(steps, total_steps), "step")
}

fn games_won(played: &[(u64, SftGames)], last: u64, unit: &str) -> String {
    if played.is_empty() {
        return String::new();
    }
    let frame = Frame { last: last.max(1) as f64, low: 0.0, high: 1.0 };
    let mut svg = frame.begin(&format!("Games won by {unit}"), percent);
    for (step, games) in played {
        let share = games.won as f64 / games.played.max(1) as f64;
        let (x, [low, high]) = (frame.x(*step), games.interval);
        let _ = write!(
            svg,
            "<g class=\"accepted\"><title>{unit} {step}: {} of {} games won, {low:.2} to {high:.2}</title>\
             <path class=\"interval\" d=\"M{x:.1} {:.1}V{:.1}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"/></g>",
            games.won,
            games.played,
            frame.y(low),
            frame.y(high),
            frame.y(share)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A curve with its name and what it shows.
#[derive(Debug, Serialize)]
pub(crate) struct Curve {
    name: &'static str,
    caption: &'static str,
    svg: String,
}

/// The curves of a run of reinforcement learning by iteration; those without a point are left out.
pub(crate) fn of_iterations(report: &RlReport) -> Vec<Curve> {
    // What is measured in training; an iteration without an optimizer step has none.
    let trained = |value: fn(&RlRow) -> f64| move |row: &RlRow| (row.record.steps > 0).then(|| value(row));
    let curve = |name, caption, value: &dyn Fn(&RlRow) -> Option<f64>, words: fn(f64) -> String| {
        let points = report.iterations.iter().filter_map(|row| Some((row.record.iteration, value(row)?)));
        let svg = line(&points.collect::<Vec<_>>(), last_iteration(report), name, words);
        Curve { name, caption, svg }
    };
    let played: Vec<_> = report.validations.iter().map(|found| (found.iteration, found.games)).collect();
    let curves = [
        curve(
            "Mean return",
            "Scores of sampled episodes, less penalties.",
            &|row| Some(row.record.reward),
            |value| format!("{value:.2}"),
        ),
        curve(
            "Episodes won",
            "The share of sampled episodes that solved their task.",
            &|row| Some(row.won),
            percent,
        ),
        Curve {
            name: "Games won",
            caption: "Games of the selection split, played greedily. Bars are 95 % intervals (Wilson).",
            svg: games_won(&played, last_iteration(report), "iteration"),
        },
        curve(
            "Groups without a signal",
            "The share of groups whose episodes all have the same return.",
            &|row| Some(row.record.groups_without_signal),
            percent,
        ),
        curve(
            "Divergence",
            "KL divergence from the first policy, in nats per token.",
            &trained(|row| row.record.kl),
            |value| format!("{value:.4}"),
        ),
        curve(
            "Entropy",
            "Mean entropy of the sampled tokens, in nats.",
            &trained(|row| row.record.entropy),
            |value| format!("{value:.2}"),
        ),
        curve(
            "Clipped tokens",
            "The share of tokens whose gradient was clipped away.",
            &trained(|row| row.record.clipped),
            |share| format!("{:.1} %", share * 100.0),
        ),
        curve(
            "Reply length",
            "Mean number of sampled tokens of an episode.",
            &|row| Some(row.reply_tokens),
            |value| format!("{value:.0}"),
        ),
        curve("Invalid actions", "Mean number of an episode.", &|row| Some(row.invalid_actions), |value| {
            format!("{value:.1}")
        }),
        curve(
            "Gradient norm",
            "Norm of the gradient before clipping, averaged over optimizer steps.",
            &trained(|row| row.record.grad_norm),
            |value| format!("{value:.2}"),
        ),
        curve(
            "Speed",
            "Sampled tokens per second, training included.",
            &|row| row.tokens_per_second,
            |value| format!("{value:.0}"),
        ),
    ];
    curves.into_iter().filter(|curve| !curve.svg.is_empty()).collect()
}

/// The share of won episodes of a type of task by iteration.
pub(crate) fn of_task_type(report: &RlReport, task_type: &RlTaskType) -> String {
    line(&task_type.won, last_iteration(report), "Episodes won", percent)
}

fn last_iteration(report: &RlReport) -> u64 {
    report.brief.total_iterations.unwrap_or_default().max(report.brief.iteration).max(1)
}

fn last_step(steps: &[SftStep], total_steps: Option<u64>) -> u64 {
    steps.last().map_or(1, |step| step.step).max(total_steps.unwrap_or_default())
}
