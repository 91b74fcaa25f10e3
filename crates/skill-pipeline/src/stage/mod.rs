//! The six stages of a step, one module each.
//!
//! A stage function takes what it needs and returns data. It owns no state, writes no file and decides nothing
//! about the run: that is the trainer's.

pub mod aggregate;
pub mod evaluate;
pub mod reflect;
pub mod rollout;
pub mod select;
pub mod update;

use crate::error::PipelineError;
use crate::event::{Event, EventSink, Stage};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use skill_core::StepIdx;
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, FinishReason, Message, ResponseSchema, Sampling,
};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// What surrounds one stage: where it stands, how wide it may go, and who is told.
#[derive(Clone)]
pub struct StageCtx<'run> {
    /// The step, or none outside of steps.
    pub step: Option<StepIdx>,
    /// Which stage.
    pub stage: Stage,
    /// The most units of work under way at once; at least 1.
    pub workers: usize,
    /// Ends all calls of the stage.
    pub cancel: CancellationToken,
    /// Who is told about progress.
    pub events: &'run dyn EventSink,
}

impl StageCtx<'_> {
    /// The place of the stage in the run, such as `step 3 / reflect`.
    pub fn place(&self) -> CallPlace {
        match self.step {
            Some(step) => CallPlace::new(format_args!("step {step}")).child(self.stage.as_str()),
            None => CallPlace::new(self.stage.as_str()),
        }
    }

    fn call(&self, part: impl std::fmt::Display) -> CallCtx {
        CallCtx { cancel: self.cancel.clone(), ..CallCtx::new(self.place().child(part)) }
    }

    /// Does the work for each input, at most [`StageCtx::workers`] at once, and returns the outputs in input order.
    ///
    /// The first error ends the rest.
    async fn map_ordered<Input, Output, Work>(
        &self,
        inputs: Vec<Input>,
        work: impl Fn(usize, Input) -> Work,
    ) -> Result<Vec<Output>, PipelineError>
    where
        Work: Future<Output = Result<Output, PipelineError>>,
    {
        let (total, n_done) = (inputs.len(), AtomicUsize::new(0));
        self.events.emit(&Event::StageStarted { step: self.step, stage: self.stage, total });
        let (work, n_done) = (&work, &n_done);
        let mut outputs: Vec<(usize, Output)> = stream::iter(inputs.into_iter().enumerate())
            .map(|(input_idx, input)| async move {
                let output = work(input_idx, input).await?;
                let done = n_done.fetch_add(1, Ordering::Relaxed) + 1;
                self.events.emit(&Event::StageProgress { step: self.step, stage: self.stage, done, total });
                Ok::<_, PipelineError>((input_idx, output))
            })
            .buffer_unordered(self.workers.max(1))
            .try_collect()
            .await?;
        outputs.sort_by_key(|(input_idx, _)| *input_idx);
        Ok(outputs.into_iter().map(|(_, output)| output).collect())
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
        call: &CallCtx,
    ) -> Result<ChatReply, PipelineError> {
        let request = ChatRequest {
            messages,
            sampling: Sampling { max_tokens: Some(self.max_tokens), ..Sampling::default() },
            tools: Vec::new(),
            response_schema: Some(schema),
        };
        let reply = self
            .model
            .chat(&request, call)
            .await
            .map_err(|source| PipelineError::Optimizer { place: call.place.to_string(), source })?;
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
            "the reply was cut off at its length limit ({max_tokens} tokens asked for); raise `limits.max_reply_tokens` or the model's limit"
        )),
        FinishReason::ContentFilter => Some("the provider withheld the reply or a part of it".to_owned()),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => None,
    }
}
