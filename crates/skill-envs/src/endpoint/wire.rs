//! Chat Completions as data, for programs in this process that write requests as that dialect has them.

use super::openai;
use serde_json::{Map, Value};
use skill_llm::{ChatReply, ChatRequest};

/// Reads a request as agents send it to the endpoint: the same fields, and the same are refused.
///
/// # Errors
///
/// What is wrong, with the name of the field.
pub fn read_chat_completions(body: &Map<String, Value>) -> Result<ChatRequest, String> {
    openai::request(body).map(|request| request.chat).map_err(|problem| match problem.param {
        // Most messages name their field.
        Some(field) if !problem.message.contains(&field) => format!("{field}: {}", problem.message),
        _ => problem.message,
    })
}

/// The tool calls of a reply as the list of its message; `None` if it has none.
pub fn write_tool_calls(reply: &ChatReply) -> Option<Value> {
    let calls = &reply.tool_calls;
    (!calls.is_empty()).then(|| calls.iter().map(openai::tool_call).collect())
}
