//! Messages: requests as agents write them, replies as they expect them.

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
const KNOWN: [&str; 12] = [
    "messages",
    "system",
    "model",
    "stream",
    "temperature",
    "top_p",
    "max_tokens",
    "stop_sequences",
    "tools",
    "tool_choice",
    "output_config",
    "output_format",
];

/// What comes before the result of a tool that failed: no other dialect has a flag for it.
const FAILED_TOOL: &str = "The tool failed: ";

/// Reads the body of `POST /v1/messages`.
pub(super) fn request(fields: &Map<String, Value>) -> Result<AgentRequest, Problem> {
    let max_tokens = Object::root(fields).need("max_tokens")?.max_tokens()?;
    let mut request = request_to_count(fields)?;
    request.chat.sampling.max_tokens = Some(max_tokens);
    Ok(request)
}

/// Reads the body of `POST /v1/messages/count_tokens`, which needs no limit of the reply.
pub(super) fn request_to_count(fields: &Map<String, Value>) -> Result<AgentRequest, Problem> {
    let body = Object::root(fields);
    body.refuse(&[("top_k", Value::Null), ("mcp_servers", Value::Null), ("container", Value::Null)])?;
    let mut messages = Vec::new();
    if let Some(system) = body.get("system") {
        let content = joined(&system.part_texts(&["text"])?);
        if !content.is_empty() {
            messages.push(Message::new(Role::System, content));
        }
    }
    for field in body.need("messages")?.list()? {
        add_message(&field, &mut messages)?;
    }
    check_conversation(&messages, "messages")?;
    let tools = body.read("tools", tools)?.unwrap_or_default();
    check_tools(&tools)?;
    let choice = body.read("tool_choice", |field| tool_choice(field, &tools))?;
    let (tool_choice, parallel_tool_calls) = choice.unwrap_or_default();
    let stop = body.read("stop_sequences", Field::texts)?.unwrap_or_default();
    if stop.iter().any(|text| text.trim().is_empty()) {
        return Err(Problem::field("stop_sequences", "holds a text that is blank"));
    }
    let chat = ChatRequest {
        messages,
        sampling: Sampling {
            temperature: body.read("temperature", |field| field.number(0.0, 1.0))?,
            top_p: body.read("top_p", |field| field.number(0.0, 1.0))?,
            ..Sampling::default()
        },
        tools,
        tool_choice,
        parallel_tool_calls,
        stop,
        response_schema: response_schema(&body)?,
    };
    let form = ReplyForm::read(&body, Dialect::Anthropic)?;
    body.trace_ignored(&KNOWN);
    Ok(AgentRequest { chat, form })
}

/// A message on the wire is one or more here: each result of a tool is a message of its own.
fn add_message(field: &Field<'_>, messages: &mut Vec<Message>) -> Result<(), Problem> {
    let fields = field.object()?;
    let role = fields.need("role")?;
    let content = fields.need("content")?;
    match (role.text()?, content.value.as_str()) {
        ("user", Some(text)) => messages.push(Message::user(text)),
        ("user", None) => add_user_blocks(&content.list()?, messages)?,
        ("assistant", Some(text)) => messages.push(Message::assistant(text)),
        ("assistant", None) => messages.push(assistant(&content.list()?)?),
        // Instructions in the middle of a conversation, as newer clients send them.
        ("system", _) => {
            messages.push(Message::new(Role::System, joined(&content.part_texts(&["text"])?)));
        }
        (other, _) => {
            return Err(role.problem(format!("is {other:?}; expected `user`, `assistant` or `system`")));
        }
    }
    Ok(())
}

fn add_user_blocks(blocks: &[Field<'_>], messages: &mut Vec<Message>) -> Result<(), Problem> {
    let mut content = Vec::new();
    for block in blocks {
        let fields = block.object()?;
        match fields.kind()? {
            "text" => content.push(text_part(fields.need("text")?.text()?)),
            "image" => content.push(ContentPart::Image(image(&fields)?)),
            "tool_result" => {
                let (result, images) = tool_result(&fields)?;
                // Results come first whatever is between them, as every provider wants them.
                messages.push(result);
                content.extend(images);
            }
            other => {
                let expected = "expected `text`, `image` or `tool_result`";
                return Err(block.problem(format!("is of the type {other:?}; {expected}")));
            }
        }
    }
    if !content.is_empty() || blocks.is_empty() {
        messages.push(Message::new(Role::User, content));
    }
    Ok(())
}

fn image(fields: &Object<'_>) -> Result<skill_llm::chat::ImageSource, Problem> {
    let source = fields.need("source")?;
    let given = source.object()?;
    match given.kind()? {
        "base64" => {
            let data = given.need("data")?;
            data.image_bytes(given.need("media_type")?.text()?, data.text()?)
        }
        "url" => given.need("url")?.image_url(),
        other => Err(source.problem(format!("is of the type {other:?}; expected `base64` or `url`"))),
    }
}

/// The message of a result, and its images: other dialects take images from users alone, so they follow there.
fn tool_result(fields: &Object<'_>) -> Result<(Message, Vec<ContentPart>), Problem> {
    let id = fields.need("tool_use_id")?.text()?;
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    if let Some(content) = fields.get("content") {
        match content.value.as_str() {
            Some(text) => texts.push(text),
            None => {
                for block in content.list()? {
                    let fields = block.object()?;
                    match fields.kind()? {
                        "text" => texts.push(fields.need("text")?.text()?),
                        "image" => images.push(ContentPart::Image(image(&fields)?)),
                        other => {
                            let expected = "expected `text` or `image`";
                            return Err(block.problem(format!("is of the type {other:?}; {expected}")));
                        }
                    }
                }
            }
        }
    }
    let failed = fields.read("is_error", Field::flag)?.unwrap_or(false);
    let text = format!("{}{}", if failed { FAILED_TOOL } else { "" }, texts.join("\n"));
    if !images.is_empty() {
        images.insert(0, text_part(&format!("What the tool call {id} shows:")));
    }
    let message = Message::new(Role::Tool, joined(&[text.as_str()])).answering(Some(id.to_owned()));
    Ok((message, images))
}

fn assistant(blocks: &[Field<'_>]) -> Result<Message, Problem> {
    let (mut texts, mut tool_calls) = (Vec::new(), Vec::new());
    for block in blocks {
        let fields = block.object()?;
        match fields.kind()? {
            "text" => texts.push(fields.need("text")?.text()?),
            "tool_use" => {
                let input = fields.need("input")?;
                input.object()?;
                tool_calls.push(ToolCall {
                    id: fields.need("id")?.text()?.to_owned(),
                    name: fields.need("name")?.text()?.to_owned(),
                    arguments: written_arguments(input.value),
                });
            }
            // No reply of this endpoint holds any, so they are another model's, which no provider takes back.
            "thinking" | "redacted_thinking" => {
                tracing::debug!("the thinking of another model is left out of an agent's request");
            }
            other => {
                let expected = "expected `text` or `tool_use`";
                return Err(block.problem(format!("is of the type {other:?}; {expected}")));
            }
        }
    }
    Ok(Message::new(Role::Assistant, joined(&texts)).with_tool_calls(tool_calls))
}

fn tools(list: &Field<'_>) -> Result<Vec<ToolSpec>, Problem> {
    let tool = |field: &Field<'_>| {
        let tool = field.object()?;
        if let Some(kind) = tool.get("type").filter(|kind| kind.value != "custom") {
            let named = kind.text()?;
            return Err(field.problem(format!(
                "is of the type {named:?}, which a server of Anthropic runs or defines; only tools with an \
                 `input_schema` can be called here"
            )));
        }
        let schema = tool.need("input_schema")?;
        schema.object()?;
        Ok(ToolSpec {
            name: tool.need("name")?.text()?.to_owned(),
            description: tool.read("description", Field::text)?.unwrap_or_default().to_owned(),
            parameters: schema.value.clone(),
        })
    };
    list.list()?.iter().map(tool).collect()
}

fn tool_choice(
    choice: &Field<'_>,
    tools: &[ToolSpec],
) -> Result<(Option<ToolChoice>, Option<bool>), Problem> {
    let fields = choice.object()?;
    let chosen = match fields.kind()? {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::Never,
        "any" if tools.is_empty() => return Err(choice.problem("asks for a tool, and there are none")),
        "any" => ToolChoice::Required,
        "tool" => chosen_tool(&fields.need("name")?, tools)?,
        other => {
            let expected = "expected `auto`, `any`, `tool` or `none`";
            return Err(choice.problem(format!("is of the type {other:?}; {expected}")));
        }
    };
    let parallel = fields.read("disable_parallel_tool_use", Field::flag)?.map(|disabled| !disabled);
    Ok((Some(chosen), parallel))
}

/// The schema of the reply, in its present place and in the one it had before.
fn response_schema(body: &Object<'_>) -> Result<Option<ResponseSchema>, Problem> {
    let config = body.read("output_config", Field::object)?;
    let format = match config.and_then(|config| config.get("format")) {
        Some(format) => format,
        None => match body.get("output_format") {
            Some(format) => format,
            None => return Ok(None),
        },
    };
    let fields = format.object()?;
    match fields.kind()? {
        "json_schema" => {
            let schema = fields.need("schema")?;
            schema.object()?;
            Ok(Some(ResponseSchema::new("reply", schema.value.clone())))
        }
        other => Err(format.problem(format!("is of the type {other:?}; expected `json_schema`"))),
    }
}

/// A whole reply.
pub(super) fn reply(reply: &ChatReply, form: &ReplyForm, id: &str) -> Value {
    let mut content = Vec::new();
    if !reply.text.is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    for call in &reply.tool_calls {
        let input = input(&call.arguments);
        content.push(json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input}));
    }
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": form.model,
        "content": content,
        "stop_reason": stop_reason(reply),
        "stop_sequence": null,
        "usage": usage(reply.usage),
    })
}

/// The key under which arguments stand that are no JSON object.
const UNREADABLE_ARGUMENTS: &str = "unreadable_arguments";

/// The arguments as the dialect wants them: an object.
///
/// What a model wrote may be none. Then the agent gets an object that its tool will refuse, which the model hears of.
pub(super) fn input(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return json!({});
    }
    match serde_json::from_str(arguments) {
        Ok(input @ Value::Object(_)) => input,
        Ok(_) | Err(_) => json!({ UNREADABLE_ARGUMENTS: arguments }),
    }
}

/// The arguments as the model wrote them, as far as that can be told: the inverse of [`input`].
fn written_arguments(input: &Value) -> String {
    let written = input.as_object().filter(|fields| fields.len() == 1);
    let written = written.and_then(|fields| fields.get(UNREADABLE_ARGUMENTS)?.as_str());
    written.map_or_else(|| input.to_string(), str::to_owned)
}

/// Why the reply ended.
pub(super) fn stop_reason(reply: &ChatReply) -> &'static str {
    match &reply.finish {
        FinishReason::Length => "max_tokens",
        FinishReason::ContentFilter => "refusal",
        // Some servers say `stop` after tool calls too, which agents would take for the end.
        FinishReason::ToolCalls | FinishReason::Stop | FinishReason::Other(_) => {
            if reply.tool_calls.is_empty() { "end_turn" } else { "tool_use" }
        }
    }
}

/// Tokens: the dialect counts those from the cache apart.
pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached).saturating_sub(usage.cache_written),
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

/// The answer to `GET /v1/models`.
pub(super) fn models(models: &[String]) -> Value {
    let data: Vec<Value> = models.iter().map(|model| self::model(model)).collect();
    json!({"data": data, "has_more": false, "first_id": models.first(), "last_id": models.last()})
}

/// The answer to `GET /v1/models/NAME`.
pub(super) fn model(name: &str) -> Value {
    json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
}
