//! The items of the selection split over time.

use super::headline::measured_at;
use serde::Serialize;
use skill_core::{RolloutResult, StepIdx};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::run_dir::format::StepRecord;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::BTreeMap;

/// A score of at least this is a success.
const SUCCESS: f64 = 1e-9;

/// Items in rows, evaluations in columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Items {
    /// The step of each column; 0 is the initial skill.
    pub columns: Vec<u32>,
    /// Whether the skill of a column became the current one.
    pub is_accepted: Vec<bool>,
    /// The items, in the order of the split.
    pub rows: Vec<ItemRow>,
}

/// An item over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ItemRow {
    /// The item.
    pub id: String,
    /// Its kind, where items have one.
    pub task_type: String,
    /// For each column `+` (solved), `-` (failed) or a blank (not measured).
    pub cells: String,
    /// What became of it between the first and the best skill.
    pub outcome: ItemOutcome,
}

/// What became of an item between the first and the best skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemOutcome {
    /// Failed before, solved now.
    Won,
    /// Solved before, failed now.
    Lost,
    /// Solved by both.
    Kept,
    /// Failed by both, and solved by a candidate in between.
    Passing,
    /// Solved by no skill.
    Never,
}

pub(super) fn read(run: &RunReader, history: &[StepRecord]) -> Result<Items, PipelineError> {
    let baseline = run.results(EvaluationDir::Baseline)?.unwrap_or_default();
    let mut items = Items { columns: vec![0], is_accepted: vec![true], rows: Vec::new() };
    let mut columns: Vec<BTreeMap<String, bool>> = vec![solved(&baseline)];
    // A skill that was measured before has no results of its own.
    for record in history.iter().filter(|record| record.selection_n_seen.is_some()) {
        let results = run.results(EvaluationDir::of_step(measured_at(history, record.step)))?;
        items.columns.push(record.step.0);
        items.is_accepted.push(record.action.is_accept());
        columns.push(solved(&results.unwrap_or_default()));
    }
    let best = run.state()?.map_or(StepIdx(0), |state| state.best_step);
    let best_column = items.columns.iter().position(|step| *step == best.0).unwrap_or(0);
    items.rows = baseline.iter().map(|result| row(result, &columns, best_column)).collect();
    Ok(items)
}

fn solved(results: &[RolloutResult]) -> BTreeMap<String, bool> {
    results.iter().map(|result| (result.id.as_str().to_owned(), result.hard >= SUCCESS)).collect()
}

fn row(result: &RolloutResult, columns: &[BTreeMap<String, bool>], best_column: usize) -> ItemRow {
    let id = result.id.as_str();
    let cells: Vec<Option<bool>> = columns.iter().map(|column| column.get(id).copied()).collect();
    let first = cells.first().copied().flatten().unwrap_or_default();
    let best = cells.get(best_column).copied().flatten().unwrap_or(first);
    let outcome = match (first, best) {
        (false, true) => ItemOutcome::Won,
        (true, false) => ItemOutcome::Lost,
        (true, true) => ItemOutcome::Kept,
        (false, false) if cells.contains(&Some(true)) => ItemOutcome::Passing,
        (false, false) => ItemOutcome::Never,
    };
    let sign = |cell: &Option<bool>| match cell {
        Some(true) => '+',
        Some(false) => '-',
        None => ' ',
    };
    ItemRow {
        id: id.to_owned(),
        task_type: result.task_type.clone(),
        cells: cells.iter().map(sign).collect(),
        outcome,
    }
}
