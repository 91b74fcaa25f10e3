//! One row for each search in real tasks, and the table of them.

use super::{RealTasks, planted::Meant};
use crate::comparison::results::Found;
use crate::comparison::statistics::Mean;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of the row of the initial skill.
pub const INITIAL: &str = "initial";

/// What a search came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RealRow {
    /// Which benchmark.
    pub task: String,
    /// The model that does the tasks.
    pub model: String,
    /// Which tasks, and which replies of the optimizer.
    pub seed: u64,
    /// Which way of searching; `initial` for the skill that all begin with.
    pub system: String,
    /// Which version of it.
    pub version: String,
    /// The cap on calls of all models.
    pub cap: u64,
    /// Calls of the target.
    pub target_calls: u64,
    /// Calls of all other models.
    pub optimizer_calls: u64,
    /// Validation and test tasks that the optimizer was shown.
    pub leaks: u64,
    /// The skill.
    pub skill: String,
    /// Planted lines of the skill that help, harm and do nothing.
    pub lines: [usize; 3],
    /// Whether each task that no search sees is done with it.
    pub outcomes: Vec<bool>,
    /// How long the search took.
    pub seconds: f64,
}

impl RealRow {
    /// A row without outcomes.
    pub(crate) fn new(tasks: &RealTasks, seed: u64, [system, version]: [&str; 2], found: Found) -> Self {
        let n_lines = |wanted: Meant| {
            let planted = tasks.task.planted().iter().filter(|(meant, _)| *meant == wanted);
            planted.filter(|(_, text)| found.skill.contains(text)).count()
        };
        Self {
            task: tasks.task.as_str().to_owned(),
            model: tasks.target.model.clone(),
            seed,
            system: system.to_owned(),
            version: version.to_owned(),
            cap: found.cap as u64,
            target_calls: found.counts.target,
            optimizer_calls: found.counts.optimizer,
            leaks: found.counts.leaks,
            lines: [Meant::Help, Meant::Harm, Meant::Nothing].map(n_lines),
            outcomes: Vec::new(),
            seconds: found.seconds,
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
        [&*self.task, &*self.model, &*self.system, &*self.version] == [task, model, system, version]
            && self.seed == seed
    }

    fn score(&self) -> f64 {
        Mean::of(&self.numbers()).mean
    }

    fn numbers(&self) -> Vec<f64> {
        self.outcomes.iter().map(|is_right| f64::from(u8::from(*is_right))).collect()
    }
}

/// A table for each benchmark: score, gain over the initial skill by the same items, calls and lines.
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
             | search | seeds | score | gain over the initial skill | calls | lines that help, harm, do nothing |\n\
             |---|---:|---:|---:|---:|---:|\n"
        );
        let mut systems: Vec<[&str; 2]> = Vec::new();
        for row in &rows {
            if !systems.contains(&[&row.system, &row.version]) {
                systems.push([&row.system, &row.version]);
            }
        }
        for [system, version] in systems {
            let own: Vec<&RealRow> =
                rows.iter().filter(|row| row.system == system && row.version == version).copied().collect();
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
                mean(|row| (row.target_calls + row.optimizer_calls) as f64),
            );
        }
        text.push('\n');
    }
    text
}

/// The differences to the initial skill, item by item.
fn gains(row: &RealRow, rows: &[&RealRow]) -> Vec<f64> {
    let initial = rows.iter().find(|other| other.system == INITIAL && other.seed == row.seed);
    let Some(initial) = initial else { return Vec::new() };
    row.numbers().iter().zip(initial.numbers()).map(|(own, before)| own - before).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_paired_by_item() {
        let row = |system: &str, outcomes: &[bool]| RealRow {
            task: "chain-sum".to_owned(),
            model: "m".to_owned(),
            seed: 0,
            system: system.to_owned(),
            version: "1".to_owned(),
            cap: 400,
            target_calls: 390,
            optimizer_calls: 5,
            leaks: 0,
            skill: String::new(),
            lines: [1, 0, 2],
            outcomes: outcomes.to_vec(),
            seconds: 1.0,
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
        assert_eq!(cells("auto"), ["1", "75.0", "+50.0 ± 56.6", "395"]);
        assert_eq!(cells("gepa")[..2], ["1", "25.0"]);
    }
}
