//! Sums of what goes through a model.

use super::layered::{Layered, Used, layer};
use crate::call::CallCtx;
use crate::chat::ChatModel;
use crate::embedding::EmbeddingModel;
use crate::error::LlmError;
use crate::meter::Meter;
use std::sync::Arc;

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

layer!(Metered);

impl<M: ?Sized> Metered<M> {
    /// The meter, to be read while calls run.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    async fn run(&self, request: &M::Request, call: &CallCtx) -> Result<M::Reply, LlmError>
    where
        M: Layered,
    {
        self.meter.begin();
        let outcome = self.inner.ask(request, call).await;
        let used = outcome.as_ref().ok().map(Used::usage);
        self.meter.end(used);
        if let Some(usage) = used {
            call.scope.count(usage);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{ChatReply, ChatRequest, Message, ModelId};
    use crate::meter::MeterReading;
    use crate::scripted::ScriptedModel;
    use skill_core::Usage;

    const USAGE: Usage = Usage { input: 10, cached: 4, cache_written: 2, output: 3, reasoning: 1 };

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
