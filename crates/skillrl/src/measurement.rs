//! Scores of skills on one split with one target.
//!
//! [`Measurement`] makes the rollouts, with an optional journal. [`MeasurementDir`] is the directory of the results and of
//! the settings that decided them. [`SkillMeasurement`] measures a skill as `skillrl eval` does, [`Earlier`] is what it is
//! compared with, and `bank` measures a bank against no bank.

#[cfg(feature = "report")]
pub mod bank;
mod dir;
#[cfg(feature = "report")]
mod earlier;
#[cfg(feature = "report")]
mod skill;

pub use dir::{
    MeasurementDir, RUNS, check_replaced, check_whole, identity, is_other_part_of, lacks_hashes,
    measured_with, unchanged, write,
};
#[cfg(feature = "report")]
pub use earlier::Earlier;
#[cfg(feature = "report")]
pub use skill::{InRun, SkillEvaluation, SkillMeasurement, usual_split};

use crate::config::LoadedConfig;
use skill_core::ItemId;
use skill_envs::{Env, SkillSource, Split};
use skill_llm::{ChatModel, Journal, Journaled, Metered};
use skill_pipeline::identity::check_not_empty;
use skill_pipeline::records::StageTokens;
use skill_pipeline::records::evaluation::Evaluation;
use skill_pipeline::stage::evaluate::{evaluate_items, evaluate_scores};
use skill_pipeline::stage::rollout::{Recorded, Rollouts};
use skill_pipeline::stage::{Draws, StageCtx};
use skill_pipeline::{EventSink, PipelineError, Stage, StopSignal};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Measures skills on the items of one split with one target.
pub struct Measurement {
    rollouts: Rollouts,
    split: Split,
    workers: usize,
    journal: Option<Journal>,
    stage: Stage,
    draws: Draws,
    left_out: BTreeSet<ItemId>,
}

/// Scores and token counts of one skill.
#[derive(Debug)]
pub struct Measured {
    /// Scores and results.
    pub evaluation: Evaluation,
    /// The tokens of its rollouts, whether they were paid for now or came from the journal.
    pub tokens: StageTokens,
}

impl Measurement {
    /// Measures with this target on the items of this split. With a journal, replies are recorded in it and replayed from it.
    ///
    /// # Errors
    ///
    /// A split without items.
    pub fn new(
        loaded: &LoadedConfig,
        env: &Arc<dyn Env>,
        split: Split,
        target: Arc<dyn ChatModel>,
        journal: Option<&Journal>,
    ) -> Result<Self, PipelineError> {
        check_not_empty(env.as_ref(), split)?;
        let layered = |model: Arc<dyn ChatModel>| -> Arc<dyn ChatModel> {
            Arc::new(Metered::new(match journal {
                Some(journal) => Arc::new(Journaled::new(model, journal.clone())),
                None => model,
            }))
        };
        let judge = env.judge().map(|judge| layered(Arc::clone(judge)));
        Ok(Self {
            rollouts: Rollouts::local(Arc::clone(env), layered(target), judge),
            split,
            workers: loaded.config.run.workers as usize,
            journal: journal.cloned(),
            stage: Stage::Evaluate,
            draws: Draws::default(),
            left_out: BTreeSet::new(),
        })
    }

    /// The same with these draws of each item, as this stage of a run makes them.
    #[must_use]
    pub fn of_draws(self, stage: Stage, draws: Draws) -> Self {
        Self { stage, draws, ..self }
    }

    /// The same without these items, for [`Self::results`].
    #[must_use]
    pub fn without(self, left_out: BTreeSet<ItemId>) -> Self {
        Self { left_out, ..self }
    }

    /// Measures a skill and keeps whole results in memory.
    ///
    /// # Errors
    ///
    /// A failed rollout: a score always covers the whole split.
    pub async fn results(
        &self,
        skill: &Arc<dyn SkillSource>,
        (events, stop): (&dyn EventSink, &StopSignal),
    ) -> Result<Measured, PipelineError> {
        let ctx = self.ctx(events, stop);
        let all = self.rollouts.env().items(self.split).iter();
        let items = all.filter(|item| !self.left_out.contains(&item.id)).collect();
        let evaluation = evaluate_items(&self.rollouts, (self.split, items), skill, &ctx).await?;
        Ok(Measured { evaluation, tokens: StageTokens::from(ctx.used.snapshot()) })
    }

    /// Measures a skill and keeps results without their trajectories in memory; the second value reads whole ones out
    /// of the journal.
    ///
    /// # Errors
    ///
    /// As [`Self::results`].
    pub async fn scores(
        &self,
        skill: &Arc<dyn SkillSource>,
        (events, stop): (&dyn EventSink, &StopSignal),
    ) -> Result<(Measured, Recorded), PipelineError> {
        let ctx = self.ctx(events, stop);
        let (evaluation, recorded) = evaluate_scores(&self.rollouts, self.split, skill, &ctx).await?;
        Ok((Measured { evaluation, tokens: StageTokens::from(ctx.used.snapshot()) }, recorded))
    }

    /// Waits for rollouts that the environment still runs, and for the journal to reach the disk.
    ///
    /// # Errors
    ///
    /// A journal that cannot be written.
    pub async fn finish(&self) -> Result<(), PipelineError> {
        self.rollouts.settle().await;
        match &self.journal {
            Some(journal) => Ok(journal.flush().await?),
            None => Ok(()),
        }
    }

    fn ctx<'run>(&self, events: &'run dyn EventSink, stop: &StopSignal) -> StageCtx<'run> {
        StageCtx {
            workers: self.workers,
            halt: stop.soon.clone(),
            cancel: stop.now.clone(),
            journal: self.journal.clone(),
            draws: self.draws,
            ..StageCtx::new(self.stage, events)
        }
    }
}
