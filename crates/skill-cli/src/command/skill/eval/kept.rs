//! What is kept beside the arms of a measurement: its outcome, and a page with the runs of every case side by side.

use super::arms::Measured;
use super::outcome::Outcome;
use crate::outcomes::OUTCOME_FILE;
use serde_json::{Value, json};
use skillrl::core::{Gate, ItemId, RolloutResult, SkillHash};
use skillrl::envs::evals::checks_of;
use skillrl::pipeline::records::StageTokens;
use skillrl::pipeline::run_dir::atomic;
use skillrl::reports::Matrix;
use skillrl::reports::matrix::{CellResults, MatrixModel, MatrixSkill, reply_of, texts_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// The page of all agents.
const PAGE_FILE: &str = "report.html";

/// Writes the outcome of an agent.
pub(super) fn write_outcome(dir: &Path, outcome: &Outcome) -> crate::Result {
    let kept = json!({"outcome": outcome, "text": outcome.text()});
    Ok(atomic::write_json(&dir.join(OUTCOME_FILE), &kept)?)
}

/// An agent with its arms.
pub(super) struct OfAgent {
    pub(super) title: String,
    pub(super) model: String,
    pub(super) arms: Vec<(MatrixSkill, CellResults)>,
    pub(super) runs: Vec<RolloutResult>,
}

impl OfAgent {
    /// The arms with their runs.
    pub(super) fn new((title, model): (&str, &str), measured: &[(&Measured, SkillHash)]) -> Self {
        let arms = measured.iter().map(|(arm, hash)| {
            let skill = MatrixSkill { name: arm.title.clone(), hash: hash.clone() };
            (skill, cell(arm))
        });
        Self {
            title: title.to_owned(),
            model: model.to_owned(),
            arms: arms.collect(),
            runs: measured.iter().flat_map(|(arm, _)| arm.results.iter().cloned()).collect(),
        }
    }
}

/// Writes the page of all agents, whose arms are the same.
pub(super) fn write_page(out: &Path, agents: &[OfAgent]) -> crate::Result {
    let Some(first) = agents.first() else { return Ok(()) };
    let models = agents
        .iter()
        .map(|agent| MatrixModel { name: agent.title.clone(), model: agent.model.clone() })
        .collect();
    let skills = first.arms.iter().map(|(skill, _)| skill.clone()).collect();
    let cells: Vec<_> =
        agents.iter().flat_map(|agent| agent.arms.iter().map(|(_, cell)| Ok(cell.clone()))).collect();
    let texts = agents.iter().flat_map(|agent| &agent.runs);
    let texts: BTreeMap<ItemId, _> = texts.map(|result| (result.id.clone(), texts_of(result))).collect();
    let matrix = Matrix::of(("cases", Gate::default()), models, skills, &cells, &texts);
    Ok(skillrl::matrix::write_page(&matrix, &out.join(PAGE_FILE))?)
}

/// An arm, with the share of its runs that pass as the score of a case.
fn cell(arm: &Measured) -> CellResults {
    let mut of_case: BTreeMap<&ItemId, Vec<&RolloutResult>> = BTreeMap::new();
    for result in &arm.results {
        of_case.entry(&result.id).or_default().push(result);
    }
    let mut cell = CellResults::default();
    let (mut used, mut costs) = (StageTokens::default(), Vec::<f64>::new());
    for (id, runs) in of_case {
        let n = runs.len() as f64;
        let mean = |of: &dyn Fn(&RolloutResult) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / n;
        let mut result = RolloutResult::new(id.clone(), mean(&|run| run.hard), mean(&|run| run.soft));
        for run in &runs {
            result.usage += run.usage;
            costs.extend(run.extras.get("cost").and_then(Value::as_f64));
        }
        used.calls += runs.len() as u64;
        used.prompt_tokens = used.prompt_tokens.saturating_add(result.usage.input);
        used.completion_tokens = used.completion_tokens.saturating_add(result.usage.output);
        // Tokens of a task are those of one run; a case without a run has no entry.
        let n_runs = runs.len() as u64;
        result.usage.input /= n_runs;
        result.usage.output /= n_runs;
        cell.replies.push(runs_text(&runs));
        cell.results.push(result);
    }
    cell.cost = (!costs.is_empty() && costs.len() as u64 == used.calls).then(|| costs.iter().sum());
    cell.used = used;
    cell
}

/// What became of the runs of a case: those that pass, and of the last one its checks and its reply.
fn runs_text(runs: &[&RolloutResult]) -> String {
    let n_passed = runs.iter().filter(|run| run.is_success()).count();
    let mut text = format!("{n_passed} of {} runs pass\n", runs.len());
    let Some(last) = runs.last() else { return text };
    for row in checks_of(last) {
        let mark = if row.passed { "passed" } else { "failed" };
        let _ = writeln!(text, "- {mark}: {}: {}", row.text, row.evidence);
    }
    let _ = write!(text, "\n{}", reply_of(last));
    text
}
