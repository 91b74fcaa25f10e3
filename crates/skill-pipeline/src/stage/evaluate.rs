//! Stage 6, evaluate: a skill is measured on a held-out split.
//!
//! # Invariants
//!
//! - A candidate that equals the current skill is not evaluated. Held by
//!   `a_candidate_that_is_the_current_skill_is_a_no_op_and_costs_nothing`.

use super::StageCtx;
use super::rollout::{Agent, Recorded, Rollout, Rollouts};
use crate::error::PipelineError;
use crate::records::evaluation::{CandidateEvaluation, Evaluation, ScoreInterval};
use skill_core::{EarlyRejection, EarlyVerdict, ItemId, ItemScore, PrefixFold, RolloutResult};
use skill_envs::{Item, SkillSource, Split};
use skill_llm::MeterReading;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One draw of one item.
pub(crate) type Drawn = (ItemId, usize);

/// Which draw of which item a result is of.
pub fn draw_of(result: &RolloutResult) -> Drawn {
    (result.id.clone(), usize::try_from(result.trajectory.sample).unwrap_or(usize::MAX))
}

/// The items of an evaluation, each with the scores of its draws: they stand side by side.
pub fn by_item(results: &[RolloutResult]) -> impl Iterator<Item = (&RolloutResult, Vec<ItemScore>)> {
    results
        .chunk_by(|one, next| one.id == next.id)
        .filter_map(|draws| Some((draws.first()?, draws.iter().map(ItemScore::from).collect())))
}

/// The draws of these items that a context asks for, those of an item side by side.
fn draws_of<'item>(
    items: impl IntoIterator<Item = &'item Item>,
    ctx: &StageCtx<'_>,
) -> Vec<(&'item Item, usize)> {
    items.into_iter().flat_map(|item| ctx.draws.numbers().map(move |draw| (item, draw))).collect()
}

fn whole_split(rollouts: &Rollouts, split: Split) -> Vec<&Item> {
    rollouts.env().items(split).iter().collect()
}

/// Runs the agent with this skill on every item of the split, in each draw that the context asks for.
///
/// # Errors
///
/// An attempt that cannot be made ends the evaluation: there is no score over a part of a split.
pub async fn evaluate(
    rollouts: &Rollouts,
    split: Split,
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<Evaluation, PipelineError> {
    evaluate_items(rollouts, (split, whole_split(rollouts, split)), source, ctx).await
}

/// As [`evaluate`], on these items of the split alone.
///
/// # Errors
///
/// As [`evaluate`].
pub async fn evaluate_items(
    rollouts: &Rollouts,
    items: (Split, Vec<&Item>),
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<Evaluation, PipelineError> {
    Ok(evaluate_as(rollouts, items, source, ctx, |result| result).await?.0)
}

/// As [`evaluate`], but keeps of each result what the evaluation needs ([`RolloutResult::without_trajectory`]), so that
/// its size does not grow with the texts of the items.
///
/// Where the context has a journal, the second value reads the whole results out of it, in the order of
/// [`Evaluation::results`].
///
/// # Errors
///
/// As [`evaluate`].
pub async fn evaluate_scores(
    rollouts: &Rollouts,
    split: Split,
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
) -> Result<(Evaluation, Recorded), PipelineError> {
    let items = (split, whole_split(rollouts, split));
    evaluate_as(rollouts, items, source, ctx, RolloutResult::without_trajectory).await
}

async fn evaluate_as(
    rollouts: &Rollouts,
    (split, items): (Split, Vec<&Item>),
    source: &Arc<dyn SkillSource>,
    ctx: &StageCtx<'_>,
    kept: impl Fn(RolloutResult) -> RolloutResult,
) -> Result<(Evaluation, Recorded), PipelineError> {
    let draws = draws_of(items.iter().copied(), ctx);
    let agent = Agent::new(rollouts, source, ctx).planning(draws.len());
    let agent = agent.of_batch(split, None, items);
    let work = async |_, (item, draw): (&Item, usize)| {
        let rollout = agent.work_on(item, draw).await?;
        // A place for each item is reserved up front: a small one.
        Ok(Box::new(Rollout { result: kept(rollout.result), ..rollout }))
    };
    let made = ctx.of_rollouts().map_ordered(draws, work).await?;
    agent.keep_broken();
    let mut recorded = Recorded { journal: ctx.journal.clone(), keys: Vec::with_capacity(made.len()) };
    let counted = |rollout: Box<Rollout>| {
        let Rollout { result, used, key } = *rollout;
        ctx.used.add(used);
        recorded.keys.push(key);
        result
    };
    let evaluation = Evaluation::of(made.into_iter().map(counted).collect());
    Ok((evaluation, recorded))
}

/// How a candidate is measured.
pub struct CandidatePlan<'run> {
    /// Draws of the split's items by index, in the order in which they are measured.
    pub order: Vec<usize>,
    /// Ends the evaluation when the candidate can no longer win; `None` measures every item.
    pub rejection: Option<EarlyRejection>,
    /// Results of this very skill that were measured before.
    pub known: &'run BTreeMap<Drawn, RolloutResult>,
    /// The most draws under way that may turn out not to be needed; `None` sets no bound.
    pub risk: Option<usize>,
}

/// Runs the agent with a candidate on the items of the split until it is decided.
///
/// Whatever the number of workers and the order in which results come, the same items count.
///
/// # Errors
///
/// An attempt that cannot be made ends the evaluation: nothing is decided without it.
pub async fn evaluate_candidate(
    rollouts: &Rollouts,
    split: Split,
    source: &Arc<dyn SkillSource>,
    plan: CandidatePlan<'_>,
    ctx: &StageCtx<'_>,
) -> Result<CandidateEvaluation, PipelineError> {
    let draws = draws_of(rollouts.env().items(split), ctx);
    let planned: Vec<(usize, &Item, usize)> = plan
        .order
        .iter()
        .filter_map(|&draw_idx| draws.get(draw_idx).map(|(item, draw)| (draw_idx, *item, *draw)))
        .collect();
    let mut measured: Vec<Option<Measured>> = planned
        .iter()
        .map(|(draw_idx, item, draw)| {
            let result = plan.known.get(&(item.id.clone(), *draw))?.clone();
            Some(Measured { draw_idx: *draw_idx, result, used: MeterReading::default(), was_known: true })
        })
        .collect();
    let mut fold = plan.rejection.map(PrefixFold::new);
    // Of so many calls in flight one is certain to be needed.
    let most = plan.risk.map(|risk| ctx.workers.min(risk.saturating_add(1)));
    let mapping = if most.is_some() { ctx.clone() } else { ctx.of_rollouts() };
    let in_flight = most.unwrap_or(mapping.workers);
    let mut verdict = fold.as_ref().map_or(EarlyVerdict::Open, |fold| fold.rejection().verdict());
    for (position, known) in measured.iter().enumerate() {
        if let (Some(fold), Some(known)) = (&mut fold, known) {
            let tokens = known.result.usage.tokens();
            verdict = fold.push_counted(position, ItemScore::from(&known.result), tokens);
        }
    }
    if verdict == EarlyVerdict::Open {
        let unknown: Vec<usize> = measured
            .iter()
            .enumerate()
            .filter(|(_, known)| known.is_none())
            .map(|(position, _)| position)
            .collect();
        let agent = Agent::new(rollouts, source, ctx).planning(planned.len());
        let agent = agent.of_batch(split, None, whole_split(rollouts, split));
        let work = async |_, position: usize| match planned.get(position) {
            Some((draw_idx, item, draw)) => Ok((position, *draw_idx, agent.work_on(item, *draw).await?)),
            None => Err(PipelineError::Halted),
        };
        let startable = |fold: &PrefixFold| {
            let n_startable = fold.n_startable(in_flight);
            unknown.partition_point(|position| *position < n_startable)
        };
        let first = fold.as_ref().map_or(usize::MAX, startable);
        let watch = |_, (position, _, rollout): &(usize, usize, Rollout)| {
            let Some(fold) = &mut fold else { return ControlFlow::Continue(usize::MAX) };
            let tokens = rollout.result.usage.tokens();
            match fold.push_counted(*position, ItemScore::from(&rollout.result), tokens) {
                EarlyVerdict::Rejected => ControlFlow::Break(()),
                EarlyVerdict::Open => ControlFlow::Continue(startable(fold)),
            }
        };
        let made = mapping.map_until(unknown.clone(), first, work, watch).await?;
        agent.keep_broken();
        // What was dropped gives back what it has reserved before anything else is begun.
        rollouts.settle().await;
        for (position, draw_idx, Rollout { result, used, .. }) in made.into_iter().flatten() {
            if let Some(place) = measured.get_mut(position) {
                *place = Some(Measured { draw_idx, result, used, was_known: false });
            }
        }
    }
    let n_seen = fold.as_ref().map_or(planned.len(), |fold| fold.rejection().n_seen());
    let left_out = fold.filter(|_| n_seen < planned.len()).map(|fold| {
        let (low, high) = fold.rejection().interval();
        ScoreInterval { low, high }
    });
    let n_beyond = measured.iter().skip(n_seen).flatten().filter(|measured| !measured.was_known).count();
    let mut counted: Vec<Measured> = measured.into_iter().take(n_seen).flatten().collect();
    counted.sort_by_key(|measured| measured.draw_idx);
    let n_known = counted.iter().filter(|measured| measured.was_known).count();
    for measured in &counted {
        ctx.used.add(measured.used);
    }
    let results = counted.into_iter().map(|measured| measured.result).collect();
    Ok(CandidateEvaluation { results, n_known, left_out, n_beyond })
}

/// A result of a candidate.
struct Measured {
    /// Which draw of the split's items it is.
    draw_idx: usize,
    result: RolloutResult,
    used: MeterReading,
    /// Whether it was there before this evaluation.
    was_known: bool,
}
