//! Stage 1, rollout: the agent works on a batch of items with the current skill.
//!
//! A finished rollout is kept in the journal, so that an environment is not asked twice either. In training a rollout
//! belongs to its place in the run: another step measures anew. In an evaluation it belongs to the skill, so that a
//! skill that returns is not measured again.

use super::StageCtx;
use crate::error::PipelineError;
use crate::event::{Event, Stage};
use serde::{Deserialize, Serialize};
use skill_core::canonical::{canonical_json, hex_sha256};
use skill_core::{RolloutResult, SkillDoc, Usage};
use skill_envs::{Env, EnvError, Item, RolloutCtx};
use skill_llm::journal::{ResultKey, StoredResult};
use skill_llm::{CallCtx, ChatModel, LlmError, MeterReading, telemetry};
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// How often a rollout is begun where the world breaks in the middle of it; failing calls have a policy of their own.
pub const ROLLOUT_ATTEMPTS: u32 = 3;

/// What the journal calls a rollout.
const KIND: &str = "rollout";

/// A result with what it cost when it was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollout {
    /// The result.
    pub result: RolloutResult,
    /// Its model calls.
    pub used: MeterReading,
}

/// What a draw is called, from 2 on.
fn draw_name(draw: usize) -> Option<String> {
    (draw > 0).then(|| format!("draw {}", draw + 1))
}

/// A rollout as the journal holds it.
#[derive(Serialize, Deserialize)]
struct RolloutFile {
    result: RolloutResult,
    calls: u64,
    usage: Usage,
}

/// A micro-batch: items that belong together and are worked on with the others of the step.
#[derive(Debug, Clone)]
pub struct Batch<'run> {
    /// Its number in the step, from 0; none where a step has one.
    pub batch_idx: Option<usize>,
    /// Its items, in order.
    pub items: Vec<&'run Item>,
}

/// Runs the agent on the items of all micro-batches of a step, in each sample that the context asks for: one list of
/// results for each micro-batch, in the order of its items, the samples of an item side by side.
///
/// An item of two micro-batches is worked on twice.
///
/// # Errors
///
/// As [`rollout`].
pub async fn rollout_batches(
    env: &dyn Env,
    batches: &[Batch<'_>],
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
) -> Result<Vec<Vec<RolloutResult>>, PipelineError> {
    let contexts: Vec<StageCtx<'_>> = batches.iter().map(|batch| ctx.at_batch(batch.batch_idx)).collect();
    let agents: Vec<Agent<'_>> = contexts.iter().map(|ctx| Agent::new(env, skill, target, ctx)).collect();
    let mut work: Vec<(usize, &Agent<'_>, &Item, usize)> = Vec::new();
    for (list_idx, (batch, agent)) in batches.iter().zip(&agents).enumerate() {
        for item in &batch.items {
            work.extend(ctx.draws.numbers().map(|draw| (list_idx, agent, *item, draw)));
        }
    }
    let rollouts = ctx
        .map_ordered(work, async |_, (list_idx, agent, item, draw)| {
            Ok((list_idx, agent.work_on(item, draw).await?))
        })
        .await?;
    let mut results: Vec<Vec<RolloutResult>> = vec![Vec::new(); batches.len()];
    for (list_idx, Rollout { result, used }) in rollouts {
        ctx.used.add(used);
        if let Some(list) = results.get_mut(list_idx) {
            list.push(result);
        }
    }
    Ok(results)
}

/// Runs the agent on each item and returns the results in the order of the items.
///
/// # Errors
///
/// An attempt that could not be made ends the stage; faults never become scores.
pub async fn rollout(
    env: &dyn Env,
    items: &[&Item],
    skill: &SkillDoc,
    target: &dyn ChatModel,
    ctx: &StageCtx<'_>,
) -> Result<Vec<RolloutResult>, PipelineError> {
    let batch = Batch { batch_idx: ctx.batch_idx, items: items.to_vec() };
    Ok(rollout_batches(env, &[batch], skill, target, ctx).await?.into_iter().flatten().collect())
}

/// The agent with a skill: everything that a rollout needs but the item.
pub(super) struct Agent<'run> {
    env: &'run dyn Env,
    skill: &'run SkillDoc,
    target: &'run dyn ChatModel,
    ctx: &'run StageCtx<'run>,
    /// What decides a result besides the item.
    origin: String,
    /// Whether a person was told of an attempt that broke: where one does, many do.
    is_told: AtomicBool,
}

impl<'run> Agent<'run> {
    pub(super) fn new(
        env: &'run dyn Env,
        skill: &'run SkillDoc,
        target: &'run dyn ChatModel,
        ctx: &'run StageCtx<'run>,
    ) -> Self {
        let scope = match ctx.stage {
            Stage::Baseline
            | Stage::Evaluate
            | Stage::SlowEvaluate
            | Stage::FinalSelection
            | Stage::FreshBaseline
            | Stage::FreshBest
            | Stage::TestBaseline
            | Stage::TestBest => "evaluation".to_owned(),
            Stage::Rollout
            | Stage::Reflect
            | Stage::Aggregate
            | Stage::Select
            | Stage::Update
            | Stage::Appendix
            | Stage::RolloutPrev
            | Stage::RolloutCurr
            | Stage::SlowUpdate
            | Stage::MetaSkill => ctx.place().to_string(),
        };
        let mut origin =
            vec![scope, env.name().to_owned(), canonical_json(&env.settings()), skill.source_sha256()];
        origin.extend(parts_of(target));
        // Without a judge the keys are those of earlier versions.
        origin.extend(env.judge().into_iter().flat_map(|judge| parts_of(judge.as_ref())));
        let origin = hex_sha256(origin.join("\u{0}").as_bytes());
        Self { env, skill, target, ctx, origin, is_told: AtomicBool::new(false) }
    }

    /// One draw of the rollout of an item: from the journal if it is there, else made and recorded.
    ///
    /// Draws have places and keys of their own, but for the first one, which has those of an item that is measured once.
    pub(super) async fn work_on(&self, item: &Item, draw: usize) -> Result<Rollout, PipelineError> {
        let span = tracing::trace_span!(
            telemetry::ROLLOUT,
            { telemetry::ROLLOUT_ITEM } = item.id.as_str(),
            { telemetry::ROLLOUT_DRAW } = draw,
            { telemetry::ROLLOUT_RECORDED } = Empty,
            { telemetry::ROLLOUT_HARD } = Empty,
            { telemetry::ROLLOUT_SOFT } = Empty,
            { telemetry::STATUS } = Empty,
        );
        let outcome = self.look_up_or_make(item, draw, &span).instrument(span.clone()).await;
        match &outcome {
            Ok(Rollout { result, .. }) => {
                span.record(telemetry::ROLLOUT_HARD, result.hard);
                span.record(telemetry::ROLLOUT_SOFT, result.soft);
            }
            Err(_) => {
                span.record(telemetry::STATUS, telemetry::FAILED);
            }
        }
        outcome
    }

    async fn look_up_or_make(&self, item: &Item, draw: usize, span: &Span) -> Result<Rollout, PipelineError> {
        let call = self.call(item, draw);
        let failed =
            |source| PipelineError::Rollout { place: call.place.to_string(), item: item.id.clone(), source };
        let kept = self.ctx.journal.as_ref().map(|journal| (journal, self.key(item, draw)));
        if let Some((journal, key)) = &kept
            && let Some(stored) = journal.result(*key)?
        {
            span.record(telemetry::ROLLOUT_RECORDED, true);
            return read(&stored, journal.path());
        }
        span.record(telemetry::ROLLOUT_RECORDED, false);
        let (mut result, used) = self.attempt(item, draw).await.map_err(failed)?;
        // What the environment leaves open is filled from the item, so that every record can be joined to it.
        result.id = item.id.clone();
        if result.task_type.is_empty() {
            result.task_type.clone_from(&item.task_type);
        }
        result.trajectory.sample = u32::try_from(draw).unwrap_or(u32::MAX);
        if let Some((journal, key)) = kept {
            let file = RolloutFile { result, calls: used.calls, usage: used.usage };
            let content = serde_json::to_string(&file).map_err(|error| {
                failed(EnvError::Model(LlmError::Journal {
                    message: format!("a result cannot be written: {error}"),
                }))
            })?;
            journal.record_result(
                key,
                KIND,
                item.id.as_str(),
                StoredResult { place: call.place.to_string(), content },
            );
            result = file.result;
        }
        Ok(Rollout { result, used })
    }
}

impl Agent<'_> {
    /// The whole result of a draw that was recorded.
    pub(super) fn recorded(&self, item: &Item, draw: usize) -> Result<RolloutResult, PipelineError> {
        let missing = || PipelineError::Corrupt {
            path: self.ctx.journal.as_ref().map(|journal| journal.path().to_owned()).unwrap_or_default(),
            message: format!("the rollout of {} is missing", item.id),
        };
        let journal = self.ctx.journal.as_ref().ok_or_else(missing)?;
        let stored = journal.result(self.key(item, draw))?.ok_or_else(missing)?;
        Ok(read(&stored, journal.path())?.result)
    }

    /// Under which key the journal keeps a draw.
    fn key(&self, item: &Item, draw: usize) -> ResultKey {
        let (data, number) = (self.ctx.item_hashes.of(item), draw_name(draw));
        let mut parts = vec![self.origin.as_str(), item.id.as_str(), &data];
        parts.extend(number.as_deref());
        ResultKey::new(KIND, &parts)
    }

    /// Where a draw stands in the run: `baseline / q7`, or `baseline / draw 2 / q7`.
    fn call(&self, item: &Item, draw: usize) -> CallCtx {
        match draw_name(draw) {
            Some(name) => self.ctx.call(format_args!("{name} / {}", item.id)),
            None => self.ctx.call(&item.id),
        }
    }

    /// Runs the agent on an item; where the world broke, once more from the start, with the replies that it has had.
    async fn attempt(&self, item: &Item, draw: usize) -> Result<(RolloutResult, MeterReading), EnvError> {
        let mut n_attempts = 0;
        loop {
            n_attempts += 1;
            // A unit of work of its own, so that its calls are those of the attempt before.
            let call = CallCtx { document: Some(self.skill.agent_view()), ..self.call(item, draw) };
            let ctx = RolloutCtx { call, judge: self.ctx.judge.clone() };
            match self.env.rollout(item, self.skill, self.target, &ctx).await {
                Ok(result) => return Ok((result, ctx.call.scope.used())),
                Err(EnvError::Broken { message, .. }) if n_attempts < ROLLOUT_ATTEMPTS => {
                    tracing::info!(place = %ctx.call.place, message, "an attempt broke and is made again");
                    if !self.is_told.swap(true, Ordering::Relaxed) {
                        let place = &ctx.call.place;
                        let message = format!(
                            "the attempt at {place} broke and is repeated (others like it are not shown): {message}"
                        );
                        self.ctx.events.emit(&Event::Warning { step: None, message });
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// The parts of a key that stand for a model.
fn parts_of(model: &dyn ChatModel) -> [String; 3] {
    let id = model.id();
    [id.provider.clone(), id.model.clone(), canonical_json(&model.parameters())]
}

fn read(stored: &StoredResult, path: &std::path::Path) -> Result<Rollout, PipelineError> {
    let file: RolloutFile =
        serde_json::from_str(&stored.content).map_err(|error| PipelineError::Corrupt {
            path: path.to_owned(),
            message: format!("the rollout at {} is not of the expected form: {error}", stored.place),
        })?;
    let used = MeterReading { calls: file.calls, failed: 0, usage: file.usage };
    Ok(Rollout { result: file.result, used })
}
