//! A matrix as text: cells for people, CSV and Markdown.

use super::{Matrix, MatrixCell};
use crate::runs::TextTable;
use crate::words::{csv_line, dollars, grouped, harmless, one_line, percent, points, seconds};
use crate::{Comparison, LEVEL};
use std::fmt::Write as _;

/// The columns of the table, and whether they are numbers.
const TITLES: [(&str, bool); 11] = [
    ("model", false),
    ("skill", false),
    ("items", true),
    ("score", true),
    ("95 % interval", true),
    ("versus first", true),
    ("against", true),
    ("tokens per task", true),
    ("calls", true),
    ("cost", true),
    ("time", true),
];

impl Matrix {
    /// The measurements as a table for people, a row for each.
    pub fn cells_table(&self) -> TextTable {
        let titles = TITLES.map(|(title, is_number)| (title.to_owned(), is_number));
        TextTable { titles: titles.into(), rows: self.cells.iter().map(row).collect() }.filled()
    }

    /// The values by which the rows of the table are sorted, for each of its columns.
    pub(crate) fn sort_keys(&self) -> Vec<Vec<String>> {
        let shown = self.cells_table().titles;
        let is_shown = |title: &str| shown.iter().any(|(shown, _)| shown == title);
        let of_row = |cell: &MatrixCell| {
            let keys = TITLES.into_iter().zip(keys(cell));
            keys.filter(|((title, _), _)| is_shown(title)).map(|(_, key)| key).collect()
        };
        self.cells.iter().map(of_row).collect()
    }

    /// One line per item, with its question, and the scores and reply of each cell.
    pub fn csv(&self) -> String {
        let mut titles =
            vec!["id".to_owned(), "task_type".to_owned(), "question".to_owned(), "reference".to_owned()];
        for cell in &self.cells {
            let name = format!("{} / {}", cell.model, cell.skill);
            titles.extend(["hard", "soft", "reply"].map(|what| format!("{name}: {what}")));
        }
        let mut text = csv_line(titles.iter().map(String::as_str));
        for item in &self.items {
            let mut line = vec![
                item.id.to_string(),
                item.task_type.clone(),
                item.question.clone(),
                item.reference.clone(),
            ];
            for reply in &item.replies {
                line.extend(match reply {
                    Some(reply) => [reply.hard.to_string(), reply.soft.to_string(), reply.reply.clone()],
                    None => Default::default(),
                });
            }
            let line: Vec<String> = line.iter().map(|cell| harmless(cell)).collect();
            text.push_str(&csv_line(line.iter().map(String::as_str)));
        }
        text
    }

    /// The measurements as a section of a page in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n", one_line(&self.size()));
        text.push_str(&self.cells_table().markdown());
        for remark in self.remarks() {
            let _ = write!(text, "\n{}\n", one_line(&remark));
        }
        text
    }

    /// How much was measured.
    pub fn size(&self) -> String {
        let counted = |n: usize, noun| crate::words::counted(n as u64, noun);
        let on = match self.split.as_str() {
            // Of a coding agent.
            "cases" => counted(self.items.len(), "case"),
            split => format!("{} of the {split} split", counted(self.items.len(), "item")),
        };
        format!("{} × {} on {on}", counted(self.skills.len(), "skill"), counted(self.models.len(), "model"))
    }

    /// What has to be known of the numbers.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.simulated_models.is_empty() {
            remarks.push(format!(
                "Simulated models: {}; these numbers do not apply to real models.",
                self.simulated_models.join(", ")
            ));
        }
        let (metric, level) = (self.metric.as_str(), 100.0 * LEVEL);
        let mut scores = format!("Scores are by the {metric} metric, with intervals at {level:.0} %");
        if self.cells.len() > 1 {
            let differ = self.items.iter().filter(|item| item.differs).count();
            let _ = write!(
                scores,
                "; differences are in points, item by item. The cells differ on {differ} of {} items",
                self.items.len()
            );
        }
        remarks.push(scores + ".");
        if let Some(cost) = self.cost {
            remarks.push(format!("All cells together cost {}.", dollars(cost)));
        }
        let problems = self.cells.iter().filter_map(|cell| Some((cell, cell.problem.as_ref()?)));
        remarks.extend(
            problems.map(|(cell, problem)| {
                format!("{} / {} was not measured: {problem}", cell.model, cell.skill)
            }),
        );
        remarks
    }
}

fn row(cell: &MatrixCell) -> Vec<String> {
    let interval = |[low, high]: [f64; 2]| format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high);
    vec![
        one_line(&cell.model),
        one_line(&cell.skill),
        grouped(cell.n as u64),
        cell.score.map_or_else(|| "not measured".to_owned(), percent),
        cell.interval.map(interval).unwrap_or_default(),
        cell.versus_first.as_ref().map(difference).unwrap_or_default(),
        cell.against.as_ref().map(difference).unwrap_or_default(),
        cell.tokens_per_task.map(|tokens| format!("{tokens:.0}")).unwrap_or_default(),
        if cell.is_of_run { "in the run".to_owned() } else { grouped(cell.used.calls) },
        cell.cost.map(dollars).unwrap_or_default(),
        cell.seconds.map(seconds).unwrap_or_default(),
    ]
}

/// The values of a row, in the order of the columns; empty without one.
fn keys(cell: &MatrixCell) -> [String; 11] {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let difference = |of: Option<&Comparison>| number(of.map(|of| of.difference));
    [
        cell.model.clone(),
        cell.skill.clone(),
        cell.n.to_string(),
        number(cell.score),
        number(cell.interval.map(|[low, _]| low)),
        difference(cell.versus_first.as_ref()),
        difference(cell.against.as_ref()),
        number(cell.tokens_per_task),
        cell.used.calls.to_string(),
        number(cell.cost),
        number(cell.seconds),
    ]
}

/// A paired difference with its interval.
fn difference(of: &Comparison) -> String {
    let [low, high] = of.difference_interval;
    format!("{} ({:+.1} to {:+.1})", points(of.difference), 100.0 * low, 100.0 * high)
}
