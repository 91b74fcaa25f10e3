//! One episode: the policy as a chat model, which answers by its samples and keeps their tokens, in an environment.

use super::run::{shared_fault, weights_error};
use super::text::PolicyText;
use super::wave::Wave;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::{FinishReason, RolloutResult, Usage};
use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource};
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, ErrorClass, LlmError, Message, ModelId,
};
use skill_pipeline::error::PipelineError;
use skill_train::TrainError;
use skill_train::chat::{ChatEncoder, ChatError, Conversation, RenderOptions, SpecialText};
use skill_train::seam::{Ended, Sample};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Tokens of an episode, or of a part of it whose prompts only grow.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct EpisodeRow {
    /// Prompts, replies and observations, in order.
    pub(crate) tokens: Vec<u32>,
    /// True for each token that was sampled.
    pub(crate) sampled: Vec<bool>,
    /// The log-probability with which a token was sampled, in nats; 0 for others.
    pub(crate) logprobs: Vec<f32>,
}

impl EpisodeRow {
    fn push_shown(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        self.sampled.resize(self.tokens.len(), false);
        self.logprobs.resize(self.tokens.len(), 0.0);
    }

    fn push_sampled(&mut self, sample: &Sample) {
        self.tokens.extend_from_slice(&sample.tokens);
        self.sampled.resize(self.tokens.len(), true);
        self.logprobs.extend_from_slice(&sample.logprobs);
        self.logprobs.resize(self.tokens.len(), 0.0);
    }

    /// Replies in it: runs of sampled tokens.
    pub(crate) fn n_replies(&self) -> usize {
        let begins = |place: usize| place == 0 || self.sampled.get(place - 1) != Some(&true);
        self.sampled.iter().enumerate().filter(|(place, sampled)| **sampled && begins(*place)).count()
    }

    /// Takes away what no reply follows: it teaches nothing, and a prompt that was refused has outgrown the context.
    fn end_with_last_reply(&mut self) {
        let n_tokens = self.sampled.iter().rposition(|sampled| *sampled).map_or(0, |last| last + 1);
        self.tokens.truncate(n_tokens);
        self.sampled.truncate(n_tokens);
        self.logprobs.truncate(n_tokens);
    }

    /// Tokens that were sampled.
    pub(crate) fn n_sampled(&self) -> usize {
        self.sampled.iter().filter(|sampled| **sampled).count()
    }
}

#[derive(Default)]
struct Said {
    rows: Vec<EpisodeRow>,
    /// The messages that the last row renders, its last reply included.
    messages: Vec<Message>,
    /// True if the last reply ended with a token that ends turns.
    is_ended: bool,
    fault: Option<Arc<TrainError>>,
}

/// The policy in one episode.
struct EpisodeChat {
    wave: Arc<Wave>,
    seat: usize,
    text: PolicyText,
    id: ModelId,
    max_prompt_tokens: usize,
    said: Mutex<Said>,
}

impl EpisodeChat {
    pub(crate) fn new(wave: Arc<Wave>, seat: usize, text: PolicyText, max_prompt_tokens: usize) -> Self {
        let id = ModelId::new("local", "policy").with_revision(format!("episode {seat}"));
        Self { wave, seat, text, id, max_prompt_tokens, said: Mutex::default() }
    }

    /// The rows so far, each up to its last reply, and what went wrong with the model.
    pub(crate) fn take(&self) -> (Vec<EpisodeRow>, Option<Arc<TrainError>>) {
        let mut said = self.said.lock();
        let mut rows = std::mem::take(&mut said.rows);
        rows.iter_mut().for_each(EpisodeRow::end_with_last_reply);
        rows.retain(|row| !row.tokens.is_empty());
        (rows, said.fault.take())
    }

    fn encode(&self, messages: &[Message], generation_prompt: bool) -> Result<(String, Vec<u32>), ChatError> {
        let options = RenderOptions { generation_prompt, ..self.text.options.clone() };
        let encoder = ChatEncoder::new(&self.text.template, self.text.codec.as_ref())
            .with_special_text(SpecialText::Escape);
        let encoded = encoder.encode(&Conversation::new(messages)?, &options)?;
        Ok((encoded.text, encoded.ids))
    }

    /// Tokens that the row lacks to be the prompt of these messages; `None` where they do not continue it.
    fn continuation(&self, said: &Said, messages: &[Message]) -> Result<Option<Vec<u32>>, ChatError> {
        let n_known = said.messages.len();
        if n_known == 0 || messages.get(..n_known) != Some(said.messages.as_slice()) {
            return Ok(None);
        }
        let (before, known) = self.encode(&said.messages, false)?;
        let (whole, ids) = self.encode(messages, true)?;
        let stop = known.iter().rposition(|token| self.text.stop_tokens.contains(token));
        let (Some(stop), true) = (stop, whole.starts_with(&before) && ids.starts_with(&known)) else {
            return Ok(None);
        };
        let first = if said.is_ended { stop + 1 } else { stop };
        Ok(ids.get(first..).map(<[u32]>::to_vec))
    }

    /// The prompt of a request, in the last row or in a new one.
    fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, ChatError> {
        let mut said = self.said.lock();
        match self.continuation(&said, messages)? {
            Some(tokens) => {
                if let Some(row) = said.rows.last_mut() {
                    row.push_shown(&tokens);
                }
            }
            None => {
                let mut row = EpisodeRow::default();
                row.push_shown(&self.encode(messages, true)?.1);
                said.rows.push(row);
            }
        }
        messages.clone_into(&mut said.messages);
        Ok(said.rows.last().map(|row| row.tokens.clone()).unwrap_or_default())
    }

    fn failed(&self, class: ErrorClass, error: &dyn std::error::Error) -> LlmError {
        let message = format!("failed to {}", skill_llm::error::with_causes(error));
        LlmError::Program { program: self.id.model.clone(), class, message }
    }
}

#[async_trait]
impl ChatModel for EpisodeChat {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({"temperature": self.wave.settings().temperature})
    }

    async fn chat(&self, request: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        request.sampling.refuse_logprobs(&self.id)?;
        if request.response_schema.is_some() || !request.tools.is_empty() {
            let message = "a policy under training answers in text, without tools and schemas";
            return Err(LlmError::Configuration { message: message.to_owned() });
        }
        let prompt =
            self.prompt(&request.messages).map_err(|error| self.failed(ErrorClass::BadRequest, &error))?;
        let n_prompt = prompt.len();
        if n_prompt > self.max_prompt_tokens {
            let fault = format!("{n_prompt} tokens, where {} are possible", self.max_prompt_tokens);
            let error = TrainError::Request { field: "prompt".to_owned(), fault };
            return Err(self.failed(ErrorClass::ContextTooLong, &error));
        }
        let sample = match self.wave.sample(self.seat, prompt).await {
            Ok(sample) => sample,
            Err(error) => {
                let failed = self.failed(ErrorClass::BadRequest, error.as_ref());
                self.said.lock().fault = Some(error);
                return Err(failed);
            }
        };
        let text = self.text.codec.decode(&sample.tokens, false);
        let text = text.map_err(|error| self.failed(ErrorClass::BadRequest, &error))?.trim().to_owned();
        let mut said = self.said.lock();
        if let Some(row) = said.rows.last_mut() {
            row.push_sampled(&sample);
        }
        said.is_ended = sample.ended == Ended::Stop;
        said.messages.push(Message::assistant(text.clone()));
        let usage = Usage { input: n_prompt as u64, output: sample.tokens.len() as u64, ..Usage::default() };
        let finish = if said.is_ended { FinishReason::Stop } else { FinishReason::Length };
        Ok(ChatReply::new(text, usage, finish))
    }
}

/// An episode of the policy in an environment, with all that it needs to run on any thread.
pub(crate) struct Episode {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) source: Arc<dyn SkillSource>,
    pub(crate) item: Item,
    pub(crate) wave: Arc<Wave>,
    /// Its place in the wave.
    pub(crate) seat: usize,
    pub(crate) text: PolicyText,
    pub(crate) max_prompt_tokens: usize,
    pub(crate) place: CallPlace,
    pub(crate) cancel: CancellationToken,
    /// The step that an error names.
    pub(crate) step: u64,
}

impl Episode {
    /// The result, or `None` if a prompt outgrew its limit, and the tokens up to there.
    pub(crate) async fn play(self) -> Result<(Option<RolloutResult>, Vec<EpisodeRow>), PipelineError> {
        let chat = EpisodeChat::new(Arc::clone(&self.wave), self.seat, self.text, self.max_prompt_tokens);
        let call = CallCtx { cancel: self.cancel.clone(), ..CallCtx::new(self.place.clone()) };
        let outcome = self.env.rollout(&self.item, self.source.as_ref(), &chat, &RolloutCtx::new(call)).await;
        self.wave.leave().await;
        let (rows, fault) = chat.take();
        if let Some(fault) = fault {
            return Err(weights_error(self.step, 0)(shared_fault(&fault)));
        }
        match outcome {
            Ok(result) => Ok((Some(result), rows)),
            Err(EnvError::Model(_)) if self.cancel.is_cancelled() => Err(PipelineError::Halted),
            Err(EnvError::Model(error)) if error.class() == ErrorClass::ContextTooLong => Ok((None, rows)),
            Err(source) => {
                Err(PipelineError::Rollout { place: self.place.to_string(), item: self.item.id, source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_ends_with_its_last_reply() {
        let mut row = EpisodeRow::default();
        row.push_shown(&[1, 2]);
        let sample = json!({"tokens": [3, 4], "logprobs": [-0.5, -0.25], "ended": "stop"});
        row.push_sampled(&serde_json::from_value::<Sample>(sample).unwrap());
        row.push_shown(&[5; 100]);
        assert_eq!(row.n_replies(), 1);
        row.end_with_last_reply();
        assert_eq!(
            (row.tokens.as_slice(), row.logprobs.len(), row.sampled.len()),
            ([1, 2, 3, 4].as_slice(), 4, 4)
        );
        let mut silent = EpisodeRow::default();
        silent.push_shown(&[1, 2]);
        silent.end_with_last_reply();
        assert_eq!(silent, EpisodeRow::default());
    }
}
