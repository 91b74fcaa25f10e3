//! From the configuration of a model to the dialect that asks its server.

use crate::config::{EmbeddingConfig, ResponseFormat, SeedField, ServedConfig};
use skill_llm::http::TokenCommand;
use skill_llm::listing::ModelList;
use skill_llm::{
    AnthropicChat, AnthropicConfig, ApiKey, ChatModel, Dialect, EmbeddingModel, KeySource, LlmError,
    OpenAiChat, OpenAiConfig, OpenAiEmbeddings, OpenAiEmbeddingsConfig, Reasoning, ResponsesChat,
    ResponsesConfig, Sampling, SchemaMode, Secrets, Server, Transport, openai,
};
use std::sync::Arc;
use std::time::Duration;

/// What a model may show, and what is taken out of what it gets.
#[derive(Clone, Copy)]
pub(super) struct Access<'run> {
    pub(super) has_key: bool,
    /// A key that takes the place of the configuration's.
    pub(super) own_key: Option<&'run ApiKey>,
    pub(super) secrets: &'run Secrets,
}

/// The model that a server answers for.
pub(super) fn model(
    dialect: Dialect,
    asked: &ServedConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<Arc<dyn ChatModel>, LlmError> {
    Ok(match dialect {
        Dialect::ChatCompletions => {
            Arc::new(OpenAiChat::with_transport(chat_completions(asked, access)?, transport)?)
        }
        Dialect::Messages => Arc::new(AnthropicChat::with_transport(messages(asked, access)?, transport)?),
        Dialect::Responses => Arc::new(ResponsesChat::with_transport(responses(asked, access)?, transport)?),
    })
}

/// The list of models that the model's server keeps.
pub(super) fn list(
    dialect: Dialect,
    asked: &ServedConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<ModelList, LlmError> {
    let mut server = Server::new(&asked.base_url);
    server.key_header = dialect.key_header();
    fill_server(&mut server, asked, access)?;
    ModelList::new(server, dialect, transport)
}

/// The embedding model that a server answers for.
pub(super) fn embedding(
    asked: &EmbeddingConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<Arc<dyn EmbeddingModel>, LlmError> {
    let mut config = OpenAiEmbeddingsConfig::new(&asked.base_url, &asked.model);
    fill_embedding_server(&mut config.server, asked, access)?;
    config.dimensions = asked.dimensions.and_then(|length| usize::try_from(length).ok());
    config.max_texts = usize::try_from(asked.max_texts).unwrap_or(usize::MAX);
    Ok(Arc::new(OpenAiEmbeddings::with_transport(config, transport)?))
}

/// The list of models that the server of the embedding model keeps.
pub(super) fn embedding_list(
    asked: &EmbeddingConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<ModelList, LlmError> {
    let mut server = Server::new(&asked.base_url);
    fill_embedding_server(&mut server, asked, access)?;
    ModelList::new(server, Dialect::ChatCompletions, transport)
}

fn fill_embedding_server(
    server: &mut Server,
    asked: &EmbeddingConfig,
    access: Access<'_>,
) -> Result<(), LlmError> {
    server.secrets = access.secrets.clone();
    server.timeout = Duration::from_secs(asked.timeout_s);
    if access.has_key
        && let Some(variable) = asked.key_variable()
    {
        server.key = KeySource::Key(ApiKey::from_env(variable, &asked.base_url)?);
    }
    Ok(())
}

fn chat_completions(asked: &ServedConfig, access: Access<'_>) -> Result<OpenAiConfig, LlmError> {
    let mut config = OpenAiConfig::new(&asked.base_url, &asked.model);
    fill_server(&mut config.server, asked, access)?;
    config.sampling = sampling(asked);
    config.max_tokens_field = asked.max_tokens_field.unwrap_or_default();
    config.system_role = asked.system_role.unwrap_or_default();
    config.takes_seed = asked.seed_field != Some(SeedField::Off);
    config.response_format = response_format(asked.response_format)?;
    config.reasoning = reasoning(asked);
    config.effort_field = asked.reasoning_effort_field.unwrap_or_default();
    config.thinking_field = asked.thinking_field.unwrap_or_default();
    config.extra_body = asked.extra_body.clone();
    Ok(config)
}

fn messages(asked: &ServedConfig, access: Access<'_>) -> Result<AnthropicConfig, LlmError> {
    let mut config = AnthropicConfig::new(&asked.base_url, &asked.model);
    fill_server(&mut config.server, asked, access)?;
    config.sampling = sampling(asked);
    config.schema_mode = match asked.response_format {
        ResponseFormat::JsonSchema => SchemaMode::OutputFormat,
        ResponseFormat::Tool => SchemaMode::Tool,
        ResponseFormat::Off => SchemaMode::Off,
        ResponseFormat::JsonObject | ResponseFormat::JsonObjectSchema => {
            return Err(other_format(asked.response_format, "anthropic"));
        }
    };
    config.reasoning = reasoning(asked);
    config.prompt_cache = asked.prompt_cache.unwrap_or_default();
    config.extra_body = asked.extra_body.clone();
    Ok(config)
}

fn responses(asked: &ServedConfig, access: Access<'_>) -> Result<ResponsesConfig, LlmError> {
    let mut config = ResponsesConfig::new(&asked.base_url, &asked.model);
    fill_server(&mut config.server, asked, access)?;
    config.sampling = sampling(asked);
    config.response_format = response_format(asked.response_format)?;
    config.reasoning = reasoning(asked);
    config.extra_body = asked.extra_body.clone();
    Ok(config)
}

fn fill_server(server: &mut Server, asked: &ServedConfig, access: Access<'_>) -> Result<(), LlmError> {
    server.api_version.clone_from(&asked.api_version);
    server.key = match access.own_key {
        Some(key) => KeySource::Key(key.clone()),
        None if access.has_key => key(asked)?,
        None => KeySource::None,
    };
    server.secrets = access.secrets.clone();
    if let Some(header) = asked.key_header {
        server.key_header = header;
    }
    server.timeout = asked.timeout();
    server.extra_headers =
        asked.extra_headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(())
}

fn key(asked: &ServedConfig) -> Result<KeySource, LlmError> {
    if let Some(command) = &asked.api_key_command {
        return Ok(KeySource::Command(Arc::new(TokenCommand::new(command.clone())?)));
    }
    let key = asked.key_variable().map(|variable| ApiKey::from_env(variable, &asked.base_url)).transpose()?;
    Ok(key.map_or(KeySource::None, KeySource::Key))
}

fn sampling(asked: &ServedConfig) -> Sampling {
    Sampling {
        temperature: asked.temperature,
        top_p: asked.top_p,
        max_tokens: asked.max_tokens,
        seed: asked.seed,
        ..Sampling::default()
    }
}

fn reasoning(asked: &ServedConfig) -> Reasoning {
    Reasoning { effort: asked.reasoning_effort, thinking: asked.thinking, tokens: asked.thinking_tokens }
}

fn response_format(asked: ResponseFormat) -> Result<openai::ResponseFormat, LlmError> {
    Ok(match asked {
        ResponseFormat::JsonSchema => openai::ResponseFormat::JsonSchema,
        ResponseFormat::JsonObjectSchema => openai::ResponseFormat::JsonObjectSchema,
        ResponseFormat::JsonObject => openai::ResponseFormat::JsonObject,
        ResponseFormat::Off => openai::ResponseFormat::Off,
        ResponseFormat::Tool => return Err(other_format(asked, "openai")),
    })
}

/// The table of keys has refused this already.
fn other_format(asked: ResponseFormat, kind: &str) -> LlmError {
    LlmError::Configuration {
        message: format!("`response_format` \"{}\" is none of kind \"{kind}\"", asked.as_str()),
    }
}
