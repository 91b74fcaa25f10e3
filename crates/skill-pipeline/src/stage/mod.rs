//! The six stages of a step, one module each.
//!
//! A stage function takes what it needs and returns data. It owns no state, writes no file and decides nothing
//! about the run: that is the trainer's.
//!
//! # Invariants
//!
//! - A stage owns no state and writes no file; the trainer does both, and puts events in order. No test holds this.

pub mod aggregate;
pub mod appendix;
pub mod epoch_end;
pub mod evaluate;
mod item_hashes;
pub mod own;
pub(crate) mod patterns;
pub mod reflect;
pub mod rollout;
pub mod select;
pub mod silence;
pub mod update;

pub use item_hashes::ItemHashes;

use crate::error::PipelineError;
use crate::event::{Event, EventSink, Stage};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use skill_core::StepIdx;
use skill_llm::journal::Journal;
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, FinishReason, Message, Meter, ResponseSchema,
    Sampling, telemetry,
};
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use tracing::field::Empty;

/// A stage begins no further item after this many with unreadable replies: the fault is the server's then, and not an item's.
const MAX_FAILED_ALONE: usize = 5;

/// After an error, how long the work that is under way may take to finish, so that what it has paid for is kept.
const FINISH_LIMIT: Duration = Duration::from_secs(120);

/// Which draws (samples) of each item a stage asks for: attempts of the same skill at the same item that share no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    /// The number of the first one, from 0.
    pub first: usize,
    /// How many, at least 1.
    pub per_item: usize,
}

impl Draws {
    /// Their numbers, in order.
    pub fn numbers(self) -> std::ops::Range<usize> {
        self.first..self.first.saturating_add(self.per_item.max(1))
    }
}

impl Default for Draws {
    fn default() -> Self {
        Self { first: 0, per_item: 1 }
    }
}

/// What surrounds one stage: where it is, how wide it may go, and who is told.
#[derive(Clone)]
pub struct StageCtx<'run> {
    /// The step, or none outside of steps.
    pub step: Option<StepIdx>,
    /// Which stage.
    pub stage: Stage,
    /// Which micro-batch of the step, from 0; none where a step has one.
    pub batch_idx: Option<usize>,
    /// How often each item is worked on, and from which draw on.
    pub draws: Draws,
    /// The most units of work under way at once; at least 1.
    pub workers: usize,
    /// How many rollouts more the environment is given, which wait until it can begin them (`Env::ahead`).
    pub ahead: usize,
    /// Begins no further unit of work and sends nothing again; what is under way is finished.
    pub halt: CancellationToken,
    /// Ends all calls of the stage.
    pub cancel: CancellationToken,
    /// Who is told about progress.
    pub events: &'run dyn EventSink,
    /// Where finished rollouts are kept, and looked for before they are made.
    pub journal: Option<Journal>,
    /// What the items hold, for the keys of their rollouts; all stages of a run share it.
    pub item_hashes: Arc<ItemHashes>,
    /// What the work of the stage used, whether it was paid for now or came from the journal.
    pub used: Arc<Meter>,
}

impl<'run> StageCtx<'run> {
    /// True where a skill is measured before anything is decided by it: what is wrong with the set-up shows there.
    pub fn is_first_measurement(&self) -> bool {
        self.stage == Stage::Baseline || self.stage == Stage::Evaluate && self.step.is_none()
    }

    /// Context of a one-off stage: sequential, not cancellable, not journaled.
    pub fn new(stage: Stage, events: &'run dyn EventSink) -> Self {
        Self {
            step: None,
            stage,
            batch_idx: None,
            draws: Draws::default(),
            workers: 1,
            ahead: 0,
            halt: CancellationToken::new(),
            cancel: CancellationToken::new(),
            events,
            journal: None,
            item_hashes: Arc::default(),
            used: Arc::default(),
        }
    }

    /// The place of the stage in the run, such as `step 3 / reflect`, or `step 3 / reflect / batch 2`.
    pub fn place(&self) -> CallPlace {
        let stage = match self.step {
            Some(step) => CallPlace::new(format_args!("step {step}")).child(self.stage.as_str()),
            None => CallPlace::new(self.stage.as_str()),
        };
        match self.batch_idx {
            Some(batch_idx) => stage.child(format_args!("batch {}", batch_idx + 1)),
            None => stage,
        }
    }

    /// The same stage at one of the step's micro-batches.
    pub(crate) fn at_batch(&self, batch_idx: Option<usize>) -> Self {
        Self { batch_idx, ..self.clone() }
    }

    /// The same stage for rollouts, of which some wait in the environment.
    fn of_rollouts(&self) -> Self {
        Self { workers: self.workers.saturating_add(self.ahead), ahead: 0, ..self.clone() }
    }

    fn call(&self, part: impl std::fmt::Display) -> CallCtx {
        let (cancel, halt) = (self.cancel.clone(), self.halt.clone());
        CallCtx { cancel, halt, ..CallCtx::new(self.place().child(part)) }
    }

    /// Does the work for each input, at most [`StageCtx::workers`] at once, and returns the outputs in input order.
    ///
    /// After an error nothing further is begun, and what is under way is finished. Errors of single items, such as a reply
    /// that cannot be read however often it is requested, end the stage behind the other items: what those cost is kept for
    /// the run that resumes.
    pub(crate) async fn map_ordered<Input, Output, Work>(
        &self,
        inputs: Vec<Input>,
        work: impl Fn(usize, Input) -> Work,
    ) -> Result<Vec<Output>, PipelineError>
    where
        Work: Future<Output = Result<Output, PipelineError>>,
    {
        let all = usize::MAX;
        let outputs = self.map_until(inputs, all, work, |_, _| ControlFlow::Continue(all)).await?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// Like [`StageCtx::map_ordered`], but ends where `watch` says so; outputs that have not come by then are `None`.
    ///
    /// `first` is how many inputs may be begun before any output is there. `watch` sees each output when it comes, in any
    /// order; it breaks, or says how many inputs from the first one on may be begun. What is under way when it breaks is
    /// dropped.
    async fn map_until<Input, Output, Work>(
        &self,
        inputs: Vec<Input>,
        first: usize,
        work: impl Fn(usize, Input) -> Work,
        watch: impl FnMut(usize, &Output) -> ControlFlow<(), usize>,
    ) -> Result<Vec<Option<Output>>, PipelineError>
    where
        Work: Future<Output = Result<Output, PipelineError>>,
    {
        let span = tracing::trace_span!(
            telemetry::STAGE,
            { telemetry::NAME } = self.stage.as_str(),
            { telemetry::STAGE_NAME } = self.stage.as_str(),
            { telemetry::STEP_NUMBER } = self.step.map(|step| step.0),
            { telemetry::STAGE_TOTAL } = inputs.len(),
            { telemetry::STATUS } = Empty,
        );
        let outcome = self.map_within(inputs, first, work, watch).instrument(span.clone()).await;
        if outcome.is_err() {
            span.record(telemetry::STATUS, telemetry::FAILED);
        }
        outcome
    }

    async fn map_within<Input, Output, Work>(
        &self,
        inputs: Vec<Input>,
        first: usize,
        work: impl Fn(usize, Input) -> Work,
        mut watch: impl FnMut(usize, &Output) -> ControlFlow<(), usize>,
    ) -> Result<Vec<Option<Output>>, PipelineError>
    where
        Work: Future<Output = Result<Output, PipelineError>>,
    {
        let (total, workers) = (inputs.len(), self.workers.max(1));
        let (step, stage) = (self.step, self.stage);
        self.events.emit(&Event::StageStarted { step, stage, total });
        let mut outputs: Vec<Option<Output>> = std::iter::repeat_with(|| None).take(total).collect();
        let mut inputs = inputs.into_iter().enumerate();
        let mut under_way = FuturesUnordered::new();
        let (mut n_begun, mut n_done, mut may_begin) = (0, 0, first.max(1));
        // The first of those that failed alone, by the order of the inputs, and how many there are.
        let (mut failed_alone, mut n_failed_alone): (Option<(usize, PipelineError)>, usize) = (None, 0);
        loop {
            while under_way.len() < workers && n_begun < may_begin && !self.halt.is_cancelled() {
                let Some((input_idx, input)) = inputs.next() else { break };
                n_begun += 1;
                let output = work(input_idx, input);
                under_way.push(async move { (input_idx, output.await) });
            }
            let (input_idx, output) = match under_way.next().await {
                Some((input_idx, Ok(output))) => (input_idx, output),
                // It only waited to send once more; what the others have sent is waited for.
                Some((_, Err(error)))
                    if self.halt.is_cancelled() && !self.cancel.is_cancelled() && error.is_stop() =>
                {
                    continue;
                }
                Some((input_idx, Err(error))) => {
                    let is_alone = error.is_of_one_item() && n_failed_alone + 1 < MAX_FAILED_ALONE;
                    n_failed_alone += 1;
                    let first = match failed_alone.take() {
                        Some(earlier) if is_alone && earlier.0 < input_idx => earlier,
                        Some(_) | None => (input_idx, error),
                    };
                    if is_alone {
                        failed_alone = Some(first);
                        continue;
                    }
                    drop(tokio::time::timeout(FINISH_LIMIT, under_way.count()).await);
                    return Err(first.1);
                }
                None if n_done < total => {
                    let failed = failed_alone.filter(|_| !self.halt.is_cancelled());
                    return Err(failed.map_or(PipelineError::Halted, |(_, error)| error));
                }
                None => return Ok(outputs),
            };
            n_done += 1;
            self.events.emit(&Event::StageProgress { step, stage, done: n_done, total });
            let flow = watch(input_idx, &output);
            if let Some(place) = outputs.get_mut(input_idx) {
                *place = Some(output);
            }
            match flow {
                ControlFlow::Continue(n_startable) => may_begin = n_startable,
                ControlFlow::Break(()) => return Ok(outputs),
            }
        }
    }
}

/// The optimizer model with how it is asked.
#[derive(Clone)]
pub struct Optimizer<'run> {
    /// The model.
    pub model: &'run dyn ChatModel,
    /// The most tokens of a reply.
    pub max_tokens: u32,
}

impl Optimizer<'_> {
    async fn ask(
        &self,
        messages: Vec<Message>,
        schema: ResponseSchema,
        name: impl std::fmt::Display,
        ctx: &StageCtx<'_>,
    ) -> Result<ChatReply, PipelineError> {
        let request = ChatRequest {
            messages,
            sampling: Sampling { max_tokens: Some(self.max_tokens), ..Sampling::default() },
            response_schema: Some(schema),
            ..ChatRequest::default()
        };
        let call = ctx.call(name);
        let reply = self
            .model
            .chat(&request, &call)
            .await
            .map_err(|source| PipelineError::Optimizer { place: call.place.to_string(), source })?;
        ctx.used.add(call.scope.used());
        if let Some(note) = finish_note(&reply, self.max_tokens) {
            tracing::debug!(place = %call.place, note, "the optimizer's reply is not whole");
        }
        Ok(reply)
    }
}

/// What to say of a reply that did not end by itself.
fn finish_note(reply: &ChatReply, max_tokens: u32) -> Option<String> {
    match &reply.finish {
        FinishReason::Length => Some(format!(
            "the reply was cut off at its length limit ({max_tokens} tokens asked for); raise the optimizer's `max_reply_tokens` or the model's limit"
        )),
        FinishReason::ContentFilter => Some("the provider withheld the reply or a part of it".to_owned()),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => None,
    }
}
