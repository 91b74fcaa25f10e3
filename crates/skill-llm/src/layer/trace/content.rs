//! The texts of a call in the form of the conventions, for those who ask for them.

use crate::chat::{ChatReply, ChatRequest, ContentPart, Message, ToolCall};
use serde_json::{Value, json};

/// The most characters of one text; what is longer is cut.
const MAX_CHARACTERS: usize = 32_768;

/// What the model was asked.
pub(super) fn input(request: &ChatRequest) -> String {
    let messages: Vec<Value> = request.messages.iter().map(message).collect();
    Value::from(messages).to_string()
}

/// What it answered.
pub(super) fn output(reply: &ChatReply, finish_reason: &str) -> String {
    let parts = (!reply.text.is_empty()).then(|| text(&reply.text)).into_iter();
    let parts: Vec<Value> = parts.chain(reply.tool_calls.iter().map(tool_call)).collect();
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish_reason}]).to_string()
}

fn message(message: &Message) -> Value {
    let parts = message.content.iter().map(|part| match part {
        ContentPart::Text(said) => match &message.tool_call_id {
            Some(id) => json!({"type": "tool_call_response", "id": id, "response": clip(said)}),
            None => text(said),
        },
        // An image is long, and a collector has no use for it.
        ContentPart::Image(_) => json!({"type": "image"}),
    });
    let parts: Vec<Value> = parts.chain(message.tool_calls.iter().map(tool_call)).collect();
    json!({"role": message.role.as_str(), "parts": parts})
}

fn text(said: &str) -> Value {
    json!({"type": "text", "content": clip(said)})
}

fn tool_call(call: &ToolCall) -> Value {
    json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": clip(&call.arguments)})
}

fn clip(said: &str) -> String {
    match said.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{} […]", said.get(..end).unwrap_or_default()),
        None => said.to_owned(),
    }
}
