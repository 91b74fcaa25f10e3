//! A span for each call, in the words of OpenTelemetry's semantic conventions for generative AI.
//!
//! No text of a prompt or a reply is in it; whoever asks for [`telemetry::CONTENT`] gets them in an event of their own.

mod content;

use super::layered::{Layered, layer};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, ModelId};
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::LlmError;
use crate::telemetry;
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Instrument as _, Level, Span};

/// A model with a span around each call.
pub struct Traced<M: ?Sized = dyn ChatModel> {
    inner: Arc<M>,
}

impl Traced {
    /// Puts a span around the calls of `inner`.
    pub fn new(inner: Arc<dyn ChatModel>) -> Self {
        Self { inner }
    }
}

impl Traced<dyn EmbeddingModel> {
    /// As [`Traced::new`], for an embedding model; no text of a request is in its spans.
    pub fn embedding(inner: Arc<dyn EmbeddingModel>) -> Self {
        Self { inner }
    }
}

layer!(Traced);

impl<M: ?Sized> Traced<M> {
    async fn run(&self, request: &M::Request, call: &CallCtx) -> Result<M::Reply, LlmError>
    where
        M: Spanned,
    {
        let span = self.inner.span(request, call);
        let before = call.attempts.len();
        let outcome = self.inner.ask(request, call).instrument(span.clone()).await;
        span.record(telemetry::CALL_ATTEMPTS, call.attempts.len().saturating_sub(before));
        M::tell_content(&span, request, outcome.as_ref().ok());
        match &outcome {
            Ok(reply) => M::record(&span, reply),
            Err(error) => {
                span.record(telemetry::ERROR_TYPE, error.class().as_str());
                span.record(telemetry::STATUS, telemetry::FAILED);
            }
        }
        outcome
    }
}

/// A kind of model, as its spans show it.
trait Spanned: Layered {
    /// The span of one call.
    fn span(&self, request: &Self::Request, call: &CallCtx) -> Span;

    /// Records a reply.
    fn record(span: &Span, reply: &Self::Reply);

    /// Tells the texts of a call to anyone who asks for them; for all others nothing is written.
    fn tell_content(_: &Span, _: &Self::Request, _: Option<&Self::Reply>) {}
}

impl Spanned for dyn ChatModel {
    fn span(&self, request: &ChatRequest, call: &CallCtx) -> Span {
        let ModelId { provider, model, .. } = self.id();
        tracing::debug_span!(
            telemetry::CHAT,
            { telemetry::NAME } = %format_args!("{} {model}", telemetry::CHAT),
            { telemetry::KIND } = "client",
            { telemetry::STATUS } = Empty,
            { telemetry::OPERATION } = telemetry::CHAT,
            { telemetry::PROVIDER } = provider.as_str(),
            { telemetry::REQUEST_MODEL } = model.as_str(),
            { telemetry::REQUEST_TEMPERATURE } = request.sampling.temperature,
            { telemetry::REQUEST_TOP_P } = request.sampling.top_p,
            { telemetry::REQUEST_MAX_TOKENS } = request.sampling.max_tokens,
            { telemetry::REQUEST_SEED } = request.sampling.seed,
            { telemetry::FINISH_REASONS } = Empty,
            { telemetry::INPUT_TOKENS } = Empty,
            { telemetry::CACHED_TOKENS } = Empty,
            { telemetry::OUTPUT_TOKENS } = Empty,
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::CALL_PLACE } = call.place.as_str(),
            { telemetry::CALL_ATTEMPTS } = Empty,
        )
    }

    fn record(span: &Span, reply: &ChatReply) {
        span.record(telemetry::FINISH_REASONS, reply.finish.as_str());
        span.record(telemetry::INPUT_TOKENS, reply.usage.input);
        span.record(telemetry::CACHED_TOKENS, reply.usage.cached);
        span.record(telemetry::OUTPUT_TOKENS, reply.usage.output);
    }

    fn tell_content(span: &Span, request: &ChatRequest, reply: Option<&ChatReply>) {
        if !tracing::enabled!(target: telemetry::CONTENT, Level::TRACE) {
            return;
        }
        let input = content::input(request);
        let output = reply.map(|reply| content::output(reply, reply.finish.as_str()));
        span.in_scope(|| {
            tracing::event!(
                target: telemetry::CONTENT,
                Level::TRACE,
                { { telemetry::INPUT_MESSAGES } = input, { telemetry::OUTPUT_MESSAGES } = output },
                "{}",
                telemetry::CONTENT_EVENT
            );
        });
    }
}

impl Spanned for dyn EmbeddingModel {
    fn span(&self, request: &EmbeddingRequest, call: &CallCtx) -> Span {
        let ModelId { provider, model, .. } = self.id();
        tracing::debug_span!(
            telemetry::EMBEDDINGS,
            { telemetry::NAME } = %format_args!("{} {model}", telemetry::EMBEDDINGS),
            { telemetry::KIND } = "client",
            { telemetry::STATUS } = Empty,
            { telemetry::OPERATION } = telemetry::EMBEDDINGS,
            { telemetry::PROVIDER } = provider.as_str(),
            { telemetry::REQUEST_MODEL } = model.as_str(),
            { telemetry::EMBEDDING_TEXTS } = request.texts.len(),
            { telemetry::EMBEDDING_LENGTH } = Empty,
            { telemetry::INPUT_TOKENS } = Empty,
            { telemetry::ERROR_TYPE } = Empty,
            { telemetry::CALL_PLACE } = call.place.as_str(),
            { telemetry::CALL_ATTEMPTS } = Empty,
        )
    }

    fn record(span: &Span, reply: &EmbeddingReply) {
        span.record(telemetry::EMBEDDING_LENGTH, reply.vectors.first().map_or(0, Vec::len));
        span.record(telemetry::INPUT_TOKENS, reply.usage.input);
    }
}

#[cfg(test)]
mod tests;
