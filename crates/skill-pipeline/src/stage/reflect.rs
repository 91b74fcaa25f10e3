//! Stage 2, reflect: analysts read minibatches of trajectories and propose edits.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::schema::analyst_schema;
use skill_core::json::read_patch;
use skill_core::plan::plan_minibatches;
use skill_core::{RawPatch, RolloutResult, SkillDoc, SourceType};

/// How trajectories are grouped and how much an analyst may propose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReflectSettings {
    /// Trajectories per analyst call.
    pub minibatch_size: usize,
    /// The most edits that one analyst may propose: the maximum of the schedule, as the reference has it.
    pub edit_budget: u32,
    /// Seed of the batch; failures are shuffled by it, successes by the next one.
    pub batch_seed: u64,
}

/// What the analysts came up with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reflection {
    /// The patches of the analysts whose reply had one: failures first, each in minibatch order.
    pub patches: Vec<RawPatch>,
    /// What was wrong with replies, one sentence each.
    pub notes: Vec<String>,
}

/// Asks one analyst per minibatch of failures and of successes.
///
/// # Errors
///
/// An analyst that cannot be reached ends the stage. One whose reply holds no patch does not: it is noted.
pub async fn reflect(
    results: &[RolloutResult],
    skill: &SkillDoc,
    settings: ReflectSettings,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Reflection, PipelineError> {
    let is_success: Vec<bool> = results.iter().map(RolloutResult::is_success).collect();
    let groups = plan_minibatches(&is_success, settings.minibatch_size, Some(settings.batch_seed));
    let numbered = |source: SourceType, groups: Vec<Vec<usize>>| {
        groups.into_iter().enumerate().map(move |(group_idx, group)| (source, group_idx + 1, group))
    };
    let minibatches: Vec<_> = numbered(SourceType::Failure, groups.failures)
        .chain(numbered(SourceType::Success, groups.successes))
        .collect();

    let replies = ctx
        .map_ordered(minibatches, async |_, (source, number, group)| {
            let trajectories: Vec<&RolloutResult> =
                group.iter().filter_map(|&result_idx| results.get(result_idx)).collect();
            let name = format!("{} {number}", source.as_str());
            let messages = prompts.analyst(source, skill, settings.edit_budget, &trajectories)?;
            let reply = optimizer.ask(messages, analyst_schema(source), &name, ctx).await?;
            let notes = finish_note(&reply, optimizer.max_tokens);
            let (patch, notes) =
                read_analysis(&reply.text, source, &trajectories, settings.edit_budget, notes);
            Ok((patch, notes.into_iter().map(|note| format!("analyst {name}: {note}")).collect::<Vec<_>>()))
        })
        .await?;

    let mut reflection = Reflection::default();
    for (patch, notes) in replies {
        reflection.patches.extend(patch);
        reflection.notes.extend(notes);
    }
    Ok(reflection)
}

/// Reads an analyst's reply: the patch if there is one, and what was wrong with it.
fn read_analysis(
    text: &str,
    source: SourceType,
    trajectories: &[&RolloutResult],
    edit_budget: u32,
    finish: Option<String>,
) -> (Option<RawPatch>, Vec<String>) {
    let reply = read_patch(text);
    let mut notes: Vec<String> = finish.into_iter().chain(reply.notes).collect();
    let Some(mut patch) = reply.patch else {
        notes.push("the reply holds no patch; this minibatch gives no edits".to_owned());
        return (None, notes);
    };
    let n_proposed = patch.edits.len();
    let budget = usize::try_from(edit_budget).unwrap_or(usize::MAX);
    if n_proposed > budget {
        patch.edits.truncate(budget);
        notes.push(format!("{n_proposed} edits were proposed where {edit_budget} were asked for; the first {edit_budget} stay"));
    }
    let batch_size = u32::try_from(trajectories.len()).unwrap_or(u32::MAX);
    for edit in &mut patch.edits {
        edit.support_count.get_or_insert(batch_size);
        edit.source_type = Some(source);
    }
    let item_ids = trajectories.iter().map(|result| result.id.clone()).collect();
    (Some(RawPatch { patch, source_type: source, batch_size, item_ids, notes: notes.clone() }), notes)
}
