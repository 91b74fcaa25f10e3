//! The table: what was measured beside what is to be reached.

use crate::calls::CallsReport;
use crate::measure::{LATENCY_MS, Measured, PROMPT_BYTES, Plan, Rates, TRAINING_IN_FLIGHT};
use crate::training::TrainReport;
use std::fmt::Write as _;

/// Which side of a goal is good.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Shown for comparison.
    None,
}

/// A number in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Ratio,
    Milliseconds,
    Megabytes,
    Percent,
    Seconds,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.3}"),
            Self::Milliseconds => format!("{value:.3} ms"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::Percent => format!("{value:.1} %"),
            Self::Seconds => format!("{value:.2} s"),
        }
    }
}

struct Row {
    what: String,
    goal: Goal,
    unit: Unit,
    value: f64,
    more: String,
}

impl Row {
    fn markdown(&self) -> String {
        let goal = match self.goal {
            Goal::AtLeast(goal) => format!(">= {}", self.unit.show(goal)),
            Goal::AtMost(goal) => format!("<= {}", self.unit.show(goal)),
            Goal::None => String::new(),
        };
        let mark = mark(self.goal, self.value);
        format!("| {} | {goal} | {} | {mark} | {} |", self.what, self.unit.show(self.value), self.more)
    }
}

/// Whether a goal is reached, and if not, by how much it is missed.
fn mark(goal: Goal, value: f64) -> String {
    let missed_by = match goal {
        Goal::AtLeast(goal) if value < goal => (goal - value) / goal,
        Goal::AtMost(goal) if value > goal => (value - goal) / goal,
        Goal::AtLeast(_) | Goal::AtMost(_) => return "reached".to_owned(),
        Goal::None => return String::new(),
    };
    format!("**missed by {:.0} %**", (missed_by * 100.0).max(1.0))
}

/// The table as Markdown.
pub(crate) fn markdown(machine: &str, plan: &Plan, measured: &Measured) -> String {
    let mut text = format!(
        "{machine}; {} repetitions in turn, medians; {} rounds of calls after {} to warm up; replies take {LATENCY_MS} ms, prompts have {PROMPT_BYTES} bytes.\n\n",
        plan.repetitions, plan.rounds, plan.warm_up_rounds,
    );
    text.push_str("| what | goal | value | | beside it |\n|---|---|---|---|---|\n");
    for row in rows(plan, measured) {
        // Writing to a string cannot fail.
        writeln!(text, "{}", row.markdown()).unwrap_or_default();
    }
    text
}

fn rows(plan: &Plan, measured: &Measured) -> Vec<Row> {
    let mut rows: Vec<Row> = measured.rates.iter().map(rate).collect();
    rows.extend(cpu(measured));
    rows.push(memory(plan, measured));
    rows.extend(training(measured));
    rows.extend(shares(measured));
    rows.extend(journal(measured));
    rows
}

fn rate(rates: &Rates) -> Row {
    let goal = if rates.in_flight > 64 { 0.9 } else { 0.97 };
    let [bare, layers, journal] = &rates.reports;
    let per_second = |reports: &[CallsReport]| median(reports.iter().map(|report| report.rate));
    let limit = f64::from(rates.in_flight) * 1e3 / LATENCY_MS as f64;
    Row {
        what: format!("calls per second at {} in flight, against the bare loop", rates.in_flight),
        goal: Goal::AtLeast(goal),
        unit: Unit::Ratio,
        value: ratio(journal, bare, |report| report.rate),
        more: format!(
            "{:.0} calls/s; without the journal {:.0}; bare {:.0} = {:.0} % of the limit",
            per_second(journal),
            per_second(layers),
            per_second(bare),
            per_second(bare) / limit * 100.0,
        ),
    }
}

fn cpu(measured: &Measured) -> Vec<Row> {
    let row = |rates: &Rates| {
        let [bare, layers, journal] =
            rates.reports.each_ref().map(|reports| median(reports.iter().map(|report| report.cpu_ms)));
        Row {
            what: format!("processor time per call at {} in flight, journal on", rates.in_flight),
            goal: Goal::AtMost(0.2),
            unit: Unit::Milliseconds,
            value: journal,
            more: format!("without the journal {layers:.3} ms; bare {bare:.3} ms"),
        }
    };
    measured.rates.iter().map(row).collect()
}

fn memory(plan: &Plan, measured: &Measured) -> Row {
    let [bare, journal] = measured.wide.map(|report| report.peak_memory as f64 / 1e6);
    Row {
        what: format!("peak memory at {} in flight, journal on", plan.wide),
        goal: Goal::AtMost(100.0),
        unit: Unit::Megabytes,
        value: journal,
        more: format!(
            "bare {bare:.0} MB; the server saw {} at a time; replies take 1 s here",
            measured.wide_in_flight
        ),
    }
}

fn critical_path_s(report: &TrainReport) -> f64 {
    report.waves as f64 * LATENCY_MS as f64 / 1e3
}

fn training(measured: &Measured) -> Vec<Row> {
    let [on_disk, _, in_memory] = &measured.training;
    let Some(first) = on_disk.first() else { return Vec::new() };
    let seconds = median(on_disk.iter().map(|report| report.seconds));
    let row = |what: &str, goal, unit, value, more| Row { what: what.to_owned(), goal, unit, value, more };
    vec![
        row(
            "one epoch of training, against its critical path",
            Goal::AtMost(1.1),
            Unit::Ratio,
            median(on_disk.iter().map(|report| report.seconds / critical_path_s(report))),
            format!(
                "{} waves of at most {TRAINING_IN_FLIGHT} calls = {:.2} s; with the run directory in memory {:.3}",
                first.waves,
                critical_path_s(first),
                median(in_memory.iter().map(|report| report.seconds / critical_path_s(report))),
            ),
        ),
        row(
            "one epoch of training",
            Goal::None,
            Unit::Seconds,
            seconds,
            format!(
                "{} calls, {} of {} candidates accepted, {:.2} s of processor time; the Python reference: 18.3 s, 1689 calls; a small Rust port: 6.1 s, 2657 calls",
                first.calls,
                first.accepted,
                first.candidates,
                median(on_disk.iter().map(|report| report.cpu_s)),
            ),
        ),
    ]
}

fn shares(measured: &Measured) -> Vec<Row> {
    let row = |share: &crate::measure::Share| Row {
        what: format!("share of validation calls that are started, {} in flight", share.in_flight),
        goal: Goal::AtMost(if share.in_flight == 1 { 25.0 } else { 32.0 }),
        unit: Unit::Percent,
        value: share.started as f64 / share.possible.max(1) as f64 * 100.0,
        more: format!("{} of {} for {} candidates", share.started, share.possible, share.candidates),
    };
    measured.shares.iter().map(row).collect()
}

fn journal(measured: &Measured) -> Vec<Row> {
    let slowdown = |what: &str, value: f64, more: String| Row {
        what: format!("journal: slowdown of {what}"),
        goal: Goal::AtMost(5.0),
        unit: Unit::Percent,
        value: (value - 1.0) * 100.0,
        more,
    };
    let [on_disk, in_memory, _] = &measured.training;
    let seconds = |reports: &[TrainReport]| median(reports.iter().map(|report| report.seconds));
    let mut rows = Vec::new();
    if let Some(rates) = measured.rates.iter().find(|rates| rates.in_flight == TRAINING_IN_FLIGHT) {
        let [_, layers, journal] = &rates.reports;
        rows.push(slowdown(
            &format!("calls at {TRAINING_IN_FLIGHT} in flight"),
            ratio(layers, journal, |report| report.rate),
            "against the same layers without a journal".to_owned(),
        ));
    }
    rows.push(slowdown(
        "the training run by its disk",
        ratio(on_disk, in_memory, |report| report.seconds),
        format!("against a journal in memory: {:.2} s and {:.2} s", seconds(on_disk), seconds(in_memory)),
    ));
    rows
}

/// The median of the ratios of what was measured in turn.
fn ratio<Report>(of: &[Report], to: &[Report], number: impl Fn(&Report) -> f64) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| number(of) / number(to)))
}

/// The middle one, or the mean of the two in the middle; of nothing it is no number.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = |idx: usize| sorted.get(idx).copied().unwrap_or(f64::NAN);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => middle(n / 2),
        n => f64::midpoint(middle(n / 2 - 1), middle(n / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_mark(goal: Goal, value: f64, expect: &str) {
        assert_eq!(mark(goal, value), expect, "{goal:?} {value}");
    }

    #[test]
    fn a_missed_goal_says_by_how_much() {
        check_mark(Goal::AtLeast(0.9), 0.9, "reached");
        check_mark(Goal::AtLeast(0.9), 0.45, "**missed by 50 %**");
        check_mark(Goal::AtMost(100.0), 99.9, "reached");
        check_mark(Goal::AtMost(100.0), 125.0, "**missed by 25 %**");
        check_mark(Goal::AtMost(100.0), 100.1, "**missed by 1 %**");
        check_mark(Goal::None, 1.0, "");
    }

    #[test]
    fn medians_and_ratios() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median(std::iter::empty()).is_nan());
        assert_eq!(ratio(&[2.0, 9.0, 3.0], &[1.0, 3.0, 1.0], |number| *number), 3.0);
    }

    #[test]
    fn a_row_is_a_line_of_the_table() {
        let row = Row {
            what: "memory".to_owned(),
            goal: Goal::AtMost(100.0),
            unit: Unit::Megabytes,
            value: 50.4,
            more: "bare 40 MB".to_owned(),
        };
        assert_eq!(row.markdown(), "| memory | <= 100 MB | 50 MB | reached | bare 40 MB |");
    }
}
