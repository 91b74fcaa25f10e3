//! A model that is asked to find out what an environment sends.

use async_trait::async_trait;
use parking_lot::Mutex;
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, LlmError, ModelId, ToolCall, Usage,
};

/// No environment has a tool of this name.
const UNKNOWN_TOOL: &str = "no_such_tool";

/// A model that remembers what it is asked, and answers the same each time or not at all.
pub(crate) struct Listener {
    id: ModelId,
    reply: Option<String>,
    calls_tools: bool,
    heard: Mutex<Vec<ChatRequest>>,
}

impl Listener {
    /// One that answers with this text; `None` ends the call.
    pub(crate) fn new(reply: Option<String>) -> Self {
        Self { id: ModelId::new("local", "listener"), reply, calls_tools: false, heard: Mutex::default() }
    }

    /// One that uses all turns that it is given and does nothing in them: its replies are empty, or call a tool that
    /// does not exist where tools are offered.
    pub(crate) fn idle() -> Self {
        Self { calls_tools: true, ..Self::new(Some(String::new())) }
    }

    /// The requests, in order.
    pub(crate) fn heard(&self) -> Vec<ChatRequest> {
        self.heard.lock().clone()
    }
}

#[async_trait]
impl ChatModel for Listener {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, _call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.heard.lock().push(request.clone());
        match &self.reply {
            Some(reply) if self.calls_tools && !request.tools.is_empty() => {
                let call = ToolCall {
                    id: "call".to_owned(),
                    name: UNKNOWN_TOOL.to_owned(),
                    arguments: "{}".to_owned(),
                };
                let reply = ChatReply::new(reply.clone(), Usage::default(), FinishReason::ToolCalls);
                Ok(reply.with_tool_calls(vec![call]))
            }
            Some(reply) => Ok(ChatReply::text(reply.clone(), Usage::default())),
            None => Err(LlmError::Cancelled),
        }
    }
}
