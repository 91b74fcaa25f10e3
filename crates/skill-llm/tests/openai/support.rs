//! A transport in memory.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use skill_llm::{
    CallCtx, ChatModel as _, ChatReply, ChatRequest, HttpRequest, HttpResponse, LlmError, Message,
    OpenAiChat, OpenAiConfig, Transport, TransportError,
};
use std::sync::Arc;

/// Answers every request alike, and keeps what it was asked.
pub(crate) struct Canned {
    answer: Result<HttpResponse, TransportError>,
    asked: Mutex<Vec<HttpRequest>>,
}

impl Canned {
    pub(crate) fn new(answer: Result<HttpResponse, TransportError>) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }

    /// How many requests were sent.
    pub(crate) fn n_asked(&self) -> usize {
        self.asked.lock().len()
    }

    pub(crate) fn asked(&self) -> HttpRequest {
        let asked = self.asked.lock();
        assert_eq!(asked.len(), 1, "one call is one request");
        asked.first().unwrap().clone()
    }
}

#[async_trait]
impl Transport for Canned {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.asked.lock().push(request);
        self.answer.clone()
    }
}

pub(crate) const KEY: &str = "sk-test-0123456789";

pub(crate) fn config() -> OpenAiConfig {
    OpenAiConfig::new("http://llm.example/v1", "small").with_key(skill_llm::ApiKey::new(KEY).unwrap())
}

pub(crate) fn question() -> ChatRequest {
    ChatRequest::new(vec![Message::user("well?")])
}

pub(crate) fn response(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: body.into() }
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
    let asked = transport.asked();
    (serde_json::from_slice(&asked.body).unwrap(), asked)
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
