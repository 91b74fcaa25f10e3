//! The table: what was measured beside what is to be reached.

use crate::calls::CallsReport;
use crate::measure::{EngineReports, LATENCY_MS, Measured, PROMPT_BYTES, Rates, TRAINING_IN_FLIGHT};
use crate::plan::Plan;
use crate::row::{Goal, Row, Unit, median};
use crate::training::TrainReport;
use crate::{runs, worlds};
use std::fmt::Write as _;

/// The table as Markdown.
pub(crate) fn markdown(machine: &str, plan: &Plan, measured: &Measured) -> String {
    let mut text = format!("{machine}; {} repetitions in turn, medians", plan.repetitions);
    if measured.engine.is_some() {
        // Writing to a string cannot fail.
        write!(
            text,
            "; {} rounds of calls after {} to warm up; replies take {LATENCY_MS} ms, prompts have {PROMPT_BYTES} bytes",
            plan.rounds, plan.warm_up_rounds,
        )
        .unwrap_or_default();
    }
    text.push_str(".\n\n| what | goal | value | | beside it |\n|---|---|---|---|---|\n");
    let engine = measured.engine.iter().flat_map(|engine| rows(plan, engine));
    let worlds = measured.worlds.iter().flat_map(worlds::rows);
    let runs = measured.runs.iter().flat_map(runs::rows);
    for row in engine.chain(worlds).chain(runs) {
        writeln!(text, "{}", row.markdown()).unwrap_or_default();
    }
    text
}

fn rows(plan: &Plan, measured: &EngineReports) -> Vec<Row> {
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

fn cpu(measured: &EngineReports) -> Vec<Row> {
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

fn memory(plan: &Plan, measured: &EngineReports) -> Row {
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

fn training(measured: &EngineReports) -> Vec<Row> {
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

fn shares(measured: &EngineReports) -> Vec<Row> {
    let row = |share: &crate::measure::Share| Row {
        what: format!("share of validation calls that are started, {} in flight", share.in_flight),
        goal: Goal::AtMost(if share.in_flight == 1 { 25.0 } else { 32.0 }),
        unit: Unit::Percent,
        value: share.started as f64 / share.possible.max(1) as f64 * 100.0,
        more: format!("{} of {} for {} candidates", share.started, share.possible, share.candidates),
    };
    measured.shares.iter().map(row).collect()
}

fn journal(measured: &EngineReports) -> Vec<Row> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_those_of_each_turn() {
        assert_eq!(ratio(&[2.0, 9.0, 3.0], &[1.0, 3.0, 1.0], |number| *number), 3.0);
    }
}
