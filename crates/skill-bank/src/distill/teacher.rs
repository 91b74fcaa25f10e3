//! Asking a teacher: one request, one repair, in bounded concurrency.

use super::{DistillError, TeacherPrompts};
use futures_util::{StreamExt as _, stream};
use serde_json::json;
use skill_core::canonical::hex_sha256;
use skill_core::{FinishReason, Usage};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, EmbeddingModel, Message, ResponseSchema, Sampling,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much of a reply an error quotes.
const QUOTED_CHARS: usize = 200;

/// The models that distil and evolve, and how they are asked.
#[derive(Clone, Copy)]
pub struct Teacher<'a> {
    /// The model that reads episodes.
    pub model: &'a dyn ChatModel,
    /// The model that tells near-duplicates; without one only titles are compared.
    pub embedding: Option<&'a dyn EmbeddingModel>,
    /// The prompts.
    pub prompts: &'a TeacherPrompts,
    /// The most tokens of a reply.
    pub max_reply_tokens: u32,
    /// The most calls under way at once; at least 1.
    pub workers: usize,
}

/// What a reply is worth.
pub(crate) enum Read<T> {
    /// It is used.
    Usable(T),
    /// It can be read, but a repair may give more; the sentence says what is wrong.
    Unusable(T, String),
    /// It cannot be read; the sentence says what is wrong.
    Broken(String),
}

/// The calls behind what was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    pub(crate) prompt_sha256: String,
    pub(crate) teacher: String,
    pub(crate) calls: u64,
    pub(crate) usage: Usage,
    /// Why the teacher was asked a second time.
    pub(crate) repaired: Option<String>,
}

impl Teacher<'_> {
    /// Asks once, and once more with the reply and what is wrong with it if nothing of it can be used.
    pub(crate) async fn ask<T>(
        &self,
        messages: Vec<Message>,
        call: &CallCtx,
        read: &(dyn Fn(&str) -> Read<T> + Sync),
    ) -> Result<(T, Asked), DistillError> {
        let id = self.model.id();
        let prompt = serde_json::to_string(&messages).expect("messages serialize");
        let mut asked = Asked {
            prompt_sha256: hex_sha256(prompt.as_bytes()),
            teacher: format!("{}/{}", id.provider, id.model),
            ..Asked::default()
        };
        let first = self.send(messages.clone(), call, &mut asked).await?;
        let problem = match read(&first.text) {
            Read::Usable(value) => return Ok((value, asked)),
            Read::Unusable(_, problem) | Read::Broken(problem) => with_finish(problem, &first.finish),
        };
        tracing::debug!(place = %call.place, problem, "the teacher's reply is repaired");
        asked.repaired = Some(format!("the first reply could not be used: {problem}"));
        let mut messages = messages;
        if !first.text.trim().is_empty() {
            messages.push(Message::assistant(first.text));
        }
        messages.push(Message::user(repair_text(&problem)));
        let second = self.send(messages, &call.child("repair"), &mut asked).await?;
        match read(&second.text) {
            Read::Usable(value) | Read::Unusable(value, _) => Ok((value, asked)),
            Read::Broken(problem) => Err(DistillError::BrokenReply {
                place: call.place.to_string(),
                problem: with_finish(problem, &second.finish),
                reply: second.text.chars().take(QUOTED_CHARS).collect(),
            }),
        }
    }

    async fn send(
        &self,
        messages: Vec<Message>,
        call: &CallCtx,
        asked: &mut Asked,
    ) -> Result<ChatReply, DistillError> {
        let request = ChatRequest {
            messages,
            sampling: Sampling { max_tokens: Some(self.max_reply_tokens), ..Sampling::default() },
            response_schema: Some(ResponseSchema {
                name: "skills".to_owned(),
                schema: json!({"type": "object"}),
                strict: false,
            }),
            ..ChatRequest::default()
        };
        // Each call is a unit of work of its own, so that a run that is resumed makes the same calls.
        let own = CallCtx { scope: Arc::default(), ..call.with_own_attempts() };
        let reply = self.model.chat(&request, &own).await;
        let reply = reply.map_err(|source| DistillError::Model { place: call.place.to_string(), source })?;
        asked.calls = asked.calls.saturating_add(1);
        asked.usage += reply.usage;
        Ok(reply)
    }
}

fn with_finish(problem: String, finish: &FinishReason) -> String {
    match finish {
        FinishReason::Length => format!("{problem} (it was cut off at its length limit)"),
        FinishReason::ContentFilter => format!("{problem} (the provider withheld all or part of it)"),
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => problem,
    }
}

/// What the teacher is told about a reply of which nothing can be used.
fn repair_text(problem: &str) -> String {
    format!(
        "Your reply cannot be used: {problem}.\n\nAnswer the request above again. Reply only with one JSON object of the requested form, with every field filled in."
    )
}

/// Does the work for each input, at most `workers` at once, and returns the outputs in input order.
///
/// After an error nothing further is begun, and what is under way is finished, so that what it has paid for is kept.
pub(super) async fn ordered<Input, Output, Work>(
    workers: usize,
    inputs: Vec<Input>,
    work: impl Fn(Input) -> Work,
) -> Result<Vec<Output>, DistillError>
where
    Work: Future<Output = Result<Output, DistillError>>,
{
    let has_failed = AtomicBool::new(false);
    let under_way = inputs.into_iter().map(|input| {
        let (work, has_failed) = (&work, &has_failed);
        async move {
            if has_failed.load(Ordering::Relaxed) {
                return None;
            }
            let output = work(input).await;
            if output.is_err() {
                has_failed.store(true, Ordering::Relaxed);
            }
            Some(output)
        }
    });
    let outputs: Vec<_> = stream::iter(under_way).buffered(workers.max(1)).collect().await;
    outputs.into_iter().flatten().collect()
}
