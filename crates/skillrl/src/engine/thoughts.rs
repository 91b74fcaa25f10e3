//! A warning about servers that leave what a model thinks in the text of its replies.

use crate::config::models::SIMULATED_KIND;
use crate::hint::THOUGHTS_IN_TEXT;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The models of a run of which a person was told.
#[derive(Debug, Clone, Default)]
pub(super) struct Thoughts {
    told: Arc<Mutex<BTreeSet<ModelId>>>,
}

impl Thoughts {
    /// The model, whose first reply with a thought in its text is told of.
    pub(super) fn watch(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        Arc::new(Watched { model, thoughts: self.clone() })
    }

    /// True the first time.
    fn is_new(&self, model: &ModelId) -> bool {
        self.told.lock().insert(model.clone())
    }
}

struct Watched {
    model: Arc<dyn ChatModel>,
    thoughts: Thoughts,
}

#[async_trait]
impl ChatModel for Watched {
    fn id(&self) -> &ModelId {
        self.model.id()
    }

    fn parameters(&self) -> Value {
        self.model.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let reply = self.model.chat(request, call).await?;
        // A simulated model, which is of a provider of this name, has no server, and thinks as a prompt asks it to.
        let is_served = self.id().provider != SIMULATED_KIND;
        if is_served && reply.holds_thoughts(request) && self.thoughts.is_new(self.id()) {
            tracing::warn!(
                "{} leaves what the model thinks in the text of its replies (told once): {THOUGHTS_IN_TEXT}",
                self.id()
            );
        }
        Ok(reply)
    }
}
