//! Requests as the dialect writes them.

use super::DIALECT;
use super::config::{AnthropicConfig, DEFAULT_MAX_TOKENS, PromptCache, SchemaMode, check_sampling};
use crate::chat::{
    ChatRequest, ContentPart, ImageSource, Message, ProviderState, ResponseSchema, ToolCall, ToolChoice,
    ToolSpec,
};
use crate::error::{LlmError, wrong};
use crate::http::{Body, Field, merged};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
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
    let system = system_blocks(&request.messages);
    let turns = turns(&request.messages);
    // Once the model has answered, the next request begins with all of this one.
    let is_conversation = turns.iter().any(|turn| turn.role == "assistant");
    let schema = schema_of(request, config.schema_mode);
    let has_system = !system.is_empty();

    let mut body = Body::new(&config.extra_body);
    body.push("model", Field::Text(&config.model));
    body.push("max_tokens", Field::Whole(max_tokens.into()));
    if has_system {
        body.push("system", Field::Content(Content::System { blocks: system, mark: mark.clone() }));
    }
    let turn_mark = mark.clone().filter(|_| is_conversation);
    body.push("messages", Field::Content(Content::Turns { turns, mark: turn_mark }));
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
    let mut fields = serde_json::Map::new();
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
    system.filter(|block| matches!(block, Block::Text(_))).collect()
}

/// One turn of a conversation: messages of one side that follow each other, since results of tools that were called
/// together have to come back together.
struct Turn<'a> {
    role: &'static str,
    blocks: Vec<Block<'a>>,
}

enum Block<'a> {
    Text(&'a str),
    Image(&'a ImageSource),
    ToolUse(&'a ToolCall),
    ToolResult {
        id: &'a str,
        message: &'a Message,
    },
    /// As the interface has sent it.
    Own(&'a Value),
}

/// The conversation; messages with nothing in them, which the interface does not take, are left out.
fn turns(messages: &[Message]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages.iter().filter(|message| message.role != Role::System) {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let blocks = blocks(message);
        match turns.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            _ if blocks.is_empty() => {}
            _ => turns.push(Turn { role, blocks }),
        }
    }
    turns
}

fn blocks(message: &Message) -> Vec<Block<'_>> {
    if let (Role::Tool, Some(id)) = (message.role, &message.tool_call_id) {
        return vec![Block::ToolResult { id, message }];
    }
    if let Some(Value::Array(own)) = ProviderState::of(message, DIALECT) {
        return own.iter().map(Block::Own).collect();
    }
    let calls = message.tool_calls.iter().map(Block::ToolUse);
    parts(message).chain(calls).collect()
}

/// The parts of a message, less texts that are empty: the interface takes none.
fn parts(message: &Message) -> impl Iterator<Item = Block<'_>> {
    message.content.iter().filter_map(|part| match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::Text(text) => Some(Block::Text(text)),
        ContentPart::Image(image) => Some(Block::Image(image)),
    })
}

/// What a body has of the conversation, with the mark that its last block bears.
enum Content<'a> {
    System { blocks: Vec<Block<'a>>, mark: Option<Value> },
    Turns { turns: Vec<Turn<'a>>, mark: Option<Value> },
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::System { blocks, mark } => Blocks { blocks, mark: mark.as_ref() }.serialize(serializer),
            Self::Turns { turns, mark } => {
                let last = turns.len().saturating_sub(1);
                serializer.collect_seq(turns.iter().enumerate().map(|(turn_idx, turn)| MarkedTurn {
                    turn,
                    mark: mark.as_ref().filter(|_| turn_idx == last),
                }))
            }
        }
    }
}

struct MarkedTurn<'a> {
    turn: &'a Turn<'a>,
    mark: Option<&'a Value>,
}

impl Serialize for MarkedTurn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", self.turn.role)?;
        map.serialize_entry("content", &Blocks { blocks: &self.turn.blocks, mark: self.mark })?;
        map.end()
    }
}

struct Blocks<'a> {
    blocks: &'a [Block<'a>],
    mark: Option<&'a Value>,
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let ([Block::Text(text)], None) = (self.blocks, self.mark) {
            return serializer.serialize_str(text);
        }
        let last = self.blocks.len().saturating_sub(1);
        serializer.collect_seq(
            self.blocks
                .iter()
                .enumerate()
                .map(|(block_idx, block)| Marked { block, mark: self.mark.filter(|_| block_idx == last) }),
        )
    }
}

struct Marked<'a> {
    block: &'a Block<'a>,
    mark: Option<&'a Value>,
}

impl Serialize for Marked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.block {
            Block::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
            }
            Block::Own(block) => {
                for (name, value) in block.as_object().into_iter().flatten() {
                    map.serialize_entry(name, value)?;
                }
            }
            Block::Image(source) => {
                map.serialize_entry("type", "image")?;
                map.serialize_entry("source", &Picture(source))?;
            }
            Block::ToolUse(call) => {
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", &call.id)?;
                map.serialize_entry("name", &call.name)?;
                map.serialize_entry("input", &input(&call.arguments))?;
            }
            Block::ToolResult { id, message } => {
                map.serialize_entry("type", "tool_result")?;
                map.serialize_entry("tool_use_id", id)?;
                let blocks: Vec<Block<'_>> = parts(message).collect();
                if !blocks.is_empty() {
                    map.serialize_entry("content", &Blocks { blocks: &blocks, mark: None })?;
                }
            }
        }
        if let Some(mark) = self.mark {
            map.serialize_entry("cache_control", mark)?;
        }
        map.end()
    }
}

/// The arguments as the object that the interface wants; what a model wrote that is none is in one.
fn input(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        Ok(_) | Err(_) if arguments.trim().is_empty() => json!({}),
        Ok(_) | Err(_) => json!({"arguments": arguments}),
    }
}

struct Picture<'a>(&'a ImageSource);

impl Serialize for Picture<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            ImageSource::Url(url) => match base64_of(url) {
                Some((media_type, data)) => base64(&mut map, media_type, data)?,
                None => {
                    map.serialize_entry("type", "url")?;
                    map.serialize_entry("url", url)?;
                }
            },
            ImageSource::Base64 { media_type, data } => base64(&mut map, media_type, data)?,
        }
        map.end()
    }
}

fn base64<M: SerializeMap>(map: &mut M, media_type: &str, data: &str) -> Result<(), M::Error> {
    map.serialize_entry("type", "base64")?;
    map.serialize_entry("media_type", media_type)?;
    map.serialize_entry("data", data)
}

/// The parts of a `data:` address, which the interface takes only apart.
fn base64_of(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
