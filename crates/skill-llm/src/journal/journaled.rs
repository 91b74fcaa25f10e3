//! The outermost layer: calls are answered from a journal, and what is paid for is recorded.

mod embedding;

use super::embedding::EmbeddingRecord;
use super::flight::{CallRecord, Flight, Joined, Lookup, SharedOutcome};
use super::key::{CallKey, ModelPart, RequestDigest};
use super::sent::CallSends;
use super::{Journal, JournalReader};
use crate::attempt::{Attempt, AttemptLog, AttemptOutcome, SendRecord};
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, ModelId};
use crate::error::{ErrorClass, LlmError};
use crate::layer::{Prompt, Used};
use async_trait::async_trait;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};
use tokio::time::Instant;

/// A model whose replies are kept.
///
/// Each call is looked up by its model, request, place and occurrence (see [`crate::CallScope`]); what is found is
/// answered without a request. What is not found is asked for once, however
/// many equal calls are waiting, and recorded with every attempt.
pub struct Journaled<M: ?Sized = dyn ChatModel> {
    inner: Arc<M>,
    journal: Journal,
    model: Arc<ModelPart>,
    /// The row of the model in the journal, once something is sent.
    ///
    /// A lock that serves calls in the order in which they came: a cell would let those pass that come while the first
    /// ones are being woken.
    model_row: Mutex<Option<i64>>,
    recording: Option<Recording>,
}

/// An older journal that is looked at before anything is sent.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Where replies are looked for.
    pub journal: Arc<JournalReader>,
    /// What happens to a call that the recording does not hold.
    pub otherwise: NotInRecording,
}

/// What happens to a call that a [`Recording`] does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotInRecording {
    /// It ends with [`LlmError::NotRecorded`]: nothing is ever sent.
    Fail,
    /// It is sent.
    Send,
}

/// The journal's side of a call that is about to be sent.
struct Opened {
    /// Room among the calls that are not committed yet.
    room: OwnedSemaphorePermit,
    /// Where its requests are recorded before they are sent.
    sends: Arc<CallSends>,
    /// The call with a log of its own, whose requests are recorded there.
    call: CallCtx,
}

impl<M: ?Sized> Journaled<M> {
    /// Takes replies from a recording too; they are copied into the journal.
    #[must_use]
    pub fn with_recording(mut self, recording: Recording) -> Self {
        self.recording = Some(recording);
        self
    }

    /// Waits for room in the journal.
    async fn open(&self, call: &CallCtx) -> Result<Opened, LlmError> {
        let room = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            room = self.journal.admit() => room?,
        };
        let sends = self.journal.sends(self.row_of_model().await?);
        let attempts = Arc::new(AttemptLog::recorded_by(Arc::clone(&sends) as Arc<dyn SendRecord>));
        Ok(Opened { room, sends, call: CallCtx { attempts, ..call.clone() } })
    }

    async fn row_of_model(&self) -> Result<i64, LlmError> {
        let mut row = self.model_row.lock().await;
        match *row {
            Some(row) => Ok(row),
            None => Ok(*row.insert(self.journal.enter_model(&self.model).await?)),
        }
    }
}

impl Journaled {
    /// Keeps the calls of `inner` in a journal.
    pub fn new(inner: Arc<dyn ChatModel>, journal: Journal) -> Self {
        let model = Arc::new(ModelPart::of(inner.id(), &inner.parameters()));
        Self { inner, journal, model, model_row: Mutex::new(None), recording: None }
    }

    /// Makes a call that nobody else makes, and records it.
    async fn lead(
        &self,
        request: &ChatRequest,
        call: &CallCtx,
        (digest, occurrence): (RequestDigest, u32),
        flight: Flight<CallKey>,
    ) -> SharedOutcome {
        let key = digest.key(occurrence);
        let record = CallRecord {
            key,
            place: &call.place,
            occurrence,
            model: &self.model,
            digest,
            messages: &request.messages,
            outcome: Err(LlmError::Cancelled),
            attempts: Vec::new(),
            sends: None,
            room: None,
        };
        if let Some(recording) = &self.recording {
            if let Some(reply) = recording.journal.reply(key)? {
                let outcome = Ok(Arc::new(ChatReply { is_recorded: true, ..reply }));
                self.journal.record_call(CallRecord { outcome: outcome.clone(), ..record });
                flight.land(outcome.clone());
                return outcome;
            }
            if recording.otherwise == NotInRecording::Fail {
                return Err(LlmError::NotRecorded { place: call.place.to_string() });
            }
        }
        let Opened { room, sends, call } = self.open(call).await?;
        let (started, began) = (SystemTime::now(), Instant::now());
        let mut unanswered = UnansweredCall {
            journal: &self.journal,
            attempts: &call.attempts,
            record: Some(CallRecord { room: Some(room), sends: Some(sends), ..record }),
        };
        let outcome = self.inner.chat(request, &call).await.map(Arc::new);
        let record = unanswered.record.take();
        let attempts = attempts_of(&call, &outcome, request, started, began.elapsed());
        // From the reply to here nothing waits, so that a reply cannot be lost by being dropped.
        if let Some(record) = record.filter(|_| outcome.is_ok() || !attempts.is_empty()) {
            self.journal.record_call(CallRecord { outcome: outcome.clone(), attempts, ..record });
        }
        flight.land(outcome.clone());
        outcome
    }
}

/// A record of a call that can be completed with what was sent for it.
trait Record {
    /// The same with these attempts.
    fn with_attempts(self, attempts: Vec<Attempt>) -> Self;

    /// Hands it to the journal.
    fn record_in(self, journal: &Journal);
}

impl Record for CallRecord<'_> {
    fn with_attempts(self, attempts: Vec<Attempt>) -> Self {
        Self { attempts, ..self }
    }

    fn record_in(self, journal: &Journal) {
        journal.record_call(self);
    }
}

impl Record for EmbeddingRecord<'_> {
    fn with_attempts(self, attempts: Vec<Attempt>) -> Self {
        Self { attempts, ..self }
    }

    fn record_in(self, journal: &Journal) {
        journal.record_embedding(self);
    }
}

/// Records what was sent for a call whose caller goes away before it is answered: it is paid for, and caps count it.
struct UnansweredCall<'call, R: Record> {
    journal: &'call Journal,
    attempts: &'call AttemptLog,
    /// As of a call that was cancelled; gone when the call is over.
    record: Option<R>,
}

impl<R: Record> Drop for UnansweredCall<'_, R> {
    fn drop(&mut self) {
        let attempts = self.attempts.attempts();
        if let Some(record) = self.record.take().filter(|_| !attempts.is_empty()) {
            record.with_attempts(attempts).record_in(self.journal);
        }
    }
}

/// The attempts of a call that is over.
fn attempts_of<T: Used>(
    call: &CallCtx,
    outcome: &Result<T, LlmError>,
    request: &impl Prompt,
    started: SystemTime,
    took: Duration,
) -> Vec<Attempt> {
    let mut attempts = call.attempts.attempts();
    if attempts.is_empty() && !call.attempts.take_unsent() {
        attempts.extend(only_attempt(outcome, request, started, took));
    }
    attempts
}

/// The attempt of a call whose layers report none; a call that was never sent has none.
fn only_attempt<T: Used>(
    outcome: &Result<T, LlmError>,
    request: &impl Prompt,
    started: SystemTime,
    took: Duration,
) -> Option<Attempt> {
    let outcome = match outcome {
        Ok(reply) => AttemptOutcome::Reply(reply.usage()),
        // Anyone who gives up reports what was tried.
        Err(LlmError::GaveUp { .. }) => return None,
        Err(error) => match error.class() {
            ErrorClass::Cancelled
            | ErrorClass::Configuration
            | ErrorClass::Budget
            | ErrorClass::Journal
            | ErrorClass::NotRecorded => return None,
            _ => AttemptOutcome::failed(error, request.may_be_billed(error)),
        },
    };
    Some(Attempt { started, waited: Duration::ZERO, took, outcome })
}

/// Waits for an equal call; `None` if it was given up.
async fn follow<K: Lookup>(
    mut waiting: watch::Receiver<Option<SharedOutcome<K>>>,
    call: &CallCtx,
) -> Result<Option<SharedOutcome<K>>, LlmError> {
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => Err(LlmError::Cancelled),
        landed = waiting.wait_for(Option::is_some) => Ok(landed.ok().and_then(|outcome| outcome.clone())),
    }
}

#[async_trait]
impl ChatModel for Journaled {
    fn id(&self) -> &ModelId {
        self.inner.id()
    }

    fn parameters(&self) -> Value {
        self.inner.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let digest = RequestDigest::of(&self.model, request, call);
        let occurrence = call.scope.next_occurrence(digest.bytes);
        let key = digest.key(occurrence);
        let reply = loop {
            match self.journal.join(key)? {
                Joined::Reply(reply) => {
                    return Ok(ChatReply { is_recorded: true, ..Arc::unwrap_or_clone(reply) });
                }
                Joined::Leader(flight) => {
                    break self.lead(request, call, (digest, occurrence), flight).await?;
                }
                Joined::Follower(waiting) => match follow::<CallKey>(waiting, call).await? {
                    Some(Ok(reply)) => break reply,
                    // Somebody else gave up, which is no reason for this call to.
                    Some(Err(LlmError::Cancelled)) | None => {}
                    Some(Err(error)) => return Err(error),
                },
            }
        };
        Ok(Arc::unwrap_or_clone(reply))
    }
}
