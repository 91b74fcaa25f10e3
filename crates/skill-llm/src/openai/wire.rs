//! Replies as the servers of the dialect write them.
//!
//! They are read by hand instead of by a schema: servers leave fields out, write null for nothing, and send lists
//! where the original sends strings. Only what makes a reply unusable is an error.
//!
//! `"content": ""` is an empty reply. Content that is null or missing is one too where the reply says why: it was cut
//! at its limit, it was withheld, or the model came to its end and all that it wrote is reasoning. Otherwise the server
//! failed behind a successful status, and that is [`Fault::NoContent`].
//!
//! Reasoning, log-probabilities and token ids are extras: what is not of the expected form is left out.

use super::{DIALECT, RETURNED_FIELDS};
use crate::chat::{ChatReply, FinishReason, ToolCall, UsageGap};
use crate::http::Fault;
use crate::wire;
use serde_json::{Map, Value, json};
use skill_core::{ReplyTokens, TokenLogprob, TopLogprob, Usage};

/// Reads the body of a reply.
pub(super) fn reply(body: &Value) -> Result<ChatReply, Fault> {
    let unreadable = |what: &str| Fault::Unreadable(what.to_owned());
    let choices = match body.get("choices") {
        Some(Value::Array(choices)) => choices,
        Some(Value::Null) | None => return Err(unreadable("it has no `choices`")),
        Some(_) => return Err(unreadable("`choices` is not a list")),
    };
    let choice = choices.first().ok_or_else(|| unreadable("`choices` is empty"))?;
    let message = choice.get("message").and_then(Value::as_object);
    let message = message.ok_or_else(|| unreadable("`choices[0]` has no `message`"))?;
    let content = text_of(message.get("content"))?;
    let has_content = content.is_some();
    let mut text = content.unwrap_or_default();
    let mut finish = wire::finish(choice.get("finish_reason"))?;
    // A gateway says `stop` of what its provider calls a failure.
    wire::finish(choice.get("native_finish_reason"))?;
    if let Some(refusal) = refusal(message) {
        // A refusal is what the model said, and it is not an answer: the finish reason tells it apart.
        finish = FinishReason::ContentFilter;
        if text.is_empty() {
            text = refusal;
        }
    }
    let tool_calls = tool_calls(message)?;
    if !has_content && tool_calls.is_empty() {
        let says_why = match &finish {
            FinishReason::Length | FinishReason::ContentFilter => true,
            FinishReason::Stop => has_reasoning(message),
            FinishReason::ToolCalls | FinishReason::Other(_) => false,
        };
        if !says_why {
            return Err(Fault::no_content("`content` is null or missing", &finish));
        }
    }
    let state = provider_state(message, &tool_calls);
    let reasoning = reasoning(message);
    let n_characters =
        [Some(&text), reasoning.as_ref()].into_iter().flatten().map(|text| text.chars().count());
    let (usage, gap) = usage(body.get("usage"), n_characters.sum());
    Ok(ChatReply::new(text, usage, finish)
        .with_usage_gap(gap)
        .with_tool_calls(tool_calls)
        .with_reasoning(reasoning)
        .with_tokens(reply_tokens(body, choice))
        .with_provider_state(DIALECT, state))
}

/// The model's reasoning as one text, under any of the names in use.
fn reasoning(message: &Map<String, Value>) -> Option<String> {
    let text = |name: &str| message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(text) = text("reasoning_content").or_else(|| text("reasoning")) {
        return Some(text.to_owned());
    }
    let parts = message.get("reasoning_details")?.as_array()?;
    let texts = parts.iter().filter_map(|part| {
        let of = |name: &str| part.get(name).and_then(Value::as_str);
        of("text").or_else(|| of("summary"))
    });
    let texts: Vec<&str> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// What servers of thinking models need back with a reply that calls tools.
///
/// Gemini signs calls in `extra_content`, OpenRouter wants `reasoning_details`, and DeepSeek, Kimi and others
/// `reasoning_content`, while tools are called. After an answer nobody needs it.
fn provider_state(message: &Map<String, Value>, tool_calls: &[ToolCall]) -> Option<Value> {
    if tool_calls.is_empty() {
        return None;
    }
    let mut state = Map::new();
    for name in RETURNED_FIELDS {
        match message.get(name) {
            Some(Value::Null) | None => {}
            Some(value) => drop(state.insert(name.to_owned(), value.clone())),
        }
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let signed: Map<String, Value> = calls
        .iter()
        .zip(tool_calls)
        .filter_map(|(written, call)| Some((call.id.clone(), written.get("extra_content")?.clone())))
        .filter(|(_, extra)| !extra.is_null())
        .collect();
    if !signed.is_empty() {
        state.insert("extra_content".to_owned(), json!(signed));
    }
    (!state.is_empty()).then_some(Value::Object(state))
}

/// The tokens of the reply: `logprobs.content` of the choice, and the ids that vLLM adds on request.
fn reply_tokens(body: &Value, choice: &Value) -> Option<ReplyTokens> {
    let listed = choice.get("logprobs").and_then(|logprobs| logprobs.get("content"));
    let logprobs: Vec<TokenLogprob> = listed
        .and_then(Value::as_array)
        .and_then(|list| list.iter().map(token_logprob).collect())
        .unwrap_or_default();
    let ids = |value: Option<&Value>| -> Vec<u32> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        value.and_then(Value::as_array).and_then(|ids| ids.iter().map(id).collect()).unwrap_or_default()
    };
    let prompt_ids = body.get("prompt_token_ids").or_else(|| choice.get("prompt_token_ids"));
    let tokens = ReplyTokens::new(ids(choice.get("token_ids")), logprobs).with_prompt_ids(ids(prompt_ids));
    (!tokens.is_empty()).then_some(tokens)
}

/// One token with its alternatives; `None` for what is not of this form, or whose log-probability is not a number.
pub(crate) fn token_logprob(written: &Value) -> Option<TokenLogprob> {
    let token = written.get("token")?.as_str()?;
    let mut read = TokenLogprob::new(token, written.get("logprob")?.as_f64()?);
    let bytes = written.get("bytes").and_then(Value::as_array);
    let bytes: Option<Vec<u8>> = bytes.and_then(|bytes| {
        bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect()
    });
    read.bytes = bytes.filter(|bytes| bytes.as_slice() != token.as_bytes());
    let top = written.get("top_logprobs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    read.top = top
        .iter()
        .filter_map(|top| Some(TopLogprob::new(top.get("token")?.as_str()?, top.get("logprob")?.as_f64()?)))
        .collect();
    Some(read)
}

/// Whether the message holds thoughts of the model, under any of the names in use.
fn has_reasoning(message: &Map<String, Value>) -> bool {
    let is_some = |value: &Value| match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    let names = ["reasoning_content", "reasoning", "reasoning_details"];
    names.iter().filter_map(|name| message.get(*name)).any(is_some)
}

/// The text of a message's content; `None` where there is none.
fn text_of(content: Option<&Value>) -> Result<Option<String>, String> {
    match content {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(parts)) if parts.is_empty() => Ok(None),
        Some(Value::Array(parts)) => {
            // Parts of other kinds, such as reasoning, are not what the model answers.
            let texts = parts.iter().filter_map(|part| match part {
                Value::String(text) => Some(text.as_str()),
                part => match part.get("type").and_then(Value::as_str) {
                    Some("text" | "output_text") | None => part.get("text").and_then(Value::as_str),
                    Some(_) => None,
                },
            });
            Ok(Some(texts.collect()))
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
            Err("`content` is neither text nor a list of parts".to_owned())
        }
    }
}

fn refusal(message: &Map<String, Value>) -> Option<String> {
    let field = message.get("refusal").and_then(Value::as_str);
    let part = || {
        let parts = message.get("content")?.as_array()?;
        parts.iter().find_map(|part| part.get("refusal").and_then(Value::as_str))
    };
    field.or_else(part).filter(|refusal| !refusal.is_empty()).map(str::to_owned)
}

fn tool_calls(message: &Map<String, Value>) -> Result<Vec<ToolCall>, String> {
    let calls = match message.get("tool_calls") {
        None | Some(Value::Null) => &[],
        Some(Value::Array(calls)) => calls.as_slice(),
        Some(_) => return Err("`tool_calls` is not a list".to_owned()),
    };
    let mut read = Vec::with_capacity(calls.len());
    for (call_idx, call) in calls.iter().enumerate() {
        let function =
            call.get("function").ok_or_else(|| format!("`tool_calls[{call_idx}]` has no function"))?;
        read.push(tool_call(function, call.get("id"), call_idx)?);
    }
    match message.get("function_call") {
        // The older form of the dialect has one call without an id.
        Some(function @ Value::Object(_)) if read.is_empty() => read.push(tool_call(function, None, 0)?),
        _ => {}
    }
    Ok(read)
}

fn tool_call(function: &Value, id: Option<&Value>, call_idx: usize) -> Result<ToolCall, String> {
    let name = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("`tool_calls[{call_idx}]` has no name"))?;
    let id = id.and_then(Value::as_str).filter(|id| !id.is_empty());
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(arguments)) => arguments.clone(),
        Some(arguments) => arguments.to_string(),
    };
    let id = id.map_or_else(|| format!("call_{call_idx}"), str::to_owned);
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

/// The tokens, under the names of this interface and of others that servers mix up with it; `n_characters` are those of the
/// reply.
pub(crate) fn usage(usage: Option<&Value>, n_characters: usize) -> (Usage, Option<UsageGap>) {
    let Some(usage) = usage else { return (Usage::default(), None) };
    let detail = |groups: [&str; 2], name: &str| {
        groups.iter().find_map(|group| wire::count(usage.get(*group)?.get(name)))
    };
    // DeepSeek names the cached tokens at the top.
    let cached = detail(["prompt_tokens_details", "input_tokens_details"], "cached_tokens")
        .or_else(|| wire::count(usage.get("prompt_cache_hit_tokens")));
    let (input, output, gap) = wire::both(
        wire::first_count(usage, &["prompt_tokens", "input_tokens", "promptTokenCount"]),
        wire::first_count(usage, &["completion_tokens", "output_tokens", "candidatesTokenCount"]),
        wire::first_count(usage, &["total_tokens", "totalTokenCount"]),
        n_characters,
    );
    let usage = Usage {
        input,
        cached: cached.unwrap_or(0),
        output,
        reasoning: detail(["completion_tokens_details", "output_tokens_details"], "reasoning_tokens")
            .unwrap_or(0),
        ..Usage::default()
    };
    (usage, gap)
}
