//! What surrounds the stages of a run: sources of skills, the teacher, clocks, and when to stop.

use super::run::{BankRun, add};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::StageTokens;
use crate::records::bank::{BANK_DIR, ROUNDS_DIR};
use crate::records::evaluation::Evaluation;
use crate::run_dir::EvaluationDir;
use crate::stage::{Draws, StageCtx};
use skill_bank::distill::Teacher;
use skill_bank::{BankError, BankEvent, BankSource, BankView, SkillRef};
use skill_core::{SkillHash, StepIdx};
use skill_envs::source::document;
use skill_envs::{Item, SkillSource, TaskView};
use skill_llm::{CallCtx, CallPlace, EmbeddingModel, Metered};
use std::sync::Arc;
use std::time::Instant;

impl BankRun<'_> {
    /// What selects skills of this view, for [`selected`](Self::selected), which counts its calls.
    ///
    /// Agents are shown skills by a source of its own, whose texts are in the journal by then: which rollout asks first
    /// depends on the moment, and no record may.
    pub(super) fn source(&self, view: BankView) -> Result<BankSource, PipelineError> {
        let counted = self
            .embedding
            .clone()
            .map(|model| Arc::new(Metered::embedding(model, Arc::default())) as Arc<dyn EmbeddingModel>);
        self.source_by(view, counted)
    }

    fn source_by(
        &self,
        view: BankView,
        embedding: Option<Arc<dyn EmbeddingModel>>,
    ) -> Result<BankSource, PipelineError> {
        let source = BankSource::new(view, &self.trainer.retrieval, embedding)
            .map_err(|error| self.bank_error(error))?;
        Ok(match &self.frame {
            Some(frame) if !frame.is_blank() => source.with_frame(frame.clone()),
            Some(_) | None => source,
        })
    }

    /// What agents are shown with this view; without skills that is the initial skill alone.
    pub(super) fn shown_source(&self, view: BankView) -> Result<Arc<dyn SkillSource>, PipelineError> {
        if view.skills().is_empty() {
            return Ok(document(&self.frame.clone().unwrap_or_default()));
        }
        Ok(Arc::new(self.source_by(view, self.embedding.clone())?))
    }

    /// The skills that an item is shown; the calls that say so count for the stage.
    pub(super) async fn selected(
        &self,
        source: &BankSource,
        item: &Item,
        ctx: &StageCtx<'_>,
    ) -> Result<Vec<SkillRef>, PipelineError> {
        if source.bank().view().skills().is_empty() {
            return Ok(Vec::new());
        }
        let goal = self.env.goal(item).unwrap_or_default();
        let place = ctx.place().child(&item.id).child("skill");
        let call =
            CallCtx { cancel: ctx.cancel.clone(), halt: ctx.halt.clone(), ..CallCtx::new(place.clone()) };
        let selection = source.selection(&TaskView::new(item, &goal), &call).await;
        ctx.used.add(call.scope.used());
        let selection = selection.map_err(|source| PipelineError::Rollout {
            place: place.to_string(),
            item: item.id.clone(),
            source,
        })?;
        Ok(selection.shown.into_iter().map(|shown| shown.id).collect())
    }

    /// The models that the teacher needs, counting for a stage.
    pub(super) fn counted(&self, watch: &Watch) -> (Metered, Option<Metered<dyn EmbeddingModel>>) {
        let teacher = Metered::with_meter(Arc::clone(&self.teacher), Arc::clone(&watch.used));
        let embedding = self.embedding.clone();
        (teacher, embedding.map(|model| Metered::embedding(model, Arc::clone(&watch.used))))
    }

    /// The teacher as stages ask it, by these models.
    pub(super) fn asked<'run>(
        &'run self,
        (model, embedding): &'run (Metered, Option<Metered<dyn EmbeddingModel>>),
    ) -> Teacher<'run> {
        Teacher {
            model,
            embedding: embedding.as_ref().map(|model| model as &dyn EmbeddingModel),
            prompts: &self.trainer.prompts,
            max_reply_tokens: self.trainer.base.settings.max_reply_tokens,
            workers: self.trainer.base.settings.workers.max(1),
        }
    }

    /// Where a teacher is asked: it adds what it is asked for.
    pub(super) fn call(&self, step: Option<StepIdx>) -> CallCtx {
        let stop = &self.trainer.base.shell.stop;
        let place = step.map(|step| CallPlace::new(format_args!("step {step}"))).unwrap_or_default();
        CallCtx { cancel: stop.now.clone(), halt: stop.soon.clone(), ..CallCtx::new(place) }
    }

    /// Adds events to the bank, once the replies that they follow from are on the disk: a process that is killed leaves
    /// no event whose replies the journal lacks.
    pub(super) async fn record_events(
        &mut self,
        round: u32,
        events: impl IntoIterator<Item = BankEvent>,
    ) -> Result<(), PipelineError> {
        self.journal.flush().await?;
        self.bank.record(round, events)
    }

    pub(super) fn begin(&self) -> Watch {
        Watch { began: Instant::now(), used: Arc::default() }
    }

    pub(super) fn end(&mut self, step: Option<StepIdx>, stage: Stage, watch: &Watch) {
        let seconds = watch.began.elapsed().as_secs_f64();
        self.timings.add(step, stage, seconds);
        self.log.emit(&Event::StageFinished { step, stage, seconds });
        add(&mut self.tokens, stage.as_str(), StageTokens::from(watch.used.snapshot()));
    }

    /// Writes an evaluation into the directory of the run, after the replies that it is made from are in the journal.
    pub(super) async fn keep(
        &self,
        dir: EvaluationDir,
        source: &dyn SkillSource,
        evaluation: &Evaluation,
        watch: &Watch,
    ) -> Result<(), PipelineError> {
        self.journal.flush().await?;
        let shown = SkillHash::of(&source.version());
        self.dir.put_bank_evaluation(dir, &shown, evaluation, StageTokens::from(watch.used.snapshot()))
    }

    pub(super) fn ctx(
        &self,
        step: Option<StepIdx>,
        stage: Stage,
        batch_idx: Option<usize>,
        watch: &Watch,
    ) -> StageCtx<'_> {
        let base = &self.trainer.base;
        StageCtx {
            step,
            stage,
            batch_idx,
            draws: Draws::default(),
            workers: base.settings.workers,
            ahead: 0,
            halt: base.shell.stop.soon.clone(),
            cancel: base.shell.stop.now.clone(),
            events: self.log,
            journal: Some(self.journal.clone()),
            item_hashes: Arc::clone(&self.item_hashes),
            used: Arc::clone(&watch.used),
        }
    }

    pub(super) fn check_stop(&self, round: u32, rounds: u32) -> Result<(), PipelineError> {
        self.open.check_stop(round, rounds)
    }

    pub(super) fn or_stopped(&self, error: PipelineError, round: u32, rounds: u32) -> PipelineError {
        self.open.or_stopped(error, round, rounds)
    }

    pub(super) fn write_timings(&mut self) -> Result<(), PipelineError> {
        self.dir.check_not_moved()?;
        let (seconds, requests) = (self.started.elapsed().as_secs_f64(), self.journal.requests_committed());
        self.timings.append(seconds, requests, self.open.file_marks())
    }

    pub(super) fn bank_error(&self, source: BankError) -> PipelineError {
        PipelineError::Bank { path: self.dir.path().join(BANK_DIR), source }
    }

    pub(super) fn trial_error(&self, error: &skill_bank::trial::TrialError) -> PipelineError {
        PipelineError::Corrupt { path: self.dir.path().join(ROUNDS_DIR), message: error.to_string() }
    }
}

/// A stage that is under way.
pub(super) struct Watch {
    pub(super) began: Instant,
    pub(super) used: Arc<skill_llm::Meter>,
}
