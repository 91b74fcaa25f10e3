//! What a model was used for: a layer that adds up calls and tokens.

use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, ModelId};
use crate::embedding::{EmbeddingModel, EmbeddingReply, EmbeddingRequest};
use crate::error::LlmError;
use crate::layer::{Layered, Used as _};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::Usage;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A model that counts what goes through it, on its meter and in the scope of each call.
///
/// It goes around all other layers, so that a reply counts the same wherever it came from.
pub struct Metered<M: ?Sized = dyn ChatModel> {
    inner: Arc<M>,
    meter: Arc<Meter>,
}

impl Metered {
    /// Counts the calls of `inner` on a meter of its own.
    pub fn new(inner: Arc<dyn ChatModel>) -> Self {
        Self::with_meter(inner, Arc::default())
    }

    /// Counts the calls of `inner` on a meter that others may share.
    pub fn with_meter(inner: Arc<dyn ChatModel>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl Metered<dyn EmbeddingModel> {
    /// Counts the calls of an embedding model on a meter that others may share.
    pub fn embedding(inner: Arc<dyn EmbeddingModel>, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<M: ?Sized> Metered<M> {
    /// The meter, to be read while calls run.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    async fn run(&self, request: &M::Request, call: &CallCtx) -> Result<M::Reply, LlmError>
    where
        M: Layered,
    {
        self.meter.lock().calls += 1;
        let outcome = self.inner.ask(request, call).await;
        match &outcome {
            Ok(reply) => {
                self.meter.lock().usage += reply.usage();
                call.scope.count(reply.usage());
            }
            Err(_) => self.meter.lock().failed += 1,
        }
        outcome
    }
}

#[async_trait]
impl ChatModel for Metered {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.run(request, call).await
    }
}

#[async_trait]
impl EmbeddingModel for Metered<dyn EmbeddingModel> {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    fn max_texts(&self) -> usize {
        self.inner.max_texts()
    }

    async fn embed(&self, request: &EmbeddingRequest, call: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        self.run(request, call).await
    }
}

/// Sums over calls.
#[derive(Debug, Default)]
pub struct Meter {
    reading: Mutex<MeterReading>,
}

impl Meter {
    /// The sums until now.
    pub fn snapshot(&self) -> MeterReading {
        *self.lock()
    }

    /// Adds what another meter showed.
    pub fn add(&self, other: MeterReading) {
        let mut reading = self.lock();
        reading.calls += other.calls;
        reading.failed += other.failed;
        reading.usage += other.usage;
    }

    /// Counts a call that gave a reply.
    pub(crate) fn count_reply(&self, usage: Usage) {
        let mut reading = self.lock();
        reading.calls += 1;
        reading.usage += usage;
    }

    fn lock(&self) -> MutexGuard<'_, MeterReading> {
        // The sums are whole after every statement, so a panic elsewhere cannot have broken them.
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a [`Meter`] showed at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeterReading {
    /// Calls that were begun, finished or not.
    pub calls: u64,
    /// Calls that ended in an error.
    pub failed: u64,
    /// Tokens of the calls that gave a reply.
    pub usage: Usage,
}

impl MeterReading {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let mut usage = self.usage;
        usage += other.usage;
        Self {
            calls: self.calls.saturating_add(other.calls),
            failed: self.failed.saturating_add(other.failed),
            usage,
        }
    }

    /// What was added since an earlier reading of the same meter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, before) = (&self.usage, &earlier.usage);
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            failed: self.failed.saturating_sub(earlier.failed),
            usage: Usage {
                input: now.input.saturating_sub(before.input),
                cached: now.cached.saturating_sub(before.cached),
                output: now.output.saturating_sub(before.output),
                reasoning: now.reasoning.saturating_sub(before.reasoning),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::Message;
    use crate::scripted::ScriptedModel;

    const USAGE: Usage = Usage { input: 10, cached: 4, output: 3, reasoning: 1 };

    fn model() -> Metered {
        Metered::new(Arc::new(ScriptedModel::from_fn("counted", |request, _| {
            if request.messages.is_empty() {
                Err(LlmError::Cancelled)
            } else {
                Ok(ChatReply::text("yes", USAGE))
            }
        })))
    }

    #[tokio::test]
    async fn adds_up_calls_failures_and_tokens() {
        let (model, call) = (model(), CallCtx::default());
        let meter = model.meter();
        let asked = ChatRequest::new(vec![Message::user("well?")]);
        model.chat(&asked, &call).await.unwrap();
        let before = meter.snapshot();
        assert_eq!(before, MeterReading { calls: 1, failed: 0, usage: USAGE });
        model.chat(&asked, &call).await.unwrap();
        model.chat(&ChatRequest::default(), &call).await.unwrap_err();
        let after = meter.snapshot();
        assert_eq!((after.calls, after.failed, after.usage.input), (3, 1, 20));
        assert_eq!((call.scope.used().calls, call.scope.used().usage.input), (2, 20));
        assert_eq!(after.since(&before), MeterReading { calls: 2, failed: 1, usage: USAGE });
        assert_eq!(before.since(&after), MeterReading::default());
    }

    #[test]
    fn keeps_the_identity_of_the_model() {
        assert_eq!(model().id(), &ModelId::new("scripted", "counted"));
    }
}
