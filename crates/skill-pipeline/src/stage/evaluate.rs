//! Stage 6, evaluate: a skill is measured on a held-out split.

use super::StageCtx;
use super::rollout::rollout;
use crate::error::PipelineError;
use skill_core::{MeanScore, RolloutResult, SkillDoc};
use skill_envs::{Env, Item, Split};
use skill_llm::ChatModel;

/// A skill's results on a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The means over the split.
    pub score: MeanScore,
    /// One result per item, in the order of the split.
    pub results: Vec<RolloutResult>,
}

/// Runs the agent with this skill on every item of the split.
///
/// # Errors
///
/// An attempt that cannot be made ends the evaluation: there is no score over a part of a split.
pub async fn evaluate(
    env: &dyn Env,
    split: Split,
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
) -> Result<Evaluation, PipelineError> {
    let items: Vec<&Item> = env.items(split).iter().collect();
    let results = rollout(env, &items, skill, target, ctx).await?;
    Ok(Evaluation { score: MeanScore::of_results(&results), results })
}
