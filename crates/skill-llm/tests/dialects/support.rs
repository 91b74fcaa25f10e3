//! The situations that every dialect has to put into words.

#[path = "../support/wire.rs"]
mod wire;

pub(crate) use wire::{Canned, KEY, block_on, response, shown};

use proptest::prelude::*;
use serde_json::{Value, json};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, ContentPart, HttpRequest, ImageSource, LlmError, Message,
    ResponseSchema, Role, Sampling, ToolCall, ToolChoice, ToolSpec,
};

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

/// Names that dialects know.
const NAMES: &[&str] = &[
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
];

/// Words that dialects know.
const WORDS: &[&str] = &[
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
];

/// Any JSON with names and words that the dialects know.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    wire::json(NAMES, WORDS)
}
