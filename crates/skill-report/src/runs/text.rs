//! A table of runs as text: cells for people, CSV and Markdown.

use super::column::difference;
use super::group::{Mean, RunGroup};
use super::{RunColumn, RunRow, RunsTable, size_in_words};
use crate::words::{csv_line, dollars, grouped, one_line, percent, seconds};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// Titles and rows of a table for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextTable {
    /// The titles, each with whether the column holds numbers.
    pub titles: Vec<(String, bool)>,
    /// The rows, with a cell for each title.
    pub rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Without the columns that hold nothing.
    pub(crate) fn filled(self) -> Self {
        let is_filled: Vec<bool> = (0..self.titles.len())
            .map(|place| self.rows.iter().any(|row| row.get(place).is_some_and(|cell| !cell.is_empty())))
            .collect();
        let kept = |place: usize| place == 0 || is_filled.get(place).copied().unwrap_or_default();
        let keep = |row: Vec<String>| {
            row.into_iter().enumerate().filter(|(place, _)| kept(*place)).map(|(_, cell)| cell).collect()
        };
        let titles = self.titles.into_iter().enumerate();
        Self {
            titles: titles.filter(|(place, _)| kept(*place)).map(|(_, title)| title).collect(),
            rows: self.rows.into_iter().map(keep).collect(),
        }
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &mut dyn Iterator<Item = String>| {
            let cells: Vec<String> = cells.map(|cell| in_markdown(&cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&mut self.titles.iter().map(|(title, _)| title.clone()));
        text.push_str(&line(
            &mut self.titles.iter().map(|(_, is_number)| if *is_number { "---:" } else { "---" }.to_owned()),
        ));
        for row in &self.rows {
            text.push_str(&line(&mut row.iter().cloned()));
        }
        text
    }
}

impl RunsTable {
    /// The runs as a table for people.
    pub fn run_cells(&self) -> TextTable {
        let columns: Vec<RunColumn> =
            self.columns().into_iter().filter(|column| column.is_for_people).collect();
        let titles = columns.iter().map(|column| (column.name.replace('_', " "), column.is_number));
        let row = |run: &RunRow| columns.iter().map(|column| column.words(run)).collect();
        TextTable { titles: titles.collect(), rows: self.runs.iter().map(row).collect() }.filled()
    }

    /// The groups as a table for people; without rows unless there are several, or one of several runs.
    pub fn group_cells(&self) -> TextTable {
        let titles = [
            ("group", false),
            ("runs", true),
            ("seeds", false),
            ("test before", true),
            ("test", true),
            ("gain", true),
            ("versus first", true),
            ("paired by", false),
            ("validation", true),
            ("calls", true),
            ("cost", true),
            ("time", true),
        ];
        let titles = titles.map(|(title, is_number)| (title.to_owned(), is_number)).to_vec();
        let says_more = self.groups.iter().any(|group| group.runs.len() > 1);
        let groups = if says_more { self.groups.as_slice() } else { &[] };
        TextTable { titles, rows: groups.iter().map(group_row).collect() }.filled()
    }

    /// What the cells of [`Self::run_cells`] are sorted by: numbers as numbers.
    pub(crate) fn sort_keys(&self) -> Vec<Vec<String>> {
        let cells = self.run_cells();
        let columns: Vec<RunColumn> = self.columns().into_iter().filter(|of| of.is_for_people).collect();
        let shown: Vec<&RunColumn> = cells
            .titles
            .iter()
            .filter_map(|(title, _)| columns.iter().find(|column| column.name.replace('_', " ") == *title))
            .collect();
        let row = |run: &RunRow| shown.iter().map(|column| plain(&column.value(run))).collect();
        self.runs.iter().map(row).collect()
    }

    /// Cautions about single runs, one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let read = || self.runs.iter().filter(|run| run.problem.is_none());
        let of_all: Vec<&String> = match read().next() {
            Some(first) if self.runs.len() > 1 => {
                let notes = first.notes.iter();
                notes.filter(|note| read().all(|run| run.notes.contains(note))).collect()
            }
            Some(_) | None => Vec::new(),
        };
        let all = of_all.iter().map(|note| format!("all runs: {}", one_line(note)));
        let single = self.runs.iter().filter_map(|run| {
            let notes: Vec<&str> =
                run.notes.iter().filter(|note| !of_all.contains(note)).map(String::as_str).collect();
            let words = format!("{}: {}", one_line(&run.name), one_line(&notes.join("; ")));
            (!notes.is_empty()).then_some(words)
        });
        all.chain(single).collect()
    }

    /// The table as CSV, a line for each run: all columns, numbers as they are.
    pub fn csv(&self) -> String {
        let columns = self.columns();
        let mut text = csv_line(columns.iter().map(|column| column.name.as_str()));
        for run in &self.runs {
            let cells: Vec<String> = columns.iter().map(|column| plain(&column.value(run))).collect();
            text.push_str(&csv_line(cells.iter().map(String::as_str)));
        }
        text
    }

    /// The table as Markdown: groups, runs and remarks.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let groups = self.group_cells();
        if !groups.rows.is_empty() {
            let _ = writeln!(text, "{}", groups.markdown());
        }
        text.push_str(&self.run_cells().markdown());
        let remarks = self.remarks();
        if !remarks.is_empty() {
            text.push('\n');
        }
        for remark in remarks {
            let _ = writeln!(text, "- {}", in_markdown(&remark));
        }
        text
    }

    /// The numbers of runs and groups as text.
    pub fn size(&self) -> String {
        size_in_words(self)
    }
}

/// Text of a cell with the column separator and HTML escaped.
fn in_markdown(text: &str) -> String {
    one_line(text).replace('|', "\\|").replace('<', "&lt;")
}

/// A value as the cell of a file: empty for none.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => super::in_words(other),
    }
}

fn share(mean: Option<Mean>) -> String {
    let Some(Mean { mean, interval, .. }) = mean else { return String::new() };
    match interval {
        Some([low, high]) => format!("{} ({:.1} to {:.1})", percent(mean), 100.0 * low, 100.0 * high),
        None => percent(mean),
    }
}

fn group_row(group: &RunGroup) -> Vec<String> {
    let of = |mean: Option<Mean>, words: fn(f64) -> String| mean.map(|of| words(of.mean)).unwrap_or_default();
    let versus = group.versus_first.as_ref();
    let seeds: Vec<String> = group.seeds.iter().map(u64::to_string).collect();
    vec![
        one_line(&group.name),
        grouped(group.runs.len() as u64),
        seeds.join(" "),
        share(group.test_before),
        share(group.test),
        group.gain.map(|gain| difference(gain.mean, gain.interval)).unwrap_or_default(),
        versus.map(|versus| difference(versus.difference, versus.interval)).unwrap_or_default(),
        versus.map(|versus| format!("{} ({})", versus.paired_by.as_str(), versus.n)).unwrap_or_default(),
        share(group.validation),
        of(group.calls, |calls| grouped(calls.round() as u64)),
        of(group.cost, dollars),
        of(group.seconds, seconds),
    ]
}
