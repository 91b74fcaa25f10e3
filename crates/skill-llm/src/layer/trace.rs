//! A span for each call, in the words of OpenTelemetry's semantic conventions for generative AI.
//!
//! No text of a prompt or a reply is in it.

use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, FinishReason, ModelId};
use crate::error::LlmError;
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The names of the fields: <https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/>, and our own.
mod name {
    pub(super) const OPERATION: &str = "gen_ai.operation.name";
    pub(super) const PROVIDER: &str = "gen_ai.provider.name";
    pub(super) const REQUEST_MODEL: &str = "gen_ai.request.model";
    pub(super) const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
    pub(super) const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
    pub(super) const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
    pub(super) const REQUEST_SEED: &str = "gen_ai.request.seed";
    pub(super) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    pub(super) const CACHED_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
    pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    pub(super) const ERROR_TYPE: &str = "error.type";
    /// Where in the run the call stands.
    pub(super) const PLACE: &str = "skillrl.call.place";
    /// How many requests were sent for it.
    pub(super) const ATTEMPTS: &str = "skillrl.call.attempts";
}

/// The operation that every call is.
const CHAT: &str = "chat";

/// A model with a span around each call.
pub struct Traced {
    inner: Arc<dyn ChatModel>,
}

impl Traced {
    /// Puts a span around the calls of `inner`.
    pub fn new(inner: Arc<dyn ChatModel>) -> Self {
        Self { inner }
    }

    fn span(&self, request: &ChatRequest, call: &CallCtx) -> Span {
        let ModelId { provider, model } = self.inner.id();
        tracing::debug_span!(
            "chat",
            { name::OPERATION } = CHAT,
            { name::PROVIDER } = provider.as_str(),
            { name::REQUEST_MODEL } = model.as_str(),
            { name::REQUEST_TEMPERATURE } = request.sampling.temperature,
            { name::REQUEST_TOP_P } = request.sampling.top_p,
            { name::REQUEST_MAX_TOKENS } = request.sampling.max_tokens,
            { name::REQUEST_SEED } = request.sampling.seed,
            { name::FINISH_REASONS } = Empty,
            { name::INPUT_TOKENS } = Empty,
            { name::CACHED_TOKENS } = Empty,
            { name::OUTPUT_TOKENS } = Empty,
            { name::ERROR_TYPE } = Empty,
            { name::PLACE } = call.place.as_str(),
            { name::ATTEMPTS } = Empty,
        )
    }
}

#[async_trait]
impl ChatModel for Traced {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let span = self.span(request, call);
        let before = call.attempts.len();
        let outcome = self.inner.chat(request, call).instrument(span.clone()).await;
        span.record(name::ATTEMPTS, call.attempts.len().saturating_sub(before));
        match &outcome {
            Ok(reply) => {
                span.record(name::FINISH_REASONS, finish_reason(&reply.finish));
                span.record(name::INPUT_TOKENS, reply.usage.input);
                span.record(name::CACHED_TOKENS, reply.usage.cached);
                span.record(name::OUTPUT_TOKENS, reply.usage.output);
            }
            Err(error) => {
                span.record(name::ERROR_TYPE, error.class().as_str());
            }
        }
        outcome
    }
}

fn finish_reason(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Other(reason) => reason,
    }
}

#[cfg(test)]
mod tests;
