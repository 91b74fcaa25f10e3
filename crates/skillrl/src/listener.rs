//! A model that is asked to find out what an environment sends.

use async_trait::async_trait;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId, Usage};
use std::sync::{Mutex, PoisonError};

/// A model that remembers what it is asked, and answers the same each time or not at all.
pub(crate) struct Listener {
    id: ModelId,
    reply: Option<String>,
    heard: Mutex<Vec<ChatRequest>>,
}

impl Listener {
    /// One that answers with this text; `None` ends the call.
    pub(crate) fn new(reply: Option<String>) -> Self {
        Self { id: ModelId::new("local", "listener"), reply, heard: Mutex::default() }
    }

    /// The requests, in order.
    pub(crate) fn heard(&self) -> Vec<ChatRequest> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl ChatModel for Listener {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, _call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        match &self.reply {
            Some(reply) => Ok(ChatReply::text(reply.clone(), Usage::default())),
            None => Err(LlmError::Cancelled),
        }
    }
}
