//! Skills that are measured beside each other on the test split at the end of a run.

use super::paired::PairedRecord;
use serde::{Deserialize, Serialize};

skill_core::named_enum! {
    /// A skill by its part in the comparison at the end of a run.
    pub enum ArmName {
        /// The skill that the run began with.
        Initial = "initial",
        /// The best skill.
        Trained = "trained",
        /// No skill at all.
        NoSkill = "no_skill",
    }
}

skill_core::named_enum! {
    /// Whether the test split is read with no skill at all too.
    #[derive(Default)]
    pub enum NoSkillArm {
        /// In a planned search with caps, where it takes at most a tenth of each.
        #[default]
        Auto = "auto",
        /// Always, where the test split is read.
        On = "on",
        /// Never.
        Off = "off",
    }
}

/// The test split with no skill at all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NoSkillRecord {
    /// The mean of the strict scores.
    pub hard: f64,
    /// The mean of the graded scores.
    pub soft: f64,
    /// The gate's score.
    pub score: f64,
    /// The best skill against it.
    pub paired: Option<PairedRecord>,
}
