//! Skills that are measured beside each other on the test split at the end of a run.

use super::StageTokens;
use super::paired::PairedRecord;
use serde::{Deserialize, Serialize};
use skill_core::{ItemId, SkillHash};

skill_core::named_enum! {
    /// A skill by its part in the comparison at the end of a run, in the order of the table.
    pub enum ArmName {
        /// No skill at all.
        NoSkill = "no_skill",
        /// The skill that the run began with.
        Initial = "initial",
        /// The skill that the optimizer writes in one request, from failures of the initial skill on training tasks.
        OneShot = "one_shot",
        /// The best skill.
        Trained = "trained",
    }
}

skill_core::named_enum! {
    /// Whether an arm besides the initial and the best skill is measured on the test split.
    #[derive(Default)]
    pub enum ArmSetting {
        /// In a planned search with caps, if it takes at most a tenth of each.
        #[default]
        Auto = "auto",
        /// Always, if the test split is read.
        On = "on",
        /// Never.
        Off = "off",
    }
}

/// An arm besides the initial and the best skill on the test split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ArmRecord {
    /// The mean of the strict scores.
    pub hard: f64,
    /// The mean of the graded scores.
    pub soft: f64,
    /// The gate's score.
    pub score: f64,
    /// The best skill against it.
    pub paired: Option<PairedRecord>,
}

/// `one_shot.json`: the request that made the skill of the one-shot arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OneShotRecord {
    /// The version of this format, `major.minor`.
    pub format_version: String,
    /// The skill that the optimizer wrote.
    pub skill_hash: SkillHash,
    /// The training tasks whose failures it read.
    pub items: Vec<ItemId>,
    /// Tokens of the request.
    pub tokens: StageTokens,
}
