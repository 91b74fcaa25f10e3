//! The items of the selection split over time.

use super::epochs::Maker;
use serde::Serialize;
use skill_core::{ItemScore, RolloutResult, StepIdx};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::run_dir::format::{StepRecord, Summary};
use skill_pipeline::stage::evaluate::by_item;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::BTreeMap;

/// Items in rows, evaluations in columns.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Items {
    /// What was measured in each column, in words; the first one is the initial skill.
    pub columns: Vec<String>,
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
    /// For each column `+` (solved), `-` (failed), `~` (solved in some draws) or a blank (not measured).
    pub cells: String,
    /// What became of it between the first and the best skill.
    pub outcome: ItemOutcome,
}

/// What became of an item between the first and the best skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemOutcome {
    /// Failed before, solved now; with several draws, in at least half of them.
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

pub(super) fn read(
    run: &RunReader,
    history: &[StepRecord],
    summary: Option<&Summary>,
) -> Result<Items, PipelineError> {
    let baseline = run.results(EvaluationDir::Baseline)?.unwrap_or_default();
    let mut items =
        Items { columns: vec!["the first one".to_owned()], is_accepted: vec![true], rows: Vec::new() };
    let mut makers = vec![Maker { step: StepIdx(0), slow_epoch: None, is_measured_last: false }];
    let mut columns: Vec<Column> = vec![column(&baseline)];
    // A skill that was measured before has no results of its own.
    let of_steps = history.iter().filter(|record| record.selection_n_seen.is_some());
    let of_steps = of_steps.map(|record| (record.step, None, record.action.is_accept()));
    let ends = run.epoch_ends()?;
    let of_ends = ends.iter().filter_map(|end| end.slow_update.as_ref());
    let of_ends = of_ends.filter(|record| record.selection_n_seen.is_some());
    let of_ends = of_ends.map(|record| (record.step, Some(record.epoch), record.action.is_accept()));
    let mut measured: Vec<_> = of_steps.chain(of_ends).collect();
    measured.sort_unstable();
    let best = run.state()?.map(|state| Maker::of_best(&state, summary));
    let measured = measured.into_iter().map(|(step, slow_epoch, is_accepted)| {
        (Maker { step, slow_epoch, is_measured_last: false }, is_accepted)
    });
    let measured_last = best.filter(|best| best.is_measured_last).map(|best| (best, true));
    for (maker, is_accepted) in measured.chain(measured_last) {
        let results = run.results(maker.measured(history))?;
        items.columns.push(maker.name());
        items.is_accepted.push(is_accepted);
        columns.push(column(&results.unwrap_or_default()));
        makers.push(maker);
    }
    let best_column = makers.iter().position(|maker| Some(*maker) == best).unwrap_or(0);
    items.rows = by_item(&baseline).map(|(result, _)| row(result, &columns, best_column)).collect();
    Ok(items)
}

/// Of each item how many draws were solved, and how many there were.
type Column = BTreeMap<String, (usize, usize)>;

fn column(results: &[RolloutResult]) -> Column {
    let count = |draws: Vec<ItemScore>| (draws.iter().filter(|draw| draw.is_success()).count(), draws.len());
    by_item(results).map(|(result, draws)| (result.id.as_str().to_owned(), count(draws))).collect()
}

fn row(result: &RolloutResult, columns: &[Column], best_column: usize) -> ItemRow {
    let id = result.id.as_str();
    let counts: Vec<Option<(usize, usize)>> = columns.iter().map(|column| column.get(id).copied()).collect();
    let is_solved = |(n_solved, n_draws): (usize, usize)| 2 * n_solved >= n_draws;
    let cells: Vec<Option<bool>> = counts.iter().map(|count| count.map(is_solved)).collect();
    let first = cells.first().copied().flatten().unwrap_or_default();
    let best = cells.get(best_column).copied().flatten().unwrap_or(first);
    let outcome = match (first, best) {
        (false, true) => ItemOutcome::Won,
        (true, false) => ItemOutcome::Lost,
        (true, true) => ItemOutcome::Kept,
        (false, false) if cells.contains(&Some(true)) => ItemOutcome::Passing,
        (false, false) => ItemOutcome::Never,
    };
    let sign = |count: &Option<(usize, usize)>| match count {
        Some((n_solved, n_draws)) if n_solved == n_draws => '+',
        Some((0, _)) => '-',
        Some(_) => '~',
        None => ' ',
    };
    ItemRow {
        id: id.to_owned(),
        task_type: result.task_type.clone(),
        cells: counts.iter().map(sign).collect(),
        outcome,
    }
}
