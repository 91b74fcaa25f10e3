//! The rows of large runs.

use super::evaluation::{ITEM_BYTES, WORKERS};
use super::{RunReports, Timed, Took};
use crate::row::{Goal, Row, Unit, median};

/// What is in the place of a figure that a browser gives.
const NO_BROWSER: &str = "there is no `python3` or no Chromium";

/// What was measured beside what is to be reached.
pub(crate) fn rows(reports: &RunReports) -> Vec<Row> {
    let row = |what: String, goal, unit, value, more| Row { what, goal, unit, value, more };
    let mut rows = vec![
        timed(
            &format!("report of a run of 40 steps and {} rollouts", reports.n_rollouts),
            Goal::AtMost(2.0),
            &reports.report,
        ),
        row(
            "its page".to_owned(),
            Goal::AtMost(2.0),
            Unit::MillionBytes,
            reports.page_bytes as f64 / 1e6,
            "grows with neither steps nor rollouts beyond its caps".to_owned(),
        ),
        row(
            "its page opens in a headless Chromium".to_owned(),
            Goal::AtMost(1.0),
            Unit::Seconds,
            median(reports.opens.iter().copied()),
            if reports.opens.is_empty() { NO_BROWSER } else { "until `load`, in a new window" }.to_owned(),
        ),
        row(
            "`skillrl --help`".to_owned(),
            Goal::AtMost(20.0),
            Unit::Milliseconds,
            median(reports.help.iter().map(|took| took.seconds * 1e3)),
            memory(&reports.help),
        ),
    ];
    let took = reports.evaluation.took.iter();
    let memory_of = median(took.clone().map(|took| took.peak_memory as f64 / 1e6));
    let seconds = median(took.map(|took| took.seconds));
    rows.push(row(
        format!(
            "`eval --out` of {} items of {:.1} kB, {} calls in flight: memory",
            reports.evaluated_items,
            ITEM_BYTES as f64 / 1e3,
            WORKERS
        ),
        Goal::AtMost(90.0),
        Unit::Megabytes,
        memory_of,
        format!("the most; {seconds:.1} s"),
    ));
    if let Some(serve) = &reports.serve {
        let [list, metrics, run] = serve.first_bytes.map(|seconds| seconds * 1e3);
        rows.push(row(
            "`serve` with 100 runs: memory".to_owned(),
            Goal::AtMost(50.0),
            Unit::Megabytes,
            serve.peak_memory as f64 / 1e6,
            "the most, after 700 requests".to_owned(),
        ));
        for (what, value) in [("list", list), ("metrics", metrics), ("page of a run", run)] {
            let what = format!("`serve` with 100 runs: first byte of the {what}");
            rows.push(row(what, Goal::AtMost(10.0), Unit::Milliseconds, value, String::new()));
        }
    }
    let many = reports.of_many.iter();
    rows.extend(many.map(|measured| {
        timed(&format!("{} steps: `{}`", reports.many_steps, measured.what), Goal::AtMost(5.0), measured)
    }));
    let journal = reports.of_journal.iter();
    rows.extend(journal.map(|measured| {
        let what = format!("journal of {} MB: `{}`", reports.journal_bytes / 1_000_000, measured.what);
        timed(&what, Goal::None, measured)
    }));
    rows
}

fn timed(what: &str, goal: Goal, measured: &Timed) -> Row {
    Row {
        what: what.to_owned(),
        goal,
        unit: Unit::Seconds,
        value: median(measured.took.iter().map(|took| took.seconds)),
        more: memory(&measured.took),
    }
}

fn memory(took: &[Took]) -> String {
    let peak = took.iter().map(|took| took.peak_memory).max().unwrap_or(0);
    format!("at most {:.0} MB of memory", peak as f64 / 1e6)
}
