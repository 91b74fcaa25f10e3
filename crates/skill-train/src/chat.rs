//! Chat templates: from a conversation to the text and the tokens that a model was trained on.
//!
//! A template is Jinja as the transformers library of Hugging Face runs it. [`ChatTemplate::render`] gives the text;
//! [`ChatEncoder`] the tokens, and which of them the model has to learn. What a conversation says can never become a
//! special token of the model, see [`SpecialText`].
//!
//! Known differences to Jinja: lists and dictionaries that a template prints without `tojson` are not spelt as Python
//! spells them, and a dictionary that a template writes itself has its keys in ascending order.
//!
//! # Invariants
//!
//! - No text of a conversation becomes a special token of the model. Held by
//!   `texts_of_special_tokens_are_refused_or_stay_texts`, `special_tokens_are_special_in_rendered_texts_only`.

mod date;
mod encode;
mod engine;
mod json;
mod methods;
mod special;

pub use encode::{ChatEncoder, Encoded};
pub use special::SpecialText;

use crate::tokenizer::TokenizerError;
use engine::RaisedByTemplate;
use minijinja::Environment;
use serde_json::{Map, Value, json};
use skill_core::{Role, python_json};
use skill_llm::chat::{ContentPart, Message, ToolCall, ToolSpec};
use std::sync::Arc;
use thiserror::Error;

/// Why a conversation cannot be rendered or encoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model's files have no chat template.
    #[error(
        "the tokenizer has no chat template, so the model is probably a base model: take the instruct version, or put a \
         template into `chat_template` of tokenizer_config.json or into chat_template.jinja beside it"
    )]
    NoTemplate,
    /// The settings of the tokenizer cannot be read.
    #[error("tokenizer_config.json cannot be used: {message}")]
    Config {
        /// The reason.
        message: String,
    },
    /// The template is not Jinja.
    #[error("the chat template does not parse: {message}")]
    Syntax {
        /// The reason with its line.
        message: String,
    },
    /// The template failed on this conversation.
    #[error("the chat template failed: {message}")]
    Render {
        /// The reason with its line.
        message: String,
    },
    /// The template refuses this conversation, such as two messages of one role in a row.
    #[error("the chat template refuses the conversation: {message}")]
    Raised {
        /// The words of the template.
        message: String,
    },
    /// The template writes nothing, whatever the conversation.
    #[error(
        "the chat template writes nothing for a message: put the model's own template into chat_template.jinja"
    )]
    Empty,
    /// There are no messages.
    #[error("a conversation without messages cannot be rendered")]
    NoMessages,
    /// A message holds an image, which the models of this crate cannot see.
    #[error("message {message} has an image, which the model cannot see")]
    Image {
        /// The place of the message, from 0.
        message: usize,
    },
    /// A message, or a tool, holds the text of a special token.
    #[error("{place} contains `{token}`, which is a special token of the model")]
    SpecialText {
        /// The place, such as `message 3`.
        place: String,
        /// The text of the token.
        token: String,
    },
    /// The conversation does not end with what the agent says.
    #[error("the conversation does not end with an assistant message, so it has no completion")]
    NoCompletion,
    /// The template writes earlier messages differently when others follow, so that no tokens of theirs can be named.
    #[error("the chat template rewrites message {message} when others follow, so its tokens cannot be found")]
    Rewritten {
        /// The place of the message, from 0.
        message: usize,
    },
    /// The tokenizer failed.
    #[error("failed to encode the conversation")]
    Tokenizer(#[from] TokenizerError),
}

/// A conversation in the form that templates read: messages and tools as JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Conversation {
    /// Objects with `role`, `content`, and where they are needed `tool_calls`, `tool_call_id` and others.
    pub messages: Vec<Value>,
    /// Objects with `type` and `function`; empty without tools.
    pub tools: Vec<Value>,
}

impl Conversation {
    /// The conversation of these messages, without tools.
    ///
    /// # Errors
    ///
    /// [`ChatError::Image`].
    pub fn new(messages: &[Message]) -> Result<Self, ChatError> {
        let messages = messages.iter().enumerate().map(|(place, message)| message_value(place, message));
        Ok(Self { messages: messages.collect::<Result<_, _>>()?, tools: Vec::new() })
    }

    /// The same with tools that the model may call.
    #[must_use]
    pub fn with_tools(self, tools: &[ToolSpec]) -> Self {
        let tool = |tool: &ToolSpec| {
            let function = json!({
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            });
            json!({"type": "function", "function": function})
        };
        Self { tools: tools.iter().map(tool).collect(), ..self }
    }

    /// The first messages, with the same tools.
    fn until(&self, n_messages: usize) -> Self {
        Self { messages: self.messages.iter().take(n_messages).cloned().collect(), tools: self.tools.clone() }
    }

    /// True for a message of the agent.
    pub(crate) fn is_assistant(message: &Value) -> bool {
        message.get("role").and_then(Value::as_str) == Some("assistant")
    }
}

fn message_value(place: usize, message: &Message) -> Result<Value, ChatError> {
    let has_image = message.content.iter().any(|part| matches!(part, ContentPart::Image(_)));
    if has_image {
        return Err(ChatError::Image { message: place });
    }
    Ok(template_message(message.role, message.text(), &message.tool_calls, message.tool_call_id.as_deref()))
}

/// A message as chat templates take it.
pub fn template_message(
    role: Role,
    content: impl Into<Value>,
    tool_calls: &[ToolCall],
    tool_call_id: Option<&str>,
) -> Value {
    let mut value = Map::new();
    value.insert("role".to_owned(), role.as_str().into());
    value.insert("content".to_owned(), content.into());
    if !tool_calls.is_empty() {
        let call = |call: &ToolCall| {
            // Templates expect the arguments as an object; what is not JSON stays as it was written.
            let arguments: Value = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::String(call.arguments.clone()));
            json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
        };
        value.insert("tool_calls".to_owned(), tool_calls.iter().map(call).collect());
    }
    if let Some(id) = tool_call_id {
        value.insert("tool_call_id".to_owned(), id.into());
    }
    Value::Object(value)
}

/// Inputs of a rendering besides the conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RenderOptions {
    /// Appends the beginning of an assistant turn, so that the model continues with a reply.
    pub generation_prompt: bool,
    /// Further variables that the template knows, such as `enable_thinking`.
    pub variables: Map<String, Value>,
    /// The time for `strftime_now`, in seconds since 1970 in UTC. Without it the function is not defined, and
    /// templates take the date that they have for this case, which keeps renderings reproducible.
    pub now: Option<i64>,
}

impl RenderOptions {
    /// Options of a prompt that the model answers.
    pub fn prompt() -> Self {
        Self { generation_prompt: true, ..Self::default() }
    }
}

/// The chat template of a model, ready to be rendered; clones share what was compiled.
#[derive(Clone)]
pub struct ChatTemplate {
    engine: Arc<Environment<'static>>,
    /// Texts of special tokens by the names that templates use, such as `bos_token`.
    tokens: Map<String, Value>,
    /// The time for a template that cannot do without, where the options of a rendering give none.
    now: Option<i64>,
}

impl ChatTemplate {
    /// Compiles a template; `tokens` has the texts of special tokens by the names that templates use, such as
    /// `bos_token`.
    ///
    /// # Errors
    ///
    /// [`ChatError::Syntax`].
    pub fn parse(source: &str, tokens: Map<String, Value>) -> Result<Self, ChatError> {
        Self::of([(engine::DEFAULT, source)], tokens)
    }

    /// The template of a model from its `tokenizer_config.json`, or from `chat_template.jinja` beside it, which counts
    /// if both exist. A model with several templates has that named `tool_use` for conversations with tools.
    ///
    /// # Errors
    ///
    /// [`ChatError::NoTemplate`] if neither has one, [`ChatError::Config`] for a file that is not JSON, and
    /// [`ChatError::Syntax`].
    pub fn from_files(tokenizer_config: &str, chat_template: Option<&str>) -> Result<Self, ChatError> {
        let config: Value = python_json::read(tokenizer_config)
            .map_err(|error| ChatError::Config { message: error.to_string() })?;
        let tokens = special_texts(&config);
        if let Some(source) = chat_template {
            return Self::parse(source, tokens);
        }
        let unusable =
            || ChatError::Config { message: "`chat_template` is neither a text nor a list".to_owned() };
        match config.get("chat_template") {
            None | Some(Value::Null) => Err(ChatError::NoTemplate),
            Some(Value::String(source)) => Self::parse(source, tokens),
            Some(Value::Array(named)) => {
                let source = |name: &str| {
                    let entry =
                        named.iter().find(|entry| entry.get("name").is_some_and(|found| found == name))?;
                    entry.get("template").and_then(Value::as_str)
                };
                let default = source(engine::DEFAULT).ok_or(ChatError::NoTemplate)?;
                let tools = source(engine::TOOL_USE).map(|source| (engine::TOOL_USE, source));
                Self::of([(engine::DEFAULT, default)].into_iter().chain(tools), tokens)
            }
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(unusable()),
        }
    }

    fn of<'a>(
        sources: impl IntoIterator<Item = (&'static str, &'a str)>,
        tokens: Map<String, Value>,
    ) -> Result<Self, ChatError> {
        let mut engine = engine::environment();
        for (name, source) in sources {
            engine
                .add_template_owned(name, engine::without_generation_marks(source))
                .map_err(|error| ChatError::Syntax { message: with_line(&error) })?;
        }
        Ok(Self { engine: Arc::new(engine), tokens, now: None })
    }

    /// The template of a model that is to answer, after it was tried on short conversations.
    ///
    /// One that cannot be rendered without `strftime_now` gets this time, in seconds since 1970 in UTC; one that has a
    /// date of its own for this case keeps that.
    ///
    /// # Errors
    ///
    /// [`ChatError::Empty`] for a template that writes nothing, and [`ChatError::Render`] for one that renders none of
    /// the conversations, such as one with an unknown function. What it refuses by itself is no error here.
    pub fn tried(self, now: i64) -> Result<Self, ChatError> {
        let message = |role: &str| json!({"role": role, "content": "Hello."});
        let tool =
            json!({"type": "function", "function": {"name": "look", "description": "", "parameters": {}}});
        let conversations = [
            Conversation { messages: vec![message("user")], tools: Vec::new() },
            Conversation { messages: vec![message("system"), message("user")], tools: Vec::new() },
            Conversation { messages: vec![message("user")], tools: vec![tool] },
        ];
        let render = |template: &Self| {
            conversations
                .each_ref()
                .map(|conversation| template.render(conversation, &RenderOptions::prompt()))
        };
        let n_failed = |outcomes: &[Result<String, ChatError>]| {
            outcomes.iter().filter(|outcome| matches!(outcome, Err(ChatError::Render { .. }))).count()
        };
        let (plain, mut template) = (render(&self), self);
        let dated = Self { now: Some(now), ..template.clone() };
        let outcomes = render(&dated);
        let outcomes = if n_failed(&outcomes) < n_failed(&plain) {
            template = dated;
            outcomes
        } else {
            plain
        };
        let is_blank =
            |outcome: &Result<String, ChatError>| outcome.as_ref().is_ok_and(|text| text.trim().is_empty());
        if outcomes.iter().all(is_blank) {
            return Err(ChatError::Empty);
        }
        if n_failed(&outcomes) == outcomes.len() {
            return Err(outcomes.into_iter().find_map(Result::err).unwrap_or(ChatError::Empty));
        }
        Ok(template)
    }

    /// The text of a conversation.
    ///
    /// Nothing is escaped: texts of special tokens in messages stay as they are, and become these tokens if the text
    /// is encoded. Use [`ChatEncoder`] for what goes into a model.
    ///
    /// # Errors
    ///
    /// [`ChatError::NoMessages`], [`ChatError::Raised`] and [`ChatError::Render`].
    pub fn render(&self, conversation: &Conversation, options: &RenderOptions) -> Result<String, ChatError> {
        if conversation.messages.is_empty() {
            return Err(ChatError::NoMessages);
        }
        let for_tools = (!conversation.tools.is_empty()).then_some(engine::TOOL_USE);
        let template = for_tools.and_then(|name| self.engine.get_template(name).ok());
        let template = match template {
            Some(template) => template,
            None => self.engine.get_template(engine::DEFAULT).map_err(|error| failed(&error))?,
        };
        let context = engine::context(conversation, options, &self.tokens, options.now.or(self.now));
        template.render(context).map_err(|error| failed(&error))
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatTemplate").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// The texts of special tokens in `tokenizer_config.json`: texts, or objects with `content`.
fn special_texts(config: &Value) -> Map<String, Value> {
    let entries = config.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("_token"));
    let texts = entries.filter_map(|(key, value)| {
        let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
        Some((key.clone(), Value::String(text.to_owned())))
    });
    texts.collect()
}

fn failed(error: &minijinja::Error) -> ChatError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(RaisedByTemplate(message)) = cause.downcast_ref() {
            return ChatError::Raised { message: message.clone() };
        }
        source = cause.source();
    }
    ChatError::Render { message: with_line(error) }
}

fn with_line(error: &minijinja::Error) -> String {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{line}{}{detail}", error.kind())
}
