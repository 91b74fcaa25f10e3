//! The skills that were measured on the test split, beside each other.

use super::front::mean_tokens;
use super::headline::Comparison;
use super::source::Source;
use indexmap::IndexMap;
use serde::Serialize;
use skill_core::{Gate, MeanScore, RolloutResult, StepIdx};
use skill_pipeline::PipelineError;
use skill_pipeline::records::arm::ArmName;

/// A skill on the test split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmRow {
    /// Its part in the comparison.
    pub name: ArmName,
    /// Its score by the gate's metric.
    pub score: f64,
    /// How many rollouts that is the mean of.
    pub n_rollouts: usize,
    /// The trained skill against it, on the items that both have; `None` for the trained skill itself, and for the
    /// initial one where they are the same.
    pub trained: Option<Comparison>,
    /// The length of the skill in tokens, estimated.
    pub skill_tokens: u64,
    /// Tokens of the target for each task, prompts and replies; `None` if they were not counted.
    pub tokens: Option<f64>,
    /// What a task costs, where prices are known and requests were sent for it.
    pub money: Option<f64>,
}

impl ArmRow {
    /// The stage that measured it.
    fn stage(&self) -> &'static str {
        match self.name {
            ArmName::Initial => "test_baseline",
            ArmName::Trained => "test_best",
            ArmName::NoSkill => "test_no_skill",
        }
    }
}

/// The arms of a run; none where the test split was not read.
pub(super) fn read(source: &Source<'_>, gate: Gate) -> Result<Vec<ArmRow>, PipelineError> {
    let Some(test) = &source.test else { return Ok(Vec::new()) };
    let run = source.run;
    let is_unchanged = source.is_unchanged();
    let score = |results: &[RolloutResult]| gate.score(MeanScore::of_results(results));
    let first_skill = run.skill_after(StepIdx(0))?;
    let initial = first_skill.n_tokens();
    // Nothing is twice in the table.
    let is_none_first = first_skill.is_blank();
    let best =
        if is_unchanged { initial } else { run.kept_best_skill().map_or(initial, |skill| skill.n_tokens()) };
    let mut rows = Vec::new();
    for name in ArmName::ALL {
        let (results, skill_tokens) = match name {
            ArmName::Initial => (Some(test.before.as_slice()), initial),
            ArmName::Trained => (Some(test.after()), best),
            ArmName::NoSkill => (source.no_skill.as_deref().filter(|_| !is_none_first), 0),
        };
        let Some(results) = results.filter(|results| !results.is_empty()) else { continue };
        let is_same = name == ArmName::Trained || (name == ArmName::Initial && is_unchanged);
        rows.push(ArmRow {
            name,
            score: score(results),
            n_rollouts: results.len(),
            trained: if is_same { None } else { Comparison::of(gate, results, test.after()) },
            skill_tokens,
            tokens: mean_tokens(results.iter().map(|result| result.usage.tokens())),
            money: None,
        });
    }
    Ok(rows)
}

/// Prices a task of each arm by what its stage cost.
pub(super) fn price(arms: &mut [ArmRow], costs: &IndexMap<String, f64>) {
    for arm in arms {
        arm.money = costs.get(arm.stage()).map(|cost| cost / arm.n_rollouts.max(1) as f64);
    }
}
