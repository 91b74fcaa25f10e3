//! Calls and the journal: looking replies up, recording them, and sharing one request among equal calls.

use super::error::JournalError;
use super::key::{CallKey, KeyHash, ModelPart, RequestDigest};
use super::record::{CallEntry, REPLY_COLUMNS, WaitingBytes, reply_at, unix_ms};
use super::sent::CallSends;
use super::writer::Command;
use super::{Journal, Known, lock};
use crate::attempt::Attempt;
use crate::call::CallPlace;
use crate::chat::{ChatReply, ContentPart, ImageSource, Message};
use crate::error::LlmError;
use rusqlite::params;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

/// What a call came to, as those who share it see it.
pub(crate) type SharedOutcome = Result<Arc<ChatReply>, LlmError>;

/// The calls that are under way.
#[derive(Default)]
pub(super) struct Flights(Mutex<HashMap<CallKey, watch::Sender<Option<SharedOutcome>>>>);

/// How a call is to be answered.
pub(crate) enum Joined {
    /// By the journal.
    Reply(Arc<ChatReply>),
    /// By whoever makes the same call now; the channel closes without a value if that call is given up.
    Follower(watch::Receiver<Option<SharedOutcome>>),
    /// By a request.
    Leader(Flight),
}

/// The right and the duty to make a call; others wait for it.
pub(crate) struct Flight {
    journal: Journal,
    key: CallKey,
}

impl Flight {
    /// Tells those who wait; a reply has to be recorded before, so that later calls find it.
    pub(crate) fn land(self, outcome: SharedOutcome) {
        if let Some(waiting) = lock(&self.journal.shared.flights.0).remove(&self.key) {
            waiting.send_replace(Some(outcome));
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // After `land` nothing is there; else the channel closes, and somebody who waits makes the call.
        drop(lock(&self.journal.shared.flights.0).remove(&self.key));
    }
}

/// What is recorded about a call.
pub(crate) struct CallRecord<'call> {
    pub(crate) key: CallKey,
    pub(crate) place: &'call CallPlace,
    pub(crate) occurrence: u32,
    pub(crate) model: &'call Arc<ModelPart>,
    pub(crate) digest: RequestDigest,
    pub(crate) messages: &'call [Message],
    pub(crate) outcome: SharedOutcome,
    pub(crate) attempts: Vec<Attempt>,
    /// The requests of the attempts; `None` for a call that sends nothing.
    pub(crate) sends: Option<Arc<CallSends>>,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl Journal {
    /// A reply that was recorded.
    pub(crate) fn reply(&self, key: CallKey) -> Result<Option<Arc<ChatReply>>, JournalError> {
        let row = match lock(&self.shared.index).calls.get(&key) {
            None => return Ok(None),
            Some(Known::Pending(reply)) => return Ok(Some(Arc::clone(reply))),
            Some(Known::Row(row)) => *row,
        };
        let found = self.read(|reader| {
            reader
                .prepare_cached(&format!("SELECT {REPLY_COLUMNS} FROM calls WHERE id = ?1"))?
                .query_row(params![row], |row| reply_at(row, 0))
        })?;
        let reply = found.map_err(|message| JournalError::Corrupt {
            path: self.path().to_owned(),
            message: format!("row {row} of the table `calls`: {message}"),
        })?;
        Ok(Some(Arc::new(reply)))
    }

    /// Answers a call from the journal or from an equal one that is under way, or gives the right to make it.
    pub(crate) fn join(&self, key: CallKey) -> Result<Joined, JournalError> {
        loop {
            if let Some(reply) = self.reply(key)? {
                return Ok(Joined::Reply(reply));
            }
            let mut flights = lock(&self.shared.flights.0);
            if let Some(flight) = flights.get(&key) {
                return Ok(Joined::Follower(flight.subscribe()));
            }
            // A reply is recorded before its flight ends, so it may have come since the look above.
            if !lock(&self.shared.index).calls.contains_key(&key) {
                flights.insert(key, watch::Sender::new(None));
                return Ok(Joined::Leader(Flight { journal: self.clone(), key }));
            }
        }
    }

    /// What the keys of its calls are made with.
    pub(crate) fn key_hash(&self) -> KeyHash {
        self.shared.key_hash
    }

    /// Waits for room for one more call, and refuses it if nothing can be recorded any more.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, JournalError> {
        let room = Arc::clone(&self.shared.room).acquire_owned().await.map_err(|_| self.closed())?;
        while self.shared.backlog.is_long() {
            let _turn = self.shared.backlog.turn.lock().await;
            // Whoever had the turn before has waited for all that was there then.
            if self.shared.backlog.is_long() {
                self.flush().await?;
            }
        }
        match lock(&self.shared.failure).clone() {
            Some(failure) => Err(failure),
            None => Ok(room),
        }
    }

    /// Where the requests of a call to a model of this row are recorded before they are sent.
    pub(crate) fn sends(&self, model_row: i64) -> Arc<CallSends> {
        Arc::new(CallSends::new(Arc::clone(&self.shared.sent), model_row))
    }

    /// The row of a model, which is committed when this returns: what is recorded of requests in flight names it.
    pub(crate) async fn enter_model(&self, model: &Arc<ModelPart>) -> Result<i64, JournalError> {
        let (sender, receiver) = oneshot::channel();
        self.shared.hurry.up();
        self.send(Command::Model(Arc::clone(model), sender));
        self.wait_for(receiver).await
    }

    /// Records a call that is over; takes no time, and is committed soon.
    pub(crate) fn record_call(&self, record: CallRecord<'_>) {
        if let Ok(reply) = &record.outcome {
            let mut index = lock(&self.shared.index);
            index.calls.entry(record.key).or_insert_with(|| Known::Pending(Arc::clone(reply)));
        }
        let reply_bytes = record.outcome.as_ref().map_or(0, |reply| reply.text.len());
        let n_bytes = reply_bytes + record.messages.iter().map(content_bytes).sum::<usize>();
        self.send(Command::Call(Box::new(CallEntry {
            key: record.key,
            place: record.place.to_string(),
            occurrence: record.occurrence,
            model: Arc::clone(record.model),
            digest: record.digest,
            messages: record.messages.to_vec(),
            outcome: record.outcome,
            attempts: record.attempts,
            sent: record.sends.map(|sends| sends.take()).unwrap_or_default(),
            finished_at: unix_ms(SystemTime::now()),
            _room: record.room,
            _waiting: WaitingBytes::new(&self.shared.backlog.bytes, n_bytes),
        })));
    }
}

/// About how much memory the content of a message takes.
fn content_bytes(message: &Message) -> usize {
    let of_part = |part: &ContentPart| match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image(ImageSource::Url(url)) => url.len(),
        ContentPart::Image(ImageSource::Base64 { data, .. }) => data.len(),
    };
    message.content.iter().map(of_part).sum()
}
