//! A model by its name alone, such as `openai/gpt-5-mini`: address, key and dialect follow from the table of providers.

use crate::anthropic::{AnthropicChat, AnthropicConfig};
use crate::chat::ChatModel;
use crate::dialect::Dialect;
use crate::error::LlmError;
use crate::http::{KeySource, Server};
use crate::layer::{PaceConfig, Paced, Pacer, Retried, RetryBudget, RetryPolicy, Traced};
use crate::openai::{OpenAiChat, OpenAiConfig};
use crate::provider::{PROVIDERS, Provider};
use crate::responses::{ResponsesChat, ResponsesConfig};
use crate::secret::ApiKey;
use std::sync::Arc;

/// The model of this name, with pace, retries and a span for each call.
///
/// The name is `PROVIDER/MODEL`, such as `openai/gpt-5-mini` or `ollama/qwen3`; [`PROVIDERS`] has the providers. The
/// key is read from the provider's usual variable. Each call of this function makes a model with a pace of its own.
///
/// ```no_run
/// use skill_llm::{CallCtx, ChatRequest, Message};
///
/// # async fn ask() -> Result<(), skill_llm::LlmError> {
/// let model = skill_llm::model("openai/gpt-5-mini")?;
/// let request = ChatRequest::new(vec![Message::system("Be brief."), Message::user("2 + 2?")]);
/// println!("{}", model.chat(&request, &CallCtx::default()).await?.text);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`LlmError::Configuration`] for a name without a known provider, without a model, or of a provider whose address
/// depends on the account; [`LlmError::MissingKey`] if the key is not set.
pub fn model(name: &str) -> Result<Arc<dyn ChatModel>, LlmError> {
    let wrong = |message: String| LlmError::Configuration { message };
    let Some((provider, model)) = name.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        return Err(wrong(format!("`{name}` names no provider: write it as in `openai/gpt-5-mini`")));
    };
    let Some(provider) = Provider::find(provider) else {
        let known: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
        return Err(wrong(format!("`{provider}` is not a known provider: {}", known.join(", "))));
    };
    let Some(base_url) = provider.base_url else {
        let message =
            format!("`{}` has another address for each account: configure the dialect", provider.name);
        return Err(wrong(message));
    };
    let paced = Paced::new(dialect(provider, base_url, model)?, Pacer::new(PaceConfig::default()));
    let retried = Retried::new(Arc::new(paced), RetryPolicy::default(), Arc::new(RetryBudget::default()));
    Ok(Arc::new(Traced::new(Arc::new(retried))))
}

/// The model without layers.
fn dialect(provider: &Provider, base_url: &str, model: &str) -> Result<Arc<dyn ChatModel>, LlmError> {
    Ok(match provider.dialect {
        Dialect::ChatCompletions => {
            let mut config = OpenAiConfig::new(base_url, model);
            fill(&mut config.server, provider, base_url)?;
            config.max_tokens_field = provider.max_tokens_field;
            config.takes_seed = provider.takes_seed;
            config.response_format = provider.response_format;
            config.effort_field = provider.effort_field;
            config.thinking_field = provider.thinking_field;
            config.extra_body = provider.flags.iter().map(|flag| ((*flag).to_owned(), true.into())).collect();
            Arc::new(OpenAiChat::new(config)?)
        }
        Dialect::Messages => {
            let mut config = AnthropicConfig::new(base_url, model);
            fill(&mut config.server, provider, base_url)?;
            Arc::new(AnthropicChat::new(config)?)
        }
        Dialect::Responses => {
            let mut config = ResponsesConfig::new(base_url, model);
            fill(&mut config.server, provider, base_url)?;
            Arc::new(ResponsesChat::new(config)?)
        }
    })
}

/// The key and its header; a key goes to its provider's own address only.
fn fill(server: &mut Server, provider: &Provider, base_url: &str) -> Result<(), LlmError> {
    server.key_header = provider.key_header;
    if let Some(variable) = provider.key_variable.filter(|_| provider.owns(base_url)) {
        server.key = KeySource::Key(ApiKey::from_env(variable, base_url)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_models_are_refused() {
        for name in ["gpt-5", "openai/", "opnai/gpt-5", "azure/gpt-5"] {
            assert!(matches!(model(name), Err(LlmError::Configuration { .. })), "{name}");
        }
    }

    #[test]
    fn a_provider_with_an_address_and_no_key_needs_nothing_else() {
        let named = PROVIDERS.iter().filter(|one| one.base_url.is_some() && one.key_variable.is_none());
        let mut n_models = 0;
        for provider in named {
            let model = model(&format!("{}/m", provider.name)).unwrap();
            assert_eq!(model.id().model, "m");
            n_models += 1;
        }
        assert!(n_models >= 2, "{n_models}");
    }
}
