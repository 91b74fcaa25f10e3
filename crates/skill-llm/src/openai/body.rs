//! Requests as the dialect writes them.

use super::config::{OpenAiConfig, ResponseFormat, SystemRole};
use super::{DIALECT, RETURNED_FIELDS};
use crate::chat::{
    ChatRequest, ContentPart, Message, ProviderState, ResponseSchema, ToolCall, ToolChoice, ToolSpec,
};
use crate::error::LlmError;
use crate::http::{Body, Field, ImageUrl, merged};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use skill_core::Role;

/// The body of a request.
pub(super) fn request_body(
    request: &ChatRequest,
    config: &OpenAiConfig,
    host: &str,
) -> Result<Vec<u8>, LlmError> {
    let mut body = Body::new(&config.extra_body);
    body.push("model", Field::Text(&config.model));
    let merged_messages = match config.system_role {
        SystemRole::System => None,
        SystemRole::User => Some(without_system_role(&request.messages)),
    };
    let messages = merged_messages.as_ref().unwrap_or(&request.messages);
    body.push("messages", Field::Content(messages.iter().map(WireMessage).collect::<Vec<_>>()));
    let sampling = merged(request.sampling, config.sampling);
    body.float("temperature", sampling.temperature)?;
    body.float("top_p", sampling.top_p)?;
    if let Some(max_tokens) = sampling.max_tokens {
        let completion = config.says_max_completion_tokens(host);
        let name = if completion { "max_completion_tokens" } else { "max_tokens" };
        body.push(name, Field::Whole(max_tokens.into()));
    }
    config.check_seed(sampling.seed)?;
    if let Some(seed) = sampling.seed {
        body.push("seed", Field::Whole(seed));
    }
    if let Some(n_top) = sampling.logprobs {
        body.push("logprobs", Field::Json(true.into()));
        if n_top > 0 {
            body.push("top_logprobs", Field::Whole(n_top.into()));
        }
    }
    if !request.tools.is_empty() {
        body.push("tools", Field::Json(request.tools.iter().map(tool).collect()));
        // Servers refuse both where there are no tools.
        body.json("tool_choice", request.tool_choice.as_ref().map(tool_choice));
        body.json("parallel_tool_calls", request.parallel_tool_calls.map(Value::from));
    }
    if !request.stop.is_empty() {
        body.push("stop", Field::Json(json!(request.stop)));
    }
    body.json("response_format", response_format(request, config.response_format));
    let reasoning = config.reasoning_fields()?;
    for name in [
        "reasoning_effort",
        "reasoning",
        "chat_template_kwargs",
        "enable_thinking",
        "thinking_budget",
        "thinking",
    ] {
        body.json(name, reasoning.get(name).cloned());
    }
    body.bytes(request)
}

/// The conversation with what the system says at the head of the first user message.
fn without_system_role(messages: &[Message]) -> Vec<Message> {
    let (system, mut others): (Vec<Message>, Vec<Message>) =
        messages.iter().cloned().partition(|message| message.role == Role::System);
    let said: Vec<String> = system
        .iter()
        .map(Message::text)
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    if said.is_empty() {
        return others;
    }
    let said = said.join("\n\n");
    match others.iter_mut().find(|message| message.role == Role::User) {
        Some(first) => match first.content.first_mut() {
            Some(ContentPart::Text(text)) => *text = format!("{said}\n\n{text}").into(),
            Some(ContentPart::Image(_)) | None => first.content.insert(0, ContentPart::Text(said.into())),
        },
        None => others.insert(0, Message::user(said)),
    }
    others
}

fn tool(tool: &ToolSpec) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Never => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

fn response_format(request: &ChatRequest, format: ResponseFormat) -> Option<Value> {
    let schema = request.response_schema.as_ref()?;
    match format {
        ResponseFormat::JsonSchema if *schema == ResponseSchema::any_object() => {
            Some(json!({"type": "json_object"}))
        }
        ResponseFormat::JsonSchema => {
            let schema = json!({"name": schema.name, "schema": schema.schema, "strict": schema.strict});
            Some(json!({"type": "json_schema", "json_schema": schema}))
        }
        ResponseFormat::JsonObjectSchema => Some(json!({"type": "json_object", "schema": schema.schema})),
        ResponseFormat::JsonObject => Some(json!({"type": "json_object"})),
        ResponseFormat::Off => None,
    }
}

struct WireMessage<'a>(&'a Message);

impl Serialize for WireMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", message.role.as_str())?;
        map.serialize_entry("content", &Content(message))?;
        let state = ProviderState::of(message, DIALECT);
        if !message.tool_calls.is_empty() {
            let signed = state.and_then(|state| state.get("extra_content"));
            let calls: Value = message.tool_calls.iter().map(|call| tool_call(call, signed)).collect();
            map.serialize_entry("tool_calls", &calls)?;
        }
        for name in RETURNED_FIELDS {
            if let Some(value) = state.and_then(|state| state.get(name)) {
                map.serialize_entry(name, value)?;
            }
        }
        if let Some(id) = &message.tool_call_id {
            map.serialize_entry("tool_call_id", id)?;
        }
        map.end()
    }
}

/// A call as the model made it; `signed` is what the server added to calls, by their ids.
fn tool_call(call: &ToolCall, signed: Option<&Value>) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    let mut written = json!({"id": call.id, "type": "function", "function": function});
    if let (Some(extra), Some(fields)) =
        (signed.and_then(|signed| signed.get(&call.id)), written.as_object_mut())
    {
        fields.insert("extra_content".to_owned(), extra.clone());
    }
    written
}

/// A string where there is only text, since small servers take no lists; null where tool calls say everything.
struct Content<'a>(&'a Message);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(message) = self;
        match message.content.as_slice() {
            [] if !message.tool_calls.is_empty() => serializer.serialize_unit(),
            [ContentPart::Text(text)] => serializer.serialize_str(text),
            parts if parts.iter().any(|part| matches!(part, ContentPart::Image(_))) => {
                serializer.collect_seq(parts.iter().map(Part::from))
            }
            _ => serializer.serialize_str(&message.text()),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: Picture<'a> },
}

#[derive(Serialize)]
struct Picture<'a> {
    url: ImageUrl<'a>,
}

impl<'a> From<&'a ContentPart> for Part<'a> {
    fn from(part: &'a ContentPart) -> Self {
        match part {
            ContentPart::Text(text) => Self::Text { text },
            ContentPart::Image(source) => Self::ImageUrl { image_url: Picture { url: ImageUrl(source) } },
        }
    }
}
