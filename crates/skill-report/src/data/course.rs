//! The validation score of the best skill over the calls and the money that a run has used.

use crate::ReportError;
use crate::words::{dollars, grouped, points};
use serde::Serialize;
use skill_pipeline::RunReader;
use skill_pipeline::records::{StageTokens, TokensByStage};
use skill_pipeline::run_dir::EvaluationDir;

/// The best skill's score on the validation split after a part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoursePoint {
    /// Calls of the results up to there.
    pub calls: u64,
    /// What they cost; `None` without prices.
    pub cost: Option<f64>,
    /// The score.
    pub best: f64,
}

/// The score after the first measurement, which gave `first`, and after each step.
pub(crate) fn read(
    run: &RunReader,
    first: f64,
    price: impl Fn(&TokensByStage) -> Option<f64>,
) -> Result<Vec<CoursePoint>, ReportError> {
    let Some(baseline) = run.evaluation_summary(EvaluationDir::Baseline)? else { return Ok(Vec::new()) };
    let mut used = TokensByStage::from([("baseline".to_owned(), baseline.tokens)]);
    let point = |used: &TokensByStage, best: f64| CoursePoint {
        calls: StageTokens::of_all(used).calls,
        cost: price(used),
        best,
    };
    let mut course = vec![point(&used, first)];
    for record in run.history()? {
        for (stage, tokens) in &record.tokens {
            *used.entry(stage.clone()).or_default() += *tokens;
        }
        course.push(point(&used, record.best_score));
    }
    Ok(course)
}

/// The point from which on the score did not rise any more.
fn last_gain(course: &[CoursePoint]) -> Option<&CoursePoint> {
    let last = course.last()?;
    course.iter().find(|point| point.best >= last.best)
}

/// What brought the last gain of a search, and what was used after it.
#[derive(Debug, PartialEq)]
struct InVain {
    gain: f64,
    calls: [u64; 2],
    costs: [Option<f64>; 2],
}

impl InVain {
    /// `None` unless at least half of the calls brought nothing.
    fn of(course: &[CoursePoint]) -> Option<Self> {
        let (first, gain, last) = (course.first()?, last_gain(course)?, course.last()?);
        let n_after = last.calls.saturating_sub(gain.calls);
        let after = last.cost.zip(gain.cost).map(|(last, gain)| last - gain);
        let found =
            Self { gain: gain.best - first.best, calls: [gain.calls, n_after], costs: [gain.cost, after] };
        (found.gain > 0.0 && n_after * 2 >= last.calls).then_some(found)
    }
}

/// `341 calls ($0.04) brought +25.8 points on the validation split, 705 more ($0.20) found nothing better`, if at least
/// half of the calls brought nothing.
pub(crate) fn spent_in_vain(course: &[CoursePoint]) -> Option<String> {
    let InVain { gain, calls, costs } = InVain::of(course)?;
    let [calls, calls_after] = calls.map(grouped);
    let [cost, cost_after] =
        costs.map(|cost| cost.map(|cost| format!(" ({})", dollars(cost))).unwrap_or_default());
    Some(format!(
        "{calls} calls{cost} brought {} on the validation split, {calls_after} more{cost_after} found nothing better",
        points(gain)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(points: &[(u64, f64)]) -> Vec<CoursePoint> {
        let point = |(calls, best): &(u64, f64)| CoursePoint {
            calls: *calls,
            cost: Some(*calls as f64 / 100.0),
            best: *best,
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn what_brought_the_gain_and_what_came_after_it_are_told_apart() {
        let found = InVain::of(&course(&[(40, 0.25), (100, 0.25), (200, 0.5), (300, 0.5), (1200, 0.5)]));
        let expected = InVain { gain: 0.25, calls: [200, 1_000], costs: [Some(2.0), Some(10.0)] };
        assert_eq!(found, Some(expected));
        // Most of it was needed, or there was no gain.
        assert_eq!(InVain::of(&course(&[(40, 0.3), (800, 0.5), (1200, 0.5)])), None);
        assert_eq!(InVain::of(&course(&[(40, 0.3), (1200, 0.3)])), None);
        assert_eq!(InVain::of(&[]), None);
    }
}
