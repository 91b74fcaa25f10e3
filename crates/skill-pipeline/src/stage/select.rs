//! Stage 4, select: the patch is cut to the edit budget.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::schema::{budget_schema, ranking_schema};
use crate::prompts::{BatchScore, PromptLibrary};
use serde_json::Value;
use skill_core::autonomous::{BudgetChoice, LEARNING_RATE};
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

/// How many edits the optimizer wants applied, its argument, and what was wrong with its reply.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenBudget {
    /// The number.
    pub choice: BudgetChoice,
    /// Why, in the optimizer's words.
    pub reasoning: String,
    /// One sentence each.
    pub notes: Vec<String>,
}

/// Asks the optimizer how many of the edits are to be applied.
///
/// A reply without a number applies none.
///
/// # Errors
///
/// A call that cannot be made ends the stage.
pub async fn choose_budget(
    patch: &Patch,
    skill: &SkillDoc,
    batch: BatchScore,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<ChosenBudget, PipelineError> {
    let messages = prompts.edit_budget(skill, &patch.edits, batch)?;
    let replies = ctx
        .map_ordered(vec![messages], async |_, messages| {
            optimizer.ask(messages, budget_schema(), "edit budget", ctx).await
        })
        .await?;
    let mut notes = Vec::new();
    let mut value = None;
    for reply in replies {
        notes.extend(finish_note(&reply, optimizer.max_tokens));
        value = read_object(&reply.text, LEARNING_RATE).map(|extracted| extracted.value);
    }
    let choice = BudgetChoice::read(value.as_ref(), patch.edits.len());
    if choice.fallback {
        notes.push("the reply names no number of edits; none is applied".to_owned());
    }
    let reasoning = value.as_ref().and_then(|value| value.get("reasoning")).and_then(Value::as_str);
    Ok(ChosenBudget {
        choice,
        reasoning: reasoning.unwrap_or_default().to_owned(),
        notes: notes.into_iter().map(|note| format!("edit budget: {note}")).collect(),
    })
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
