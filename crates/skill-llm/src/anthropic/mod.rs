//! The Messages dialect: Anthropic itself and everything that speaks like it.
//!
//! One call is one `POST {base_url}/messages`. What a request asks for and the interface does not have is an error, with
//! these exceptions: a schema that is not strict is left to the prompt; system messages move in front of the
//! conversation; messages and texts with nothing in them are left out; arguments of a tool call that are no JSON object
//! are put into one.
//!
//! The beginning of a prompt is kept by the server: a mark comes after tools and system prompt, which hold the skill,
//! and in a conversation with replies another one behind its last message.
//!
//! A reply that thinks and calls tools is sent back as its own blocks, since the interface refuses the result of a call
//! whose thoughts are missing or changed. A conversation that lacks them is refused before it is sent.

mod body;
mod config;
mod wire;

pub use config::{AnthropicConfig, BASE_URL, DEFAULT_MAX_TOKENS, PromptCache, SchemaMode};

use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, ModelId};
use crate::error::LlmError;
use crate::http::{Connection, own_transport};
use crate::transport::Transport;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

/// The name of the dialect in [`crate::ProviderState`].
const DIALECT: &str = "anthropic";
/// The version of the interface that is spoken here.
pub(crate) const HEADERS: &[(&str, &str)] = &[("anthropic-version", "2023-06-01")];

/// A model behind a server that speaks the dialect.
pub struct AnthropicChat {
    id: ModelId,
    config: AnthropicConfig,
    connection: Connection,
}

impl AnthropicChat {
    /// A model with connections of its own.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work, or no HTTP client can be made.
    pub fn new(config: AnthropicConfig) -> Result<Self, LlmError> {
        Self::with_transport(config, own_transport()?)
    }

    /// A model on a transport that is shared, or that needs no network.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work.
    pub fn with_transport(config: AnthropicConfig, transport: Arc<dyn Transport>) -> Result<Self, LlmError> {
        config.check()?;
        let connection = Connection::new(config.server.clone(), &["messages"], HEADERS, transport)?;
        let id = connection.model_id(&config.model);
        Ok(Self { id, config, connection })
    }
}

#[async_trait]
impl ChatModel for AnthropicChat {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        let config = &self.config;
        json!({
            "dialect": "anthropic",
            "sampling": config.sampling,
            "schema_mode": config.schema_mode,
            "reasoning": config.reasoning,
            "extra_body": config.extra_body,
        })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let body = body::request_body(request, &self.config)?;
        let schema_tool = body::schema_tool(request, self.config.schema_mode);
        self.connection.ask(body, call, |body| wire::reply(body, schema_tool)).await
    }
}

impl fmt::Debug for AnthropicChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnthropicChat")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
