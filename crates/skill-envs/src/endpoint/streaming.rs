//! A reply as server-sent events.
//!
//! The reply is known as a whole before the first event: it may come from the journal, and an error has to be an
//! HTTP status. So the events are one text, and what clients see is their order and their shape.

use super::anthropic;
use super::openai;
use super::request::ReplyForm;
use super::responses;
use serde_json::{Value, json};
use skill_llm::ChatReply;

/// How many characters one event carries at most: enough events that an agent which shows progress has some.
const CHARACTERS_PER_EVENT: usize = 256;

/// The events of Chat Completions.
pub(super) fn openai_events(reply: &ChatReply, form: &ReplyForm, id: &str) -> String {
    let mut events = String::new();
    let mut send = |choices: Value, usage: Value| {
        let mut chunk = json!({
            "id": id,
            "object": "chat.completion.chunk",
            "created": 0,
            "model": form.model,
            "choices": choices,
        });
        // Who asks for the usage gets the field in every event, and its value in the last.
        if form.include_usage
            && let Some(fields) = chunk.as_object_mut()
        {
            fields.insert("usage".to_owned(), usage);
        }
        events.push_str(&format!("data: {chunk}\n\n"));
    };
    let choice = |delta: Value, finish: Option<&str>| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
    send(choice(json!({"role": "assistant", "content": "", "refusal": null}), None), Value::Null);
    for piece in pieces(&reply.text) {
        send(choice(json!({ "content": piece }), None), Value::Null);
    }
    for (index, call) in reply.tool_calls.iter().enumerate() {
        let function = json!({"name": call.name, "arguments": ""});
        let start = json!({"index": index, "id": call.id, "type": "function", "function": function});
        send(choice(json!({"tool_calls": [start]}), None), Value::Null);
        for piece in pieces(&call.arguments) {
            let more = json!({"index": index, "function": {"arguments": piece}});
            send(choice(json!({"tool_calls": [more]}), None), Value::Null);
        }
    }
    send(choice(json!({}), Some(openai::finish_reason(reply))), Value::Null);
    if form.include_usage {
        send(json!([]), openai::usage(reply.usage));
    }
    events.push_str("data: [DONE]\n\n");
    events
}

/// The events of Messages.
pub(super) fn anthropic_events(reply: &ChatReply, form: &ReplyForm, id: &str) -> String {
    let mut events = String::new();
    let mut send = |name: &str, event: Value| events.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    let mut start = anthropic::reply(&ChatReply::new("", reply.usage, reply.finish.clone()), form, id);
    if let Some(fields) = start.as_object_mut() {
        fields.insert("stop_reason".to_owned(), Value::Null);
    }
    if let Some(tokens) = start.pointer_mut("/usage/output_tokens") {
        // None is written yet; the last event tells the sum.
        *tokens = json!(0);
    }
    send("message_start", json!({"type": "message_start", "message": start}));
    send("ping", json!({"type": "ping"}));
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Value>| {
        let begin = json!({"type": "content_block_start", "index": index, "content_block": start});
        send("content_block_start", begin);
        for delta in deltas {
            send(
                "content_block_delta",
                json!({"type": "content_block_delta", "index": index, "delta": delta}),
            );
        }
        send("content_block_stop", json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !reply.text.is_empty() {
        let deltas = pieces(&reply.text).map(|piece| json!({"type": "text_delta", "text": piece})).collect();
        block(json!({"type": "text", "text": ""}), deltas);
    }
    for call in &reply.tool_calls {
        let start = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
        let input = anthropic::input(&call.arguments).to_string();
        let delta = |piece| json!({"type": "input_json_delta", "partial_json": piece});
        block(start, pieces(&input).map(delta).collect());
    }
    let delta = json!({"stop_reason": anthropic::stop_reason(reply), "stop_sequence": null});
    let usage = anthropic::usage(reply.usage);
    send("message_delta", json!({"type": "message_delta", "delta": delta, "usage": usage}));
    send("message_stop", json!({"type": "message_stop"}));
    events
}

/// The events of Responses.
pub(super) fn responses_events(reply: &ChatReply, form: &ReplyForm, number: u32) -> String {
    let mut events = String::new();
    let mut sequence_number = 0;
    let mut send = |name: &str, mut event: Value| {
        if let Some(fields) = event.as_object_mut() {
            fields.insert("type".to_owned(), json!(name));
            fields.insert("sequence_number".to_owned(), json!(sequence_number));
        }
        sequence_number += 1;
        events.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    };
    let whole = responses::reply(reply, form, number);
    let with = |value: &Value, changes: &[(&str, Value)]| {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.extend(changes.iter().map(|(name, change)| ((*name).to_owned(), change.clone())));
        }
        value
    };
    let begun = with(
        &whole,
        &[
            ("status", json!("in_progress")),
            ("incomplete_details", Value::Null),
            ("output", json!([])),
            ("usage", Value::Null),
        ],
    );
    send("response.created", json!({ "response": begun }));
    send("response.in_progress", json!({ "response": begun }));
    for (output_index, item) in responses::output(reply, number).iter().enumerate() {
        let at = json!({"item_id": item.get("id"), "output_index": output_index});
        let in_text = with(&at, &[("content_index", json!(0))]);
        let status = ("status", json!("in_progress"));
        // Calls come after what was said, if anything was.
        let call = item.get("arguments").and_then(Value::as_str);
        let added = match call {
            Some(_) => with(item, &[status, ("arguments", json!(""))]),
            None => with(item, &[status, ("content", json!([]))]),
        };
        send("response.output_item.added", json!({"output_index": output_index, "item": added}));
        if let Some(arguments) = call {
            for piece in pieces(arguments) {
                send("response.function_call_arguments.delta", with(&at, &[("delta", json!(piece))]));
            }
            let done = with(&at, &[("arguments", json!(arguments)), ("name", json!(item.get("name")))]);
            send("response.function_call_arguments.done", done);
        } else {
            let empty = responses::text_output("");
            send("response.content_part.added", with(&in_text, &[("part", empty)]));
            let no_logprobs = ("logprobs", json!([]));
            for piece in pieces(&reply.text) {
                let delta = with(&in_text, &[("delta", json!(piece)), no_logprobs.clone()]);
                send("response.output_text.delta", delta);
            }
            let done = with(&in_text, &[("text", json!(reply.text)), no_logprobs]);
            send("response.output_text.done", done);
            let part = responses::text_output(&reply.text);
            send("response.content_part.done", with(&in_text, &[("part", part)]));
        }
        send("response.output_item.done", json!({"output_index": output_index, "item": item}));
    }
    let is_whole = whole.get("incomplete_details").is_none_or(Value::is_null);
    let end = if is_whole { "response.completed" } else { "response.incomplete" };
    send(end, json!({ "response": whole }));
    events
}

/// A text in pieces, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let cut = rest.char_indices().nth(CHARACTERS_PER_EVENT).map_or(rest.len(), |(cut, _)| cut);
        let (piece, after) = rest.split_at_checked(cut)?;
        rest = after;
        Some(piece)
    })
}
