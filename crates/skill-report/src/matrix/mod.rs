//! A matrix of measurements: skills × models on the items of one split, with the replies of every item side by side.
//!
//! [`Matrix::of`] makes it from the results of each cell.
//! A cell that was not measured says why, and takes nothing from the others.

mod text;

use crate::{Comparison, LEVEL};
use serde::Serialize;
use skill_core::stats::score_interval;
use skill_core::{Gate, GateMetric, ItemId, MeanScore, Role, RolloutResult, SkillHash};
use skill_pipeline::records::StageTokens;
use std::collections::BTreeMap;

/// The most characters of a reply.
const MAX_REPLY_CHARACTERS: usize = 4_000;

/// A model of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatrixModel {
    /// The name under which it was requested: that of `[models.targets]`, `target`, or of the model.
    pub name: String,
    /// The model with its provider.
    pub model: String,
}

/// A skill of the matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatrixSkill {
    /// The path under which it was requested, or its part in a run.
    pub name: String,
    /// The hash of its text.
    pub hash: SkillHash,
}

/// The results of a cell.
#[derive(Debug, Clone, Default)]
pub struct CellResults {
    /// A result for each item, without trajectories.
    pub results: Vec<RolloutResult>,
    /// The last reply of each result, in their order.
    pub replies: Vec<String>,
    /// What it has used now or before.
    pub used: StageTokens,
    /// What that cost, where all prices are known.
    pub cost: Option<f64>,
    /// How long it took when it was sent.
    pub seconds: Option<f64>,
    /// True for results of a run, which were not measured for the matrix.
    pub is_of_run: bool,
}

/// A skill under a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixCell {
    /// The name of the model.
    pub model: String,
    /// The name of the skill.
    pub skill: String,
    /// Items that were measured.
    pub n: usize,
    /// The score by the metric of the gate; `None` if it was not measured.
    pub score: Option<f64>,
    /// Its 95 % interval (Agresti-Coull).
    pub interval: Option<[f64; 2]>,
    /// The strict score.
    pub hard: Option<f64>,
    /// The graded score.
    pub soft: Option<f64>,
    /// Item by item against the first cell; `None` for that one.
    pub versus_first: Option<Comparison>,
    /// Item by item against an earlier measurement, where one was named.
    pub against: Option<Comparison>,
    /// Tokens for each task, where they were counted.
    pub tokens_per_task: Option<f64>,
    /// What it has used now or before.
    pub used: StageTokens,
    /// What that cost in the currency of the prices, where all are known.
    pub cost: Option<f64>,
    /// How long it took when it was sent.
    pub seconds: Option<f64>,
    /// True for results of a run, which were not measured for the matrix.
    pub is_of_run: bool,
    /// Why it was not measured.
    pub problem: Option<String>,
}

/// The last skill against the first one under a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TransferRow {
    /// The name of the model.
    pub target: String,
    /// The model with its provider.
    pub model: String,
    /// The last skill against the first one; `None` if one was not measured, or both have no item in common.
    pub compared: Option<Comparison>,
    /// Tokens for each task under the first and under the last skill, where they were counted.
    pub tokens_per_task: Option<[f64; 2]>,
    /// What both have used now or before.
    pub used: StageTokens,
    /// Why it was not measured.
    pub problem: Option<String>,
}

/// A reply to an item.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixReply {
    /// The strict score.
    pub hard: f64,
    /// The graded score.
    pub soft: f64,
    /// The last reply; a long one is cut.
    pub reply: String,
}

/// An item with its replies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixItem {
    /// The item.
    pub id: ItemId,
    /// Its category; empty without one.
    pub task_type: String,
    /// What the agent was asked.
    pub question: String,
    /// What a right answer is.
    pub reference: String,
    /// True if cells solve it and others do not.
    pub differs: bool,
    /// A reply for each cell, in the order of the cells; `None` where it was not measured.
    pub replies: Vec<Option<MatrixReply>>,
}

/// Skills under models, on one split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The split.
    pub split: String,
    /// The metric of all scores: that of the gate.
    pub metric: GateMetric,
    /// The models.
    pub models: Vec<MatrixModel>,
    /// The skills.
    pub skills: Vec<MatrixSkill>,
    /// The models of the matrix that are simulated, by name.
    pub simulated_models: Vec<String>,
    /// A cell for each skill of each model, the skills of a model side by side.
    pub cells: Vec<MatrixCell>,
    /// The last skill against the first one, for each model; empty with one skill.
    pub rows: Vec<TransferRow>,
    /// The mean of these differences over the models that answered; `None` without any.
    pub mean_difference: Option<f64>,
    /// The model with the smallest difference.
    pub worst: Option<String>,
    /// What all cells cost, where all prices are known.
    pub cost: Option<f64>,
    /// The items, those on which cells differ first.
    pub items: Vec<MatrixItem>,
}

/// The results of a cell, or why there are none.
pub type MeasuredCell = Result<CellResults, String>;

/// What an item is, beside its results.
#[derive(Debug, Clone, Default)]
pub struct ItemTexts {
    /// What the agent was asked.
    pub question: String,
    /// What a right answer is.
    pub reference: String,
}

impl Matrix {
    /// The matrix of these results, a cell for each skill of each model; an error is why it was not measured.
    pub fn of(
        (split, gate): (&str, Gate),
        models: Vec<MatrixModel>,
        skills: Vec<MatrixSkill>,
        measured: &[MeasuredCell],
        texts: &BTreeMap<ItemId, ItemTexts>,
    ) -> Self {
        let first = measured.first().and_then(|first| first.as_ref().ok());
        let names = models.iter().flat_map(|model| skills.iter().map(move |skill| (model, skill)));
        let cells: Vec<MatrixCell> = names
            .zip(measured)
            .enumerate()
            .map(|(place, ((model, skill), measured))| {
                let first = first.filter(|_| place > 0);
                cell((model, skill), measured, first, gate)
            })
            .collect();
        let rows = rows(&models, skills.len(), &cells, measured, gate);
        let differences: Vec<(&str, f64)> = rows
            .iter()
            .filter_map(|row| Some((row.target.as_str(), row.compared.as_ref()?.difference)))
            .collect();
        let mean =
            differences.iter().map(|(_, difference)| difference).sum::<f64>() / differences.len() as f64;
        let worst = differences.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let sent = || cells.iter().filter(|cell| cell.used.calls > 0);
        let cost = sent().map(|cell| cell.cost).sum::<Option<f64>>().filter(|_| sent().count() > 0);
        Self {
            split: split.to_owned(),
            metric: gate.metric,
            mean_difference: (!differences.is_empty()).then_some(mean),
            worst: worst.map(|(target, _)| (*target).to_owned()),
            simulated_models: Vec::new(),
            items: items(measured, texts),
            models,
            skills,
            cells,
            rows,
            cost,
        }
    }
}

impl Matrix {
    /// The scores of a cell, a result for each of its items.
    pub fn results(&self, cell: usize) -> Vec<RolloutResult> {
        let of = |item: &MatrixItem| {
            let reply = item.replies.get(cell)?.as_ref()?;
            Some(RolloutResult::new(item.id.clone(), reply.hard, reply.soft))
        };
        self.items.iter().filter_map(of).collect()
    }
}

fn cell(
    (model, skill): (&MatrixModel, &MatrixSkill),
    measured: &MeasuredCell,
    first: Option<&CellResults>,
    gate: Gate,
) -> MatrixCell {
    let of = measured.as_ref().ok().filter(|of| !of.results.is_empty());
    let mean = of.map(|of| MeanScore::of_results(&of.results));
    let n = of.map_or(0, |of| of.results.len());
    let score = mean.map(|mean| gate.score(mean));
    MatrixCell {
        model: model.name.clone(),
        skill: skill.name.clone(),
        n,
        score,
        interval: score.map(|score| score_interval(score, n, LEVEL)),
        hard: mean.map(|mean| mean.hard),
        soft: mean.map(|mean| mean.soft),
        versus_first: of.zip(first).and_then(|(of, first)| Comparison::of(gate, &first.results, &of.results)),
        against: None,
        tokens_per_task: of.and_then(|of| tokens(&of.results)),
        used: of.map(|of| of.used).unwrap_or_default(),
        cost: of.and_then(|of| of.cost),
        seconds: of.and_then(|of| of.seconds),
        is_of_run: of.is_some_and(|of| of.is_of_run),
        problem: measured.as_ref().err().cloned(),
    }
}

/// The last skill of each model against its first one.
fn rows(
    models: &[MatrixModel],
    n_skills: usize,
    cells: &[MatrixCell],
    measured: &[MeasuredCell],
    gate: Gate,
) -> Vec<TransferRow> {
    if n_skills < 2 {
        return Vec::new();
    }
    let of_models = models.iter().zip(cells.chunks(n_skills).zip(measured.chunks(n_skills)));
    let row = |(model, (cells, measured)): (&MatrixModel, (&[MatrixCell], &[MeasuredCell]))| {
        let results = |cell: Option<&MeasuredCell>| cell.and_then(|cell| cell.clone().ok());
        let both = results(measured.first()).zip(results(measured.last()));
        let of_cells = cells.first().zip(cells.last());
        let mut used = StageTokens::default();
        cells.iter().for_each(|cell| used += cell.used);
        TransferRow {
            target: model.name.clone(),
            model: model.model.clone(),
            compared: both.and_then(|(first, last)| Comparison::of(gate, &first.results, &last.results)),
            tokens_per_task: of_cells
                .and_then(|(first, last)| Some([first.tokens_per_task?, last.tokens_per_task?])),
            used,
            problem: cells.iter().find_map(|cell| cell.problem.clone()),
        }
    };
    of_models.map(row).collect()
}

fn tokens(results: &[RolloutResult]) -> Option<f64> {
    let counted = results.iter().map(|result| result.usage.tokens()).filter(|tokens| *tokens > 0);
    let (n, sum) = counted.fold((0_u64, 0_u64), |(n, sum), tokens| (n + 1, sum.saturating_add(tokens)));
    (n > 0).then(|| sum as f64 / n as f64)
}

/// Every item of any cell, with the reply of each cell.
fn items(measured: &[MeasuredCell], texts: &BTreeMap<ItemId, ItemTexts>) -> Vec<MatrixItem> {
    let mut items: Vec<MatrixItem> = Vec::new();
    let mut places: BTreeMap<ItemId, usize> = BTreeMap::new();
    for (cell, of) in measured.iter().enumerate() {
        let Ok(of) = of else { continue };
        for (idx, result) in of.results.iter().enumerate() {
            let place = *places.entry(result.id.clone()).or_insert_with(|| {
                let texts = texts.get(&result.id).cloned().unwrap_or_default();
                items.push(MatrixItem {
                    id: result.id.clone(),
                    task_type: result.task_type.clone(),
                    question: texts.question,
                    reference: texts.reference,
                    differs: false,
                    replies: vec![None; measured.len()],
                });
                items.len() - 1
            });
            let reply = of.replies.get(idx).cloned().unwrap_or_default();
            if let Some(slot) = items.get_mut(place).and_then(|item| item.replies.get_mut(cell)) {
                *slot = Some(MatrixReply { hard: result.hard, soft: result.soft, reply });
            }
        }
    }
    for item in &mut items {
        let mut scores = item.replies.iter().flatten().map(|reply| reply.hard);
        item.differs = scores.next().is_some_and(|first| scores.any(|other| other != first));
    }
    items.sort_by_key(|item| !item.differs);
    items
}

/// The last reply of a rollout, or the answer that was read from it; a long one is cut.
pub fn reply_of(result: &RolloutResult) -> String {
    let said = result.trajectory.conversation().filter(|message| message.role == Role::Assistant);
    let said = said.map(|message| message.content.as_str()).filter(|text| !text.trim().is_empty()).last();
    clipped(said.unwrap_or(&result.predicted_answer))
}

/// The texts of an item, from a result of it.
pub fn texts_of(result: &RolloutResult) -> ItemTexts {
    let asked = if result.question.is_empty() { &result.task_description } else { &result.question };
    ItemTexts { question: clipped(asked), reference: clipped(&result.reference_text) }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_REPLY_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
