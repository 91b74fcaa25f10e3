//! The model under training as a chat model: it plays the environment with the weights that it has now.

use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{FinishReason, Usage};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, ErrorClass, LlmError, ModelId};
use skill_train::TrainError;
use skill_train::chat::{ChatEncoder, ChatError, ChatTemplate, Conversation, RenderOptions, SpecialText};
use skill_train::seam::{CallId, Ended, GenerationSettings, SampleRequest, TrainBackend};
use skill_train::tokenizer::TokenCodec;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What turns conversations into tokens and tokens into replies.
#[derive(Clone)]
pub struct PolicyText {
    /// The chat template of the model.
    pub template: ChatTemplate,
    /// Its tokenizer.
    pub codec: Arc<dyn TokenCodec>,
    /// Variables of the template.
    pub options: RenderOptions,
    /// Tokens that end a reply.
    pub stop_tokens: Vec<u32>,
}

impl fmt::Debug for PolicyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyText")
            .field("template", &self.template)
            .field("options", &self.options)
            .field("stop_tokens", &self.stop_tokens)
            .finish_non_exhaustive()
    }
}

/// The most tokens of a reply where nothing else bounds it.
const MAX_REPLY_TOKENS: u32 = 512;
/// How the runs of calls are called; the revision follows, so that no call of other weights has its id.
const RUN: &str = "games";

/// A chat model over the seam: each reply is one call of `sample`.
pub struct PolicyChat {
    backend: Arc<dyn TrainBackend>,
    text: PolicyText,
    id: ModelId,
    temperature: f64,
    n_calls: AtomicU64,
}

impl PolicyChat {
    /// The model of this back end; `revision` names its weights. Its replies are greedy unless a request or
    /// [`PolicyChat::with_temperature`] says otherwise.
    pub fn new(backend: Arc<dyn TrainBackend>, text: PolicyText, revision: impl Into<String>) -> Self {
        let id = ModelId::new("local", "policy").with_revision(revision);
        Self { backend, text, id, temperature: 0.0, n_calls: AtomicU64::new(0) }
    }

    /// Samples at this temperature where a request names none.
    #[must_use]
    pub fn with_temperature(self, temperature: f64) -> Self {
        Self { temperature, ..self }
    }

    fn failed(&self, class: ErrorClass, error: &dyn std::error::Error) -> LlmError {
        let message = format!("failed to {}", skill_llm::error::with_causes(error));
        LlmError::Program { program: self.id.model.clone(), class, message }
    }

    fn of_train(&self, error: &TrainError) -> LlmError {
        match error {
            TrainError::Cancelled => LlmError::Cancelled,
            TrainError::Request { field, .. } if field.starts_with("prompts") => {
                self.failed(ErrorClass::ContextTooLong, error)
            }
            error => self.failed(ErrorClass::BadRequest, error),
        }
    }

    fn prompt(&self, request: &ChatRequest) -> Result<Vec<u32>, ChatError> {
        let conversation = Conversation::new(&request.messages)?.with_tools(&request.tools);
        let options = RenderOptions { generation_prompt: true, ..self.text.options.clone() };
        let encoder = ChatEncoder::new(&self.text.template, self.text.codec.as_ref())
            .with_special_text(SpecialText::Escape);
        Ok(encoder.encode(&conversation, &options)?.ids)
    }
}

#[async_trait]
impl ChatModel for PolicyChat {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({"temperature": self.temperature, "max_tokens": MAX_REPLY_TOKENS})
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        request.sampling.refuse_logprobs(&self.id)?;
        if request.response_schema.is_some() {
            let message = "a reply of a given JSON schema is requested, which this model cannot promise";
            return Err(LlmError::Configuration { message: message.to_owned() });
        }
        let prompt = self.prompt(request).map_err(|error| self.failed(ErrorClass::BadRequest, &error))?;
        let n_prompt = prompt.len() as u64;
        let sampling = &request.sampling;
        let max_tokens = sampling.max_tokens.unwrap_or(MAX_REPLY_TOKENS);
        let settings = GenerationSettings {
            temperature: sampling.temperature.unwrap_or(self.temperature),
            top_p: sampling.top_p.unwrap_or(1.0),
            max_tokens: usize::try_from(max_tokens).unwrap_or(usize::MAX),
            stop_tokens: self.text.stop_tokens.clone(),
            seed: sampling.seed.unwrap_or_default(),
            ..GenerationSettings::default()
        };
        let sample = SampleRequest {
            call: CallId::new(
                format!("{RUN} {}", self.id.revision),
                self.n_calls.fetch_add(1, Ordering::Relaxed),
                0,
            ),
            prompts: vec![prompt],
            settings,
        };
        let sampled = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            sampled = self.backend.sample(sample) => sampled,
        };
        let samples = sampled.map_err(|error| self.of_train(&error))?;
        let Some(sample) = samples.into_iter().next() else {
            let message = "the back end returned no sample".to_owned();
            return Err(LlmError::NoContent { provider: self.id.provider.clone(), message });
        };
        let text = self
            .text
            .codec
            .decode(&sample.tokens, false)
            .map_err(|error| self.failed(ErrorClass::BadRequest, &error))?;
        let usage = Usage { input: n_prompt, output: sample.tokens.len() as u64, ..Usage::default() };
        let finish = if sample.ended == Ended::Stop { FinishReason::Stop } else { FinishReason::Length };
        Ok(ChatReply::new(text.trim().to_owned(), usage, finish))
    }
}
