//! Calls and the journal: looking replies up, recording them, and sharing one request among equal calls.

use super::error::JournalError;
use super::key::{CallKey, ModelPart, RequestDigest, TextKey};
use super::record::{CallEntry, REPLY_COLUMNS, WaitingBytes, reply_at, unix_ms};
use super::sent::CallSends;
use super::writer::Command;
use super::{Index, Journal, Known};
use crate::attempt::Attempt;
use crate::call::CallPlace;
use crate::chat::{ChatReply, ContentPart, ImageSource, Message};
use crate::error::LlmError;
use parking_lot::Mutex;
use rusqlite::params;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

/// A key by which the journal is asked before anything is sent.
pub(crate) trait Lookup: Copy + Eq + Hash + Send + Sync + 'static {
    /// An entry of the journal.
    type Found: Send + Sync;

    /// The requests for such entries that are under way.
    fn flights(flights: &Flights) -> &FlightMap<Self>;

    /// The entries that are in the journal.
    fn known(index: &Index) -> &HashMap<Self, Known<Self::Found>>;

    /// Reads an entry from its row.
    fn read(journal: &Journal, row: i64) -> Result<Self::Found, JournalError>;
}

/// What a call came to, as those who share it see it.
pub(crate) type SharedOutcome<K = CallKey> = Result<Arc<<K as Lookup>::Found>, LlmError>;

/// Requests of one kind that are under way, by what they will be found under.
pub(crate) type FlightMap<K> = Mutex<HashMap<K, watch::Sender<Option<SharedOutcome<K>>>>>;

/// The requests that are under way.
#[derive(Default)]
pub(crate) struct Flights {
    calls: FlightMap<CallKey>,
    pub(super) texts: FlightMap<TextKey>,
}

/// How a call is to be answered.
pub(crate) enum Joined<K: Lookup> {
    /// By the journal.
    Reply(Arc<K::Found>),
    /// By anyone who makes the same call now; the channel closes without a value if that call is given up.
    Follower(watch::Receiver<Option<SharedOutcome<K>>>),
    /// By a request.
    Leader(Flight<K>),
}

/// The right and the duty to make a call; others wait for it.
pub(crate) struct Flight<K: Lookup> {
    journal: Journal,
    key: K,
    /// Once it has landed, the entry under its key is that of another flight.
    has_landed: bool,
}

impl<K: Lookup> Flight<K> {
    /// Tells those who wait; a reply has to be recorded before, so that later calls find it.
    pub(crate) fn land(mut self, outcome: SharedOutcome<K>) {
        self.end(outcome);
    }

    /// As [`Flight::land`], apart from the drop: another flight may begin between the two.
    fn end(&mut self, outcome: SharedOutcome<K>) {
        self.has_landed = true;
        if let Some(waiting) = K::flights(&self.journal.shared.flights).lock().remove(&self.key) {
            waiting.send_replace(Some(outcome));
        }
    }
}

impl<K: Lookup> Drop for Flight<K> {
    fn drop(&mut self) {
        if !self.has_landed {
            // The channel closes, and somebody who waits makes the call.
            drop(K::flights(&self.journal.shared.flights).lock().remove(&self.key));
        }
    }
}

impl Lookup for CallKey {
    type Found = ChatReply;

    fn flights(flights: &Flights) -> &FlightMap<Self> {
        &flights.calls
    }

    fn known(index: &Index) -> &HashMap<Self, Known<ChatReply>> {
        &index.calls
    }

    fn read(journal: &Journal, row: i64) -> Result<ChatReply, JournalError> {
        let found = journal.read(|reader| {
            reader
                .prepare_cached(&format!("SELECT {REPLY_COLUMNS} FROM calls WHERE id = ?1"))?
                .query_row(params![row], |row| reply_at(row, 0))
        })?;
        found.map_err(|message| JournalError::Corrupt {
            path: journal.path().to_owned(),
            message: format!("row {row} of the table `calls`: {message}"),
        })
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
    /// An entry that was recorded.
    fn found<K: Lookup>(&self, key: K) -> Result<Option<Arc<K::Found>>, JournalError> {
        let row = match K::known(&self.shared.index.lock()).get(&key) {
            None => return Ok(None),
            Some(Known::Pending(found)) => return Ok(Some(Arc::clone(found))),
            Some(Known::Row(row)) => *row,
        };
        Ok(Some(Arc::new(K::read(self, row)?)))
    }

    /// Answers a call from the journal or from an equal one that is under way, or gives the right to make it.
    pub(crate) fn join<K: Lookup>(&self, key: K) -> Result<Joined<K>, JournalError> {
        loop {
            if let Some(found) = self.found(key)? {
                return Ok(Joined::Reply(found));
            }
            let mut flights = K::flights(&self.shared.flights).lock();
            if let Some(flight) = flights.get(&key) {
                return Ok(Joined::Follower(flight.subscribe()));
            }
            // A reply is recorded before its flight ends, so it may have come since the look above.
            if !K::known(&self.shared.index.lock()).contains_key(&key) {
                flights.insert(key, watch::Sender::new(None));
                return Ok(Joined::Leader(Flight { journal: self.clone(), key, has_landed: false }));
            }
        }
    }

    /// Waits for room for one more call, and refuses it if nothing can be recorded any more.
    pub(crate) async fn admit(&self) -> Result<OwnedSemaphorePermit, JournalError> {
        let room = Arc::clone(&self.shared.room).acquire_owned().await.map_err(|_| self.closed())?;
        while self.shared.backlog.is_long() {
            let _turn = self.shared.backlog.turn.lock().await;
            // Anyone who had the turn before has waited for all that was there then.
            if self.shared.backlog.is_long() {
                self.flush().await?;
            }
        }
        match self.shared.failure.lock().clone() {
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
            let mut index = self.shared.index.lock();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::AttemptOutcome;
    use crate::call::CallCtx;
    use crate::chat::{ChatRequest, ModelId};
    use crate::journal::{JournalOptions, JournalReader};
    use serde_json::Value;
    use skill_core::Usage;
    use std::time::Duration;

    const KEY: CallKey = CallKey([7; 32]);

    /// A call that was woken by one that was cancelled leads at once, before the first flight is gone.
    #[test]
    fn a_flight_that_has_landed_leaves_the_next_one_of_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("journal.sqlite"), JournalOptions::default()).unwrap();
        let lead = || match journal.join(KEY).unwrap() {
            Joined::Leader(flight) => flight,
            Joined::Reply(_) | Joined::Follower(_) => panic!("another call leads"),
        };
        let mut first = lead();
        first.end(Err(LlmError::Cancelled));
        let next = lead();
        drop(first);
        assert!(matches!(journal.join(KEY).unwrap(), Joined::Follower(_)), "equal calls share one request");
        drop(next);
        drop(lead());
    }

    /// Two processes' worth of luck, or a race, can send one call twice: both are paid for.
    #[tokio::test]
    async fn what_was_sent_for_a_reply_that_is_there_already_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let journal = Journal::open(&path, JournalOptions::default()).unwrap();
        let model = Arc::new(ModelPart::of(&ModelId::new("p", "m"), &Value::Null));
        let (request, place) = (ChatRequest::new(vec![Message::user("a")]), CallPlace::new("step 1"));
        let usage = Usage { input: 10, output: 3, ..Usage::default() };
        let reply = Arc::new(ChatReply::text("yes", usage));
        let record = || {
            let digest = RequestDigest::of(&model, &request, &CallCtx::new(place.clone()));
            let outcome = AttemptOutcome::Reply(usage);
            let (started, took) = (SystemTime::now(), Duration::ZERO);
            journal.record_call(CallRecord {
                key: digest.key(0),
                place: &place,
                occurrence: 0,
                model: &model,
                digest,
                messages: &request.messages,
                outcome: Ok(Arc::clone(&reply)),
                attempts: vec![Attempt { started, waited: took, took, outcome }],
                sends: None,
                room: None,
            });
        };
        // In one group, and after its commit.
        record();
        record();
        journal.flush().await.unwrap();
        record();
        journal.flush().await.unwrap();
        assert_eq!(journal.requests_committed(), 3);
        let totals = JournalReader::open(&path).unwrap().totals().unwrap();
        assert_eq!((totals.replies, totals.requests, totals.usage.input), (1, 3, 30));
    }
}
