//! The Responses API: requests as agents write them, replies as they expect them.
//!
//! Nothing is stored between requests: each brings its whole conversation, as agents do that ask for `store: false`.

use super::fields::{Field, Object, text_part};
use super::openai;
use super::problem::{Dialect, Problem};
use super::request::{AgentRequest, ReplyForm, check_conversation, check_tools, joined};
use serde_json::{Map, Value, json};
use skill_core::{Role, Usage};
use skill_llm::{ChatReply, ChatRequest, ContentPart, FinishReason, Message, Sampling, ToolCall};

/// The fields that have an effect; all others that are not refused are left to the configuration of the target.
const KNOWN: [&str; 11] = [
    "input",
    "instructions",
    "model",
    "stream",
    "temperature",
    "top_p",
    "max_output_tokens",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
];

/// The types of the parts that are texts.
const TEXTS: [&str; 4] = ["input_text", "output_text", "text", "refusal"];

/// Reads the body of `POST /v1/responses`.
pub(super) fn request(fields: &Map<String, Value>) -> Result<AgentRequest, Problem> {
    let (body, dialect) = (Object::root(fields), Dialect::Responses);
    refuse(&body)?;
    let mut messages: Vec<Message> =
        body.read("instructions", Field::text)?.map(Message::system).into_iter().collect();
    let input = body.need("input")?;
    match input.value.as_str() {
        Some(text) => messages.push(Message::user(text)),
        None => {
            for item in input.list()? {
                read_item(&item, &mut messages)?;
            }
        }
    }
    check_conversation(&messages, "input")?;
    let tools = body.read("tools", |list| openai::tools(list, dialect))?.unwrap_or_default();
    check_tools(&tools)?;
    let text = body.read("text", Field::object)?;
    let format = text
        .map(|text| text.read("format", |format| openai::response_format(format, dialect)))
        .transpose()?;
    let chat = ChatRequest {
        messages,
        sampling: Sampling {
            temperature: body.read("temperature", |field| field.number(0.0, 2.0))?,
            top_p: body.read("top_p", |field| field.number(0.0, 1.0))?,
            max_tokens: body.read("max_output_tokens", Field::max_tokens)?,
            ..Sampling::default()
        },
        tool_choice: body.read("tool_choice", |field| openai::tool_choice(field, &tools, dialect))?,
        tools,
        parallel_tool_calls: body.read("parallel_tool_calls", Field::flag)?,
        stop: Vec::new(),
        response_schema: format.flatten().flatten(),
    };
    let form = ReplyForm::read(&body, dialect)?;
    body.trace_ignored(&KNOWN);
    Ok(AgentRequest { chat, form })
}

/// What would change the reply and has no seat in a request to the target.
fn refuse(body: &Object<'_>) -> Result<(), Problem> {
    for name in ["previous_response_id", "conversation"] {
        if let Some(field) = body.get(name) {
            return Err(
                field.problem("names what was stored, and nothing is stored here: send all of `input`")
            );
        }
    }
    body.refuse(&[("background", Value::Bool(false)), ("prompt", Value::Null), ("top_logprobs", json!(0))])
}

/// Adds an item of the input to the conversation.
fn read_item(field: &Field<'_>, messages: &mut Vec<Message>) -> Result<(), Problem> {
    let item = field.object()?;
    let kind = item.read("type", Field::text)?.unwrap_or("message");
    match kind {
        "message" => messages.push(message(&item)?),
        "function_call" => {
            let call = ToolCall {
                id: item.need("call_id")?.text()?.to_owned(),
                name: item.need("name")?.text()?.to_owned(),
                arguments: item.read("arguments", Field::text)?.unwrap_or_default().to_owned(),
            };
            // What the model said and what it called in one reply are items of their own here.
            match messages.last_mut().filter(|message| message.role == Role::Assistant) {
                Some(reply) => reply.tool_calls.push(call),
                None => messages.push(Message::new(Role::Assistant, Vec::new()).with_tool_calls(vec![call])),
            }
        }
        "function_call_output" => {
            let texts = item.need("output").and_then(|output| output.part_texts(&TEXTS))?;
            let tool_call_id = Some(item.need("call_id")?.text()?.to_owned());
            messages.push(Message::new(Role::Tool, joined(&texts)).answering(tool_call_id));
        }
        // What the model thought; the target's own provider has no use for it.
        "reasoning" => {}
        "item_reference" => {
            return Err(field.problem("refers to what was stored, and nothing is stored here: send the item"));
        }
        other => {
            return Err(field.problem(format!(
                "is of the type {other:?}; expected `message`, `function_call`, `function_call_output` or `reasoning`"
            )));
        }
    }
    Ok(())
}

fn message(item: &Object<'_>) -> Result<Message, Problem> {
    let role = item.need("role")?;
    let content = item.need("content")?;
    match role.text()? {
        "system" | "developer" => Ok(Message::new(Role::System, joined(&content.part_texts(&TEXTS)?))),
        "assistant" => Ok(Message::new(Role::Assistant, joined(&content.part_texts(&TEXTS)?))),
        "user" => Ok(Message::new(Role::User, user_parts(&content)?)),
        other => {
            Err(role.problem(format!("is {other:?}; expected `system`, `developer`, `user` or `assistant`")))
        }
    }
}

fn user_parts(content: &Field<'_>) -> Result<Vec<ContentPart>, Problem> {
    if let Some(text) = content.value.as_str() {
        return Ok(vec![text_part(text)]);
    }
    let part = |part: &Field<'_>| {
        let fields = part.object()?;
        match fields.kind()? {
            "input_text" | "text" => Ok(text_part(fields.need("text")?.text()?)),
            "input_image" => match fields.get("file_id") {
                Some(file) => Err(file.problem("names a stored file, and nothing is stored here")),
                None => fields.need("image_url")?.image_url().map(ContentPart::Image),
            },
            other => {
                Err(part.problem(format!("is of the type {other:?}; expected `input_text` or `input_image`")))
            }
        }
    };
    content.list()?.iter().map(part).collect()
}

/// A whole reply.
pub(super) fn reply(reply: &ChatReply, form: &ReplyForm, number: u32) -> Value {
    let incomplete = match reply.finish {
        FinishReason::Length => Some("max_output_tokens"),
        FinishReason::ContentFilter => Some("content_filter"),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => None,
    };
    json!({
        "id": format!("resp_{number}"),
        "object": "response",
        // Not the time: the same requests get the same bytes, today and when the run is resumed.
        "created_at": 0,
        "status": if incomplete.is_some() { "incomplete" } else { "completed" },
        "error": null,
        "incomplete_details": incomplete.map(|reason| json!({ "reason": reason })),
        "instructions": null,
        "metadata": {},
        "model": form.model,
        "output": output(reply, number),
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "store": false,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
        "usage": usage(reply.usage),
    })
}

/// The items of a reply: what was said, and each call.
pub(super) fn output(reply: &ChatReply, number: u32) -> Vec<Value> {
    let status = if reply.finish == FinishReason::Length { "incomplete" } else { "completed" };
    let said = (!reply.text.is_empty() || reply.tool_calls.is_empty()).then(|| {
        json!({
            "id": format!("msg_{number}"),
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": [text_output(&reply.text)],
        })
    });
    let calls = reply.tool_calls.iter().enumerate().map(|(idx, call)| {
        json!({
            "id": format!("fc_{number}_{idx}"),
            "type": "function_call",
            "status": status,
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        })
    });
    said.into_iter().chain(calls).collect()
}

pub(super) fn text_output(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}
