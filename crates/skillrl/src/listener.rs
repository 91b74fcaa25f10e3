//! A model that records what an environment sends, and gives a fixed reply.

use async_trait::async_trait;
use parking_lot::Mutex;
use skill_llm::{
    AgentProject, AgentWork, CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, LlmError, ModelId,
    ToolCall, Usage,
};

/// No environment has a tool of this name.
const UNKNOWN_TOOL: &str = "no_such_tool";

/// A model without a network that records its requests, and gives the same reply to each, or fails.
#[derive(Debug)]
pub struct Listener {
    id: ModelId,
    reply: Option<String>,
    calls_tools: bool,
    does_agent_work: bool,
    heard: Mutex<Vec<ChatRequest>>,
}

impl Listener {
    /// One that answers with this text; with `None` each call fails as [`LlmError::Cancelled`].
    pub fn new(reply: Option<String>) -> Self {
        Self {
            id: ModelId::new("local", "listener"),
            reply,
            calls_tools: false,
            does_agent_work: false,
            heard: Mutex::default(),
        }
    }

    /// One that uses all turns that it is given and does nothing in them: its replies are empty, or call a tool that
    /// does not exist where tools are offered.
    pub fn idle() -> Self {
        Self { calls_tools: true, ..Self::new(Some(String::new())) }
    }

    /// The same model by another id, which records and programs of agents show.
    #[must_use]
    pub fn with_id(self, id: ModelId) -> Self {
        Self { id, ..self }
    }

    /// If a call has an [`AgentProject`], the reply is that of a coding agent that changes no file.
    #[must_use]
    pub fn with_agent_work(self) -> Self {
        Self { does_agent_work: true, ..self }
    }

    /// The requests, in order.
    pub fn heard(&self) -> Vec<ChatRequest> {
        self.heard.lock().clone()
    }

    /// The first request; `None` if there was none.
    pub fn first_heard(&self) -> Option<ChatRequest> {
        self.heard.lock().first().cloned()
    }
}

#[async_trait]
impl ChatModel for Listener {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.heard.lock().push(request.clone());
        match &self.reply {
            Some(reply) if self.calls_tools && !request.tools.is_empty() => {
                let tool_call = ToolCall {
                    id: "call".to_owned(),
                    name: UNKNOWN_TOOL.to_owned(),
                    arguments: "{}".to_owned(),
                };
                let reply = ChatReply::new(reply.clone(), Usage::default(), FinishReason::ToolCalls);
                Ok(reply.with_tool_calls(vec![tool_call]))
            }
            Some(reply) => {
                let reply = ChatReply::text(reply.clone(), Usage::default());
                let is_of_agent = self.does_agent_work && call.get::<AgentProject>().is_some();
                Ok(if is_of_agent { reply.with_agent_work(&AgentWork::default()) } else { reply })
            }
            None => Err(LlmError::Cancelled),
        }
    }
}
