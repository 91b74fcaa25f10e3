//! Collecting: episodes of an environment, as data for a teacher.

use crate::error::PipelineError;
use crate::stage::StageCtx;
use crate::stage::rollout::{Attempt, Rollouts, rollout_attempts};
use skill_bank::{Episode, SkillRef};
use skill_core::RolloutResult;
use skill_envs::{Item, SkillSource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first so many attempts at these items: each item once before any of them comes again.
pub fn attempts<'run>(items: &[&'run Item], n_episodes: usize) -> Vec<Attempt<'run>> {
    let n_items = items.len().max(1);
    let attempt = |number: usize| {
        Some(Attempt { item: items.get(number % n_items)?, draw: number / n_items, source_idx: 0 })
    };
    (0..n_episodes).filter_map(attempt).collect()
}

/// Makes these rollouts and returns them as episodes, with the results that they are of.
///
/// # Errors
///
/// An attempt that could not be made; those that were are in the journal.
pub async fn collect(
    rollouts: &Rollouts,
    attempts: &[Attempt<'_>],
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<Vec<(Episode, RolloutResult)>, PipelineError> {
    let results = rollout_attempts(rollouts, attempts, std::slice::from_ref(source), ctx).await?;
    let environment = rollouts.env().name();
    Ok(results.into_iter().map(|result| (episode_of(&result, environment), result)).collect())
}

/// The episode of a rollout: its id is that of the item, with the number of the sample.
pub fn episode_of(result: &RolloutResult, environment: &str) -> Episode {
    let id = format!("{}/{}", result.id, result.trajectory.sample);
    Episode::of_rollout(id, environment, result)
}

/// In how many of these rollouts each version was shown.
pub(super) fn n_shown(results: &[RolloutResult]) -> BTreeMap<SkillRef, u64> {
    let mut shown: BTreeMap<SkillRef, u64> = BTreeMap::new();
    for part in results.iter().flat_map(|result| &result.trajectory.shown_parts) {
        *shown.entry(SkillRef::of_part(part)).or_default() += 1;
    }
    shown
}
