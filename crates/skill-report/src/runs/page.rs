//! What the page of a table of runs draws: the scores of groups over calls and money, and the final scores.

use super::{CoursePoint, RunsTable};
use crate::LEVEL;
use skill_core::stats::{mean_interval, score_interval};

/// The number of points of a group's curve.
const N_PLACES: usize = 48;

/// The most groups that are drawn.
pub(crate) const MAX_BANDS: usize = 8;

/// The most final scores that are drawn.
const MAX_FINAL_SCORES: usize = 100;

/// The mean score of a group over calls or cost.
pub(crate) struct Band {
    pub(crate) name: String,
    pub(crate) n_runs: usize,
    /// Points: calls or cost, the mean score of the runs, and its interval over runs.
    pub(crate) points: Vec<(f64, f64, Option<[f64; 2]>)>,
}

/// The score of each group by `used`; groups whose runs do not know it are left out.
pub(crate) fn bands(table: &RunsTable, used: fn(&CoursePoint) -> Option<f64>) -> Vec<Band> {
    let bands = table.groups.iter().filter_map(|group| {
        let courses: Vec<Vec<(f64, f64)>> =
            group.places.iter().filter_map(|place| course(&table.runs.get(*place)?.course, used)).collect();
        let last = courses.iter().filter_map(|course| course.last()).map(|(at, _)| *at).fold(0.0, f64::max);
        if last <= 0.0 {
            return None;
        }
        let place = |place: usize| {
            let at = last * place as f64 / (N_PLACES - 1) as f64;
            let scores: Vec<f64> = courses.iter().filter_map(|course| score_at(course, at)).collect();
            let mean = scores.iter().sum::<f64>() / scores.len() as f64;
            // Before that, the mean would jump whenever another run has measured its initial skill.
            (scores.len() == courses.len()).then(|| {
                let interval = mean_interval(&scores, LEVEL);
                (at, mean, interval.map(|interval| interval.map(|end| end.clamp(0.0, 1.0))))
            })
        };
        let points: Vec<_> = (0..N_PLACES).filter_map(place).collect();
        (!points.is_empty()).then(|| Band { name: group.name.clone(), n_runs: courses.len(), points })
    });
    bands.take(MAX_BANDS).collect()
}

fn course(points: &[CoursePoint], used: fn(&CoursePoint) -> Option<f64>) -> Option<Vec<(f64, f64)>> {
    let course: Option<Vec<(f64, f64)>> =
        points.iter().map(|point| Some((used(point)?, point.best))).collect();
    course.filter(|course| !course.is_empty())
}

/// A score holds until the step that changes it, and after the last one.
fn score_at(course: &[(f64, f64)], at: f64) -> Option<f64> {
    course.iter().take_while(|(used, _)| *used <= at).last().map(|(_, score)| *score)
}

/// The score as a line of steps; empty without two points.
pub(crate) fn score_line(course: &[CoursePoint], used: impl Fn(&CoursePoint) -> Option<f64>) -> Vec<Band> {
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

/// The final score of a run or of a group.
pub(crate) struct FinalScore {
    pub(crate) name: String,
    pub(crate) score: f64,
    pub(crate) interval: Option<[f64; 2]>,
    pub(crate) is_group: bool,
}

/// The final scores on the test split: of groups over their runs, and of runs over items.
pub(crate) fn final_scores(table: &RunsTable) -> Vec<FinalScore> {
    let mut found = Vec::new();
    for group in &table.groups {
        if let Some(test) = group.test
            && group.places.len() > 1
        {
            let name = format!("{}, mean of {}", group.name, test.n);
            found.push(FinalScore { name, score: test.mean, interval: test.interval, is_group: true });
        }
        for run in group.places.iter().filter_map(|place| table.runs.get(*place)) {
            if let Some(score) = run.test {
                let interval = run.n_test.map(|n| score_interval(score, n, LEVEL));
                found.push(FinalScore { name: run.name.clone(), score, interval, is_group: false });
            }
        }
    }
    found.truncate(MAX_FINAL_SCORES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_holds_a_score_until_it_changes() {
        let point = |(calls, best): (u64, f64)| CoursePoint { calls, cost: None, best };
        let course = [(40, 0.3), (100, 0.3), (200, 0.5), (300, 0.5)].map(point);
        let bands = score_line(&course, |point| Some(point.calls as f64));
        let corners: Vec<(f64, f64)> =
            bands.iter().flat_map(|band| &band.points).map(|(x, y, _)| (*x, *y)).collect();
        assert_eq!(corners, [(40.0, 0.3), (200.0, 0.3), (200.0, 0.5), (300.0, 0.5), (300.0, 0.5)]);
        assert!(score_line(&course, |point| point.cost).is_empty());
    }
}
