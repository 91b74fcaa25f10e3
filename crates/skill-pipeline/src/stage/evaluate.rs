//! Stage 6, evaluate: a skill is measured on a held-out split.

use super::StageCtx;
use super::rollout::{Agent, Rollout, rollout};
use crate::error::PipelineError;
use skill_core::{
    EarlyRejection, EarlyVerdict, ItemId, ItemScore, MeanScore, PrefixFold, RolloutResult, SkillDoc,
};
use skill_envs::{Env, Item, Split};
use skill_llm::{ChatModel, MeterReading};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A skill's results on a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The means over the split.
    pub score: MeanScore,
    /// One result per item, in the order of the split.
    pub results: Vec<RolloutResult>,
}

impl Evaluation {
    /// The evaluation that these results are, in the order of the split.
    pub fn of(results: Vec<RolloutResult>) -> Self {
        Self { score: MeanScore::of_results(&results), results }
    }
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
    Ok(Evaluation::of(rollout(env, &items, skill, target, ctx).await?))
}

/// How a candidate is measured.
pub struct CandidatePlan<'run> {
    /// Items of the split by index, in the order in which they are measured.
    pub order: Vec<usize>,
    /// Ends the evaluation when the candidate cannot win any more; `None` measures every item.
    pub rejection: Option<EarlyRejection>,
    /// Results of this very skill that were measured before.
    pub known: &'run BTreeMap<ItemId, RolloutResult>,
}

/// What is known of a candidate when its evaluation ends.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateEvaluation {
    /// The results that count: those of the shortest prefix of the plan's order that decides, in the order of the
    /// split.
    pub results: Vec<RolloutResult>,
    /// How many of these were known before.
    pub n_known: usize,
    /// What a rejected candidate's score could at most have been, and at least, if items of the split were left out.
    pub left_out: Option<ScoreInterval>,
    /// Rollouts that were finished beyond the prefix: they were paid for and count for nothing.
    pub n_beyond: usize,
}

/// Where a gate score lies if the items that were not measured gave nothing, and if they gave everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreInterval {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// Runs the agent with a candidate on the items of the split until it is decided.
///
/// Whatever the number of workers and the order in which results come, the same items count.
///
/// # Errors
///
/// An attempt that cannot be made ends the evaluation: nothing is decided without it.
pub async fn evaluate_candidate(
    env: &dyn Env,
    split: Split,
    skill: &SkillDoc,
    target: &dyn ChatModel,
    plan: CandidatePlan<'_>,
    ctx: &StageCtx<'_>,
) -> Result<CandidateEvaluation, PipelineError> {
    let items = env.items(split);
    let planned: Vec<(usize, &Item)> =
        plan.order.iter().filter_map(|&item_idx| Some((item_idx, items.get(item_idx)?))).collect();
    let mut measured: Vec<Option<(usize, Rollout, bool)>> = planned
        .iter()
        .map(|(item_idx, item)| {
            let rollout =
                Rollout { result: plan.known.get(&item.id)?.clone(), used: MeterReading::default() };
            Some((*item_idx, rollout, true))
        })
        .collect();
    let mut fold = plan.rejection.map(PrefixFold::new);
    let mut verdict = fold.as_ref().map_or(EarlyVerdict::Open, |fold| fold.rejection().verdict());
    for (position, known) in measured.iter().enumerate() {
        if let (Some(fold), Some((_, rollout, _))) = (&mut fold, known) {
            verdict = fold.push(position, ItemScore::from(&rollout.result));
        }
    }
    if verdict == EarlyVerdict::Open {
        let unknown: Vec<usize> = measured
            .iter()
            .enumerate()
            .filter(|(_, known)| known.is_none())
            .map(|(position, _)| position)
            .collect();
        let agent = Agent::new(env, skill, target, ctx);
        let work = async |_, position: usize| match planned.get(position) {
            Some((item_idx, item)) => Ok((position, *item_idx, agent.work_on(item).await?)),
            None => Err(PipelineError::Halted),
        };
        let watch = |_, (position, _, rollout): &(usize, usize, Rollout)| {
            let Some(fold) = &mut fold else { return ControlFlow::Continue(usize::MAX) };
            match fold.push(*position, ItemScore::from(&rollout.result)) {
                EarlyVerdict::Rejected => ControlFlow::Break(()),
                EarlyVerdict::Open => {
                    let n_startable = fold.n_startable(ctx.workers);
                    ControlFlow::Continue(unknown.partition_point(|position| *position < n_startable))
                }
            }
        };
        let made = ctx.map_until(unknown.clone(), work, watch).await?;
        for (position, item_idx, rollout) in made.into_iter().flatten() {
            if let Some(place) = measured.get_mut(position) {
                *place = Some((item_idx, rollout, false));
            }
        }
    }
    let n_seen = fold.as_ref().map_or(planned.len(), |fold| fold.rejection().n_seen());
    let left_out = fold.filter(|_| n_seen < planned.len()).map(|fold| {
        let (low, high) = fold.rejection().interval();
        ScoreInterval { low, high }
    });
    let n_beyond = measured.iter().skip(n_seen).flatten().filter(|(_, _, was_known)| !*was_known).count();
    let mut counted: Vec<(usize, Rollout, bool)> = measured.into_iter().take(n_seen).flatten().collect();
    counted.sort_by_key(|(item_idx, _, _)| *item_idx);
    let n_known = counted.iter().filter(|(_, _, was_known)| *was_known).count();
    for (_, rollout, _) in &counted {
        ctx.used.add(rollout.used);
    }
    let results = counted.into_iter().map(|(_, rollout, _)| rollout.result).collect();
    Ok(CandidateEvaluation { results, n_known, left_out, n_beyond })
}
