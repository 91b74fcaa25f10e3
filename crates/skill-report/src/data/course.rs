//! The validation score of the best skill over the calls and the money that a run has used.

use crate::ReportError;
use crate::runs::Band;
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

/// The first point after which the score did not rise any more.
fn last_gain(course: &[CoursePoint]) -> Option<&CoursePoint> {
    let last = course.last()?;
    course.iter().find(|point| point.best >= last.best)
}

/// `341 calls ($0.04) brought +25.8 points on the validation split, 705 more ($0.20) found nothing better`, if at least
/// half of the calls brought nothing.
pub(crate) fn spent_in_vain(course: &[CoursePoint]) -> Option<String> {
    let (first, gain, last) = (course.first()?, last_gain(course)?, course.last()?);
    let n_after = last.calls.saturating_sub(gain.calls);
    if gain.best <= first.best || n_after * 2 < last.calls {
        return None;
    }
    let money = |cost: Option<f64>| cost.map(|cost| format!(" ({})", dollars(cost))).unwrap_or_default();
    let after = last.cost.zip(gain.cost).map(|(last, gain)| last - gain);
    Some(format!(
        "{} calls{} brought {} on the validation split, {} more{} found nothing better",
        grouped(gain.calls),
        money(gain.cost),
        points(gain.best - first.best),
        grouped(n_after),
        money(after)
    ))
}

/// The score as a line of steps; empty without two points.
pub(crate) fn band(course: &[CoursePoint], used: impl Fn(&CoursePoint) -> Option<f64>) -> Vec<Band> {
    let mut corners = Vec::new();
    let mut score = None;
    for (at, point) in course.iter().enumerate() {
        let Some(x) = used(point) else { return Vec::new() };
        if score != Some(point.best) || at + 1 == course.len() {
            corners.extend(score.map(|before| (x, before, None)));
            corners.push((x, point.best, None));
            score = Some(point.best);
        }
    }
    if corners.len() < 2 {
        return Vec::new();
    }
    vec![Band { name: "best skill".to_owned(), n_runs: 1, points: corners }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(points: &[(u64, f64)]) -> Vec<CoursePoint> {
        let point = |(calls, best): &(u64, f64)| CoursePoint {
            calls: *calls,
            cost: Some(*calls as f64 / 1000.0),
            best: *best,
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn what_brought_the_gain_and_what_came_after_it_are_told_apart() {
        let words = spent_in_vain(&course(&[(40, 0.3), (100, 0.3), (200, 0.5), (300, 0.5), (1200, 0.5)]));
        assert_eq!(
            words.unwrap(),
            "200 calls ($0.2000) brought +20.0 points on the validation split, 1,000 more ($1.00) found nothing better"
        );
        // Most of it was needed, or there was no gain.
        assert_eq!(spent_in_vain(&course(&[(40, 0.3), (800, 0.5), (1200, 0.5)])), None);
        assert_eq!(spent_in_vain(&course(&[(40, 0.3), (1200, 0.3)])), None);
        assert_eq!(spent_in_vain(&[]), None);
    }

    #[test]
    fn the_line_holds_a_score_until_it_changes() {
        let course = course(&[(40, 0.3), (100, 0.3), (200, 0.5), (300, 0.5)]);
        let [band] = band(&course, |point| Some(point.calls as f64)).try_into().ok().unwrap();
        let corners: Vec<(f64, f64)> = band.points.iter().map(|(x, y, _)| (*x, *y)).collect();
        assert_eq!(corners, [(40.0, 0.3), (200.0, 0.3), (200.0, 0.5), (300.0, 0.5), (300.0, 0.5)]);
        assert!(super::band(&course, |_| None).is_empty());
    }
}
