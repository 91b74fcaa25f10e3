//! The facts that layers need about a model, its requests and its replies, so that one implementation serves every kind
//! of model.
//!
//! A new kind of model implements the three traits here, and gets its public trait for each layer from the macro [`layer`].

use super::estimate::{PromptSize, text_tokens};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, FinishReason, ModelId, Sampling};
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::LlmError;
use skill_core::Usage;
use std::pin::Pin;
use std::sync::Arc;

/// The future of one call, as `async_trait` makes it.
pub(crate) type Answer<'call, T> = Pin<Box<dyn Future<Output = Result<T, LlmError>> + Send + 'call>>;

/// A kind of model, as the layers see it.
pub(crate) trait Layered: Send + Sync {
    /// Its requests.
    type Request: Prompt;
    /// Its replies.
    type Reply: Used + Send;

    /// The identity of the model in records.
    fn model_id(&self) -> &ModelId;

    /// Makes one call.
    fn ask<'call>(
        &'call self,
        request: &'call Self::Request,
        call: &'call CallCtx,
    ) -> Answer<'call, Self::Reply>;
}

/// A request, as far as it decides what a call may cost.
pub(crate) trait Prompt: Send + Sync {
    /// An estimate of the tokens of the prompt.
    fn input_tokens(&self) -> u64;

    /// The bytes that bound its tokens.
    fn size(&self) -> PromptSize;

    /// The limit that it sets on the tokens of the reply.
    fn max_tokens(&self) -> Option<u64>;

    /// The same request with this limit on the tokens of the reply.
    fn with_max_tokens(&self, max_tokens: u64) -> Self
    where
        Self: Sized;

    /// True if its replies take their own time, apart from those of other requests to the same model.
    fn has_schema(&self) -> bool;

    /// What a provider may bill for it if it ended like this, where no budget knows more: an estimate of its prompt.
    fn may_be_billed(&self, error: &LlmError) -> Usage {
        let input = if error.is_billed() { self.input_tokens() } else { 0 };
        Usage { input, ..Usage::default() }
    }
}

/// A reply, as far as it shows what the call has cost.
pub(crate) trait Used {
    /// Tokens as the provider counts them.
    fn usage(&self) -> Usage;

    /// The tokens that its latency grows with.
    fn paced_tokens(&self) -> u64;

    /// True if its limit cut it.
    fn is_cut(&self) -> bool;

    /// US dollars, where the model reports them, as a coding agent does.
    fn reported_cost(&self) -> Option<f64> {
        None
    }
}

impl<T: Used> Used for Arc<T> {
    fn usage(&self) -> Usage {
        self.as_ref().usage()
    }

    fn paced_tokens(&self) -> u64 {
        self.as_ref().paced_tokens()
    }

    fn is_cut(&self) -> bool {
        self.as_ref().is_cut()
    }

    fn reported_cost(&self) -> Option<f64> {
        self.as_ref().reported_cost()
    }
}

impl Layered for dyn ChatModel + '_ {
    type Request = ChatRequest;
    type Reply = ChatReply;

    fn model_id(&self) -> &ModelId {
        self.id()
    }

    fn ask<'call>(
        &'call self,
        request: &'call ChatRequest,
        call: &'call CallCtx,
    ) -> Answer<'call, ChatReply> {
        self.chat(request, call)
    }
}

impl Prompt for ChatRequest {
    fn input_tokens(&self) -> u64 {
        super::estimate::input_tokens(self)
    }

    fn size(&self) -> PromptSize {
        PromptSize::of(self)
    }

    fn max_tokens(&self) -> Option<u64> {
        self.sampling.max_tokens.map(u64::from)
    }

    fn with_max_tokens(&self, max_tokens: u64) -> Self {
        let max_tokens = Some(u32::try_from(max_tokens).unwrap_or(u32::MAX));
        Self { sampling: Sampling { max_tokens, ..self.sampling }, ..self.clone() }
    }

    fn has_schema(&self) -> bool {
        self.response_schema.is_some()
    }
}

impl Used for ChatReply {
    fn usage(&self) -> Usage {
        self.usage
    }

    fn paced_tokens(&self) -> u64 {
        self.usage.output
    }

    fn is_cut(&self) -> bool {
        self.finish == FinishReason::Length
    }

    fn reported_cost(&self) -> Option<f64> {
        self.agent_cost()
    }
}

impl Layered for dyn EmbeddingModel + '_ {
    type Request = EmbeddingRequest;
    type Reply = EmbeddingReply;

    fn model_id(&self) -> &ModelId {
        self.id()
    }

    fn ask<'call>(
        &'call self,
        request: &'call EmbeddingRequest,
        call: &'call CallCtx,
    ) -> Answer<'call, EmbeddingReply> {
        self.embed(request, call)
    }
}

impl Prompt for EmbeddingRequest {
    fn input_tokens(&self) -> u64 {
        text_tokens(&self.texts)
    }

    fn size(&self) -> PromptSize {
        PromptSize::of_texts(&self.texts)
    }

    /// Vectors are no tokens: nothing is reserved for a reply.
    fn max_tokens(&self) -> Option<u64> {
        Some(0)
    }

    fn with_max_tokens(&self, _: u64) -> Self {
        self.clone()
    }

    fn has_schema(&self) -> bool {
        false
    }
}

impl Used for EmbeddingReply {
    fn usage(&self) -> Usage {
        self.usage
    }

    fn paced_tokens(&self) -> u64 {
        self.usage.input
    }

    fn is_cut(&self) -> bool {
        false
    }
}

/// Makes a layer around both kinds of model a model of its kind: one with an `inner` model, which gives it its identity,
/// and a method `run`, which makes a call.
macro_rules! layer {
    ($layer:ident) => {
        #[async_trait::async_trait]
        impl crate::chat::ChatModel for $layer {
            fn id(&self) -> &crate::chat::ModelId {
                self.inner.id()
            }

            fn parameters(&self) -> serde_json::Value {
                self.inner.parameters()
            }

            async fn chat(
                &self,
                request: &crate::chat::ChatRequest,
                call: &crate::call::CallCtx,
            ) -> Result<crate::chat::ChatReply, crate::error::LlmError> {
                self.run(request, call).await
            }
        }

        #[async_trait::async_trait]
        impl crate::embedding::EmbeddingModel for $layer<dyn crate::embedding::EmbeddingModel> {
            fn id(&self) -> &crate::chat::ModelId {
                self.inner.id()
            }

            fn parameters(&self) -> serde_json::Value {
                self.inner.parameters()
            }

            fn max_texts(&self) -> usize {
                self.inner.max_texts()
            }

            async fn embed(
                &self,
                request: &crate::embedding::EmbeddingRequest,
                call: &crate::call::CallCtx,
            ) -> Result<crate::embedding::EmbeddingReply, crate::error::LlmError> {
                self.run(request, call).await
            }
        }
    };
}
pub(super) use layer;
