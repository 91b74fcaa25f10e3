//! The curves of a run.

use crate::data::rl::{RL_METRICS, RlMetric, RlReport, RlTaskType};
use crate::data::sft::SftReport;
use skill_pipeline::records::bank::RoundRecord;
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::records::sft::{SftGames, SftStep};

/// How the points of a series are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// A line: there is a point for nearly every step.
    Line,
    /// Each point has a mark: something was measured there.
    Marks,
}

/// A number over the steps of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: &'static str,
    /// How it is shown.
    pub look: Look,
    /// Steps with their numbers, in order.
    pub points: Vec<(u64, f64)>,
}

/// Numbers over the steps of a run in one picture.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows.
    pub name: &'static str,
    /// What is to be known of it.
    pub caption: &'static str,
    /// What its steps are called.
    pub unit: &'static str,
    /// The last step that has room.
    pub last: u64,
    /// True for shares, which are drawn from 0 to 1.
    pub is_share: bool,
    /// The greatest number that there is: 1 for shares, which need not be drawn from 0 to 1.
    pub most: f64,
    /// True for numbers that are shown as percent.
    pub is_percent: bool,
    /// Its numbers.
    pub series: Vec<Series>,
    /// Games won, with the step after which they were played.
    pub games: Vec<(u64, SftGames)>,
}

/// Numbers that are closer are written with an exponent.
const LEAST_DECIMAL: f64 = 1e-4;
/// The most digits behind the point.
const MAX_DECIMALS: f64 = 4.0;

impl Chart {
    fn of(name: &'static str, unit: &'static str, last: u64) -> Self {
        let (series, games) = (Vec::new(), Vec::new());
        let most = f64::INFINITY;
        Self {
            name,
            caption: "",
            unit,
            last: last.max(1),
            is_share: false,
            most,
            is_percent: false,
            series,
            games,
        }
    }

    /// A share that is drawn as large as it is.
    fn of_share(self) -> Self {
        Self { most: 1.0, is_percent: true, ..self }
    }

    fn with(mut self, name: &'static str, look: Look, points: impl IntoIterator<Item = (u64, f64)>) -> Self {
        self.series.push(Series { name, look, points: points.into_iter().collect() });
        self
    }

    fn said(self, caption: &'static str) -> Self {
        Self { caption, ..self }
    }

    /// The shares of games won, by step.
    pub fn games_won(&self) -> impl Iterator<Item = (u64, f64)> {
        self.games.iter().map(|(step, games)| (*step, games.won as f64 / games.played.max(1) as f64))
    }

    /// The least and the greatest number that have room; `None` without a point.
    pub fn bounds(&self) -> Option<[f64; 2]> {
        let values = self.series.iter().flat_map(|series| &series.points).map(|(_, value)| *value);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
        if self.is_share {
            return Some([0.0, 1.0]);
        }
        // A flat line is drawn in the middle, and one at 0 on the ground.
        let room = match (high > low, high == 0.0) {
            (true, _) => (high - low) * 0.05,
            (false, true) => 1.0,
            (false, false) => high.abs() * 0.5,
        };
        let floor = if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY };
        (low <= high).then(|| [(low - room).max(floor), (high + room).min(self.most)])
    }

    /// A number of its axis in words, as exactly as numbers that are so far apart need.
    pub fn words(&self, value: f64, distance: f64) -> String {
        let (value, distance, unit) =
            if self.is_percent { (100.0 * value, 100.0 * distance, " %") } else { (value, distance, "") };
        // An axis has no negative zero.
        let value = if value.abs() < distance / 1e6 { 0.0 } else { value };
        if distance < LEAST_DECIMAL && value != 0.0 {
            return format!("{value:.1e}{unit}");
        }
        let n_decimals = (-distance.log10().floor()).clamp(0.0, MAX_DECIMALS) as usize;
        let n_decimals = if distance < LEAST_DECIMAL { 0 } else { n_decimals };
        format!("{value:.n_decimals$}{unit}")
    }

    fn has_points(&self) -> bool {
        !self.games.is_empty() || self.series.iter().any(|series| !series.points.is_empty())
    }
}

const GAMES: &str = "Games of the validation split, played greedily. Bars are 95 % intervals (Wilson).";

/// The score of the current skill of a run that trains a document.
pub(super) fn of_document(history: &[StepRecord], total_steps: Option<u32>) -> Vec<Chart> {
    let last = history.last().map_or(0, |record| record.step.0).max(total_steps.unwrap_or_default());
    let scores = history.iter().map(|record| (u64::from(record.step.0), record.current_score));
    let chart = Chart::of("score of the current skill", "step", last.into());
    shown([Chart { is_share: true, ..chart.of_share().with("score", Look::Line, scores) }])
}

/// The score of a bank after each round that was measured.
pub(super) fn of_bank(rounds: &[RoundRecord], total_rounds: Option<u32>) -> Vec<Chart> {
    let last = rounds.last().map_or(0, |record| record.round).max(total_rounds.unwrap_or_default());
    let scores =
        rounds.iter().filter_map(|round| Some((round.round.into(), round.validation.as_ref()?.score.hard)));
    let chart = Chart::of("score of each validation", "round", last.into());
    shown([Chart { is_share: true, ..chart.of_share().with("score", Look::Line, scores) }])
}

impl SftReport {
    /// The curves of the run by step; those without a point are left out.
    pub fn charts(&self) -> Vec<Chart> {
        let last = self.brief.step.max(self.brief.total_steps.unwrap_or_default());
        let chart = |name| Chart::of(name, "step", last);
        let of = |value: fn(&SftStep) -> f64| self.steps.iter().map(move |step| (step.step, value(step)));
        let validation = self.validations.iter().filter_map(|found| Some((found.step, found.loss?)));
        let games = self.validations.iter().filter_map(|found| Some((found.step, found.games?)));
        shown([
            chart("Loss by step")
                .said("Mean cross-entropy of the learnt tokens, in nats. Line: training, before each step. Dashed line with circles: validation part.")
                .with("training", Look::Line, of(|step| step.loss))
                .with("validation", Look::Marks, validation),
            Chart { games: games.collect(), is_share: true, ..chart("Games won by step").of_share().said(GAMES) },
            chart("Learning rate by step")
                .with("learning rate", Look::Line, of(|step| step.learning_rate)),
            chart("Norm of the gradient by step")
                .said("Before clipping.")
                .with("norm", Look::Line, of(|step| step.grad_norm)),
        ])
    }
}

impl RlReport {
    /// The curves of the run by iteration; those without a point are left out.
    pub fn charts(&self) -> Vec<Chart> {
        let of = |metric: &RlMetric| {
            let points =
                self.iterations.iter().filter_map(|row| Some((row.record.iteration, metric.value(row)?)));
            let title = metric.title?;
            let chart = self.chart(title).said(metric.about).with(title, Look::Line, points);
            Some(if metric.is_share() { chart.of_share() } else { chart })
        };
        let mut charts: Vec<Chart> = RL_METRICS.iter().filter_map(of).collect();
        let games = self.validations.iter().map(|found| (found.iteration, found.games));
        let games = Chart {
            games: games.collect(),
            is_share: true,
            ..self.chart("Games won by iteration").of_share().said(GAMES)
        };
        // Beside the episodes that the policy samples.
        charts.insert(charts.len().min(2), games);
        charts.retain(Chart::has_points);
        charts
    }

    /// The share of won episodes of a type of task by iteration.
    pub(crate) fn chart_of_type(&self, task_type: &RlTaskType) -> Chart {
        self.chart("Episodes won").of_share().with("won", Look::Line, task_type.won.iter().copied())
    }

    fn chart(&self, name: &'static str) -> Chart {
        let last = self.brief.total_iterations.unwrap_or_default().max(self.brief.iteration);
        Chart::of(name, "iteration", last)
    }
}

fn shown<const N: usize>(charts: [Chart; N]) -> Vec<Chart> {
    charts.into_iter().filter(Chart::has_points).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_axis_have_the_digits_that_tell_them_apart() {
        let plain = Chart::of("", "step", 1);
        let share = Chart::of("", "step", 1).of_share();
        for (value, distance, number, percent) in [
            (0.2, 0.2, "0.2", "20 %"),
            (0.156, 0.002, "0.156", "15.6 %"),
            (-0.05, 0.05, "-0.05", "-5 %"),
            (200.0, 50.0, "200", "20000 %"),
            (0.0, 0.5, "0.0", "0 %"),
            (-1e-18, 0.5, "0.0", "0 %"),
            (2e-5, 1e-5, "2.0e-5", "0.002 %"),
            (0.0, 1e-5, "0", "0.000 %"),
        ] {
            assert_eq!(plain.words(value, distance), number);
            assert_eq!(share.words(value, distance), percent);
        }
    }
}
