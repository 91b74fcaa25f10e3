//! Curves over the steps of a run, with an axis of their own.

use super::{BOTTOM, HEIGHT, LEAST_DISTANCE, LEFT, MAX_LABELS, RIGHT, TOP, WIDTH};
use skill_pipeline::sft::record::{SftStep, SftValidation};
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
    let Some(frame) = Frame::new(last_step(steps, total_steps), steps.iter().map(value)) else {
        return String::new();
    };
    let mut svg = frame.begin(label, words);
    frame.line(&mut svg, "current", steps.iter().map(|step| (step.step, value(step))));
    svg.push_str("</svg>");
    svg
}

/// The share of games won after each measurement, with its 95 % interval; empty where none were played.
pub(crate) fn games(steps: &[SftStep], validations: &[SftValidation], total_steps: Option<u64>) -> String {
    let played = || validations.iter().filter_map(|found| Some((found.step, found.games?)));
    if played().next().is_none() {
        return String::new();
    }
    let frame = Frame { last: last_step(steps, total_steps).max(1) as f64, low: 0.0, high: 1.0 };
    let mut svg = frame.begin("Games won by step", |share| format!("{:.0} %", share * 100.0));
    for (step, games) in played() {
        let share = games.won as f64 / games.played.max(1) as f64;
        let (x, [low, high]) = (frame.x(step), games.interval);
        let _ = write!(
            svg,
            "<g class=\"accepted\"><title>step {step}: {} of {} games won, {low:.2} to {high:.2}</title>\
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

fn last_step(steps: &[SftStep], total_steps: Option<u64>) -> u64 {
    steps.last().map_or(1, |step| step.step).max(total_steps.unwrap_or_default())
}
