//! Charts of several runs: scores over calls or cost, and final scores.

use super::{BOTTOM, HEIGHT, LEFT, MAX_LABELS, RIGHT, TOP, WIDTH, round_step, shares};
use crate::runs::{Band, FinalScore};
use crate::words::{dollars, escaped, grouped, percent};
use std::fmt::Write as _;

/// The height of a final score.
const ROW: f64 = 20.0;
/// Room for the names of final scores.
const NAMES: f64 = 260.0;
/// The most characters of such a name: its end tells it from others.
const MAX_NAME: usize = 42;

/// The classes of colours of groups, by their order, in the page's style.
const N_HUES: usize = 8;

fn hue(place: usize) -> String {
    format!("hue-{}", place % N_HUES)
}

/// The quantity on the horizontal axis.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Used {
    Calls,
    Money,
}

impl Used {
    fn words(self, at: f64) -> String {
        match self {
            Self::Calls => grouped(at as u64),
            Self::Money => dollars(at),
        }
    }
}

/// The mean score of each group over calls or cost, with its interval over runs as a band; empty without any.
pub(crate) fn bands(bands: &[Band], used: Used) -> String {
    let ends = bands.iter().filter_map(|band| band.points.last()).map(|(at, ..)| *at);
    let last = ends.fold(0.0, f64::max);
    if last <= 0.0 {
        return String::new();
    }
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * at / last;
    let y = |score: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - score.clamp(0.0, 1.0));
    let label = match used {
        Used::Calls => "Validation score by calls",
        Used::Money => "Validation score by money",
    };
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
    shares(&mut svg);
    let every = round_step(last / f64::from(MAX_LABELS) * 2.0);
    let mut at = 0.0;
    while at <= last {
        let (x, y) = (x(at), HEIGHT - 10.0);
        let text = used.words(at);
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{text}</text>");
        at += every;
    }
    for (place, band) in bands.iter().enumerate() {
        let hue = hue(place);
        let edge = |is_high: bool| {
            band.points.iter().filter_map(move |(at, _, interval)| {
                interval.map(|[low, high]| (*at, if is_high { high } else { low }))
            })
        };
        let mut area = String::new();
        let back: Vec<(f64, f64)> = edge(false).collect();
        for (at, score) in edge(true).chain(back.into_iter().rev()) {
            let sign = if area.is_empty() { 'M' } else { 'L' };
            let _ = write!(area, "{sign}{:.1} {:.1}", x(at), y(score));
        }
        if !area.is_empty() {
            let _ = write!(svg, "<path class=\"band {hue}\" d=\"{area}Z\"/>");
        }
        let mut line = String::new();
        for (at, score, _) in &band.points {
            let sign = if line.is_empty() { 'M' } else { 'L' };
            let _ = write!(line, "{sign}{:.1} {:.1}", x(*at), y(*score));
        }
        let _ = write!(svg, "<path class=\"curve {hue}\" d=\"{line}\"/>");
    }
    svg.push_str("</svg>");
    svg
}

/// The classes of the groups as they are drawn, with their names.
pub(crate) fn legend(bands: &[Band]) -> Vec<(String, String, usize)> {
    let entries = bands.iter().enumerate();
    entries.map(|(place, band)| (hue(place), band.name.clone(), band.n_runs)).collect()
}

/// The final scores, one below the other, with their intervals; empty without any.
pub(crate) fn final_scores(scores: &[FinalScore]) -> String {
    if scores.is_empty() {
        return String::new();
    }
    let height = ROW * scores.len() as f64 + BOTTOM;
    let x = |score: f64| NAMES + (WIDTH - NAMES - RIGHT) * score.clamp(0.0, 1.0);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Final test scores\">");
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (at, bottom) = (x(share), height - BOTTOM);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} 0V{bottom:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0}</text>",
            height - 10.0,
            100.0 * share
        );
    }
    for (place, score) in scores.iter().enumerate() {
        let y = ROW * (place as f64 + 0.5);
        let class = if score.is_group { "accepted" } else { "none" };
        let radius = if score.is_group { 5 } else { 3 };
        let said = match score.interval {
            Some([low, high]) => format!("{} ({} to {})", percent(score.score), percent(low), percent(high)),
            None => percent(score.score),
        };
        let interval = score.interval.map(|[low, high]| {
            format!("<path class=\"interval\" d=\"M{:.1} {y:.1}H{:.1}\"/>", x(low), x(high))
        });
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <g class=\"{class}\"><title>{}: {said}</title>{}<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/></g>",
            NAMES - 8.0,
            y + 4.0,
            escaped(&end_of(&score.name)),
            escaped(&score.name),
            interval.unwrap_or_default(),
            x(score.score)
        );
    }
    svg.push_str("</svg>");
    svg
}

/// The end of a name that is too long.
fn end_of(name: &str) -> String {
    let n_over = name.chars().count().saturating_sub(MAX_NAME);
    match n_over {
        0 => name.to_owned(),
        _ => format!("…{}", name.chars().skip(n_over + 1).collect::<String>()),
    }
}
