//! Stage 1, rollout: the agent works on a batch of items with the current skill.

use super::StageCtx;
use crate::error::PipelineError;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::{Env, Item, RolloutCtx};
use skill_llm::ChatModel;

/// Runs the agent on each item and returns the results in the order of the items.
///
/// # Errors
///
/// The first attempt that could not be made ends the stage; faults never become scores.
pub async fn rollout(
    env: &dyn Env,
    items: &[&Item],
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
) -> Result<Vec<RolloutResult>, PipelineError> {
    ctx.map_ordered(items.to_vec(), async |_, item| {
        let rollout_ctx = RolloutCtx { call: ctx.call(&item.id) };
        let place = || rollout_ctx.call.place.to_string();
        let mut result = env
            .rollout(item, skill, target, &rollout_ctx)
            .await
            .map_err(|source| PipelineError::Rollout { place: place(), item: item.id.clone(), source })?;
        // What the environment leaves open is filled from the item, so that every record can be joined to it.
        result.id = item.id.clone();
        if result.task_type.is_empty() {
            result.task_type.clone_from(&item.task_type);
        }
        Ok(result)
    })
    .await
}
