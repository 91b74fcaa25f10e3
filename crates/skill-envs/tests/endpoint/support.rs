//! A client that writes what it is told to, and a session that is served beside it.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_envs::RolloutCtx;
use skill_envs::endpoint::{Endpoint, EndpointSession, SessionSettings, SkillInPrompt};
use skill_llm::{ChatModel, ChatReply, ChatRequest, LlmError, ScriptedModel, Usage};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// What came back.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// The message of an error in either dialect.
    pub(crate) fn message(&self) -> String {
        self.json().pointer("/error/message").unwrap().as_str().unwrap().to_owned()
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Client {
    pub(crate) fn of(endpoint: &Endpoint, session: &EndpointSession) -> Self {
        Self { address: endpoint.address(), token: session.token().to_owned() }
    }

    pub(crate) fn request(&self, path: &str) -> http::request::Builder {
        Request::post(path)
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Got {
        self.send(self.request(path), body.to_string()).await
    }

    pub(crate) async fn chat(&self, text: &str) -> Got {
        self.post("/v1/chat/completions", &question(text)).await
    }

    pub(crate) async fn send(&self, request: http::request::Builder, body: String) -> Got {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let exchange = async move {
            let response = sender.send_request(request).await.unwrap();
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            Got { status: head.status, headers: head.headers, text }
        };
        tokio::join!(exchange, connection).0
    }
}

pub(crate) fn question(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

/// A body of the OpenAI dialect from roles and texts.
pub(crate) fn conversation(messages: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> =
        messages.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    json!({"model": "m", "messages": messages})
}

/// A model that answers by a function and notes what it was asked.
pub(crate) struct Target {
    pub(crate) model: ScriptedModel,
    pub(crate) seen: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Target {
    pub(crate) fn new(
        answer: impl Fn(&ChatRequest) -> Result<ChatReply, LlmError> + Send + Sync + 'static,
    ) -> Self {
        let seen: Arc<Mutex<Vec<ChatRequest>>> = Arc::default();
        let noted = Arc::clone(&seen);
        let model = ScriptedModel::from_fn("target", move |request, _| {
            noted.lock().push(request.clone());
            answer(request)
        });
        Self { model, seen }
    }

    /// Says what the last message says.
    pub(crate) fn echo() -> Self {
        Self::new(|request| {
            let text = request.messages.last().unwrap().text();
            Ok(ChatReply::text(format!("re: {text}"), Usage { input: 10, output: 2, ..Usage::default() }))
        })
    }

    pub(crate) fn seen(&self) -> Vec<ChatRequest> {
        self.seen.lock().clone()
    }
}

/// A running endpoint with one session, and a client of it.
pub(crate) async fn opened(settings: SessionSettings) -> (Endpoint, EndpointSession, Client) {
    let endpoint = Endpoint::start().await.unwrap();
    let session = endpoint.session(settings);
    let client = Client::of(&endpoint, &session);
    (endpoint, session, client)
}

/// Serves the session while the agent works.
pub(crate) async fn served<T>(
    session: &mut EndpointSession,
    target: &dyn ChatModel,
    agent: impl Future<Output = T>,
) -> T {
    let ctx = RolloutCtx::default();
    tokio::select! {
        done = agent => done,
        never = session.serve(target, &ctx) => match never {},
    }
}

pub(crate) fn with_skill(skill: SkillInPrompt) -> SessionSettings {
    SessionSettings { skill, ..SessionSettings::default() }
}
