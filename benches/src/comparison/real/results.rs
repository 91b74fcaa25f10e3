//! One row for each search in real tasks, and the table of them.

use super::{RealTasks, planted::Intent};
use crate::comparison::results::{Found, Search};
use crate::comparison::statistics::Mean;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of the row of the initial skill.
pub const INITIAL: &str = "initial";

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RealRow {
    /// Which benchmark.
    pub task: String,
    /// The model that does the tasks.
    pub model: String,
    /// Which tasks, and which replies of the optimizer.
    pub seed: u64,
    /// The search and its calls; the system is `initial` for the initial skill.
    #[serde(flatten)]
    pub search: Search,
    /// The skill.
    pub skill: String,
    /// Helpful, harmful and neutral planted lines of the skill.
    pub lines: [usize; 3],
    /// Whether the target solves each held-out task with it.
    pub outcomes: Vec<bool>,
}

impl RealRow {
    /// A row without outcomes.
    pub(crate) fn new(tasks: &RealTasks, seed: u64, of: [&str; 2], found: Found) -> Self {
        let n_lines = |wanted: Intent| {
            let planted = tasks.task.planted().iter().filter(|(intent, _)| *intent == wanted);
            planted.filter(|(_, text)| found.skill.contains(text)).count()
        };
        Self {
            task: tasks.task.as_str().to_owned(),
            model: tasks.target.model.clone(),
            seed,
            search: Search::of(of, &found),
            lines: [Intent::Helpful, Intent::Harmful, Intent::Neutral].map(n_lines),
            outcomes: Vec::new(),
            skill: found.skill,
        }
    }

    /// The row of the skill that all searches begin with.
    pub fn initial(tasks: &RealTasks, seed: u64) -> Self {
        let skill = tasks.task.initial_skill().to_owned();
        let found = Found { skill, cap: 0, counts: Default::default(), seconds: 0.0 };
        Self::new(tasks, seed, [INITIAL, ""], found)
    }

    /// True if this is the result of such a search.
    pub fn is_of(&self, task: &str, model: &str, seed: u64, [system, version]: [&str; 2]) -> bool {
        [&*self.task, &*self.model] == [task, model]
            && self.seed == seed
            && self.search.is_of(system, version)
    }

    fn score(&self) -> f64 {
        Mean::of(&self.numbers()).mean
    }

    fn numbers(&self) -> Vec<f64> {
        self.outcomes.iter().map(|is_right| f64::from(u8::from(*is_right))).collect()
    }
}

/// A table for each benchmark: score, paired gain over the initial skill, calls and planted lines.
///
/// Intervals are of 95 %, over items; several seeds of a system are pooled.
pub fn tables(rows: &[RealRow]) -> String {
    let mut of_task: BTreeMap<[&str; 2], Vec<&RealRow>> = BTreeMap::new();
    for row in rows {
        of_task.entry([&row.task, &row.model]).or_default().push(row);
    }
    let mut text = String::new();
    for ([task, model], rows) in of_task {
        let _ = write!(
            text,
            "**{task}**, {model}\n\n\
             | search | seeds | score | gain over the initial skill | calls | helpful, harmful, neutral lines |\n\
             |---|---:|---:|---:|---:|---:|\n"
        );
        let mut systems: Vec<[&str; 2]> = Vec::new();
        for row in &rows {
            if !systems.contains(&[&row.search.system, &row.search.version]) {
                systems.push([&row.search.system, &row.search.version]);
            }
        }
        for [system, version] in systems {
            let own: Vec<&RealRow> =
                rows.iter().filter(|row| row.search.is_of(system, version)).copied().collect();
            let n = own.len() as f64;
            let mean = |number: fn(&RealRow) -> f64| own.iter().map(|row| number(row)).sum::<f64>() / n;
            let [help, harm, nothing] =
                [0, 1, 2].map(|at| own.iter().filter_map(|row| row.lines.get(at)).sum::<usize>() as f64 / n);
            let gains: Vec<f64> = own.iter().flat_map(|row| gains(row, &rows)).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {:.1} | {} | {:.0} | {help:.1}, {harm:.1}, {nothing:.1} |",
                [system, version].join(" ").trim(),
                own.len(),
                100.0 * mean(RealRow::score),
                if gains.is_empty() || system == INITIAL { String::new() } else { Mean::of(&gains).points() },
                mean(|row| row.search.calls() as f64),
            );
        }
        text.push('\n');
    }
    text
}

/// The differences to the initial skill, item by item.
fn gains(row: &RealRow, rows: &[&RealRow]) -> Vec<f64> {
    let initial = rows.iter().find(|other| other.search.system == INITIAL && other.seed == row.seed);
    let Some(initial) = initial else { return Vec::new() };
    row.numbers().iter().zip(initial.numbers()).map(|(own, before)| own - before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::results::search;

    #[test]
    fn gains_are_paired_by_item() {
        let row = |system: &str, outcomes: &[bool]| RealRow {
            task: "chain-sum".to_owned(),
            model: "m".to_owned(),
            seed: 0,
            search: search(system),
            skill: String::new(),
            lines: [1, 0, 2],
            outcomes: outcomes.to_vec(),
        };
        let rows = [
            row(INITIAL, &[false, true, false, false]),
            row("auto", &[true, true, true, false]),
            row("gepa", &[true, false, false, false]),
        ];
        let text = tables(&rows);
        let cells = |system: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.contains(system)).unwrap_or_default();
            line.split('|').map(|cell| cell.trim().to_owned()).skip(2).take(4).collect()
        };
        assert_eq!(cells("auto"), ["1", "75.0", "+50.0 ± 56.6", "90"]);
        assert_eq!(cells("gepa")[..2], ["1", "25.0"]);
    }
}
