//! Stage 5, update: the edits are applied, deterministically, without a model.

use skill_core::editor::{EditRow, EditRules};
use skill_core::package::{FrontMatterEdits, apply_package_patch};
use skill_core::{Patch, SkillDoc};

/// A skill that may replace the current one.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The edited skill.
    pub skill: SkillDoc,
    /// One row per edit, in order.
    pub report: Vec<EditRow>,
}

/// Applies the edits in order, each to the result of the one before and to the file that it names.
pub fn update(skill: &SkillDoc, patch: &Patch, front_matter: FrontMatterEdits) -> Candidate {
    let (skill, report) = apply_package_patch(skill, &patch.edits, &EditRules::default(), front_matter);
    Candidate { skill, report }
}
