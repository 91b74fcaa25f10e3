//! A transport in memory, and the situations that every dialect has to put into words.

use async_trait::async_trait;
use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, ContentPart, FinishReason, HttpRequest, HttpResponse,
    ImageSource, LlmError, Message, ResponseSchema, Role, Sampling, ToolCall, ToolChoice, ToolSpec,
    Transport, TransportError,
};
use std::sync::Arc;

pub(crate) const KEY: &str = "sk-test-0123456789";

/// Answers in order, the last answer again and again, and keeps what it was asked.
pub(crate) struct Canned {
    answers: Vec<HttpResponse>,
    asked: Mutex<Vec<HttpRequest>>,
}

impl Canned {
    pub(crate) fn new(answers: Vec<HttpResponse>) -> Arc<Self> {
        Arc::new(Self { answers, asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<HttpRequest> {
        self.asked.lock().clone()
    }
}

#[async_trait]
impl Transport for Canned {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let mut asked = self.asked.lock();
        let answer_idx = asked.len().min(self.answers.len() - 1);
        asked.push(request);
        Ok(self.answers[answer_idx].clone())
    }
}

pub(crate) fn response(status: u16, body: impl Into<Vec<u8>>) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: body.into() }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

pub(crate) fn ask(model: &dyn ChatModel, request: &ChatRequest) -> Result<ChatReply, LlmError> {
    block_on(model.chat(request, &CallCtx::default()))
}

/// Method, address, headers and body of a request, as a snapshot holds them.
pub(crate) fn shown_request(request: &HttpRequest) -> Value {
    let headers: serde_json::Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().replace(KEY, "KEY").into()))
        .collect();
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    json!({"url": request.url, "headers": headers, "body": body})
}

/// Text, tool calls, finish reason and tokens in one line.
pub(crate) fn shown(outcome: Result<ChatReply, LlmError>) -> String {
    match outcome {
        Ok(reply) => {
            let calls: Vec<String> = reply
                .tool_calls
                .iter()
                .map(|call| format!(" {}={}({})", call.id, call.name, call.arguments))
                .collect();
            let usage = reply.usage;
            let finish = match reply.finish {
                FinishReason::Other(reason) => format!("other:{reason}"),
                finish => format!("{finish:?}"),
            };
            format!(
                "{finish} {:?}{} {}/{}/{}/{}",
                reply.text,
                calls.concat(),
                usage.input,
                usage.cached,
                usage.output,
                usage.reasoning
            )
        }
        Err(error) => format!("{:?}: {error}", error.class()),
    }
}

pub(crate) fn plain() -> ChatRequest {
    ChatRequest::new(vec![Message::system("Be brief."), Message::user("Why?")])
}

pub(crate) fn schema() -> ResponseSchema {
    let schema = json!({
        "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
        "additionalProperties": false,
    });
    ResponseSchema::new("patch", schema)
}

pub(crate) fn with_schema() -> ChatRequest {
    ChatRequest { response_schema: Some(schema()), ..plain() }
}

pub(crate) fn look() -> ToolSpec {
    ToolSpec {
        name: "look".to_owned(),
        description: "Looks closer.".to_owned(),
        parameters: json!({"type": "object", "properties": {"at": {"type": "integer"}}}),
    }
}

/// A conversation with images, two calls of tools at once, their results and an empty message.
pub(crate) fn conversation() -> ChatRequest {
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: arguments.to_owned(),
    };
    let result = |id: &str, text: &str| Message::tool_result(id, text);
    ChatRequest {
        messages: vec![
            Message::system("# Skill\n\nLook twice."),
            Message::new(
                Role::User,
                vec![
                    ContentPart::Text("What is on these?".into()),
                    ContentPart::Image(ImageSource::from_bytes("image/png", b"\x89PNG")),
                    ContentPart::Image(ImageSource::Url("https://pictures.example/1.png".to_owned())),
                ],
            ),
            Message::assistant("I look.")
                .with_tool_calls(vec![call("call_7", "{\"at\": 1}"), call("call_8", "not json")]),
            result("call_7", "a cat"),
            result("call_8", ""),
            Message::assistant("Done?"),
            Message::user("Go on."),
        ],
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_tokens: Some(64_000),
            ..Sampling::default()
        },
        tools: vec![look()],
        tool_choice: Some(ToolChoice::Required),
        parallel_tool_calls: Some(false),
        ..ChatRequest::default()
    }
}

/// Any JSON with names that dialects know.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        prop::sample::select(vec![
            "content",
            "type",
            "text",
            "tool_use",
            "name",
            "input",
            "id",
            "stop_reason",
            "stop_details",
            "explanation",
            "usage",
            "input_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "output_tokens",
            "output_tokens_details",
            "thinking_tokens",
            "error",
            "message",
            "details",
            "error_code",
            "output",
            "call_id",
            "arguments",
            "status",
            "incomplete_details",
            "reason",
            "refusal",
            "retryDelay",
            "metadata",
            "headers",
            "x-ratelimit-reset",
        ])
        .prop_map(str::to_owned),
        ".{0,4}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "text",
            "tool_use",
            "message",
            "output_text",
            "refusal",
            "function_call",
            "completed",
            "incomplete",
            "failed",
            "end_turn",
            "2026-10-21T07:28:00Z",
            "1e99s",
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}
