//! Embeddings in the journal: an entry for each text, and a call for each request that was sent.
//!
//! A request is a row of `calls` like that of a chat model, so that all sums count it; its vectors are found by the key
//! of their text, whatever request they came with.
//!
//! # Invariants
//!
//! - A text whose vector was committed is never sent again; equal texts in flight share one request, whatever
//!   requests ask for them; the vectors of one model in a journal have one length. Held by
//!   `each_text_is_sent_once_whatever_the_batch_and_the_place`, `equal_texts_under_way_share_one_request`,
//!   `vectors_of_another_length_than_in_the_journal_are_refused_and_their_cost_is_counted`,
//!   `every_fault_is_survived_and_no_text_is_answered_twice`.

use super::error::JournalError;
use super::flight::{FlightMap, Flights, Lookup};
use super::key::{ModelPart, TextKey, message_digest};
use super::query::JournalReader;
use super::record::{REPLY, WaitingBytes, columns, unix_ms};
use super::sent::{CallSends, Ticket};
use super::writer::{Command, KnownIds, insert_attempts, message_ids, model_id};
use super::{Index, Journal, Known};
use crate::attempt::Attempt;
use crate::call::CallPlace;
use crate::chat::{ContentPart, Message};
use crate::error::{LlmError, with_causes};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};
use skill_core::{Role, Usage};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::OwnedSemaphorePermit;

/// How many bytes a number of a vector has.
const FLOAT_BYTES: usize = 4;

/// A vector as the journal holds it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredVector {
    pub(crate) vector: Vec<f32>,
    /// The text's share of the tokens of its request; those of all texts of a request are its tokens.
    pub(crate) tokens: u64,
}

/// The vectors of a request, in the order of its texts; or why there are none.
pub(crate) type VectorsOutcome = Result<Vec<Arc<StoredVector>>, LlmError>;

/// The record of one request for embeddings.
pub(crate) struct EmbeddingRecord<'call> {
    pub(crate) place: &'call CallPlace,
    pub(crate) model: &'call Arc<ModelPart>,
    pub(crate) texts: Vec<(TextKey, Arc<str>)>,
    pub(crate) outcome: VectorsOutcome,
    pub(crate) attempts: Vec<Attempt>,
    /// The requests of the attempts; `None` for a call that sends nothing.
    pub(crate) sends: Option<Arc<CallSends>>,
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// A request for embeddings that is over.
#[derive(Debug)]
pub(super) struct EmbeddingEntry {
    place: String,
    model: Arc<ModelPart>,
    texts: Vec<Text>,
    outcome: VectorsOutcome,
    pub(super) attempts: Vec<Attempt>,
    /// The requests of the attempts, in order, as far as they were recorded before they were sent.
    pub(super) sent: Vec<Ticket>,
    finished_at: i64,
    /// Bounds what waits to be written.
    _room: Option<OwnedSemaphorePermit>,
    _waiting: WaitingBytes,
}

#[derive(Debug)]
struct Text {
    key: TextKey,
    message: Message,
    digest: [u8; 32],
}

impl Lookup for TextKey {
    type Found = StoredVector;

    fn flights(flights: &Flights) -> &FlightMap<Self> {
        &flights.texts
    }

    fn known(index: &Index) -> &HashMap<Self, Known<StoredVector>> {
        &index.texts
    }

    fn read(journal: &Journal, row: i64) -> Result<StoredVector, JournalError> {
        let found = journal.read(|reader| vector_of(reader, row))?;
        found.map_err(|message| JournalError::Corrupt { path: journal.path().to_owned(), message })
    }
}

impl Journal {
    /// Compares the length of vectors with that of all others of their model; the error is that length.
    ///
    /// The first ones set it.
    pub(crate) fn check_length(&self, model: &ModelPart, found: usize) -> Result<(), usize> {
        let mut lengths = self.shared.lengths.lock();
        match lengths.get(model) {
            Some(length) if *length != found => Err(*length),
            Some(_) => Ok(()),
            None => {
                lengths.insert(model.clone(), found);
                Ok(())
            }
        }
    }

    /// Records a request that is over; takes no time, and is committed soon.
    pub(crate) fn record_embedding(&self, record: EmbeddingRecord<'_>) {
        let mut n_bytes = record.texts.iter().map(|(_, text)| text.len()).sum::<usize>();
        if let Ok(vectors) = &record.outcome {
            let mut index = self.shared.index.lock();
            for ((key, _), vector) in record.texts.iter().zip(vectors) {
                index.texts.entry(*key).or_insert_with(|| Known::Pending(Arc::clone(vector)));
                n_bytes += vector.vector.len() * FLOAT_BYTES;
            }
        }
        let texts = record.texts.into_iter().map(|(key, text)| {
            let message = Message::new(Role::User, vec![ContentPart::Text(text)]);
            Text { key, digest: message_digest(&message), message }
        });
        self.send(Command::Embedding(Box::new(EmbeddingEntry {
            place: record.place.to_string(),
            model: Arc::clone(record.model),
            texts: texts.collect(),
            outcome: record.outcome,
            attempts: record.attempts,
            sent: record.sends.map(|sends| sends.take()).unwrap_or_default(),
            finished_at: unix_ms(SystemTime::now()),
            _room: record.room,
            _waiting: WaitingBytes::new(&self.shared.backlog.bytes, n_bytes),
        })));
    }
}

impl JournalReader {
    /// A recorded vector; those recorded after the first lookup are not found.
    pub(crate) fn vector(&self, key: TextKey) -> Result<Option<StoredVector>, JournalError> {
        let found = self.read(|connection| {
            let rows = match self.texts.get() {
                Some(rows) => rows,
                None => {
                    let rows = read_text_keys(connection, |row| row)?;
                    self.texts.get_or_init(|| rows)
                }
            };
            rows.get(&key).map(|row| vector_of(connection, *row)).transpose()
        })?;
        found.transpose().map_err(|message| JournalError::Corrupt { path: self.path.clone(), message })
    }
}

/// The tokens of a request, shared out among its texts by their bytes; the shares add up to all of them.
pub(crate) fn token_shares(tokens: u64, texts: &[Arc<str>]) -> Vec<u64> {
    let all: u128 = texts.iter().map(|text| text.len() as u128).sum::<u128>().max(1);
    let (mut n_bytes, mut given) = (0_u128, 0_u64);
    let mut shares = Vec::with_capacity(texts.len());
    for text in texts {
        n_bytes += text.len() as u128;
        // No more than all tokens, so that it fits.
        let until_here = u64::try_from(u128::from(tokens) * n_bytes / all).unwrap_or(tokens);
        shares.push(until_here - given);
        given = until_here;
    }
    shares
}

/// The key of every text, with a value made from the number of its row.
pub(super) fn read_text_keys<T>(
    connection: &Connection,
    known: impl Fn(i64) -> T,
) -> rusqlite::Result<HashMap<TextKey, T>> {
    let mut statement = connection.prepare("SELECT id, key FROM embeddings")?;
    let rows = statement.query_map([], |row| Ok((TextKey(row.get(1)?), known(row.get(0)?))))?;
    rows.collect()
}

/// The length of the vectors of each embedding model.
pub(super) fn lengths(connection: &Connection) -> rusqlite::Result<HashMap<ModelPart, usize>> {
    let mut statement = connection.prepare(
        "SELECT provider, name, revision, parameters, octet_length(vector) FROM \
         (SELECT calls.model AS model, min(embeddings.id) AS first FROM embeddings \
         JOIN calls ON calls.id = embeddings.call GROUP BY calls.model) \
         JOIN models ON models.id = model JOIN vectors ON vectors.embedding = first",
    )?;
    let rows = statement.query_map([], |row| {
        let model = ModelPart {
            provider: row.get(0)?,
            name: row.get(1)?,
            revision: row.get(2)?,
            parameters: row.get(3)?,
        };
        Ok((model, row.get::<_, u32>(4)? as usize / FLOAT_BYTES))
    })?;
    rows.collect()
}

/// The vectors of a call, in order.
pub(super) fn vectors_of_call(connection: &Connection, call: i64) -> rusqlite::Result<Vec<Vec<f32>>> {
    let mut statement = connection.prepare_cached(
        "SELECT vector FROM embeddings JOIN vectors ON vectors.embedding = embeddings.id WHERE call = ?1 \
         ORDER BY position",
    )?;
    let rows = statement.query_map(params![call], |row| vector_at(row, 0))?;
    rows.map(|vector| vector.map(Result::unwrap_or_default)).collect()
}

/// The error says what is wrong with the row.
fn vector_of(connection: &Connection, row: i64) -> rusqlite::Result<Result<StoredVector, String>> {
    let found = connection
        .prepare_cached(
            "SELECT tokens, vector FROM embeddings JOIN vectors ON vectors.embedding = embeddings.id WHERE id = ?1",
        )?
        .query_row(params![row], |found| {
            let tokens = found.get::<_, i64>(0)?.max(0).unsigned_abs();
            Ok(vector_at(found, 1)?.map(|vector| StoredVector { vector, tokens }))
        })
        .optional()?;
    let damaged = |what: &str| format!("row {row} of the table `embeddings` {what}");
    Ok(match found {
        None => Err(damaged("has no vector")),
        Some(Err(n_bytes)) => Err(damaged(&format!("has a vector of {n_bytes} bytes"))),
        Some(Ok(stored)) => Ok(stored),
    })
}

/// A vector from a column; the error is a number of bytes that no vector has.
fn vector_at(row: &Row<'_>, column: usize) -> rusqlite::Result<Result<Vec<f32>, usize>> {
    let bytes = row.get_ref(column)?.as_blob()?;
    let (numbers, rest) = bytes.as_chunks::<FLOAT_BYTES>();
    if numbers.is_empty() || !rest.is_empty() {
        return Ok(Err(bytes.len()));
    }
    Ok(Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()))
}

/// Inserts a request, and those of its texts that are not there yet: they are what it gives back.
pub(super) fn insert_embedding_call(
    transaction: &Transaction<'_>,
    entry: &EmbeddingEntry,
    process: i64,
    known: &mut KnownIds,
) -> rusqlite::Result<Vec<(TextKey, i64)>> {
    let model = model_id(transaction, &entry.model, known)?;
    let texts = entry.texts.iter().map(|text| (&text.message, &text.digest));
    let messages = message_ids(transaction, texts, known)?;
    let (outcome, error) = match &entry.outcome {
        Ok(_) => (REPLY, None),
        Err(error) => (error.class().as_str(), Some(with_causes(error))),
    };
    let vectors = entry.outcome.as_deref().unwrap_or_default();
    let input = vectors.iter().map(|vector| vector.tokens).fold(0, u64::saturating_add);
    let [input, ..] = columns(Usage { input, ..Usage::default() });
    let key = TextKey::of_call(entry.texts.iter().map(|text| text.key));
    transaction
        .prepare_cached(
            "INSERT INTO calls (key, place, occurrence, model, messages, request, outcome, error, input_tokens, process, \
             finished_at, kind) VALUES (?1, ?2, 0, ?3, ?4, '{}', ?5, ?6, ?7, ?8, ?9, 'embedding')",
        )?
        .execute(params![
            key.0,
            entry.place,
            model,
            messages,
            outcome,
            error,
            input,
            process,
            entry.finished_at
        ])?;
    let call = transaction.last_insert_rowid();
    insert_attempts(transaction, call, &entry.attempts, &entry.sent)?;
    let mut rows = Vec::with_capacity(vectors.len());
    for ((position, text), stored) in (0_i64..).zip(&entry.texts).zip(vectors) {
        let [tokens, ..] = columns(Usage { input: stored.tokens, ..Usage::default() });
        transaction
            .prepare_cached("INSERT INTO embeddings (key, call, position, tokens) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![text.key.0, call, position, tokens])?;
        let row = transaction.last_insert_rowid();
        let bytes: Vec<u8> = stored.vector.iter().flat_map(|number| number.to_le_bytes()).collect();
        transaction
            .prepare_cached("INSERT INTO vectors (embedding, vector) VALUES (?1, ?2)")?
            .execute(params![row, bytes])?;
        rows.push((text.key, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(tokens: u64, texts: &[&str], expect: &[u64]) {
        let texts: Vec<Arc<str>> = texts.iter().map(|text| Arc::from(*text)).collect();
        let shares = token_shares(tokens, &texts);
        assert_eq!(shares, expect);
        assert_eq!(shares.iter().sum::<u64>(), if texts.is_empty() { 0 } else { tokens });
    }

    #[test]
    fn tokens_are_shared_out_to_the_last_one() {
        check(10, &[], &[]);
        check(10, &["abc"], &[10]);
        check(10, &["a", "a", "a"], &[3, 3, 4]);
        check(0, &["a", "b"], &[0, 0]);
        check(1, &["aaaa", "b"], &[0, 1]);
        check(u64::MAX, &["a", "bbb"], &[u64::MAX / 4, u64::MAX - u64::MAX / 4]);
    }
}
