//! The columns of a table of runs: one list for CSV files, tables for people, pages and data frames.

use super::{MAX_SETTING_CHARACTERS, RunRow, RunsTable, in_words};
use crate::data::conversation::clip;
use crate::words::{dollars, grouped, one_line, percent, seconds, utc};
use serde_json::Value;

/// A column of a table of runs.
#[derive(Debug, Clone)]
pub struct RunColumn {
    /// Its name: that of a field, or of a setting.
    pub name: String,
    /// True if its cells are numbers.
    pub is_number: bool,
    /// True if tables for people have it; files have all columns.
    pub is_for_people: bool,
    cell: Cell,
}

#[derive(Debug, Clone)]
enum Cell {
    Setting,
    Field(fn(&RunRow) -> Value, fn(&RunRow) -> String),
}

impl RunColumn {
    /// The value of a run; null where it has none.
    pub fn value(&self, run: &RunRow) -> Value {
        match self.cell {
            Cell::Setting => run.settings.get(&self.name).cloned().unwrap_or_default(),
            Cell::Field(value, _) => value(run),
        }
    }

    /// The same in words for people; empty where it has none.
    pub fn words(&self, run: &RunRow) -> String {
        match self.cell {
            Cell::Setting if run.problem.is_some() => String::new(),
            Cell::Setting => clip(&one_line(&in_words(&self.value(run))), MAX_SETTING_CHARACTERS),
            Cell::Field(_, words) => words(run),
        }
    }
}

/// A score with its interval.
fn score(score: Option<f64>, interval: Option<[f64; 2]>) -> String {
    match (score, interval) {
        (Some(score), Some([low, high])) => {
            format!("{} ({:.1} to {:.1})", percent(score), 100.0 * low, 100.0 * high)
        }
        (Some(score), None) => percent(score),
        (None, _) => String::new(),
    }
}

/// A difference of scores in points with its interval.
pub(super) fn difference(difference: f64, interval: Option<[f64; 2]>) -> String {
    let interval = interval.map(|[low, high]| format!(" ({:+.1} to {:+.1})", 100.0 * low, 100.0 * high));
    format!("{:+.1}{}", 100.0 * difference, interval.unwrap_or_default())
}

/// The cost of a run as text.
fn cost(run: &RunRow) -> String {
    match run.cost {
        Some(cost) => dollars(cost),
        None if run.is_replay => "replay".to_owned(),
        None => String::new(),
    }
}

fn end(interval: Option<[f64; 2]>, is_high: bool) -> Value {
    interval.map(|[low, high]| if is_high { high } else { low }).into()
}

/// The columns that some run fills, in their order.
pub(super) fn columns(table: &RunsTable) -> Vec<RunColumn> {
    type Of = fn(&RunRow) -> Value;
    type Words = fn(&RunRow) -> String;
    let nothing: Words = |_| String::new();
    let text = |name: &str, of: Of, words: Words| RunColumn {
        name: name.to_owned(),
        is_number: false,
        is_for_people: true,
        cell: Cell::Field(of, words),
    };
    let number = |name: &str, of: Of, words: Words| RunColumn { is_number: true, ..text(name, of, words) };
    let in_files = |name: &str, of: Of| RunColumn { is_for_people: false, ..number(name, of, nothing) };
    let name = text("run", |run| run.name.as_str().into(), |run| one_line(&run.name));
    let settings = table.settings.iter().filter(|key| *key != "run.seed").map(|key| RunColumn {
        name: key.clone(),
        is_number: false,
        is_for_people: true,
        cell: Cell::Setting,
    });
    let about = [
        in_files("path", |run| run.path.to_string_lossy().into()),
        in_files("kind", |run| run.kind.into()),
        text("state", |run| run.state.as_str().into(), |run| run.state.as_str().to_owned()),
        in_files("env", |run| run.env.as_str().into()),
        in_files("task", |run| run.problem.is_none().then_some(run.task).into()),
    ];
    let fields = [
        number("seed", |run| run.seed.into(), |run| run.seed.map(|n| n.to_string()).unwrap_or_default()),
        in_files("metric", |run| run.problem.is_none().then_some(run.metric.as_str()).into()),
        number(
            "n_test",
            |run| run.n_test.into(),
            |run| run.n_test.map(|n| grouped(n as u64)).unwrap_or_default(),
        ),
        in_files("test_before", |run| run.test_before.into()),
        number("test", |run| run.test.into(), |run| score(run.test, run.test_interval)),
        in_files("test_low", |run| end(run.test_interval, false)),
        in_files("test_high", |run| end(run.test_interval, true)),
        number(
            "gain",
            |run| run.gain.into(),
            |run| run.gain.map(|gain| difference(gain, run.gain_interval)).unwrap_or_default(),
        ),
        in_files("gain_low", |run| end(run.gain_interval, false)),
        in_files("gain_high", |run| end(run.gain_interval, true)),
        number(
            "versus_first",
            |run| run.versus_first.as_ref().map(|versus| versus.difference).into(),
            |run| {
                let versus = run.versus_first.as_ref();
                versus.map(|versus| difference(versus.difference, versus.interval)).unwrap_or_default()
            },
        ),
        in_files("versus_first_low", |run| end(run.versus_first.as_ref().and_then(|of| of.interval), false)),
        in_files("versus_first_high", |run| end(run.versus_first.as_ref().and_then(|of| of.interval), true)),
        in_files("n_validation", |run| run.n_validation.into()),
        in_files("validation_before", |run| run.validation_before.into()),
        number("validation", |run| run.validation.into(), |run| score(run.validation, None)),
        in_files("validation_low", |run| end(run.validation_interval, false)),
        in_files("validation_high", |run| end(run.validation_interval, true)),
        in_files("outcome", |run| run.outcome.map(|outcome| outcome.as_str()).into()),
        in_files("steps", |run| run.problem.is_none().then_some(run.n_steps).into()),
        in_files("accepted", |run| run.problem.is_none().then_some(run.n_accepted).into()),
        in_files("candidates", |run| run.problem.is_none().then_some(run.n_candidates).into()),
        number("calls", |run| run.calls.into(), |run| run.calls.map(grouped).unwrap_or_default()),
        in_files("tokens", |run| run.tokens.into()),
        number("cost", |run| run.cost.into(), cost),
        number("seconds", |run| run.seconds.into(), |run| run.seconds.map(seconds).unwrap_or_default()),
        in_files("started", |run| run.started_unix_ms.map(utc).into()),
        in_files("version", |run| run.version.as_deref().into()),
        in_files("notes", |run| run.notes.join("; ").into()),
    ];
    let all = std::iter::once(name).chain(about).chain(settings).chain(fields);
    all.collect()
}
