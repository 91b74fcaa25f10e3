//! Requests as the dialect writes them.

use super::DIALECT;
use super::config::{ResponsesConfig, check_sampling};
use crate::chat::{ChatRequest, ContentPart, Message, ProviderState, ResponseSchema, ToolChoice, ToolSpec};
use crate::error::{LlmError, wrong};
use crate::http::{Body, Field, ImageUrl, merged};
use crate::openai::ResponseFormat;
use crate::reasoning::Effort;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use skill_core::Role;

/// The body of a request.
pub(super) fn request_body(request: &ChatRequest, config: &ResponsesConfig) -> Result<Vec<u8>, LlmError> {
    let sampling = merged(request.sampling, config.sampling);
    check_sampling(sampling)?;
    if !request.stop.is_empty() {
        return Err(wrong("a text at which the reply ends is asked for, and this interface takes none"));
    }
    let mut body = Body::new(&config.extra_body);
    body.push("model", Field::Text(&config.model));
    body.push("input", Field::Content(items(&request.messages)));
    body.float("temperature", sampling.temperature)?;
    body.float("top_p", sampling.top_p)?;
    if let Some(max_tokens) = sampling.max_tokens {
        body.push("max_output_tokens", Field::Whole(max_tokens.into()));
    }
    if !request.tools.is_empty() {
        body.push("tools", Field::Json(request.tools.iter().map(tool).collect()));
        body.json("tool_choice", request.tool_choice.as_ref().map(tool_choice));
        body.json("parallel_tool_calls", request.parallel_tool_calls.map(Value::from));
    }
    if let Some(n_top) = sampling.logprobs.filter(|n_top| *n_top > 0) {
        body.push("top_logprobs", Field::Whole(n_top.into()));
    }
    body.json("include", include(request, config, sampling.logprobs.is_some()));
    body.json("text", text_format(request, config.response_format));
    body.json("reasoning", config.effort().map(|effort| json!({"effort": effort.as_str()})));
    // The conversation is in every request; nothing of it has to stay with the server.
    body.json("store", Some(false.into()));
    body.bytes(request)
}

/// What a reply has to hold besides its usual parts.
///
/// Nothing stays with the server, so thoughts that lead to tool calls have to travel; models that do not think refuse to
/// be asked for theirs.
fn include(request: &ChatRequest, config: &ResponsesConfig, logprobs: bool) -> Option<Value> {
    let thinks = config.effort().is_some_and(|effort| effort != Effort::None);
    let names = [
        (thinks && !request.tools.is_empty()).then_some("reasoning.encrypted_content"),
        logprobs.then_some("message.output_text.logprobs"),
    ];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    (!names.is_empty()).then(|| json!(names))
}

fn tool(tool: &ToolSpec) -> Value {
    // Here a schema is strict where nobody says otherwise, and not every schema can be.
    json!({
        "type": "function", "name": tool.name, "description": tool.description,
        "parameters": tool.parameters, "strict": false,
    })
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Never => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

fn text_format(request: &ChatRequest, format: ResponseFormat) -> Option<Value> {
    let schema = request.response_schema.as_ref()?;
    let format = match format {
        ResponseFormat::JsonSchema if *schema != ResponseSchema::any_object() => json!({
            "type": "json_schema", "name": schema.name, "schema": schema.schema, "strict": schema.strict,
        }),
        ResponseFormat::JsonSchema | ResponseFormat::JsonObject | ResponseFormat::JsonObjectSchema => {
            json!({"type": "json_object"})
        }
        ResponseFormat::Off => return None,
    };
    Some(json!({"format": format}))
}

/// An item of a conversation: calls of tools and their results are beside the messages.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Content<'a>,
    },
    #[serde(untagged)]
    Said {
        role: Role,
        content: Content<'a>,
    },
    /// As the interface has sent it.
    #[serde(untagged)]
    Own(&'a Value),
}

fn items(messages: &[Message]) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    for message in messages {
        let content = Content(message);
        if let (Role::Tool, Some(call_id)) = (message.role, &message.tool_call_id) {
            items.push(Item::FunctionCallOutput { call_id, output: content });
            continue;
        }
        if let Some(Value::Array(own)) = ProviderState::of(message, DIALECT) {
            items.extend(own.iter().map(Item::Own));
            continue;
        }
        if !message.content.is_empty() || message.tool_calls.is_empty() {
            let role = if message.role == Role::Tool { Role::User } else { message.role };
            items.push(Item::Said { role, content });
        }
        items.extend(message.tool_calls.iter().map(|call| Item::FunctionCall {
            call_id: &call.id,
            name: &call.name,
            arguments: &call.arguments,
        }));
    }
    items
}

/// A string where there is only text.
struct Content<'a>(&'a Message);

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.content.as_slice() {
            [ContentPart::Text(text)] => serializer.serialize_str(text),
            parts if parts.iter().any(|part| matches!(part, ContentPart::Image(_))) => {
                serializer.collect_seq(parts.iter().map(Part::from))
            }
            _ => serializer.serialize_str(&self.0.text()),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: &'a str },
    InputImage { image_url: ImageUrl<'a> },
}

impl<'a> From<&'a ContentPart> for Part<'a> {
    fn from(part: &'a ContentPart) -> Self {
        match part {
            ContentPart::Text(text) => Self::InputText { text },
            ContentPart::Image(source) => Self::InputImage { image_url: ImageUrl(source) },
        }
    }
}
