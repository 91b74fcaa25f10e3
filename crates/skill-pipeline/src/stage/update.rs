//! Stage 5, update: the edits are applied, deterministically, without a model; or the skill is rewritten as a whole.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::schema::rewrite_schema;
use skill_core::constraints::EditConstraints;
use skill_core::editor::{EditRow, EditRules};
use skill_core::package::{FrontMatterEdits, apply_package_patch};
use skill_core::rewrite::{RewriteReply, with_regions_of};
use skill_core::{Patch, SkillDoc};

/// A skill that may replace the current one.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The edited skill.
    pub skill: SkillDoc,
    /// One row per edit, in order.
    pub report: Vec<EditRow>,
}

/// Applies the edits in order, each to the result of the one before and to the file that it names, less those that go
/// against what people want.
pub fn update(
    skill: &SkillDoc,
    patch: &Patch,
    front_matter: FrontMatterEdits,
    rules: &EditRules,
    constraints: &EditConstraints,
) -> Candidate {
    let (skill, report) = match constraints.is_empty() {
        true => apply_package_patch(skill, &patch.edits, rules, front_matter),
        false => constraints.apply(skill, &patch.edits, rules, front_matter),
    };
    Candidate { skill, report }
}

/// What came of a rewrite.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rewrite {
    /// The rewritten skill with the protected regions of the current one; `None` if there is none.
    pub skill: Option<SkillDoc>,
    /// The skill as the optimizer wrote it.
    pub new_skill: String,
    /// The optimizer's argument.
    pub reasoning: String,
    /// What it says that it changed.
    pub change_summary: Vec<String>,
    /// What was wrong with the reply, one sentence each.
    pub notes: Vec<String>,
}

/// Asks the optimizer to rewrite the skill by the suggestions of a patch.
///
/// # Errors
///
/// A call that cannot be made ends the stage.
pub async fn rewrite(
    skill: &SkillDoc,
    suggestions: &Patch,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Rewrite, PipelineError> {
    let messages = prompts.rewrite(skill, &suggestions.edits)?;
    let replies = ctx
        .map_ordered(vec![messages], async |_, messages| {
            optimizer.ask(messages, rewrite_schema(), "rewrite", ctx).await
        })
        .await?;
    let mut rewrite = Rewrite::default();
    for reply in replies {
        let RewriteReply { new_skill, reasoning, change_summary, notes } = RewriteReply::read(&reply.text);
        let new_skill = new_skill.unwrap_or_default();
        rewrite = Rewrite {
            skill: with_regions_of(skill, &new_skill),
            new_skill,
            reasoning,
            change_summary,
            notes: finish_note(&reply, optimizer.max_tokens).into_iter().chain(notes).collect(),
        };
    }
    Ok(rewrite.finished("rewrite"))
}

/// Takes the first whole skill of a patch that says anything.
pub(crate) fn take_whole(skill: &SkillDoc, candidates: &Patch) -> Rewrite {
    let rewrite = candidates.edits.iter().find_map(|candidate| {
        Some(Rewrite {
            skill: Some(with_regions_of(skill, &candidate.content)?),
            new_skill: candidate.content.clone(),
            reasoning: candidates.reasoning.clone(),
            change_summary: Some(candidate.target.clone())
                .into_iter()
                .filter(|title| !title.is_empty())
                .collect(),
            notes: Vec::new(),
        })
    });
    rewrite.unwrap_or_default().finished("full rewrite")
}

impl Rewrite {
    fn finished(mut self, name: &str) -> Self {
        if self.skill.is_none() {
            self.notes.push("there is no new skill; the step has no candidate".to_owned());
        }
        for note in &mut self.notes {
            *note = format!("{name}: {note}");
        }
        self
    }
}
