//! Stage 4, select: the patch is cut to the edit budget.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::schema::ranking_schema;
use skill_core::json::read_object;
use skill_core::select::select_edits;
use skill_core::{Patch, SkillDoc};

/// The edits that are kept and what was wrong with the ranking.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// At most as many edits as the budget.
    pub patch: Patch,
    /// One sentence each.
    pub notes: Vec<String>,
}

/// Asks the optimizer to rank the edits if there are more than the budget, and keeps the first ones.
///
/// A ranking that cannot be used keeps the first edits in the order of the patch.
///
/// # Errors
///
/// A ranking call that cannot be made ends the stage.
pub async fn select(
    patch: Patch,
    skill: &SkillDoc,
    edit_budget: u32,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Selection, PipelineError> {
    let budget = usize::try_from(edit_budget).unwrap_or(usize::MAX);
    if patch.edits.len() <= budget || budget == 0 {
        return Ok(Selection { patch: select_edits(&patch, None, budget), notes: Vec::new() });
    }
    let messages = prompts.ranking(skill, &patch.edits, edit_budget)?;
    let replies = ctx
        .map_ordered(vec![messages], async |_, messages| {
            optimizer.ask(messages, ranking_schema(), "ranking", ctx).await
        })
        .await?;
    let mut notes = Vec::new();
    let mut ranking = None;
    for reply in replies {
        notes.extend(finish_note(&reply, optimizer.max_tokens));
        ranking = read_object(&reply.text, "selected_indices").map(|extracted| extracted.value);
        if ranking.is_none() {
            notes.push(format!("the reply names no edits; the first {budget} stay"));
        }
    }
    let notes = notes.into_iter().map(|note| format!("ranking: {note}")).collect();
    Ok(Selection { patch: select_edits(&patch, ranking.as_ref(), budget), notes })
}
