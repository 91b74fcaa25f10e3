//! Curves over the steps of a run, with an axis of their own.

use super::{BOTTOM, HEIGHT, LEAST_DISTANCE, LEFT, MAX_LABELS, RIGHT, TOP, WIDTH, round_step};
use crate::view::{Chart, Look};
use crate::words::percent;
use serde::Serialize;
use std::fmt::Write as _;

/// Room for the numbers of the axis.
const AXIS: f64 = LEFT + 20.0;
/// At most so many parts between the horizontal lines of the picture.
const N_PARTS: f64 = 6.0;

/// A picture with its name and what is to be known of it.
#[derive(Debug, Serialize)]
pub(crate) struct Picture {
    name: &'static str,
    caption: &'static str,
    svg: String,
}

impl From<Chart> for Picture {
    fn from(chart: Chart) -> Self {
        Self { name: chart.name, caption: chart.caption, svg: drawn(&chart) }
    }
}

/// The curves as a picture; empty without a point.
pub(crate) fn drawn(chart: &Chart) -> String {
    let Some([low, high]) = chart.bounds() else { return String::new() };
    // Lines are at round numbers, and the picture ends with one.
    let distance = round_step((high - low) / N_PARTS);
    let lines = [(low / distance).floor() as i64, (high / distance).ceil() as i64];
    let [low, high] = lines.map(|line| line as f64 * distance);
    let frame = Frame { last: chart.last, low, high };
    let mut svg = frame.begin(chart, lines, distance);
    for series in &chart.series {
        match series.look {
            Look::Line => frame.line(&mut svg, "current", series.points.iter().copied()),
            Look::Marks => {
                frame.line(&mut svg, "best", series.points.iter().copied());
                for (step, value) in &series.points {
                    let _ = write!(
                        svg,
                        "<circle class=\"first\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{} after {} {step}: {value:.4}</title></circle>",
                        frame.x(*step),
                        frame.y(*value),
                        series.name,
                        chart.unit
                    );
                }
            }
        }
    }
    for ((step, games), (_, share)) in chart.games.iter().zip(chart.games_won()) {
        let (x, [low, high]) = (frame.x(*step), games.interval);
        let _ = write!(
            svg,
            "<g class=\"accepted\"><title>{} {step}: {} of {} games won, {} to {}</title>\
             <path class=\"interval\" d=\"M{x:.1} {:.1}V{:.1}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"5\"/></g>",
            chart.unit,
            games.won,
            games.played,
            percent(low),
            percent(high),
            frame.y(low),
            frame.y(high),
            frame.y(share)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// A range of steps and a range of values in the picture.
struct Frame {
    last: u64,
    low: f64,
    high: f64,
}

impl Frame {
    fn x(&self, step: u64) -> f64 {
        AXIS + (WIDTH - AXIS - RIGHT) * step as f64 / self.last as f64
    }

    fn y(&self, value: f64) -> f64 {
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share)
    }

    fn begin(&self, chart: &Chart, [first, last]: [i64; 2], distance: f64) -> String {
        let label = chart.name;
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
        for line in first..=last {
            let at = line as f64 * distance;
            let y = self.y(at);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{AXIS} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                AXIS - 6.0,
                y + 4.0,
                chart.words(at, distance)
            );
        }
        let every = round_step(self.last as f64 / f64::from(MAX_LABELS)).max(1.0) as u64;
        for step in
            (0..=u64::from(MAX_LABELS)).map(|label| label * every).take_while(|step| *step <= self.last)
        {
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
