//! The requests of a call, as its worker sends them.

use super::Shared;
use super::state::{OpenSend, QuestionId};
use crate::protocol::DriverSays;
use async_trait::async_trait;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// A worker ends a request at its deadline itself; if it does not, so much later it is ended here.
const GRACE: Duration = Duration::from_secs(30);

/// The innermost part of a model whose requests one worker sends: it has the request already and is told to send it.
pub(super) struct WorkerSender {
    pub(super) shared: Arc<Shared>,
    pub(super) question: QuestionId,
    pub(super) model: ModelId,
    /// Ends when the worker is lost.
    pub(super) lost: CancellationToken,
    pub(super) n_attempts: AtomicU64,
    /// True once the worker's own reply is the outcome.
    pub(super) has_replied: AtomicBool,
}

#[async_trait]
impl ChatModel for WorkerSender {
    fn id(&self) -> &ModelId {
        &self.model
    }

    async fn chat(&self, _request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let attempt = self.n_attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        let (worker, id) = &self.question;
        let open = OpenSend { attempt, deadline: call.deadline, outcome: sender };
        if !self.shared.open_send(&self.question, open) {
            // The worker is lost, or has asked again.
            return Err(LlmError::Cancelled);
        }
        let mut unanswered = Unanswered { sender: self, is_over: false };
        self.shared.say_send(worker, *id).await;
        let late = async {
            match call.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline + GRACE).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = receiver => outcome.unwrap_or(Err(LlmError::Cancelled)),
            () = self.lost.cancelled() => Err(LlmError::Cancelled),
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            () = late => {
                let after = call.time_left().unwrap_or_default();
                return Err(LlmError::Timeout { provider: self.model.provider.clone(), after });
            }
        };
        unanswered.is_over = true;
        self.has_replied.store(outcome.is_ok(), Ordering::Relaxed);
        outcome
    }
}

/// Tells the worker that nobody waits for a request, if its caller goes away.
struct Unanswered<'a> {
    sender: &'a WorkerSender,
    is_over: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let (worker, id) = &self.sender.question;
            self.sender.shared.close_send(&self.sender.question);
            self.sender.shared.say_later(worker, DriverSays::Stop { id: *id });
        }
    }
}
