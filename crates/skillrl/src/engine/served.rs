//! From the configuration of a model to the dialect that asks its server.

use crate::config::{
    Effort, EffortField, KeyHeader, MaxTokensField, ModelConfig, PromptCache, ResponseFormat, SeedField,
    ServedConfig, ThinkingField,
};
use skill_llm::http::TokenCommand;
use skill_llm::listing::ModelList;
use skill_llm::{
    AnthropicChat, AnthropicConfig, ApiKey, ChatModel, Dialect, KeySource, LlmError, OpenAiChat,
    OpenAiConfig, Reasoning, ResponsesChat, ResponsesConfig, Sampling, SchemaMode, Secrets, Server,
    Transport, openai,
};
use std::sync::Arc;

/// Where everybody keeps the key of the one server that never answers without one.
const OPENAI_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// What a model may show, and what is taken out of what it gets.
#[derive(Clone, Copy)]
pub(super) struct Access<'run> {
    pub(super) has_key: bool,
    pub(super) secrets: &'run Secrets,
}

/// The model that a server answers for; `None` for models of other kinds.
pub(super) fn dialect(
    config: &ModelConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<Option<Arc<dyn ChatModel>>, LlmError> {
    Ok(Some(match config {
        ModelConfig::OpenAi(asked) => {
            let config = chat_completions(asked, access)?;
            Arc::new(OpenAiChat::with_transport(config, transport)?)
        }
        ModelConfig::Anthropic(asked) => {
            Arc::new(AnthropicChat::with_transport(messages(asked, access)?, transport)?)
        }
        ModelConfig::Responses(asked) => {
            Arc::new(ResponsesChat::with_transport(responses(asked, access)?, transport)?)
        }
        ModelConfig::Agent(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => return Ok(None),
    }))
}

/// The list of models that the model's server keeps; `None` for models of other kinds.
pub(super) fn list(
    config: &ModelConfig,
    transport: Arc<dyn Transport>,
    access: Access<'_>,
) -> Result<Option<ModelList>, LlmError> {
    let (server, dialect) = match config {
        ModelConfig::OpenAi(asked) => (chat_completions(asked, access)?.server, Dialect::ChatCompletions),
        ModelConfig::Anthropic(asked) => (messages(asked, access)?.server, Dialect::Messages),
        ModelConfig::Responses(asked) => (responses(asked, access)?.server, Dialect::Responses),
        ModelConfig::Agent(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => return Ok(None),
    };
    ModelList::new(server, dialect, transport).map(Some)
}

fn chat_completions(asked: &ServedConfig, access: Access<'_>) -> Result<OpenAiConfig, LlmError> {
    let mut config = OpenAiConfig::new(&asked.base_url, &asked.model);
    fill_server(&mut config.server, asked, access)?;
    config.sampling = sampling(asked);
    config.max_tokens_field = match asked.max_tokens_field {
        Some(MaxTokensField::Auto) | None => openai::MaxTokensField::Auto,
        Some(MaxTokensField::MaxTokens) => openai::MaxTokensField::MaxTokens,
        Some(MaxTokensField::MaxCompletionTokens) => openai::MaxTokensField::MaxCompletionTokens,
    };
    config.takes_seed = asked.seed_field != Some(SeedField::Off);
    config.response_format = response_format(asked.response_format)?;
    config.reasoning = reasoning(asked);
    config.effort_field = match asked.reasoning_effort_field {
        Some(EffortField::ReasoningEffort) | None => skill_llm::EffortField::ReasoningEffort,
        Some(EffortField::Reasoning) => skill_llm::EffortField::Reasoning,
        Some(EffortField::ChatTemplateKwargs) => skill_llm::EffortField::ChatTemplateKwargs,
        Some(EffortField::Off) => skill_llm::EffortField::Off,
    };
    config.thinking_field = match asked.thinking_field {
        Some(ThinkingField::EnableThinking) => skill_llm::ThinkingField::EnableThinking,
        Some(ThinkingField::ChatTemplateKwargs) => skill_llm::ThinkingField::ChatTemplateKwargs,
        Some(ThinkingField::Thinking) => skill_llm::ThinkingField::Thinking,
        Some(ThinkingField::ThinkingAdaptive) => skill_llm::ThinkingField::ThinkingAdaptive,
        Some(ThinkingField::Reasoning) => skill_llm::ThinkingField::Reasoning,
        Some(ThinkingField::ReasoningEffort) => skill_llm::ThinkingField::ReasoningEffort,
        Some(ThinkingField::Off) | None => skill_llm::ThinkingField::Off,
    };
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
    config.prompt_cache = match asked.prompt_cache {
        Some(PromptCache::Off) => skill_llm::PromptCache::Off,
        Some(PromptCache::FiveMinutes) | None => skill_llm::PromptCache::FiveMinutes,
        Some(PromptCache::OneHour) => skill_llm::PromptCache::OneHour,
    };
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
    server.key = if access.has_key { key(asked)? } else { KeySource::None };
    server.secrets = access.secrets.clone();
    if let Some(header) = asked.key_header {
        server.key_header = match header {
            KeyHeader::Bearer => skill_llm::KeyHeader::Bearer,
            KeyHeader::XApiKey => skill_llm::KeyHeader::XApiKey,
            KeyHeader::ApiKey => skill_llm::KeyHeader::ApiKey,
        };
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
    let key = key_variable(asked).map(|variable| ApiKey::from_env(variable, &asked.base_url)).transpose()?;
    Ok(key.map_or(KeySource::None, KeySource::Key))
}

/// The variable that holds the key of a model, if one does.
pub(crate) fn key_variable(asked: &ServedConfig) -> Option<&str> {
    if asked.api_key_command.is_some() {
        return None;
    }
    let is_openai = openai::is_openai_address(&asked.base_url);
    asked.api_key_env.as_deref().or(is_openai.then_some(OPENAI_KEY_VARIABLE))
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
    Reasoning {
        effort: asked.reasoning_effort.map(effort),
        thinking: asked.thinking,
        tokens: asked.thinking_tokens,
    }
}

pub(super) fn effort(asked: Effort) -> skill_llm::Effort {
    match asked {
        Effort::None => skill_llm::Effort::None,
        Effort::Minimal => skill_llm::Effort::Minimal,
        Effort::Low => skill_llm::Effort::Low,
        Effort::Medium => skill_llm::Effort::Medium,
        Effort::High => skill_llm::Effort::High,
        Effort::Xhigh => skill_llm::Effort::Xhigh,
        Effort::Max => skill_llm::Effort::Max,
    }
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
