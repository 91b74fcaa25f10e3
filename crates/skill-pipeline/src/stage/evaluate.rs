//! Stage 6, evaluate: a skill is measured on a held-out split.

use super::StageCtx;
use super::rollout::{Agent, Rollout};
use super::silence::silence;
use crate::error::PipelineError;
use crate::event::Stage;
use skill_core::{
    EarlyRejection, EarlyVerdict, ItemId, ItemScore, MeanScore, PrefixFold, RolloutResult, SkillDoc,
};
use skill_envs::{Env, Item, Split};
use skill_llm::{CallPlace, ChatModel, MeterReading};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A skill's results on a split.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The means over the split.
    pub score: MeanScore,
    /// One result per item and draw, in the order of the split, the draws of an item side by side.
    pub results: Vec<RolloutResult>,
}

impl Evaluation {
    /// The evaluation that these results are, in the order of the split.
    pub fn of(results: Vec<RolloutResult>) -> Self {
        Self { score: MeanScore::of_results(&results), results }
    }

    /// An error if the target said nothing to any item: that measures a model or a server, and no skill.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Silent`].
    pub fn check_spoken(&self, stage: Stage) -> Result<(), PipelineError> {
        silence(&self.results, &CallPlace::new(stage.as_str())).map_or(Ok(()), Err)
    }
}

/// One draw of one item.
pub type Drawn = (ItemId, usize);

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
fn draws_of<'item>(items: &'item [Item], ctx: &StageCtx<'_>) -> Vec<(&'item Item, usize)> {
    items.iter().flat_map(|item| ctx.draws.numbers().map(move |draw| (item, draw))).collect()
}

/// Runs the agent with this skill on every item of the split, in each draw that the context asks for.
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
    evaluate_as(env, split, skill, target, ctx, |result| result).await
}

/// As [`evaluate`], but keeps of each result what the evaluation needs ([`RolloutResult::without_trajectory`]), so that
/// its size does not grow with the texts of the items.
///
/// Where the context has a journal, [`recorded`] reads the whole results afterwards.
///
/// # Errors
///
/// As [`evaluate`].
pub async fn evaluate_scores(
    env: &dyn Env,
    split: Split,
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
) -> Result<Evaluation, PipelineError> {
    evaluate_as(env, split, skill, target, ctx, RolloutResult::without_trajectory).await
}

/// The whole results of an evaluation that was made with these arguments, out of the journal: one at a time, in the
/// order of [`Evaluation::results`].
///
/// # Errors
///
/// Each element: a result that is not in the journal, and a journal that cannot be read.
pub fn recorded<'run>(
    env: &'run dyn Env,
    split: Split,
    skill: &'run SkillDoc,
    target: &'run dyn ChatModel,
    ctx: &'run StageCtx<'run>,
) -> impl Iterator<Item = Result<RolloutResult, PipelineError>> {
    let agent = Agent::new(env, skill, target, ctx);
    draws_of(env.items(split), ctx).into_iter().map(move |(item, draw)| agent.recorded(item, draw))
}

async fn evaluate_as(
    env: &dyn Env,
    split: Split,
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
    kept: impl Fn(RolloutResult) -> RolloutResult,
) -> Result<Evaluation, PipelineError> {
    let agent = Agent::new(env, skill, target, ctx);
    let work = async |_, (item, draw): (&Item, usize)| {
        let Rollout { result, used } = agent.work_on(item, draw).await?;
        // A place for each item is reserved up front: a small one.
        Ok(Box::new(Rollout { result: kept(result), used }))
    };
    let rollouts = ctx.map_ordered(draws_of(env.items(split), ctx), work).await?;
    let counted = |rollout: Box<Rollout>| {
        let Rollout { result, used } = *rollout;
        ctx.used.add(used);
        result
    };
    Ok(Evaluation::of(rollouts.into_iter().map(counted).collect()))
}

/// How a candidate is measured.
pub struct CandidatePlan<'run> {
    /// Draws of the split's items by index, in the order in which they are measured.
    pub order: Vec<usize>,
    /// Ends the evaluation when the candidate cannot win any more; `None` measures every item.
    pub rejection: Option<EarlyRejection>,
    /// Results of this very skill that were measured before.
    pub known: &'run BTreeMap<Drawn, RolloutResult>,
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
    let draws = draws_of(env.items(split), ctx);
    let planned: Vec<(usize, &Item, usize)> = plan
        .order
        .iter()
        .filter_map(|&draw_idx| draws.get(draw_idx).map(|(item, draw)| (draw_idx, *item, *draw)))
        .collect();
    let mut measured: Vec<Option<(usize, Rollout, bool)>> = planned
        .iter()
        .map(|(draw_idx, item, draw)| {
            let result = plan.known.get(&(item.id.clone(), *draw))?.clone();
            Some((*draw_idx, Rollout { result, used: MeterReading::default() }, true))
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
            Some((draw_idx, item, draw)) => Ok((position, *draw_idx, agent.work_on(item, *draw).await?)),
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
        for (position, draw_idx, rollout) in made.into_iter().flatten() {
            if let Some(place) = measured.get_mut(position) {
                *place = Some((draw_idx, rollout, false));
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
    counted.sort_by_key(|(draw_idx, _, _)| *draw_idx);
    let n_known = counted.iter().filter(|(_, _, was_known)| *was_known).count();
    for (_, rollout, _) in &counted {
        ctx.used.add(rollout.used);
    }
    let results = counted.into_iter().map(|(_, rollout, _)| rollout.result).collect();
    Ok(CandidateEvaluation { results, n_known, left_out, n_beyond })
}
