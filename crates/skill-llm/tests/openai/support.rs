//! A model over a transport in memory.

#[path = "../support/wire.rs"]
mod wire;

pub(crate) use wire::{Canned, KEY, block_on, json, response, shown};

use serde_json::Value;
use skill_llm::{
    CallCtx, ChatModel as _, ChatReply, ChatRequest, HttpRequest, HttpResponse, LlmError, Message,
    OpenAiChat, OpenAiConfig, Transport, TransportError,
};
use std::sync::Arc;

pub(crate) fn config() -> OpenAiConfig {
    OpenAiConfig::new("http://llm.example/v1", "small").with_key(skill_llm::ApiKey::new(KEY).unwrap())
}

pub(crate) fn question() -> ChatRequest {
    ChatRequest::new(vec![Message::user("well?")])
}

/// The one request that was sent.
pub(crate) fn only(transport: &Canned) -> HttpRequest {
    let [asked] = <[HttpRequest; 1]>::try_from(transport.asked()).unwrap();
    asked
}

/// What becomes of one answer of the transport.
pub(crate) fn outcome(answer: Result<HttpResponse, TransportError>) -> Result<ChatReply, LlmError> {
    let model = OpenAiChat::with_transport(config(), Canned::new(answer)).unwrap();
    block_on(async move { model.chat(&question(), &CallCtx::default()).await })
}

/// The body and the rest of what a request becomes.
pub(crate) fn sent(config: OpenAiConfig, request: &ChatRequest, call: &CallCtx) -> (Value, HttpRequest) {
    let transport = Canned::new(Ok(response(200, r#"{"choices": [{"message": {"content": "x"}}]}"#)));
    let model = OpenAiChat::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    block_on(model.chat(request, call)).unwrap();
    let asked = only(&transport);
    (serde_json::from_slice(&asked.body).unwrap(), asked)
}
