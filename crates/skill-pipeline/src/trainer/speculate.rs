//! Speculation: while a candidate is evaluated, workers that have nothing to do begin the next step's rollouts under
//! the current skill, which stays the current one if the candidate is rejected.
//!
//! Nothing is decided by it and no file but `timings.json` knows of it: what it has finished is in the journal, where
//! the next step finds it.

use super::run::Run;
use crate::error::PipelineError;
use crate::event::{Event, EventSink, Stage};
use crate::run_dir::timings::SpeculationTiming;
use crate::stage::rollout::{Batch, rollout_batches};
use crate::stage::{FINISH_LIMIT, StageCtx};
use skill_core::plan::BatchPlan;
use skill_core::{SkillDoc, StepIdx};
use skill_envs::source::document;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Counts finished rollouts and tells nobody else.
#[derive(Default)]
pub(super) struct Finished(AtomicUsize);

impl EventSink for Finished {
    fn emit(&self, event: &Event) {
        if let Event::StageProgress { done, .. } = event {
            self.0.store(*done, Ordering::Relaxed);
        }
    }
}

/// The next step's rollouts, as far as they may be begun.
pub(super) struct Speculation<'run> {
    batches: Vec<Batch<'run>>,
    lends: Arc<watch::Sender<usize>>,
    halt: CancellationToken,
    ctx: StageCtx<'run>,
    finished: &'run Finished,
}

impl Run<'_> {
    /// What may be begun while the evaluation in this context runs; `None` if nothing may.
    pub(super) fn speculation<'a>(
        &'a self,
        upcoming: Option<&(StepIdx, Vec<BatchPlan>)>,
        evaluation: &mut StageCtx<'a>,
        finished: &'a Finished,
    ) -> Option<Speculation<'a>> {
        let (step, plans) = upcoming?;
        let mut left = self.settings.speculation;
        let mut batches = self.batches(plans);
        for batch in &mut batches {
            batch.items.truncate(left);
            left -= batch.items.len();
        }
        if batches.iter().all(|batch| batch.items.is_empty()) {
            return None;
        }
        let (lends, borrows) = watch::channel(0);
        let (lends, halt) = (Arc::new(lends), evaluation.halt.child_token());
        let ctx = StageCtx {
            step: Some(*step),
            stage: Stage::Rollout,
            draws: self.draws_at(Stage::Rollout),
            events: finished,
            halt: halt.clone(),
            lends: None,
            borrows: Some(borrows),
            used: Arc::default(),
            ..evaluation.clone()
        };
        evaluation.lends = Some(Arc::clone(&lends));
        Some(Speculation { batches, lends, halt, ctx, finished })
    }

    /// Runs an evaluation with speculative rollouts beside it.
    ///
    /// After a rejection the rollouts go on to their end, since the next step needs them; otherwise they are dropped.
    pub(super) async fn beside<Output>(
        &self,
        evaluating: impl Future<Output = Result<Output, PipelineError>>,
        speculation: &Speculation<'_>,
        current: &SkillDoc,
        is_rejected: impl FnOnce(&Output) -> bool,
    ) -> Result<(Output, SpeculationTiming), PipelineError> {
        let mut evaluating = pin!(evaluating);
        let source = document(current);
        let work = rollout_batches(&self.rollouts, &speculation.batches, &source, &speculation.ctx);
        let mut speculating = Box::pin(work);
        let mut is_over = false;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut evaluating => break outcome,
                // A fault of these calls is for the step that needs them.
                _ = &mut speculating, if !is_over => is_over = true,
            }
        };
        speculation.lends.send_replace(usize::MAX);
        let output = match outcome {
            Ok(output) => output,
            Err(error) => {
                speculation.halt.cancel();
                if !is_over {
                    drop(tokio::time::timeout(FINISH_LIMIT, speculating).await);
                }
                return Err(error);
            }
        };
        let is_used = is_rejected(&output);
        if is_used && !is_over {
            drop(speculating.as_mut().await);
        }
        drop(speculating);
        self.rollouts.settle().await;
        let rollouts = speculation.finished.0.load(Ordering::Relaxed);
        Ok((output, SpeculationTiming { rollouts, is_used }))
    }
}
