//! How to reach a model that speaks the dialect.

use crate::chat::{ModelId, Sampling};
use crate::error::{LlmError, wrong};
use crate::http::{KeySource, Server, check_model};
use crate::openai::ResponseFormat;
use crate::reasoning::{Effort, Reasoning};
use crate::secret::ApiKey;
use serde_json::{Map, Value};

/// The least tokens of a reply that the interface takes.
const MIN_OUTPUT_TOKENS: u32 = 16;
/// What the dialect writes itself: in the extra body these would change a request behind its back.
const OWN_KEYS: [&str; 10] = [
    "model",
    "input",
    "instructions",
    "stream",
    "background",
    "previous_response_id",
    "temperature",
    "top_p",
    "max_output_tokens",
    "tools",
];

/// How to reach a model that speaks the Responses dialect.
#[derive(Debug, Clone)]
pub struct ResponsesConfig {
    /// Where `/responses` is found.
    pub server: Server,
    /// The model's name at the provider.
    pub model: String,
    /// What a request leaves open.
    pub sampling: Sampling,
    /// How a response schema is asked for.
    pub response_format: ResponseFormat,
    /// How much the model thinks.
    pub reasoning: Reasoning,
    /// Further parameters of the body; objects become one with those that are written here.
    pub extra_body: Map<String, Value>,
}

impl ResponsesConfig {
    /// A model at an address, without a key, with the defaults of this crate.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            server: Server::new(base_url),
            model: model.into(),
            sampling: Sampling::default(),
            response_format: ResponseFormat::default(),
            reasoning: Reasoning::default(),
            extra_body: Map::new(),
        }
    }

    /// The same with a key that is sent as `Authorization: Bearer`.
    #[must_use]
    pub fn with_key(mut self, key: ApiKey) -> Self {
        self.server.key = KeySource::Key(key);
        self
    }

    /// The identity of the model in records.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] for an address that cannot be one.
    pub fn model_id(&self) -> Result<ModelId, LlmError> {
        Ok(ModelId::new(self.server.provider()?, self.model.clone()))
    }

    /// What is wrong with everything but the server.
    pub(super) fn check(&self) -> Result<(), LlmError> {
        check_model(&self.model, &self.extra_body, &OWN_KEYS)?;
        check_sampling(self.sampling)?;
        self.reasoning.check()?;
        if self.reasoning.tokens.is_some() {
            return Err(wrong(
                "`thinking_tokens` is set, and this interface takes no such bound: leave it out",
            ));
        }
        if self.response_format == ResponseFormat::JsonObjectSchema {
            return Err(wrong("`response_format` is \"json_object_schema\", which this interface has not"));
        }
        Ok(())
    }

    /// The effort that is asked for; whether a model thinks is nothing else here.
    pub(super) fn effort(&self) -> Option<Effort> {
        self.reasoning.effort.or(match self.reasoning.thinking {
            Some(true) => Some(Effort::Medium),
            Some(false) => Some(Effort::None),
            None => None,
        })
    }
}

/// What the interface does not take, regardless of who asks for it.
pub(super) fn check_sampling(sampling: Sampling) -> Result<(), LlmError> {
    if sampling.seed.is_some() {
        return Err(wrong("`seed` is asked for, and this interface takes none: leave it out"));
    }
    match sampling.max_tokens {
        Some(tokens) if tokens < MIN_OUTPUT_TOKENS => {
            Err(wrong(format!("`max_tokens` is {tokens}; this interface takes at least {MIN_OUTPUT_TOKENS}")))
        }
        Some(_) | None => Ok(()),
    }
}
