//! A model with fixed replies, which keeps what it was asked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use async_trait::async_trait;
use parking_lot::Mutex;
use skill_core::Usage;
use skill_llm::{CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};

type Reply = dyn Fn(usize) -> Result<ChatReply, LlmError> + Send + Sync;

/// A model with fixed replies, which keeps what it was asked and where.
pub(crate) struct Fixed {
    id: ModelId,
    reply: Box<Reply>,
    pub(crate) asked: Mutex<Vec<(ChatRequest, CallPlace)>>,
}

impl Fixed {
    /// Replies by a function of how many replies there were before.
    pub(crate) fn by(reply: impl Fn(usize) -> Result<ChatReply, LlmError> + Send + Sync + 'static) -> Self {
        Self { id: ModelId::new("test", "fixed"), reply: Box::new(reply), asked: Mutex::default() }
    }

    /// Gives these replies in turn, the last one again and again.
    pub(crate) fn replying(replies: Vec<ChatReply>) -> Self {
        Self::by(move |number| Ok(replies.get(number).or(replies.last()).unwrap().clone()))
    }

    /// Says these things in turn, the last one again and again.
    pub(crate) fn saying(texts: &[&str]) -> Self {
        Self::replying(texts.iter().map(|text| says(text)).collect())
    }

    pub(crate) fn requests(&self) -> Vec<ChatRequest> {
        self.asked.lock().iter().map(|(request, _)| request.clone()).collect()
    }
}

#[async_trait]
impl ChatModel for Fixed {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let mut asked = self.asked.lock();
        asked.push((request.clone(), call.place.clone()));
        (self.reply)(asked.len() - 1)
    }
}

/// A whole reply.
pub(crate) fn says(text: &str) -> ChatReply {
    ChatReply::text(text, usage())
}

/// The tokens of a reply.
pub(crate) fn usage() -> Usage {
    Usage { input: 10, output: 2, ..Usage::default() }
}
