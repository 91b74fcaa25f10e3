//! Requests as the dialect writes them.

use super::DIALECT;
use super::config::{AnthropicConfig, DEFAULT_MAX_TOKENS, PromptCache, SchemaMode, check_sampling};
use crate::chat::{
    ChatRequest, ContentPart, ImageSource, Message, ProviderState, ResponseSchema, ToolChoice, ToolSpec,
};
use crate::error::{LlmError, wrong};
use crate::http::{Body, Field, merged};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use skill_core::Role;

/// The body of a request.
pub(super) fn request_body(request: &ChatRequest, config: &AnthropicConfig) -> Result<Vec<u8>, LlmError> {
    let sampling = merged(request.sampling, config.sampling);
    check_sampling(sampling)?;
    let max_tokens = sampling.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    if let Some(tokens) = config.reasoning.tokens
        && tokens >= max_tokens
    {
        return Err(wrong(format!(
            "`thinking_tokens` ({tokens}) leaves nothing of the {max_tokens} tokens that a reply may have"
        )));
    }
    check_thinking(request, config)?;
    let mark = cache_mark(config.prompt_cache);
    let mut system = system_blocks(&request.messages);
    let mut turns = turns(&request.messages);
    // Once the model has answered, the next request begins with all of this one.
    let is_conversation = turns.iter().any(|turn| turn.role == Role::Assistant);
    let last_block = turns.last_mut().filter(|_| is_conversation).and_then(|turn| turn.content.0.last_mut());
    for block in last_block.into_iter().chain(system.last_mut()) {
        block.cache_control.clone_from(&mark);
    }
    let schema = schema_of(request, config.schema_mode);
    let has_system = !system.is_empty();

    let mut body = Body::new(&config.extra_body);
    body.push("model", Field::Text(&config.model));
    body.push("max_tokens", Field::Whole(max_tokens.into()));
    if has_system {
        body.push("system", Field::Content(Content::System(Blocks(system))));
    }
    body.push("messages", Field::Content(Content::Turns(turns)));
    body.float("temperature", sampling.temperature)?;
    body.float("top_p", sampling.top_p)?;
    if !request.stop.is_empty() {
        body.push("stop_sequences", Field::Json(json!(request.stop)));
    }
    let tool_mark = mark.filter(|_| !has_system);
    body.json("tools", tools(&request.tools, schema, tool_mark));
    body.json("tool_choice", tool_choice(request, schema));
    body.json("thinking", thinking(config));
    body.json("output_config", output_config(config, schema));
    body.bytes(request)
}

/// Refuses what a model that thinks would be refused for: a tool that it must call, and the result of a call that came
/// without its thoughts.
fn check_thinking(request: &ChatRequest, config: &AnthropicConfig) -> Result<(), LlmError> {
    if config.thinks() && matches!(request.tool_choice, Some(ToolChoice::Required | ToolChoice::Tool(_))) {
        return Err(wrong(
            "a tool call is required of a model that thinks, which this interface does not take",
        ));
    }
    // With a budget every reply begins with thoughts; a model that thinks as it sees fit may have had none.
    if config.reasoning.tokens.is_none() {
        return Ok(());
    }
    let spoken = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    let last = spoken.and_then(|at| request.messages.get(at));
    let lacks =
        |message: &&Message| !message.tool_calls.is_empty() && ProviderState::of(message, DIALECT).is_none();
    match last.filter(lacks) {
        Some(_) => Err(wrong(
            "`thinking_tokens` is set, and the conversation has a tool call without the thoughts that led to it, which \
             this interface does not take: set `thinking` to \"adaptive\" instead",
        )),
        None => Ok(()),
    }
}

/// The mark behind which the server keeps what it has read.
fn cache_mark(cache: PromptCache) -> Option<Value> {
    match cache {
        PromptCache::Off => None,
        PromptCache::FiveMinutes => Some(json!({"type": "ephemeral"})),
        PromptCache::OneHour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
    }
}

/// The schema that is asked for, and how; a loose one is left to the prompt, since the interface only has strict ones.
fn schema_of(request: &ChatRequest, mode: SchemaMode) -> Option<(&ResponseSchema, SchemaMode)> {
    let schema = request.response_schema.as_ref()?;
    match mode {
        SchemaMode::OutputFormat if schema.strict => Some((schema, mode)),
        // A tool may have any schema; beside other tools it could not be required.
        SchemaMode::Tool if request.tools.is_empty() => Some((schema, mode)),
        SchemaMode::OutputFormat | SchemaMode::Tool | SchemaMode::Off => None,
    }
}

/// The name of the tool whose input is the reply itself.
pub(super) fn schema_tool(request: &ChatRequest, mode: SchemaMode) -> Option<&str> {
    match schema_of(request, mode) {
        Some((schema, SchemaMode::Tool)) => Some(&schema.name),
        Some(_) | None => None,
    }
}

fn output_config(config: &AnthropicConfig, schema: Option<(&ResponseSchema, SchemaMode)>) -> Option<Value> {
    let mut fields = Map::new();
    if let Some(effort) = config.reasoning.effort {
        fields.insert("effort".to_owned(), effort.as_str().into());
    }
    if let Some((schema, SchemaMode::OutputFormat)) = schema {
        fields.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema.schema}));
    }
    (!fields.is_empty()).then_some(Value::Object(fields))
}

fn thinking(config: &AnthropicConfig) -> Option<Value> {
    match (config.reasoning.thinking, config.reasoning.tokens) {
        (_, Some(tokens)) => Some(json!({"type": "enabled", "budget_tokens": tokens})),
        (Some(true), None) => Some(json!({"type": "adaptive"})),
        (Some(false), None) => Some(json!({"type": "disabled"})),
        (None, None) => None,
    }
}

fn tools(
    tools: &[ToolSpec],
    schema: Option<(&ResponseSchema, SchemaMode)>,
    mark: Option<Value>,
) -> Option<Value> {
    let mut written: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters})
        })
        .collect();
    if let Some((schema, SchemaMode::Tool)) = schema {
        written.push(json!({
            "name": schema.name, "description": "Takes the reply.", "input_schema": schema.schema,
        }));
    }
    // Tools are in front of the system prompt, whose mark covers them.
    if let (Some(mark), Some(last)) = (mark, written.last_mut().and_then(Value::as_object_mut)) {
        last.insert("cache_control".to_owned(), mark);
    }
    (!written.is_empty()).then_some(Value::Array(written))
}

fn tool_choice(request: &ChatRequest, schema: Option<(&ResponseSchema, SchemaMode)>) -> Option<Value> {
    if let Some((schema, SchemaMode::Tool)) = schema {
        return Some(json!({"type": "tool", "name": schema.name}));
    }
    if request.tools.is_empty() {
        return None;
    }
    let mut choice = match &request.tool_choice {
        None if request.parallel_tool_calls.is_none() => return None,
        None | Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::Never) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Required) => json!({"type": "any"}),
        Some(ToolChoice::Tool(name)) => json!({"type": "tool", "name": name}),
    };
    if let (Some(parallel), Some(choice)) = (request.parallel_tool_calls, choice.as_object_mut()) {
        choice.insert("disable_parallel_tool_use".to_owned(), (!parallel).into());
    }
    Some(choice)
}

/// The texts of all system messages: the interface has one place for them, in front of the conversation.
fn system_blocks(messages: &[Message]) -> Vec<Block<'_>> {
    let system = messages.iter().filter(|message| message.role == Role::System).flat_map(parts);
    system.filter(|part| matches!(part, Part::Text { .. })).map(Block::from).collect()
}

/// What a body has of the conversation.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    System(Blocks<'a>),
    Turns(Vec<Turn<'a>>),
}

/// One turn of a conversation: messages of one side that follow each other, since results of tools that were called
/// together have to come back together.
#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Blocks<'a>,
}

/// A string where there is only a text, and no mark on it.
struct Blocks<'a>(Vec<Block<'a>>);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [Block { part: Part::Text { text }, cache_control: None }] => serializer.serialize_str(text),
            blocks => serializer.collect_seq(blocks),
        }
    }
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    part: Part<'a>,
    /// The mark of the last block that the server is to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

impl<'a> From<Part<'a>> for Block<'a> {
    fn from(part: Part<'a>) -> Self {
        Self { part, cache_control: None }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Picture<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Blocks<'a>>,
    },
    /// As the interface has sent it; `None`, for a value that is not an object, is written as `{}`.
    #[serde(untagged)]
    Own(Option<&'a Map<String, Value>>),
}

/// The conversation; messages with nothing in them, which the interface does not take, are left out.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages.iter().filter(|message| message.role != Role::System) {
        let role = if message.role == Role::Assistant { Role::Assistant } else { Role::User };
        let blocks = blocks(message);
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.0.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push(Turn { role, content: Blocks(blocks) }),
        }
    }
    turns
}

fn blocks(message: &Message) -> Vec<Block<'_>> {
    if let (Role::Tool, Some(tool_use_id)) = (message.role, &message.tool_call_id) {
        let blocks: Vec<Block<'_>> = parts(message).map(Block::from).collect();
        let content = (!blocks.is_empty()).then_some(Blocks(blocks));
        return vec![Part::ToolResult { tool_use_id, content }.into()];
    }
    if let Some(Value::Array(own)) = ProviderState::of(message, DIALECT) {
        return own.iter().map(|block| Part::Own(block.as_object()).into()).collect();
    }
    let calls = message.tool_calls.iter().map(|call| Part::ToolUse {
        id: &call.id,
        name: &call.name,
        input: input(&call.arguments),
    });
    parts(message).chain(calls).map(Block::from).collect()
}

/// The parts of a message, less texts that are empty: the interface takes none.
fn parts(message: &Message) -> impl Iterator<Item = Part<'_>> {
    message.content.iter().filter_map(|part| match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::Text(text) => Some(Part::Text { text }),
        ContentPart::Image(image) => Some(Part::Image { source: image.into() }),
    })
}

/// The arguments as the object that the interface wants; what a model wrote that is none is in one.
fn input(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(_) | Err(_) if arguments.trim().is_empty() => json!({}),
        Ok(_) | Err(_) => json!({"arguments": arguments}),
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Picture<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

impl<'a> From<&'a ImageSource> for Picture<'a> {
    fn from(source: &'a ImageSource) -> Self {
        match source {
            ImageSource::Url(url) => match base64_of(url) {
                Some((media_type, data)) => Self::Base64 { media_type, data },
                None => Self::Url { url },
            },
            ImageSource::Base64 { media_type, data } => Self::Base64 { media_type, data },
        }
    }
}

/// The parts of a `data:` address, which the interface takes only apart.
fn base64_of(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
