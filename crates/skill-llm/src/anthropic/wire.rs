//! Replies as servers of the dialect write them.
//!
//! They are read by hand instead of by a schema: only what makes a reply unusable is an error.
//!
//! An empty list of blocks is an empty reply where the reply says why it ended, as the models of this dialect send it
//! when they have nothing to add. Without a reason the server failed behind a successful status.

use super::DIALECT;
use crate::chat::{ChatReply, FinishReason, ToolCall, UsageGap};
use crate::http::Fault;
use crate::wire;
use serde_json::Value;
use skill_core::Usage;

/// Reads the body of a reply.
///
/// `schema_tool` is the tool whose input is the reply itself.
pub(super) fn reply(body: &Value, schema_tool: Option<&str>) -> Result<ChatReply, Fault> {
    let (blocks, has_content) = match body.get("content") {
        Some(Value::Array(blocks)) => (blocks.as_slice(), true),
        Some(Value::Null) => ([].as_slice(), false),
        // A message without content differs from a body without a message.
        None if body.get("stop_reason").is_some() => ([].as_slice(), false),
        None => return Err(Fault::Unreadable("it has no `content`".to_owned())),
        Some(_) => return Err(Fault::Unreadable("`content` is not a list".to_owned())),
    };
    let mut finish = wire::finish(body.get("stop_reason"))?;
    let mut text = String::new();
    let mut has_text = false;
    let mut reasoning = Vec::new();
    let mut thinks = false;
    let mut tool_calls = Vec::new();
    let mut is_schema_called = false;
    for (block_idx, block) in blocks.iter().enumerate() {
        match block.get("type").and_then(Value::as_str) {
            Some("text") => {
                if let Some(said) = block.get("text").and_then(Value::as_str) {
                    has_text = true;
                    text.push_str(said);
                }
            }
            Some("tool_use") => {
                let call = tool_call(block, block_idx)?;
                if schema_tool == Some(call.name.as_str()) {
                    is_schema_called = true;
                    text = call.arguments;
                } else {
                    tool_calls.push(call);
                }
            }
            Some("thinking") => {
                thinks = true;
                reasoning
                    .extend(block.get("thinking").and_then(Value::as_str).filter(|text| !text.is_empty()));
            }
            Some("redacted_thinking") => thinks = true,
            // Whatever the server does by itself is not what the model answers.
            Some(_) | None => {}
        }
    }
    if !has_text && !is_schema_called && tool_calls.is_empty() {
        let says_why = match &finish {
            FinishReason::Length | FinishReason::ContentFilter => true,
            // A block of text without a text is what a failing server sends.
            FinishReason::Stop => has_content && blocks.iter().all(|block| !is_text(block)),
            FinishReason::ToolCalls => false,
            FinishReason::Other(reason) => has_content && !reason.is_empty(),
        };
        if !says_why {
            return Err(Fault::no_content("it holds no text and no tool call", &finish));
        }
    }
    if is_schema_called && finish == FinishReason::ToolCalls {
        finish = FinishReason::Stop;
    }
    if finish == FinishReason::ContentFilter && text.is_empty() {
        let explanation = body.get("stop_details").and_then(|details| details.get("explanation"));
        text = explanation.and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    // After an answer the interface leaves thoughts out by itself.
    let state = (thinks && !tool_calls.is_empty()).then(|| Value::from(blocks));
    let n_characters =
        text.chars().count() + reasoning.iter().map(|text| text.chars().count()).sum::<usize>();
    let (usage, gap) = usage(body.get("usage"), n_characters);
    Ok(ChatReply::new(text, usage, finish)
        .with_usage_gap(gap)
        .with_tool_calls(tool_calls)
        .with_reasoning(Some(reasoning.join("\n\n")))
        .with_provider_state(DIALECT, state))
}

fn is_text(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text")
}

fn tool_call(block: &Value, block_idx: usize) -> Result<ToolCall, String> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("name").ok_or_else(|| format!("`content[{block_idx}]` is a call without a name"))?;
    let id = text("id").map_or_else(|| format!("call_{block_idx}"), str::to_owned);
    let arguments = match block.get("input") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(input) => input.to_string(),
    };
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

/// The dialect counts what was read from the cache and what was written to it apart from the other tokens.
fn usage(usage: Option<&Value>, n_characters: usize) -> (Usage, Option<UsageGap>) {
    let Some(usage) = usage else { return (Usage::default(), None) };
    let tokens = |name: &str| wire::count(usage.get(name)).unwrap_or(0);
    let read = tokens("cache_read_input_tokens");
    let written = tokens("cache_creation_input_tokens");
    let thinking = usage.get("output_tokens_details").and_then(|details| details.get("thinking_tokens"));
    let (input, output, gap) = wire::both(
        wire::first_count(usage, &["input_tokens", "prompt_tokens"]),
        wire::first_count(usage, &["output_tokens", "completion_tokens"]),
        wire::count(usage.get("total_tokens")),
        n_characters,
    );
    let usage = Usage {
        input: input.saturating_add(read).saturating_add(written),
        cached: read,
        cache_written: written,
        output,
        reasoning: wire::count(thinking).unwrap_or(0),
    };
    (usage, gap)
}
