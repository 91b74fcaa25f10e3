//! The journal as people read it: lists, totals, export.
//!
//! # Invariants
//!
//! - A journal is never in memory whole, whoever reads it. Held by `a_large_journal_is_never_in_memory`.

use super::embedding::vectors_of_call;
use super::error::JournalError;
use super::key::{CallKey, TextKey};
use super::record::{REPLY, REPLY_COLUMNS, reply_at, usage_at};
use super::sent::{SentRow, unanswered};
use super::spent::{elapsed, pruned};
use super::{read_reply_keys, schema};
use crate::chat::ChatReply;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params, params_from_iter};
use serde::Serialize;
use serde_json::{Value, json};
use skill_core::Usage;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A journal that is only read, also while another process writes it.
#[derive(Debug)]
pub struct JournalReader {
    pub(super) path: PathBuf,
    connection: Mutex<Connection>,
    /// Where each reply is, once somebody has asked for one.
    rows: OnceLock<HashMap<CallKey, i64>>,
    /// The row of each vector, read at the first lookup.
    pub(super) texts: OnceLock<HashMap<TextKey, i64>>,
}

/// Which calls are meant; what is `None` leaves all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallFilter {
    /// Calls at this place or inside it, or of this stage: `step 3` and `rollout` mean `step 3 / rollout / q7`, and not
    /// `step 30`.
    pub place: Option<String>,
    /// Calls of models of this name.
    pub model: Option<String>,
    /// Calls with this outcome: `reply`, or the class of an error; `failed` means every class.
    pub outcome: Option<String>,
    /// The most rows, from the last one back.
    pub last: Option<u32>,
}

impl CallFilter {
    /// Whether all calls are meant.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// A condition over the `results` that go with the calls, and its values; `None` if all stay.
    ///
    /// A result is what its calls came to: with a filter on them nobody can say whether it still holds. No result
    /// came from a call that failed.
    pub(super) fn results_condition(&self) -> Option<(&'static str, Vec<&dyn ToSql>)> {
        if self.outcome.as_deref().is_some_and(|outcome| outcome != REPLY) {
            return None;
        }
        Some(match &self.place {
            Some(place) => ("instr(' / ' || place || ' / ', ' / ' || ?1 || ' / ') > 0", vec![place]),
            None => ("1", Vec::new()),
        })
    }

    /// A condition over `calls` joined with `models`, and its values.
    pub(super) fn condition(&self) -> (String, Vec<&dyn ToSql>) {
        let mut conditions = vec!["1".to_owned()];
        let mut values: Vec<&dyn ToSql> = Vec::new();
        if let Some(place) = &self.place {
            values.push(place);
            let n = values.len();
            conditions.push(format!("instr(' / ' || calls.place || ' / ', ' / ' || ?{n} || ' / ') > 0"));
        }
        if let Some(model) = &self.model {
            values.push(model);
            conditions.push(format!("models.name = ?{}", values.len()));
        }
        match self.outcome.as_deref() {
            None => {}
            Some("failed") => conditions.push(format!("calls.outcome <> '{REPLY}'")),
            Some(_) => {
                values.extend(self.outcome.as_ref().map(|outcome| outcome as &dyn ToSql));
                conditions.push(format!("calls.outcome = ?{}", values.len()));
            }
        }
        (conditions.join(" AND "), values)
    }
}

/// A call, without its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CallRow {
    /// Its number in the journal.
    pub id: i64,
    /// The kind of model: `chat` or `embedding`.
    pub kind: String,
    /// Where in the run.
    pub place: String,
    /// How often its unit of work had asked the same before.
    pub occurrence: u32,
    /// Who served the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// `reply`, or the class of the error.
    pub outcome: String,
    /// What the error said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tokens of the reply.
    pub usage: Usage,
    /// How many requests were sent; 0 for a reply that was copied from a recording.
    pub attempts: u32,
    /// Milliseconds that the attempts waited.
    pub waited_ms: i64,
    /// Milliseconds that the attempts took, waits not included.
    pub took_ms: i64,
    /// Milliseconds since 1970, UTC.
    pub finished_at: i64,
}

/// Sums over a journal.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct JournalTotals {
    /// Calls with a reply.
    pub replies: u64,
    /// Calls that came to nothing.
    pub failed: u64,
    /// Requests that were sent for these calls.
    pub requests: u64,
    /// Tokens of these requests.
    pub usage: Usage,
    /// Requests that were sent for calls that were pruned.
    pub pruned_requests: u64,
    /// Tokens of those.
    pub pruned_usage: Usage,
    /// Requests that have no answer: in flight now, or when their process was killed.
    pub unanswered_requests: u64,
    /// Tokens that are reserved for those.
    pub unanswered_usage: Usage,
    /// Texts with a vector of an embedding model.
    pub embeddings: u64,
    /// Results, such as rollouts.
    pub results: u64,
    /// Processes that have written to it.
    pub processes: u64,
    /// How long they worked, until their last commit, in milliseconds.
    pub elapsed_ms: i64,
}

impl JournalReader {
    /// Opens a journal that is there.
    ///
    /// # Errors
    ///
    /// A file that is not there, is not a journal, or has another version.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::of(path, schema::open_to_read(path)?)
    }

    /// Opens a journal for a short look that leaves nothing beside it, if nobody works with it: SQLite makes files for
    /// readers and writers to agree by, and who may only read cannot take them away again.
    ///
    /// # Errors
    ///
    /// As [`JournalReader::open`].
    pub fn open_at_rest(path: &Path) -> Result<Self, JournalError> {
        Self::of(path, schema::open_at_rest(path)?)
    }

    fn of(path: &Path, connection: Connection) -> Result<Self, JournalError> {
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
            rows: OnceLock::new(),
            texts: OnceLock::new(),
        })
    }

    /// What SQLite finds wrong with the file, a line each; nothing if it is sound. The whole file is read.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn faults(&self) -> Result<Vec<String>, JournalError> {
        const SOUND: &str = "ok";
        let mut lines: Vec<String> = self.read(|connection| {
            let mut statement = connection.prepare("PRAGMA quick_check")?;
            let lines = statement.query_map([], |row| row.get(0))?;
            lines.collect()
        })?;
        lines.retain(|line| line != SOUND);
        Ok(lines)
    }

    /// Calls, in the order in which they were committed.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn calls(&self, filter: &CallFilter) -> Result<Vec<CallRow>, JournalError> {
        let (condition, values) = filter.condition();
        let limit = filter.last.map_or(-1, i64::from);
        let sql = format!(
            "SELECT * FROM (SELECT calls.id, calls.place, occurrence, provider, models.name, calls.outcome, calls.error, \
             calls.input_tokens, calls.cached_tokens, calls.output_tokens, calls.reasoning_tokens, \
             calls.cache_written_tokens, finished_at, \
             (SELECT count(*) FROM attempts WHERE call = calls.id), \
             (SELECT CAST(total(waited_us) AS INTEGER) / 1000 FROM attempts WHERE call = calls.id), \
             (SELECT CAST(total(took_us) AS INTEGER) / 1000 FROM attempts WHERE call = calls.id), calls.kind \
             FROM calls JOIN models ON models.id = calls.model WHERE {condition} ORDER BY calls.id DESC LIMIT {limit}) \
             ORDER BY 1"
        );
        self.read(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let rows = statement.query_map(params_from_iter(values), call_row)?;
            rows.collect()
        })
    }

    /// How many calls are meant, however many rows the filter asks for.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn count(&self, filter: &CallFilter) -> Result<u64, JournalError> {
        let (condition, values) = filter.condition();
        let sql =
            format!("SELECT count(*) FROM calls JOIN models ON models.id = calls.model WHERE {condition}");
        let count: i64 =
            self.read(|connection| connection.query_row(&sql, params_from_iter(values), |row| row.get(0)))?;
        Ok(count.unsigned_abs())
    }

    /// One call with everything: its messages, what was asked for, its reply and its attempts.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn call(&self, id: i64) -> Result<Option<Value>, JournalError> {
        self.read(|connection| whole_call(connection, id))
    }

    /// Sums over everything.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn totals(&self) -> Result<JournalTotals, JournalError> {
        let sent = self.sent()?;
        self.read(|connection| totals(connection, sent))
    }

    /// Writes calls as JSON Lines, one object per call; without a filter the results too.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read. An output that cannot be written is the inner error.
    pub fn export(
        &self,
        filter: &CallFilter,
        out: &mut dyn Write,
    ) -> Result<std::io::Result<u64>, JournalError> {
        let (condition, values) = filter.condition();
        let limit = filter.last.map_or(-1, i64::from);
        // Numbers alone are put in order, so that one call at a time is in memory.
        let sql = format!(
            "SELECT id FROM (SELECT calls.id AS id FROM calls JOIN models ON models.id = calls.model WHERE {condition} \
             ORDER BY calls.id DESC LIMIT {limit}) ORDER BY id"
        );
        self.read(|connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut ids = statement.query(params_from_iter(values))?;
            let mut n_lines = 0;
            while let Some(row) = ids.next()? {
                let Some(call) = whole_call(connection, row.get(0)?)? else { continue };
                if let Err(error) = writeln!(out, "{call}") {
                    return Ok(Err(error));
                }
                n_lines += 1;
            }
            if !filter.is_everything() {
                return Ok(Ok(n_lines));
            }
            let mut statement = connection
                .prepare("SELECT id, kind, place, subject, content, finished_at FROM results ORDER BY id")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Err(error) = writeln!(out, "{}", whole_result(row)?) {
                    return Ok(Err(error));
                }
                n_lines += 1;
            }
            Ok(Ok(n_lines))
        })
    }

    /// A reply that was recorded before the first time that one was asked for.
    pub(crate) fn reply(&self, key: CallKey) -> Result<Option<ChatReply>, JournalError> {
        let found = self.read(|connection| {
            let rows = match self.rows.get() {
                Some(rows) => rows,
                None => {
                    let rows = read_reply_keys(connection, |row| row)?;
                    self.rows.get_or_init(|| rows)
                }
            };
            let Some(row) = rows.get(&key) else { return Ok(None) };
            connection
                .prepare_cached(&format!("SELECT {REPLY_COLUMNS} FROM calls WHERE id = ?1"))?
                .query_row(params![row], |row| reply_at(row, 0))
                .optional()
        })?;
        found.transpose().map_err(|message| JournalError::Corrupt { path: self.path.clone(), message })
    }

    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, JournalError> {
        query(&self.connection.lock()).map_err(|error| JournalError::sqlite("read", &self.path, error))
    }
}

fn totals(connection: &Connection, sent: Vec<SentRow>) -> rusqlite::Result<JournalTotals> {
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let usage = connection.query_row(
        "SELECT CAST(total(input_tokens) AS INTEGER), CAST(total(cached_tokens) AS INTEGER), \
         CAST(total(output_tokens) AS INTEGER), CAST(total(reasoning_tokens) AS INTEGER), \
         CAST(total(cache_written_tokens) AS INTEGER) FROM attempts",
        [],
        |row| usage_at(row, 0),
    )?;
    let (pruned_requests, pruned_usage) = pruned(connection)?;
    let (mut unanswered_requests, mut unanswered_usage) = (0_u64, Usage::default());
    for model in unanswered(connection, sent)? {
        unanswered_requests = unanswered_requests.saturating_add(model.requests);
        unanswered_usage += model.usage;
    }
    Ok(JournalTotals {
        replies: count("SELECT count(*) FROM calls WHERE outcome = 'reply'")?,
        failed: count("SELECT count(*) FROM calls WHERE outcome <> 'reply'")?,
        requests: count("SELECT count(*) FROM attempts")?,
        usage,
        pruned_requests,
        pruned_usage,
        unanswered_requests,
        unanswered_usage,
        embeddings: count("SELECT count(*) FROM embeddings")?,
        results: count("SELECT count(*) FROM results")?,
        processes: count("SELECT count(*) FROM processes")?,
        elapsed_ms: i64::try_from(elapsed(connection)?.as_millis()).unwrap_or(i64::MAX),
    })
}

fn call_row(row: &Row<'_>) -> rusqlite::Result<CallRow> {
    Ok(CallRow {
        id: row.get(0)?,
        place: row.get(1)?,
        occurrence: row.get(2)?,
        provider: row.get(3)?,
        model: row.get(4)?,
        outcome: row.get(5)?,
        error: row.get(6)?,
        usage: usage_at(row, 7)?,
        finished_at: row.get(12)?,
        attempts: row.get(13)?,
        waited_ms: row.get(14)?,
        took_ms: row.get(15)?,
        kind: row.get(16)?,
    })
}

fn whole_call(connection: &Connection, id: i64) -> rusqlite::Result<Option<Value>> {
    let mut statement = connection.prepare_cached(
        "SELECT hex(key), place, occurrence, provider, name, parameters, request, outcome, reply, tool_calls, finish, \
         error, input_tokens, cached_tokens, output_tokens, reasoning_tokens, cache_written_tokens, finished_at, revision, reasoning, \
         tokens, provider_state, \
         calls.kind FROM calls JOIN models ON models.id = calls.model WHERE calls.id = ?1",
    )?;
    let call = statement
        .query_row(params![id], |row| {
            let text = |column: usize| row.get::<_, Option<String>>(column);
            let kind: String = row.get(22)?;
            let mut call = json!({
                "call": id,
                "key": text(0)?.unwrap_or_default().to_lowercase(),
                "place": text(1)?,
                "occurrence": row.get::<_, i64>(2)?,
                "model": {"provider": text(3)?, "name": text(4)?, "parameters": parsed(text(5)?)},
                "messages": messages_of(connection, id)?,
                "request": parsed(text(6)?),
                "outcome": text(7)?,
                "reply": text(8)?,
                "tool_calls": parsed(text(9)?),
                "finish": parsed(text(10)?),
                "error": text(11)?,
                "usage": usage_at(row, 12)?,
                "finished_at": row.get::<_, i64>(17)?,
                "attempts": attempts_of(connection, id)?,
                "kind": kind,
            });
            let revision = text(18)?.filter(|revision| !revision.is_empty()).map(Value::from);
            if let (Some(revision), Some(model)) =
                (revision, call.pointer_mut("/model").and_then(Value::as_object_mut))
            {
                model.insert("revision".to_owned(), revision);
            }
            let parts = [
                ("reasoning", text(19)?.map(Value::from)),
                ("tokens", text(20)?.map(|json| parsed(Some(json)))),
            ];
            let state = ("provider_state", text(21)?.map(|json| parsed(Some(json))));
            for (name, value) in parts.into_iter().chain([state]) {
                if let (Some(value), Some(fields)) = (value, call.as_object_mut()) {
                    fields.insert(name.to_owned(), value);
                }
            }
            if let ("embedding", Some(fields)) = (kind.as_str(), call.as_object_mut()) {
                fields.insert("vectors".to_owned(), json!(vectors_of_call(connection, id)?));
            }
            Ok(call)
        })
        .optional()?;
    Ok(call)
}

fn messages_of(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection
        .prepare_cached("SELECT role, text, whole FROM call_messages WHERE call = ?1 ORDER BY position")?;
    let rows = statement.query_map(params![id], |row| {
        let (role, text, whole): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(match whole {
            Some(_) => parsed(whole),
            None => json!({"role": role, "text": text}),
        })
    })?;
    rows.collect()
}

fn attempts_of(connection: &Connection, id: i64) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection.prepare_cached(
        "SELECT number, started_at, waited_us, took_us, outcome, error, input_tokens, cached_tokens, output_tokens, \
         reasoning_tokens, cache_written_tokens FROM attempts WHERE call = ?1 ORDER BY number",
    )?;
    let rows = statement.query_map(params![id], |row| {
        Ok(json!({
            "number": row.get::<_, i64>(0)?,
            "started_at": row.get::<_, i64>(1)?,
            "waited_us": row.get::<_, i64>(2)?,
            "took_us": row.get::<_, i64>(3)?,
            "outcome": row.get::<_, String>(4)?,
            "error": row.get::<_, Option<String>>(5)?,
            "usage": usage_at(row, 6)?,
        }))
    })?;
    rows.collect()
}

fn whole_result(row: &Row<'_>) -> rusqlite::Result<Value> {
    Ok(json!({
        "result": row.get::<_, i64>(0)?,
        "kind": row.get::<_, String>(1)?,
        "place": row.get::<_, String>(2)?,
        "subject": row.get::<_, String>(3)?,
        "content": parsed(row.get(4)?),
        "finished_at": row.get::<_, i64>(5)?,
    }))
}

/// JSON from a column; text that is none stays text, so that nothing is lost.
fn parsed(text: Option<String>) -> Value {
    match text {
        None => Value::Null,
        Some(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
    }
}
