//! Chat Completions: requests as agents write them, replies as they expect them.

use super::fields::{Field, Object, text_part};
use super::problem::{Dialect, Problem};
use super::request::{AgentRequest, ReplyForm, check_conversation, check_tools, chosen_tool, joined};
use serde_json::{Map, Value, json};
use skill_core::{Role, Usage};
use skill_llm::{
    ChatReply, ChatRequest, ContentPart, FinishReason, Message, ResponseSchema, Sampling, ToolCall,
    ToolChoice, ToolSpec,
};

/// The fields that have an effect; all others that are not refused are left to the configuration of the target.
const KNOWN: [&str; 15] = [
    "messages",
    "model",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "stop",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "n",
];

/// The most texts at which a reply may end, as the dialect has it.
const MAX_STOPS: usize = 4;

/// The types of the parts that are texts.
const TEXTS: [&str; 2] = ["text", "refusal"];

/// Reads the body of `POST /v1/chat/completions`.
pub(super) fn request(fields: &Map<String, Value>) -> Result<AgentRequest, Problem> {
    let (body, dialect) = (Object::root(fields), Dialect::OpenAi);
    refuse(&body)?;
    let mut messages = Vec::new();
    for field in body.need("messages")?.list()? {
        messages.push(message(&field)?);
    }
    check_conversation(&messages, "messages")?;
    let tools = body.read("tools", |list| tools(list, dialect))?.unwrap_or_default();
    check_tools(&tools)?;
    let max_tokens = match body.read("max_completion_tokens", Field::max_tokens)? {
        Some(max_tokens) => Some(max_tokens),
        None => body.read("max_tokens", Field::max_tokens)?,
    };
    let stop = body.read("stop", Field::texts)?.unwrap_or_default();
    if stop.len() > MAX_STOPS || stop.iter().any(String::is_empty) {
        return Err(Problem::field("stop", format!("takes at most {MAX_STOPS} texts, none of them empty")));
    }
    let chat = ChatRequest {
        messages,
        sampling: Sampling {
            temperature: body.read("temperature", |field| field.number(0.0, 2.0))?,
            top_p: body.read("top_p", |field| field.number(0.0, 1.0))?,
            max_tokens,
            seed: body.read("seed", Field::whole)?,
            ..Sampling::default()
        },
        tool_choice: body.read("tool_choice", |field| tool_choice(field, &tools, dialect))?,
        tools,
        parallel_tool_calls: body.read("parallel_tool_calls", Field::flag)?,
        stop,
        response_schema: body.read("response_format", |format| response_format(format, dialect))?.flatten(),
    };
    let options = body.read("stream_options", Field::object)?;
    let include_usage = options.map(|options| options.read("include_usage", Field::flag)).transpose()?;
    let form = ReplyForm {
        include_usage: include_usage.flatten().unwrap_or(false),
        ..ReplyForm::read(&body, dialect)?
    };
    body.trace_ignored(&KNOWN);
    Ok(AgentRequest { chat, form })
}

/// What would change the reply and has no seat in a request to the target.
fn refuse(body: &Object<'_>) -> Result<(), Problem> {
    if let Some(field) = body.get("n")
        && field.whole()? != 1
    {
        return Err(field.problem("can only be 1: ask once for each reply"));
    }
    for (name, instead) in [("functions", "tools"), ("function_call", "tool_choice")] {
        if let Some(field) = body.get(name) {
            return Err(field.problem(format!("is the old form of `{instead}`, which is the one understood")));
        }
    }
    body.refuse(&[
        ("logprobs", Value::Bool(false)),
        ("top_logprobs", json!(0)),
        ("logit_bias", Value::Null),
        ("frequency_penalty", json!(0)),
        ("presence_penalty", json!(0)),
        ("repetition_penalty", json!(1)),
        ("top_k", json!(-1)),
        ("min_p", json!(0)),
        ("modalities", json!(["text"])),
        ("audio", Value::Null),
        ("web_search_options", Value::Null),
        ("guided_json", Value::Null),
        ("guided_regex", Value::Null),
        ("guided_choice", Value::Null),
        ("guided_grammar", Value::Null),
    ])
}

fn message(field: &Field<'_>) -> Result<Message, Problem> {
    let fields = field.object()?;
    let role = fields.need("role")?;
    match role.text()? {
        "system" | "developer" => {
            let texts = fields.need("content").and_then(|content| content.part_texts(&TEXTS))?;
            Ok(Message::new(Role::System, joined(&texts)))
        }
        "user" => {
            let content = fields.need("content").and_then(|content| user_parts(&content))?;
            Ok(Message::new(Role::User, content))
        }
        "assistant" => assistant(&fields),
        "tool" => {
            let texts = fields.need("content").and_then(|content| content.part_texts(&TEXTS))?;
            let tool_call_id = Some(fields.need("tool_call_id")?.text()?.to_owned());
            Ok(Message::new(Role::Tool, joined(&texts)).answering(tool_call_id))
        }
        "function" => Err(role.problem("is of the old form of tool calls; expected `tool`")),
        other => Err(role
            .problem(format!("is {other:?}; expected `system`, `developer`, `user`, `assistant` or `tool`"))),
    }
}

fn assistant(fields: &Object<'_>) -> Result<Message, Problem> {
    if let Some(call) = fields.get("function_call") {
        return Err(call.problem("is the old form of `tool_calls`, which is the one understood"));
    }
    let mut content = fields.read("content", |content| content.part_texts(&TEXTS))?.unwrap_or_default();
    // What a model said in refusing is text like any other.
    content.extend(fields.read("refusal", Field::text)?);
    let mut tool_calls = Vec::new();
    for call in fields.read("tool_calls", Field::list)?.unwrap_or_default() {
        let call = call.object()?;
        if let Some(kind) = call.get("type").filter(|kind| kind.value != "function") {
            return Err(kind.problem("is no call of a function"));
        }
        let function = call.need("function")?.object()?;
        tool_calls.push(ToolCall {
            id: call.need("id")?.text()?.to_owned(),
            name: function.need("name")?.text()?.to_owned(),
            arguments: function.read("arguments", Field::text)?.unwrap_or_default().to_owned(),
        });
    }
    Ok(Message::new(Role::Assistant, joined(&content)).with_tool_calls(tool_calls))
}

fn user_parts(content: &Field<'_>) -> Result<Vec<ContentPart>, Problem> {
    if let Some(text) = content.value.as_str() {
        return Ok(vec![text_part(text)]);
    }
    let part = |part: &Field<'_>| {
        let fields = part.object()?;
        match fields.kind()? {
            "text" => Ok(text_part(fields.need("text")?.text()?)),
            "image_url" => {
                let image = fields.need("image_url")?;
                // Some clients write the address where an object should stand.
                let url = match image.value {
                    Value::String(_) => image,
                    _ => image.object()?.need("url")?,
                };
                url.image_url().map(ContentPart::Image)
            }
            other => Err(part.problem(format!("is of the type {other:?}; expected `text` or `image_url`"))),
        }
    };
    content.list()?.iter().map(part).collect()
}

/// The definition of a function or a schema: Chat Completions has it in `member`, Responses beside the type.
fn definition<'a>(fields: &Object<'a>, member: &str, dialect: Dialect) -> Result<Object<'a>, Problem> {
    match dialect {
        Dialect::OpenAi => fields.need(member)?.object(),
        Dialect::Responses | Dialect::Anthropic => Ok(fields.clone()),
    }
}

/// The functions that can be called.
pub(super) fn tools(list: &Field<'_>, dialect: Dialect) -> Result<Vec<ToolSpec>, Problem> {
    let tool = |field: &Field<'_>| {
        let tool = field.object()?;
        let kind = tool.kind()?;
        if kind != "function" {
            return Err(field.problem(format!("is of the type {kind:?}; only functions can be called here")));
        }
        let function = definition(&tool, "function", dialect)?;
        let parameters = function.read("parameters", |field| field.object().map(|_| field.value.clone()))?;
        Ok(ToolSpec {
            name: function.need("name")?.text()?.to_owned(),
            description: function.read("description", Field::text)?.unwrap_or_default().to_owned(),
            parameters: parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}})),
        })
    };
    list.list()?.iter().map(tool).collect()
}

/// Which tool is to be called.
pub(super) fn tool_choice(
    choice: &Field<'_>,
    tools: &[ToolSpec],
    dialect: Dialect,
) -> Result<ToolChoice, Problem> {
    let expected = "expected `auto`, `none`, `required` or a function";
    match choice.value {
        Value::String(name) => match name.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::Never),
            "required" if tools.is_empty() => Err(choice.problem("asks for a tool, and there are none")),
            "required" => Ok(ToolChoice::Required),
            other => Err(choice.problem(format!("is {other:?}; {expected}"))),
        },
        _ => {
            let fields = choice.object()?;
            if fields.kind()? != "function" {
                return Err(choice.problem(format!("is of another type; {expected}")));
            }
            chosen_tool(&definition(&fields, "function", dialect)?.need("name")?, tools)
        }
    }
}

/// The schema that the reply has to follow.
pub(super) fn response_format(
    format: &Field<'_>,
    dialect: Dialect,
) -> Result<Option<ResponseSchema>, Problem> {
    let fields = format.object()?;
    match fields.kind()? {
        "text" => Ok(None),
        "json_object" => Ok(Some(ResponseSchema::any_object())),
        "json_schema" => json_schema(&definition(&fields, "json_schema", dialect)?).map(Some),
        other => {
            Err(format.problem(format!("is {other:?}; expected `text`, `json_object` or `json_schema`")))
        }
    }
}

/// A schema with its name.
fn json_schema(given: &Object<'_>) -> Result<ResponseSchema, Problem> {
    let schema = given.need("schema")?;
    schema.object()?;
    Ok(ResponseSchema {
        // The dialect's servers take a schema as a hint unless they are told to follow it.
        strict: given.read("strict", Field::flag)?.unwrap_or(false),
        ..ResponseSchema::new(given.need("name")?.text()?, schema.value.clone())
    })
}

/// A whole reply.
pub(super) fn reply(reply: &ChatReply, form: &ReplyForm, id: &str) -> Value {
    let content = if reply.text.is_empty() && !reply.tool_calls.is_empty() {
        Value::Null
    } else {
        Value::String(reply.text.clone())
    };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null});
    if !reply.tool_calls.is_empty()
        && let Some(fields) = message.as_object_mut()
    {
        fields.insert("tool_calls".to_owned(), reply.tool_calls.iter().map(tool_call).collect());
    }
    json!({
        "id": id,
        "object": "chat.completion",
        // Not the time: the same requests get the same bytes, today and when the run is resumed.
        "created": 0,
        "model": form.model,
        "choices": [{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(reply),
        }],
        "usage": usage(reply.usage),
    })
}

pub(super) fn tool_call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}

/// Why the reply ended, in one of the four words of the dialect: strict clients know no others.
pub(super) fn finish_reason(reply: &ChatReply) -> &'static str {
    match &reply.finish {
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        // Some servers say `stop` after tool calls too, which agents would take for the end.
        FinishReason::ToolCalls | FinishReason::Stop | FinishReason::Other(_) => {
            if reply.tool_calls.is_empty() { "stop" } else { "tool_calls" }
        }
    }
}

pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    })
}

/// The answer to `GET /v1/models`.
pub(super) fn models(models: &[String]) -> Value {
    let models: Vec<Value> = models.iter().map(|model| self::model(model)).collect();
    json!({"object": "list", "data": models})
}

/// The answer to `GET /v1/models/NAME`.
pub(super) fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "skillrl"})
}
