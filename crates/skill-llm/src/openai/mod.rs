//! The Chat Completions dialect: OpenAI itself and everything that speaks like it, such as vLLM, llama.cpp, Ollama,
//! OpenRouter and DeepSeek.
//!
//! One call is one `POST {base_url}/chat/completions`, or of an embedding model one `POST {base_url}/embeddings`;
//! repeating is the business of a layer above. What a request asks for is sent as it stands: nothing is cut, capped or
//! dropped.
//!
//! A reply with tool calls keeps what thinking models need back with their results: signatures of calls
//! (`extra_content`, Gemini), `reasoning_details` (OpenRouter) and `reasoning_content` (DeepSeek, Kimi and others).

mod body;
mod config;
mod embeddings;
pub(crate) mod wire;

pub use crate::http::DEFAULT_TIMEOUT;
pub use config::{MaxTokensField, OpenAiConfig, ResponseFormat, SystemRole, is_openai_address};
pub use embeddings::{OpenAiEmbeddings, OpenAiEmbeddingsConfig};

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
const DIALECT: &str = "openai";
/// Fields of a reply that go back beside its tool calls.
const RETURNED_FIELDS: [&str; 2] = ["reasoning_content", "reasoning_details"];

/// A model behind a server that speaks the dialect.
pub struct OpenAiChat {
    id: ModelId,
    config: OpenAiConfig,
    connection: Connection,
}

impl OpenAiChat {
    /// A model with connections of its own.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work, or no HTTP client can be made.
    pub fn new(config: OpenAiConfig) -> Result<Self, LlmError> {
        Self::with_transport(config, own_transport()?)
    }

    /// A model on a transport that is shared, or that needs no network.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work.
    pub fn with_transport(config: OpenAiConfig, transport: Arc<dyn Transport>) -> Result<Self, LlmError> {
        config.check()?;
        let connection = Connection::new(config.server.clone(), &["chat", "completions"], &[], transport)?;
        let id = connection.model_id(&config.model);
        Ok(Self { id, config, connection })
    }
}

#[async_trait]
impl ChatModel for OpenAiChat {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        let config = &self.config;
        let mut parameters = json!({
            "sampling": config.sampling,
            "response_format": config.response_format,
            "extra_body": config.extra_body,
        });
        // What is not asked is left out, so that the keys of older journals stay as they are.
        if let (false, Some(fields)) = (config.reasoning.is_empty(), parameters.as_object_mut()) {
            fields.insert("reasoning".to_owned(), json!(config.reasoning));
        }
        if let (SystemRole::User, Some(fields)) = (config.system_role, parameters.as_object_mut()) {
            fields.insert("system_role".to_owned(), config.system_role.as_str().into());
        }
        parameters
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let body = body::request_body(request, &self.config, &self.connection.endpoint.host)?;
        self.connection.ask(body, call, wire::reply).await
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiChat")
            .field("id", &self.id)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
