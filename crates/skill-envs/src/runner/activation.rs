//! Whether a coding agent loaded the skill that it found as a package.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::sync::Arc;

/// A target that remembers whether any of its replies came from an agent that loaded the skill.
pub(super) struct Activation {
    target: Arc<dyn ChatModel>,
    is_activated: Mutex<Option<bool>>,
}

impl Activation {
    pub(super) fn of(target: &Arc<dyn ChatModel>) -> Arc<Self> {
        Arc::new(Self { target: Arc::clone(target), is_activated: Mutex::default() })
    }

    /// Whether the skill was loaded; `None` where none was delivered as a package.
    pub(super) fn is_activated(&self) -> Option<bool> {
        *self.is_activated.lock()
    }
}

#[async_trait]
impl ChatModel for Activation {
    fn id(&self) -> &ModelId {
        self.target.id()
    }

    fn parameters(&self) -> Value {
        self.target.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let reply = self.target.chat(request, call).await?;
        if let Some(is_activated) = reply.agent_work().and_then(|work| work.is_activated()) {
            let mut known = self.is_activated.lock();
            *known = Some(known.unwrap_or(false) || is_activated);
        }
        Ok(reply)
    }
}
