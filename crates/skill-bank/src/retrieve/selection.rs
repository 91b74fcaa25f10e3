//! What was selected for a task, and why: for agents, reports and explanations.

use super::RetrievalMode;
use crate::render::Section;
use crate::skill::SkillRef;
use crate::task_type::Detected;
use serde::Serialize;
use skill_core::SkillPartId;

/// What a task is shown of a bank, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Selection {
    /// The type of the task, and how it was found.
    pub task_type: Detected,
    /// How skills were ranked; template mode where there was no goal to compare with.
    pub mode: RetrievalMode,
    /// What is shown, in the order of the text.
    pub shown: Vec<ShownSkill>,
    /// What was considered and is not shown, by section and rank.
    pub left_out: Vec<LeftOutSkill>,
    /// Skills of other types, which were not considered.
    pub n_other_types: usize,
    /// Shown skills that were never measured.
    pub n_unmeasured: usize,
    /// What a person should know.
    pub warnings: Vec<Warning>,
    /// The estimate of the text's tokens.
    pub tokens: u64,
    /// The text.
    pub text: String,
}

/// A skill that is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShownSkill {
    /// The version that is shown.
    pub id: SkillRef,
    /// Its section.
    pub section: Section,
    /// Its rank in the section, from 1.
    pub rank: usize,
    /// The lower bound of its utility; `None` if it was never measured.
    pub lower_bound: Option<f64>,
    /// The cosine of its text with the goal; `None` if that was not asked for.
    pub similarity: Option<f32>,
    /// True if it is longer than the limit, so that only its beginning is shown.
    pub is_cut: bool,
}

/// A skill that is not shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LeftOutSkill {
    /// The version that would be shown.
    pub id: SkillRef,
    /// Its section.
    pub section: Section,
    /// Its rank in the section, from 1; 0 if it was not ranked.
    pub rank: usize,
    /// The lower bound of its utility; `None` if it was never measured.
    pub lower_bound: Option<f64>,
    /// The cosine of its text with the goal; `None` if that was not asked for.
    pub similarity: Option<f32>,
    /// Why it is left out.
    pub why: WhyLeftOut,
}

skill_core::named_enum! {
    /// Why a skill is not shown.
    pub enum WhyLeftOut {
        /// Enough skills of its section rank higher.
        OverTopK = "over_top_k",
        /// Enough skills of its section and of the other one that counts towards the total rank higher.
        OverTotal = "over_total",
        /// The token budget is used up by skills of higher rank.
        OverBudget = "over_budget",
        /// It is not similar enough to the goal.
        BelowThreshold = "below_threshold",
        /// It has no text.
        Empty = "empty",
        /// It is an episode of the same task, whose actions could be copied.
        SameTask = "same_task",
    }
}

/// Something about a selection that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Warning {
    /// The bank has no skills for the type of the task.
    EmptyTaskTier {
        /// The type.
        task_type: String,
    },
    /// The type of the task is not known, so that it is shown no skills of a type.
    UnknownType,
    /// The task has no goal to compare skills with, so they are ranked by utility alone.
    NoGoal,
}

impl Selection {
    /// The ids under which a rollout records what it was shown, in the order of the text.
    pub fn parts(&self) -> Vec<SkillPartId> {
        self.shown.iter().map(|shown| shown.id.part_id()).collect()
    }

    /// True if this version is shown.
    pub fn shows(&self, skill: &SkillRef) -> bool {
        self.shown.iter().any(|shown| shown.id == *skill)
    }
}
