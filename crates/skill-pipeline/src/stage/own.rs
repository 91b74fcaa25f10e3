//! Environments that bring their own batches or their own reflection: the two seams for what works on a whole batch.
//!
//! A batch is made as a whole and recorded as a whole, so a run that ends inside one makes it again; replies that came
//! through the models of the run are in the journal and not paid for twice.

use super::StageCtx;
use super::reflect::{ReflectBatch, Reflection, read_proposal};
use crate::error::PipelineError;
use crate::event::Stage;
use crate::prompts::PromptLibrary;
use async_trait::async_trait;
use skill_core::plan::BatchPlan;
use skill_core::{RolloutResult, SkillDoc, SourceType, StepIdx};
use skill_envs::{EnvError, Item, RolloutCtx, SkillSource, Split};
use skill_llm::ChatModel;
use std::sync::Arc;

/// The most bytes of one proposal; a longer one is left out with a note, since no prompt has room for it.
pub const MAX_PROPOSAL_BYTES: usize = 1 << 20;

/// An environment that works on whole batches.
#[async_trait]
pub trait OwnBatches: Send + Sync {
    /// The micro-batches of each epoch, as indices into the training split; empty for those of the engine.
    ///
    /// Every epoch has as many, and they fill its steps.
    fn epochs(&self) -> &[Vec<BatchPlan>] {
        &[]
    }

    /// Runs the agent on all items of a batch and returns a result for each, in their order.
    ///
    /// [`RolloutCtx::target`] is the target and [`RolloutCtx::judge`] the optimizer, both with the layers of the run.
    ///
    /// # Errors
    ///
    /// As [`skill_envs::Env::rollout`]: a batch that could not be made is never a score.
    async fn rollout(
        &self,
        batch: OwnBatch<'_>,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<Vec<RolloutResult>, EnvError>;
}

/// A batch that an environment works on.
#[derive(Debug, Clone, Copy)]
pub struct OwnBatch<'run> {
    /// The step, or none outside of steps.
    pub step: Option<StepIdx>,
    /// For what it is made.
    pub stage: Stage,
    /// Which micro-batch of the step, from 0; none where a step has one.
    pub batch_idx: Option<usize>,
    /// The split of its items.
    pub split: Split,
    /// The seed of a micro-batch of the plan; none for items that the engine has chosen.
    pub seed: Option<u64>,
    /// Which sample of the items this is, from 0.
    pub sample: usize,
    /// The items, in order.
    pub items: &'run [&'run Item],
}

/// An environment that reflects on its results itself.
#[async_trait]
pub trait OwnReflection: Send + Sync {
    /// Proposes edits after a micro-batch; [`RolloutCtx`] is as in [`OwnBatches::rollout`].
    ///
    /// # Errors
    ///
    /// The reflection could not be made. A proposal that holds no patch is none.
    async fn reflect(
        &self,
        batch: ReflectedBatch<'_>,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<Vec<Proposal>, EnvError>;
}

/// What an environment reflects on.
#[derive(Debug, Clone, Copy)]
pub struct ReflectedBatch<'run> {
    /// The step.
    pub step: Option<StepIdx>,
    /// The micro-batch with its seed and results.
    pub batch: ReflectBatch<'run>,
    /// Its items, in the order of the results.
    pub items: &'run [&'run Item],
    /// The skill that made the results.
    pub skill: &'run SkillDoc,
    /// What earlier steps came to, as the optimizer is told it; empty at first.
    pub memory: &'run str,
    /// The notes of the optimizer to itself; empty at first.
    pub meta_skill: &'run str,
}

/// What one analyst of an environment proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The reply of an analyst, or its like: a JSON object that holds a patch.
    pub json: String,
    /// Which kind of trajectories it is about.
    pub source_type: SourceType,
    /// How many trajectories it is about; all of the kind where it does not say.
    pub batch_size: Option<u32>,
}

/// The models of a run, for work on whole batches.
#[derive(Clone)]
pub(crate) struct OwnModels {
    pub(crate) target: Arc<dyn ChatModel>,
    pub(crate) optimizer: Arc<dyn ChatModel>,
}

impl OwnModels {
    pub(super) fn ctx(&self, call: skill_llm::CallCtx) -> RolloutCtx {
        let (judge, target) = (Some(Arc::clone(&self.optimizer)), Some(Arc::clone(&self.target)));
        RolloutCtx { judge, target, ..RolloutCtx::new(call) }
    }
}

/// How an environment reflects: itself, with these models.
#[derive(Clone)]
pub(crate) struct OwnReflections {
    pub(crate) own: Arc<dyn OwnReflection>,
    pub(crate) models: OwnModels,
}

/// Has an environment reflect on the micro-batches of a step, one after the other: a reflection for each, in order.
///
/// # Errors
///
/// A reflection that could not be made. A proposal that holds no patch is noted.
pub(crate) async fn reflect_by(
    reflections: &OwnReflections,
    batches: &[ReflectBatch<'_>],
    items: &[Vec<&Item>],
    skill: &SkillDoc,
    prompts: &PromptLibrary,
    ctx: &StageCtx<'_>,
) -> Result<Vec<Reflection>, PipelineError> {
    let background = prompts.background();
    let work: Vec<(ReflectBatch<'_>, &[&Item])> =
        batches.iter().copied().zip(items.iter().map(Vec::as_slice)).collect();
    // One at a time: nobody says that an environment can do more.
    let one_by_one = StageCtx { workers: 1, ..ctx.clone() };
    one_by_one
        .map_ordered(work, async |_, (batch, items)| {
            let reflected = ReflectedBatch {
                step: ctx.step,
                batch,
                items,
                skill,
                memory: &background.memory,
                meta_skill: &background.meta_skill,
            };
            let Some(first) = items.first() else { return Ok(Reflection::default()) };
            let call = ctx.at_batch(batch.batch_idx).call("own");
            let of_env = reflections.models.ctx(call.clone());
            let made = reflections.own.reflect(reflected, reflections.models.target.as_ref(), &of_env).await;
            ctx.used.add(call.scope.used());
            let proposals = made.map_err(|source| PipelineError::Rollout {
                place: call.place.to_string(),
                item: first.id.clone(),
                source,
            })?;
            Ok(read_proposals(&proposals, batch.results, prompts))
        })
        .await
}

fn read_proposals(proposals: &[Proposal], results: &[RolloutResult], prompts: &PromptLibrary) -> Reflection {
    let mut reflection = Reflection::default();
    for (number, proposal) in (1..).zip(proposals) {
        let n_bytes = proposal.json.len();
        if n_bytes > MAX_PROPOSAL_BYTES {
            let note = format!(
                "proposal {number} of the environment has {n_bytes} bytes, more than {MAX_PROPOSAL_BYTES}: it is left out"
            );
            reflection.notes.push(note);
            continue;
        }
        let is_success = proposal.source_type == SourceType::Success;
        let about: Vec<&RolloutResult> =
            results.iter().filter(|result| result.is_success() == is_success).collect();
        let (patch, patterns, notes) = read_proposal(proposal, prompts.update_mode(), &about);
        let about = |note| format!("proposal {number} of the environment: {note}");
        // Failures first, as the analysts of the engine give them.
        let at = match patch.as_ref().map(|patch| patch.source_type) {
            Some(SourceType::Failure) => {
                reflection.patches.iter().take_while(|raw| raw.source_type == SourceType::Failure).count()
            }
            Some(SourceType::Success) | None => reflection.patches.len(),
        };
        reflection.notes.extend(notes.into_iter().map(about));
        reflection.failure_patterns.extend(patterns);
        reflection.patches.splice(at..at, patch);
    }
    reflection
}
