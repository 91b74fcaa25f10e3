//! Evaluations of a skill on a split, and the summaries that lie beside their results.

use super::{FORMAT_VERSION, StageTokens, is_zero};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use skill_core::{MeanScore, RolloutResult, SkillHash};

/// A skill's results on a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The means over the split.
    pub score: MeanScore,
    /// One result per item and draw, in the order of the split, the draws of an item side by side.
    pub results: Vec<RolloutResult>,
}

impl Evaluation {
    /// The evaluation that these results are, in the order of the split.
    pub fn of(results: Vec<RolloutResult>) -> Self {
        Self { score: MeanScore::of_results(&results), results }
    }
}

/// What is known of a candidate when its evaluation ends.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateEvaluation {
    /// The results that count: those of the shortest prefix of the plan's order that decides, in the order of the
    /// split.
    pub results: Vec<RolloutResult>,
    /// How many of these were known before.
    pub n_known: usize,
    /// What a rejected candidate's score could at most have been, and at least, if items of the split were left out.
    pub left_out: Option<ScoreInterval>,
    /// Rollouts that were finished beyond the prefix: they were paid for and count for nothing.
    pub n_beyond: usize,
}

/// Where a gate score lies if the items that were not measured gave nothing, and if they gave everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreInterval {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// How often a coding agent loaded the skill that it found as a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activations {
    /// Runs in which it was loaded.
    pub loaded: usize,
    /// Runs in which it was there to be loaded.
    pub runs: usize,
}

impl Activations {
    /// The activations of these results; `None` where no agent found the skill as a package.
    pub fn of(results: &[RolloutResult]) -> Option<Self> {
        let runs = || results.iter().filter_map(RolloutResult::is_activated);
        let activations =
            Self { loaded: runs().filter(|is_loaded| *is_loaded).count(), runs: runs().count() };
        (activations.runs > 0).then_some(activations)
    }

    /// True if the runs say nothing about the text of the skill.
    pub const fn is_none(self) -> bool {
        self.loaded == 0
    }
}

/// `summary.json` beside the results of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EvaluationSummary {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The skill that was measured.
    pub skill_hash: SkillHash,
    /// Mean `hard`.
    pub hard: f64,
    /// Mean `soft`.
    pub soft: f64,
    /// Items.
    pub n: usize,
    /// Items whose answer holds no number where one is expected: they score 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_without_number: usize,
    /// Items whose answer is the right one but for marks around it, case or a full stop, whether that counts or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_with_marks: usize,
    /// How often a coding agent loaded the skill, where it finds it as a package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activations: Option<Activations>,
    /// The same by task type, where items have one.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub by_task_type: IndexMap<String, TaskTypeScore>,
    /// Calls and tokens.
    pub tokens: StageTokens,
}

impl EvaluationSummary {
    /// The summary of an evaluation of `n` items, without task types.
    pub fn new(skill_hash: SkillHash, mean: MeanScore, n: usize, tokens: StageTokens) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            skill_hash,
            hard: mean.hard,
            soft: mean.soft,
            n,
            n_without_number: 0,
            n_with_marks: 0,
            activations: None,
            by_task_type: IndexMap::new(),
            tokens,
        }
    }
}

/// `summary.json` beside the results of a candidate that was rejected before every item was measured: there are no
/// means over a part of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartialEvaluationSummary {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The skill that was measured.
    pub skill_hash: SkillHash,
    /// Items that were measured until the candidate was decided.
    pub n_seen: usize,
    /// Items of the split.
    pub n: usize,
    /// The score under the gate's metric if the other items gave nothing, and if they gave everything.
    pub interval: [f64; 2],
    /// Calls and tokens.
    pub tokens: StageTokens,
}

/// The scores of one task type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskTypeScore {
    /// Mean `hard`.
    pub hard: f64,
    /// Mean `soft`.
    pub soft: f64,
    /// Items.
    pub n: usize,
}
