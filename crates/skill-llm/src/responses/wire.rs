//! Replies as servers of the dialect write them.
//!
//! They are read by hand instead of by a schema: only what makes a reply unusable is an error.

use crate::chat::{ChatReply, FinishReason, ToolCall};
use serde_json::Value;
use skill_core::Usage;

/// Reads the body of a reply; an error is a fragment that says what is wrong.
pub(super) fn reply(body: &Value) -> Result<ChatReply, String> {
    let items = match body.get("output") {
        Some(Value::Array(items)) => items.as_slice(),
        Some(Value::Null) | None => return Err("it has no `output`".to_owned()),
        Some(_) => return Err("`output` is not a list".to_owned()),
    };
    let mut text = String::new();
    let mut refusal = String::new();
    let mut tool_calls = Vec::new();
    for (item_idx, item) in items.iter().enumerate() {
        match item.get("type").and_then(Value::as_str) {
            Some("message") | None => read_message(item, &mut text, &mut refusal),
            Some("function_call") => tool_calls.push(tool_call(item, item_idx)?),
            // Thinking, and whatever the server does by itself, is not what the model answers.
            Some(_) => {}
        }
    }
    let finish = if refusal.is_empty() {
        finish_reason(body, !tool_calls.is_empty())?
    } else {
        // A refusal is what the model said, and it is no answer: the finish reason tells it apart.
        FinishReason::ContentFilter
    };
    if text.is_empty() {
        text = refusal;
    }
    Ok(ChatReply { text, tool_calls, usage: usage(body.get("usage")), finish })
}

fn read_message(item: &Value, text: &mut String, refusal: &mut String) {
    let part_text = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).map(str::to_owned);
    match item.get("content") {
        Some(Value::String(said)) => text.push_str(said),
        Some(Value::Array(parts)) => {
            for part in parts {
                match part.get("type").and_then(Value::as_str) {
                    Some("output_text" | "text") => {
                        text.push_str(&part_text(part, "text").unwrap_or_default());
                    }
                    Some("refusal") => refusal.push_str(&part_text(part, "refusal").unwrap_or_default()),
                    Some(_) | None => {}
                }
            }
        }
        Some(_) | None => {}
    }
}

fn tool_call(item: &Value, item_idx: usize) -> Result<ToolCall, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("name").ok_or_else(|| format!("`output[{item_idx}]` is a call without a name"))?;
    let id = text("call_id").or_else(|| text("id")).map_or_else(|| format!("call_{item_idx}"), str::to_owned);
    let arguments = match item.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
    };
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

fn finish_reason(body: &Value, calls_tools: bool) -> Result<FinishReason, String> {
    let reason = body.get("incomplete_details").and_then(|details| details.get("reason"));
    Ok(match (body.get("status").and_then(Value::as_str).unwrap_or_default(), calls_tools) {
        ("completed" | "", true) => FinishReason::ToolCalls,
        ("completed", false) => FinishReason::Stop,
        ("incomplete", _) => match reason.and_then(Value::as_str).unwrap_or_default() {
            "max_output_tokens" => FinishReason::Length,
            "content_filter" => FinishReason::ContentFilter,
            other => FinishReason::Other(other.to_owned()),
        },
        ("failed" | "cancelled", _) => return Err("the server gave it up without saying why".to_owned()),
        ("queued" | "in_progress", _) => return Err("it is not finished".to_owned()),
        (other, _) => FinishReason::Other(other.to_owned()),
    })
}

fn usage(usage: Option<&Value>) -> Usage {
    let Some(usage) = usage else { return Usage::default() };
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    let detail = |group: &str, name: &str| {
        usage.get(group).and_then(|group| group.get(name)).and_then(Value::as_u64).unwrap_or(0)
    };
    Usage {
        input: tokens("input_tokens"),
        cached: detail("input_tokens_details", "cached_tokens"),
        output: tokens("output_tokens"),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
    }
}
