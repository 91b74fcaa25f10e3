//! The one thread that writes.
//!
//! Whatever arrives within a few milliseconds is committed together, so that a thousand replies a second cost some
//! dozen flushes of the disk. Nobody waits for a commit but [`super::Journal::flush`].

use super::embedding::{EmbeddingEntry, insert_embedding_call};
use super::error::JournalError;
use super::key::{CallKey, ModelPart, TextKey, plain_text};
use super::record::{CallEntry, ResultEntry, columns, outcome_columns, unix_ms};
use super::sent::{SentFile, Ticket};
use super::{CommitHook, Index, Known};
use crate::attempt::{Attempt, AttemptOutcome};
use crate::chat::Message;
use crate::error::with_causes;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, Transaction, params};
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The most messages whose ids are kept in memory, in each of two generations.
const MAX_KNOWN_MESSAGES: usize = 32_768;

const SET_ELAPSED: &str = "UPDATE processes SET elapsed_ms = ?1 WHERE id = ?2";

pub(super) enum Command {
    Call(Box<CallEntry>),
    Embedding(Box<EmbeddingEntry>),
    Result(Box<ResultEntry>),
    /// Answered when everything that was sent before is committed.
    Flush(oneshot::Sender<Result<(), JournalError>>),
    /// Answered with the row of the model, once that is committed.
    Model(Arc<ModelPart>, ModelSender),
}

/// Ends the gathering of a group while a caller waits for a commit.
#[derive(Default)]
pub(super) struct Hurry {
    /// Callers that wait for a commit; negative for a moment if one is answered before it has incremented this.
    n_waiting: Mutex<i64>,
    changed: Condvar,
}

impl Hurry {
    /// Somebody waits for what was sent until now.
    pub(super) fn up(&self) {
        *self.n_waiting.lock() += 1;
        self.changed.notify_one();
    }

    /// Waits for so long, or until somebody is in a hurry.
    fn wait(&self, time: Duration) {
        let mut n_waiting = self.n_waiting.lock();
        self.changed.wait_while_for(&mut n_waiting, |n_waiting| *n_waiting <= 0, time);
    }

    /// Notes that this many waiting callers were answered.
    fn answered(&self, n: usize) {
        *self.n_waiting.lock() -= i64::try_from(n).expect("a group is shorter than that");
    }
}

/// What the thread works with.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) index: Arc<Mutex<Index>>,
    /// Counts the requests that are committed.
    pub(super) requests: Arc<AtomicU64>,
    /// Has a slot for each request until its call is committed.
    pub(super) sent: Arc<SentFile>,
    pub(super) failure: Arc<Mutex<Option<JournalError>>>,
    pub(super) group_window: Duration,
    pub(super) hurry: Arc<Hurry>,
    pub(super) max_group: usize,
    pub(super) on_commit: Option<CommitHook>,
    /// The row of this process; a process that writes nothing has none.
    pub(super) process: Option<i64>,
    pub(super) started_at: i64,
    pub(super) started: Instant,
}

impl Writer {
    /// Writes until nobody can send any more.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut known = KnownIds::default();
        let mut n_committed = 0_u64;
        while let Some(group) = self.next_group(commands) {
            let n_entries = group.entries.len();
            let outcome = self.write(group.entries, &mut known, &mut n_committed);
            if n_entries > 0
                && let Err(error) = &outcome
            {
                self.failure.lock().get_or_insert_with(|| error.clone());
            }
            self.hurry.answered(group.models.len() + group.flushes.len());
            for (model, waiting) in group.models {
                drop(waiting.send(self.enter_model(&model, &mut known)));
            }
            for waiting in group.flushes {
                let failed = self.failure.lock().clone();
                drop(waiting.send(failed.map_or(Ok(()), Err)));
            }
        }
        // Nothing depends on it: the last commit has said so already, some milliseconds or calls ago.
        if self.process.is_some() {
            let elapsed = elapsed_ms(self.started);
            drop(self.connection.execute(SET_ELAPSED, params![elapsed, self.process]));
        }
    }

    /// Waits for something to write, and takes what comes soon after it.
    ///
    /// In between the thread sleeps: waking it for every entry would cost as much as writing them.
    fn next_group(&self, commands: &Receiver<Command>) -> Option<Group> {
        let mut group = Group::default();
        group.take(commands.recv().ok()?);
        if self.max_group > 1 && !group.is_awaited() {
            self.hurry.wait(self.group_window);
        }
        while group.entries.len() < self.max_group {
            match commands.try_recv() {
                Ok(command) => group.take(command),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        Some(group)
    }

    /// Commits the row of a model.
    fn enter_model(&mut self, model: &Arc<ModelPart>, known: &mut KnownIds) -> Result<i64, JournalError> {
        if let Some(error) = self.failure.lock().clone() {
            return Err(error);
        }
        let entered = self.connection.transaction().and_then(|transaction| {
            let id = model_id(&transaction, model, known)?;
            transaction.commit().map(|()| id)
        });
        entered.map_err(|error| {
            *known = KnownIds::default();
            JournalError::sqlite("write", &self.path, error)
        })
    }

    fn write(
        &mut self,
        entries: Vec<Entry>,
        known: &mut KnownIds,
        n_committed: &mut u64,
    ) -> Result<(), JournalError> {
        if entries.is_empty() {
            return Ok(());
        }
        if let Some(error) = self.failure.lock().clone() {
            return Err(error);
        }
        let failed = |source| JournalError::sqlite("write", &self.path, source);
        let call_hook = |point, count| {
            if let Some(hook) = &self.on_commit {
                hook(point, count);
            }
        };
        let count = *n_committed + entries.len() as u64;
        let transaction = self.connection.transaction().map_err(failed)?;
        let process = match self.process {
            Some(process) => process,
            None => insert_process(&transaction, self.started_at).map_err(failed)?,
        };
        let mut rows = Vec::with_capacity(entries.len());
        // Those of this group.
        let mut replies = HashMap::new();
        let (mut requests, mut new): (_, Vec<&[Ticket]>) = (0, Vec::new());
        for entry in &entries {
            let written = match (row_of(&self.index, &replies, entry), entry) {
                // An equal reply that is there already stays: somebody may have read it. What was sent for this one is
                // paid for too.
                (Some(row), Entry::Call(call)) => {
                    requests += call.attempts.len() as u64;
                    new.push(&call.sent);
                    insert_attempts(&transaction, row, &call.attempts, &call.sent).map(|()| Written::Row(row))
                }
                (Some(row), Entry::Result(_) | Entry::Embedding(_)) => Ok(Written::Row(row)),
                (None, Entry::Call(call)) => {
                    requests += call.attempts.len() as u64;
                    new.push(&call.sent);
                    insert_call(&transaction, call, process, known).map(|row| {
                        if call.outcome.is_ok() {
                            replies.insert(call.key, row);
                        }
                        Written::Row(row)
                    })
                }
                (None, Entry::Embedding(call)) => {
                    requests += call.attempts.len() as u64;
                    new.push(&call.sent);
                    insert_embedding_call(&transaction, call, process, known).map(Written::Texts)
                }
                (None, Entry::Result(result)) => {
                    insert_result(&transaction, result, process).map(Written::Row)
                }
            };
            match written {
                Ok(row) => rows.push(row),
                Err(error) => {
                    *known = KnownIds::default();
                    return Err(failed(error));
                }
            }
        }
        transaction
            .prepare_cached(SET_ELAPSED)
            .and_then(|mut statement| statement.execute(params![elapsed_ms(self.started), process]))
            .map_err(failed)?;
        call_hook(super::CommitPoint::Before, count);
        transaction.commit().map_err(|error| {
            *known = KnownIds::default();
            failed(error)
        })?;
        self.requests.fetch_add(requests, Ordering::Release);
        *n_committed = count;
        self.process = Some(process);
        call_hook(super::CommitPoint::After, count);
        self.sent.release(new.into_iter().flatten());
        let mut index = self.index.lock();
        for (entry, row) in entries.iter().zip(rows) {
            match (entry, row) {
                (Entry::Call(call), Written::Row(row)) if call.outcome.is_ok() => {
                    index.calls.insert(call.key, Known::Row(row));
                }
                (Entry::Result(result), Written::Row(row)) => {
                    index.results.insert(result.key, Known::Row(row));
                }
                (Entry::Embedding(_), Written::Texts(rows)) => {
                    index.texts.extend(rows.into_iter().map(|(key, row)| (key, Known::Row(row))));
                }
                (Entry::Call(_) | Entry::Result(_) | Entry::Embedding(_), _) => {}
            }
        }
        Ok(())
    }
}

/// Where an entry is already; `replies` are those of the group that is written.
fn row_of(index: &Mutex<Index>, replies: &HashMap<CallKey, i64>, entry: &Entry) -> Option<i64> {
    let index = index.lock();
    match entry {
        Entry::Call(call) if call.outcome.is_ok() => {
            index.calls.get(&call.key).and_then(Known::row).or_else(|| replies.get(&call.key).copied())
        }
        // Its texts may be there one by one.
        Entry::Call(_) | Entry::Embedding(_) => None,
        Entry::Result(result) => index.results.get(&result.key).and_then(Known::row),
    }
}

/// Where an entry is in the database.
enum Written {
    Row(i64),
    Texts(Vec<(TextKey, i64)>),
}

enum Entry {
    Call(Box<CallEntry>),
    Embedding(Box<EmbeddingEntry>),
    Result(Box<ResultEntry>),
}

/// Answered with the row of a model.
type ModelSender = oneshot::Sender<Result<i64, JournalError>>;

#[derive(Default)]
struct Group {
    entries: Vec<Entry>,
    flushes: Vec<oneshot::Sender<Result<(), JournalError>>>,
    models: Vec<(Arc<ModelPart>, ModelSender)>,
}

impl Group {
    fn take(&mut self, command: Command) {
        match command {
            Command::Call(call) => self.entries.push(Entry::Call(call)),
            Command::Embedding(call) => self.entries.push(Entry::Embedding(call)),
            Command::Result(result) => self.entries.push(Entry::Result(result)),
            Command::Flush(waiting) => self.flushes.push(waiting),
            Command::Model(model, waiting) => self.models.push((model, waiting)),
        }
    }

    /// Whether somebody waits for it.
    fn is_awaited(&self) -> bool {
        !self.flushes.is_empty() || !self.models.is_empty()
    }
}

/// Ids of rows that are there already.
#[derive(Default)]
pub(super) struct KnownIds {
    messages: MessageIds,
    models: Vec<(Arc<ModelPart>, i64)>,
}

/// Messages by their digest; those that have not been used for long are forgotten, and written again if they come back.
#[derive(Default)]
struct MessageIds {
    young: HashMap<[u8; 32], i64>,
    old: HashMap<[u8; 32], i64>,
}

impl MessageIds {
    fn get(&mut self, digest: &[u8; 32]) -> Option<i64> {
        if let Some(id) = self.young.get(digest) {
            return Some(*id);
        }
        let id = self.old.remove(digest)?;
        self.insert(*digest, id);
        Some(id)
    }

    fn insert(&mut self, digest: [u8; 32], id: i64) {
        if self.young.len() >= MAX_KNOWN_MESSAGES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, id);
    }
}

fn elapsed_ms(started: Instant) -> i64 {
    i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX)
}

/// Enters this process.
pub(super) fn insert_process(connection: &Connection, started_at: i64) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO processes (version, started_at, elapsed_ms) VALUES (?1, ?2, 0)",
        params![env!("CARGO_PKG_VERSION"), started_at],
    )?;
    Ok(connection.last_insert_rowid())
}

fn insert_call(
    transaction: &Transaction<'_>,
    call: &CallEntry,
    process: i64,
    known: &mut KnownIds,
) -> rusqlite::Result<i64> {
    let model = model_id(transaction, &call.model, known)?;
    let messages = message_ids(transaction, call.messages.iter().zip(&call.digest.messages), known)?;
    let (outcome, error) = match &call.outcome {
        Ok(_) => (super::record::REPLY, None),
        Err(error) => (error.class().as_str(), Some(with_causes(error))),
    };
    let reply = call.outcome.as_ref().ok();
    let tool_calls = reply
        .filter(|reply| !reply.tool_calls.is_empty())
        .map(|reply| serde_json::to_string(&reply.tool_calls).expect("tool calls serialize"));
    let finish = reply.map(|reply| serde_json::to_string(&reply.finish).expect("a finish reason serializes"));
    let [input, cached, output, reasoning, cache_written] =
        columns(reply.map(|reply| reply.usage).unwrap_or_default());
    transaction
        .prepare_cached(
            "INSERT INTO calls (key, place, occurrence, model, messages, request, outcome, reply, tool_calls, finish, \
             error, input_tokens, cached_tokens, output_tokens, reasoning_tokens, process, finished_at, reasoning, \
             tokens, provider_state, cache_written_tokens) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
        )?
        .execute(params![
            call.key.0,
            call.place,
            call.occurrence,
            model,
            messages,
            call.digest.rest,
            outcome,
            reply.map(|reply| reply.text.as_str()),
            tool_calls,
            finish,
            error,
            input,
            cached,
            output,
            reasoning,
            process,
            call.finished_at,
            reply.and_then(|reply| reply.reasoning.as_deref()),
            reply.and_then(|reply| reply.tokens.as_ref()).map(json_text),
            reply.and_then(|reply| reply.provider_state.as_ref()).map(json_text),
            cache_written,
        ])?;
    let id = transaction.last_insert_rowid();
    insert_attempts(transaction, id, &call.attempts, &call.sent)?;
    Ok(id)
}

/// The ids of messages as the column of a call has them; those that are not there yet are inserted.
pub(super) fn message_ids<'call>(
    transaction: &Transaction<'_>,
    messages: impl Iterator<Item = (&'call Message, &'call [u8; 32])>,
    known: &mut KnownIds,
) -> rusqlite::Result<String> {
    let mut ids = Vec::with_capacity(messages.size_hint().0);
    for (message, digest) in messages {
        let id = match known.messages.get(digest) {
            Some(id) => id,
            None => {
                let id = insert_message(transaction, message, digest)?;
                known.messages.insert(*digest, id);
                id
            }
        };
        ids.push(id.to_string());
    }
    Ok(format!("[{}]", ids.join(",")))
}

/// Inserts attempts of a call after those that it has; `sent` are the requests that were recorded before they were sent, in order.
pub(super) fn insert_attempts(
    transaction: &Transaction<'_>,
    id: i64,
    attempts: &[Attempt],
    sent: &[Ticket],
) -> rusqlite::Result<()> {
    let mut sent = sent.iter();
    let n_before: i64 = transaction
        .prepare_cached("SELECT coalesce(max(number), 0) FROM attempts WHERE call = ?1")?
        .query_row(params![id], |row| row.get(0))?;
    for (number, attempt) in (n_before.saturating_add(1)..).zip(attempts) {
        let (outcome, error, usage) = outcome_columns(&attempt.outcome);
        let [input, cached, output, reasoning, cache_written] = columns(usage);
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        transaction
            .prepare_cached(
                "INSERT INTO attempts (call, number, started_at, waited_us, took_us, outcome, error, input_tokens, \
                 cached_tokens, output_tokens, reasoning_tokens, sent, cache_written_tokens) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )?
            .execute(params![
                id,
                number,
                unix_ms(attempt.started),
                micros(attempt.waited),
                micros(attempt.took),
                outcome,
                error,
                input,
                cached,
                output,
                reasoning,
                sent.next().map(Ticket::number),
                cache_written,
            ])?;
        debug_assert!(matches!(attempt.outcome, AttemptOutcome::Reply(_)) == error.is_none());
    }
    Ok(())
}

fn json_text<T: serde::Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("values of the journal serialize")
}

fn insert_result(transaction: &Transaction<'_>, result: &ResultEntry, process: i64) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "INSERT INTO results (key, kind, place, subject, content, process, finished_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            result.key.0,
            result.kind,
            result.stored.place,
            result.subject,
            result.stored.content,
            process,
            result.finished_at,
        ])?;
    Ok(transaction.last_insert_rowid())
}

pub(super) fn model_id(
    transaction: &Transaction<'_>,
    model: &Arc<ModelPart>,
    known: &mut KnownIds,
) -> rusqlite::Result<i64> {
    if let Some((_, id)) = known.models.iter().find(|(known, _)| known == model) {
        return Ok(*id);
    }
    transaction
        .prepare_cached(
            "INSERT INTO models (provider, name, revision, parameters) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![model.provider, model.name, model.revision, model.parameters])?;
    let id = transaction
        .prepare_cached(
            "SELECT id FROM models WHERE provider = ?1 AND name = ?2 AND revision = ?3 AND parameters = ?4",
        )?
        .query_row(params![model.provider, model.name, model.revision, model.parameters], |row| row.get(0))?;
    known.models.push((Arc::clone(model), id));
    Ok(id)
}

fn insert_message(
    transaction: &Transaction<'_>,
    message: &Message,
    digest: &[u8; 32],
) -> rusqlite::Result<i64> {
    let (text, whole) = match plain_text(message) {
        Some(text) => (Cow::Borrowed(text), None),
        None => {
            (Cow::Owned(message.text()), Some(serde_json::to_string(message).expect("a message serializes")))
        }
    };
    // Only in a journal that was begun with version 1 is there something to conflict with.
    let inserted = transaction
        .prepare_cached(
            "INSERT INTO messages (digest, role, text, whole) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![digest, message.role.as_str(), text, whole])?;
    if inserted == 0 {
        return transaction
            .prepare_cached("SELECT id FROM messages WHERE digest = ?1")?
            .query_row(params![digest], |row| row.get(0));
    }
    Ok(transaction.last_insert_rowid())
}
