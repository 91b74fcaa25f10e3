//! From a chat request to a job of the model, and back to a reply.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::{FinishReason, ReplyTokens, Usage};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::row::{End, ReplySettings};
use super::worker::{Finished, Job};
use super::{LOCAL_PROVIDER, LocalModel};
use crate::chat::{ChatEncoder, ChatError, Conversation, RenderOptions, SpecialText};
use crate::error::TrainError;
use crate::sampling::{SamplingSettings, TokenDice};

/// Treatment of requests with a response schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SchemaRule {
    /// They are refused.
    #[default]
    Refuse,
    /// The schema is left out: the prompt alone says which shape is wanted.
    Ignore,
}

/// Settings of replies where a request has none.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatDefaults {
    /// Divisor of the logits; 0 takes the most probable token.
    pub temperature: f64,
    /// The probability mass of the most probable tokens that remain.
    pub top_p: f64,
    /// The number of most probable tokens that remain; all without it.
    pub top_k: Option<usize>,
    /// Tokens of a reply at most; without it the rest of the context.
    pub max_tokens: Option<u32>,
    /// Decides the replies to requests without a seed, together with their place and number.
    pub seed: u64,
    /// Value of `enable_thinking` for the chat template, which some templates know; not set without it.
    pub thinking: Option<bool>,
    /// Treatment of requests with a response schema.
    pub schema: SchemaRule,
}

impl Default for ChatDefaults {
    fn default() -> Self {
        Self {
            temperature: 0.7,
            top_p: 0.95,
            top_k: None,
            max_tokens: None,
            seed: 0,
            thinking: None,
            schema: SchemaRule::default(),
        }
    }
}

/// A local model in one role.
///
/// The same request with a seed gets the same reply. Without one the reply is decided by the place of the call, its
/// number among equal requests of its unit of work, and [`ChatDefaults::seed`].
#[derive(Debug, Clone)]
pub struct LocalChatModel {
    id: ModelId,
    model: Arc<LocalModel>,
    defaults: ChatDefaults,
}

impl LocalChatModel {
    /// The model with these settings; the hash of its weights is the revision of its id.
    pub fn new(model: Arc<LocalModel>, defaults: ChatDefaults) -> Self {
        let files = model.files();
        let id = ModelId::new(LOCAL_PROVIDER, files.name()).with_revision(files.revision());
        Self { id, model, defaults }
    }

    /// The model that replies come from.
    pub fn model(&self) -> &LocalModel {
        &self.model
    }

    fn refused(&self, message: impl Into<String>) -> LlmError {
        LlmError::BadRequest { provider: self.id.to_string(), status: 0, message: message.into() }
    }

    fn prompt(&self, request: &ChatRequest) -> Result<Vec<u32>, LlmError> {
        if !request.tools.is_empty() {
            return Err(self.refused("tools are requested, which local models do not call"));
        }
        if request.response_schema.is_some() && self.defaults.schema == SchemaRule::Refuse {
            return Err(self.refused(
                "a response schema is requested, which local models do not enforce; leave it to the prompt",
            ));
        }
        let of_chat = |error: ChatError| self.refused(skill_llm::error::with_causes(&error));
        let conversation = Conversation::new(&request.messages).map_err(of_chat)?;
        let mut options = RenderOptions::prompt();
        if let Some(thinking) = self.defaults.thinking {
            options.variables = Map::from_iter([("enable_thinking".to_owned(), Value::from(thinking))]);
        }
        let files = self.model.files();
        let encoder = ChatEncoder::new(&files.template, &files.tokenizer);
        let encoded = encoder.with_special_text(SpecialText::Escape).encode(&conversation, &options);
        Ok(encoded.map_err(of_chat)?.ids)
    }

    fn settings(
        &self,
        request: &ChatRequest,
        call: &CallCtx,
        prompt: &[u32],
    ) -> Result<ReplySettings, LlmError> {
        let asked = &request.sampling;
        let sampling = SamplingSettings {
            temperature: asked.temperature.unwrap_or(self.defaults.temperature),
            top_p: asked.top_p.unwrap_or(self.defaults.top_p),
            top_k: self.defaults.top_k,
            ..SamplingSettings::default()
        };
        sampling.check().map_err(|error| self.refused(error.to_string()))?;
        let context = self.model.context();
        if prompt.is_empty() || prompt.len() >= context {
            let message = format!(
                "the prompt has {} tokens, and prompt and reply together may have {context}",
                prompt.len()
            );
            return Err(LlmError::ContextTooLong { provider: self.id.to_string(), status: 0, message });
        }
        let asked_tokens = asked.max_tokens.or(self.defaults.max_tokens);
        let max_tokens =
            asked_tokens.map_or(usize::MAX, |tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
        let digest = digest(prompt);
        let key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let dice = match asked.seed {
            Some(seed) => TokenDice::new(seed, &key),
            None => {
                let number = call.scope.next_occurrence(digest);
                TokenDice::new(self.defaults.seed, &format!("{} / {key} / {number}", call.place))
            }
        };
        Ok(ReplySettings {
            sampling,
            max_tokens: max_tokens.clamp(1, context - prompt.len()),
            stop_texts: request.stop.iter().filter(|text| !text.is_empty()).cloned().collect(),
            logprobs: asked.logprobs.map(usize::from),
            dice,
        })
    }

    fn reply(&self, finished: Finished, has_logprobs: bool) -> ChatReply {
        let usage = Usage {
            input: finished.prompt.len() as u64,
            output: finished.ids.len() as u64,
            ..Usage::default()
        };
        let end = match finished.end {
            End::Stop => FinishReason::Stop,
            End::Length => FinishReason::Length,
        };
        let (reasoning, text) = without_thoughts(&finished.text);
        let tokens = has_logprobs
            .then(|| ReplyTokens::new(finished.ids, finished.logprobs).with_prompt_ids(finished.prompt));
        ChatReply::new(text, usage, end).with_reasoning(reasoning).with_tokens(tokens)
    }

    fn failed(&self, error: &TrainError) -> LlmError {
        match error {
            TrainError::Cancelled => LlmError::Cancelled,
            error => LlmError::Configuration {
                message: format!("{}: {}", self.id, skill_llm::error::with_causes(error)),
            },
        }
    }
}

/// The thoughts that a reply begins with, between `<think>` and `</think>`, and the rest.
fn without_thoughts(text: &str) -> (Option<String>, &str) {
    let thoughts = text.trim_start().strip_prefix("<think>").and_then(|rest| rest.split_once("</think>"));
    match thoughts {
        Some((thoughts, rest)) => (Some(thoughts.trim().to_owned()), rest.trim_start()),
        None => (None, text),
    }
}

fn digest(prompt: &[u32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for token in prompt {
        hash.update(token.to_le_bytes());
    }
    hash.finalize().into()
}

#[async_trait]
impl ChatModel for LocalChatModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        let ChatDefaults { temperature, top_p, top_k, max_tokens, seed, thinking, schema: _ } =
            &self.defaults;
        json!({
            "temperature": temperature, "top_p": top_p, "top_k": top_k, "max_tokens": max_tokens, "seed": seed,
            "thinking": thinking, "context": self.model.context(),
        })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let started = Instant::now();
        if call.cancel.is_cancelled() || call.halt.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        let prompt = self.prompt(request)?;
        let settings = self.settings(request, call, &prompt)?;
        let has_logprobs = settings.logprobs.is_some();
        let (sender, receiver) = oneshot::channel();
        let halt = call.halt.clone();
        let job = Job { prompt, settings, is_halted: Box::new(move || halt.is_cancelled()), reply: sender };
        self.model.submit(job).map_err(|error| self.failed(&error))?;
        let limits = [call.timeout.map(|timeout| started + timeout), call.deadline];
        let limit = limits.into_iter().flatten().min();
        tokio::select! {
            biased;
            () = call.cancel.cancelled() => Err(LlmError::Cancelled),
            answer = receiver => match answer {
                Ok(Ok(finished)) => Ok(self.reply(finished, has_logprobs)),
                Ok(Err(error)) => Err(self.failed(&error)),
                Err(_) => Err(self.failed(&super::ended())),
            },
            () = until(limit) => {
                let after = limit.map_or(Duration::ZERO, |limit| limit.saturating_duration_since(started));
                Err(LlmError::Timeout { provider: self.id.to_string(), after })
            }
        }
    }
}

/// Waits until then; forever without a limit.
async fn until(limit: Option<Instant>) {
    match limit {
        Some(limit) => tokio::time::sleep_until(limit).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_in_front_are_apart_from_the_reply() {
        let cases = [
            ("<think>\nhm\n</think>\n\nyes", (Some("hm".to_owned()), "yes")),
            ("\n<think></think>no", (Some(String::new()), "no")),
            ("<think>cut of", (None, "<think>cut of")),
            ("a <think>b</think>", (None, "a <think>b</think>")),
        ];
        for (text, expect) in cases {
            assert_eq!(without_thoughts(text), expect);
        }
    }
}
