//! A target that says nothing: that measures a model or a server, and no skill.

use super::StageCtx;
use super::rollout::Agent;
use crate::error::PipelineError;
use skill_core::{RolloutResult, SkillDoc};
use skill_envs::{Env, EnvError, Split};
use skill_llm::{CallPlace, ChatModel, LlmError};

/// The error that it is if the target said nothing on any item.
pub(super) fn silence(results: &[RolloutResult], place: &CallPlace) -> Option<PipelineError> {
    if results.is_empty() || !results.iter().all(RolloutResult::is_silent) {
        return None;
    }
    let n_cut = results.iter().filter(|result| result.is_cut()).count();
    Some(PipelineError::Silent { place: place.to_string(), n: results.len(), n_cut })
}

/// An error if the target said nothing on any item of a stage, and says nothing either when it is asked once more, with
/// a skill that it has spoken with before: then it is not the skill that silences it.
///
/// The question is a further draw of the first item at the place of the stage, so that whoever takes the replies of the
/// stage out of the journal takes out this one too.
///
/// # Errors
///
/// [`PipelineError::Silent`], and an attempt that cannot be made.
pub(crate) async fn check_target_speaks(
    env: &dyn Env,
    split: Split,
    spoken_skill: &SkillDoc,
    target: &dyn ChatModel,
    results: &[RolloutResult],
    ctx: &StageCtx<'_>,
) -> Result<(), PipelineError> {
    let Some(silence) = silence(results, &ctx.place()) else { return Ok(()) };
    let first = results.first().and_then(|result| env.items(split).iter().find(|item| item.id == result.id));
    let Some(item) = first else { return Err(silence) };
    let draw = ctx.draws.first.saturating_add(ctx.draws.per_item.max(1));
    match Agent::new(env, spoken_skill, target, ctx).work_on(item, draw).await {
        Ok(again) if again.result.is_silent() => Err(silence),
        Ok(_) => Ok(()),
        // A recording of before nobody asked again.
        Err(PipelineError::Rollout { source: EnvError::Model(LlmError::NotRecorded { .. }), .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Says how many replies of the target were empty; `None` if none was.
pub fn empty_replies(results: &[RolloutResult]) -> Option<String> {
    let n_empty = results.iter().filter(|result| result.is_silent()).count();
    (n_empty > 0).then(|| {
        format!(
            "the target said nothing on {n_empty} of {} items, which are scored as they stand: that may be the server's fault, and not the skill's",
            results.len()
        )
    })
}
