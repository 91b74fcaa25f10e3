//! What two passes with one skill say about the noise of a target, before anything is trained.

use crate::error::PipelineError;
use crate::kind::{Trained, trained_at};
use crate::run_dir::{EvaluationDir, RunReader};
use serde::{Deserialize, Serialize};
use skill_core::stats::{detectable_effect, expected_maximum, flip_rate, items_needed, least_wins};
use skill_core::{GateRule, ItemScore, Role, RolloutResult};
use std::path::Path;

/// The level and the power that the report is about: what a one-sided test at 5 % finds four times in five.
pub const ALPHA: f64 = 0.05;
/// See [`ALPHA`].
pub const POWER: f64 = 0.8;

/// The recorded flip rate of the run in a directory; `None` without a run, or if the run does not train a skill.
///
/// # Errors
///
/// Files of the run that cannot be read.
pub fn flip_rate_at(dir: &Path) -> Result<Option<f64>, PipelineError> {
    match trained_at(dir) {
        Trained::Skill => {}
        Trained::Bank | Trained::Weights => return Ok(None),
    }
    match RunReader::open(dir) {
        Err(PipelineError::NoRun { .. }) => Ok(None),
        run => recorded_flip_rate(&run?),
    }
}

/// The share of the validation split that comes out otherwise from one pass to the next with the same skill, by the
/// passes that a run has made: of its first and of its best skill. `None` where it made one pass alone.
///
/// # Errors
///
/// Files of the run that cannot be read.
pub fn recorded_flip_rate(run: &RunReader) -> Result<Option<f64>, PipelineError> {
    let best = run.state()?.and_then(|state| EvaluationDir::of_skill(state.best_skill));
    let first = (EvaluationDir::Baseline, EvaluationDir::FreshBaseline);
    let best = best.filter(|best| *best != EvaluationDir::Baseline);
    let pairs = [Some(first), best.map(|best| (best, EvaluationDir::FreshBest))];
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for (first, second) in pairs.into_iter().flatten() {
        // The second pass first: most runs have none, and the other file may be large.
        let Some(second) = run.scores(second)? else { continue };
        let Some(first) = run.scores(first)? else { continue };
        // One that was rejected early, or is of other items, is no pass.
        if first.iter().map(|(id, _)| id).eq(second.iter().map(|(id, _)| id)) {
            one.extend(first.into_iter().map(|(_, score)| score));
            other.extend(second.into_iter().map(|(_, score)| score));
        }
    }
    Ok((!one.is_empty()).then(|| flip_rate(&one, &other)))
}

/// What is asked besides the two passes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseQuestion {
    /// The improvement that somebody wants to see, above 0.
    pub effect: f64,
    /// Candidates that a run would measure at most.
    pub n_candidates: usize,
}

/// The same skill twice on the same items.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Items of the split.
    pub n_items: usize,
    /// Draws of each item in a pass.
    pub repeats: usize,
    /// The gate's score of each pass.
    pub scores: [f64; 2],
    /// Share of draws that one pass solved and the other did not.
    pub flip_rate: f64,
    /// Share of draws whose replies differ between the passes, word for word; `None` where nobody compared them.
    pub reply_change_rate: Option<f64>,
    /// The mean square of an item's difference between the passes: without repeats and grades, the flip rate.
    pub item_variance: f64,
    /// The standard error of the difference between two passes.
    pub standard_error: f64,
    /// How far the best of [`NoiseReport::n_candidates`] and the initial skill would seem above the truth if no
    /// candidate changed anything.
    pub expected_inflation: f64,
    /// Candidates that a run would measure at most.
    pub n_candidates: usize,
    /// The smallest true improvement that this split shows with a power of 80 % in a one-sided test at 5 %.
    pub smallest_effect: f64,
    /// The fewest items that must be won, with none lost, before such a test shows anything.
    pub least_wins: usize,
    /// The improvement that was asked about.
    pub effect: f64,
    /// How many items would be needed to see it so well.
    pub items_needed: usize,
}

impl NoiseReport {
    /// The report on two passes; `None` if they are not of the same whole items, or of none.
    pub fn of(
        rule: &GateRule,
        first: &[ItemScore],
        second: &[ItemScore],
        question: NoiseQuestion,
    ) -> Option<Self> {
        let paired = rule.compare(second, first)?;
        let n_items = paired.differences.len();
        if n_items == 0 {
            return None;
        }
        let n = n_items as f64;
        let item_variance = paired.sum_of_squares() / n;
        let score = |scores: &[ItemScore]| rule.gate.total(scores).to_f64() / scores.len() as f64;
        let NoiseQuestion { effect, n_candidates } = question;
        Some(Self {
            n_items,
            repeats: rule.repeats,
            scores: [score(first), score(second)],
            flip_rate: flip_rate(first, second),
            reply_change_rate: None,
            item_variance,
            standard_error: (item_variance / n).sqrt(),
            // Half of the variance of a difference is that of each of the two.
            expected_inflation: expected_maximum(n_candidates.saturating_add(1))
                * (item_variance / 2.0 / n).sqrt(),
            n_candidates,
            smallest_effect: detectable_effect(item_variance, n_items, ALPHA, POWER),
            least_wins: least_wins(ALPHA)?,
            effect,
            items_needed: items_needed(effect, item_variance, ALPHA, POWER)?,
        })
    }

    /// The same report with the share of draws whose replies changed; the passes are those of [`NoiseReport::of`].
    #[must_use]
    pub fn with_replies(self, first: &[RolloutResult], second: &[RolloutResult]) -> Self {
        let n_changed =
            first.iter().zip(second).filter(|(first, second)| !are_replies_same(first, second)).count();
        let n_draws = first.len().max(1);
        Self { reply_change_rate: Some(n_changed as f64 / n_draws as f64), ..self }
    }
}

/// True if the target said the same in both, and the environment took the same answer from it.
fn are_replies_same(first: &RolloutResult, second: &RolloutResult) -> bool {
    let replies = |result: &RolloutResult| {
        let said = result.trajectory.conversation().filter(|message| message.role == Role::Assistant);
        said.map(|message| message.as_text().trim().to_owned()).collect::<Vec<_>>()
    };
    first.predicted_answer == second.predicted_answer && replies(first) == replies(second)
}
