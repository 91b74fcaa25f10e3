//! What goes into the journal and comes out of it.

use super::key::{CallKey, ModelPart, RequestDigest, ResultKey};
use super::sent::Ticket;
use crate::attempt::{Attempt, AttemptOutcome};
use crate::chat::{ChatReply, FinishReason, Message};
use crate::error::LlmError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use skill_core::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::OwnedSemaphorePermit;

/// A call that is over.
#[derive(Debug)]
pub(super) struct CallEntry {
    pub(super) key: CallKey,
    pub(super) place: String,
    pub(super) occurrence: u32,
    pub(super) model: Arc<ModelPart>,
    pub(super) digest: RequestDigest,
    pub(super) messages: Vec<Message>,
    pub(super) outcome: Result<Arc<ChatReply>, LlmError>,
    pub(super) attempts: Vec<Attempt>,
    /// The requests of the attempts, in order, as far as they were recorded before they were sent.
    pub(super) sent: Vec<Ticket>,
    pub(super) finished_at: i64,
    /// Bounds what waits to be written.
    pub(super) _room: Option<OwnedSemaphorePermit>,
    pub(super) _waiting: WaitingBytes,
}

/// So many bytes wait to be committed, until this is dropped.
#[derive(Debug)]
pub(super) struct WaitingBytes {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl WaitingBytes {
    pub(super) fn new(all: &Arc<AtomicUsize>, own: usize) -> Self {
        all.fetch_add(own, Ordering::Relaxed);
        Self { all: Arc::clone(all), own }
    }
}

impl Drop for WaitingBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// A finished unit of work that is not a call.
#[derive(Debug)]
pub(super) struct ResultEntry {
    pub(super) key: ResultKey,
    pub(super) kind: String,
    pub(super) subject: String,
    pub(super) stored: Arc<StoredResult>,
    pub(super) finished_at: i64,
    /// Bounds what waits to be written.
    pub(super) _waiting: WaitingBytes,
}

/// A result as the journal holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    /// Where in the run it was made first.
    pub place: String,
    /// Its content, as JSON.
    pub content: String,
}

/// What one model of a run has cost, over all attempts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelSpent {
    /// Who served it.
    pub provider: String,
    /// The model's name there.
    pub model: String,
    /// Requests that were sent, failed ones included.
    pub requests: u64,
    /// Tokens of the replies.
    pub usage: Usage,
    /// US dollars that the model reports, as a coding agent does.
    #[serde(default)]
    pub reported: f64,
}

impl ModelSpent {
    /// Adds it to what others have cost.
    pub fn add_to(all: &mut Vec<Self>, new: Self) {
        let is_same = |old: &&mut Self| old.provider == new.provider && old.model == new.model;
        match all.iter_mut().find(is_same) {
            Some(old) => {
                old.requests = old.requests.saturating_add(new.requests);
                old.usage += new.usage;
                old.reported += new.reported;
            }
            None => all.push(new),
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Token counts as SQLite holds them.
pub(super) fn columns(usage: Usage) -> [i64; 5] {
    [usage.input, usage.cached, usage.output, usage.reasoning, usage.cache_written]
        .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
}

/// Token counts from five columns that start at this one, in the order of [`columns`].
pub(super) fn usage_at(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Usage> {
    let tokens =
        |offset: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(first + offset)?.max(0).unsigned_abs());
    Ok(Usage {
        input: tokens(0)?,
        cached: tokens(1)?,
        output: tokens(2)?,
        reasoning: tokens(3)?,
        cache_written: tokens(4)?,
    })
}

/// The columns of an outcome: its name, and the words of an error.
pub(super) fn outcome_columns(outcome: &AttemptOutcome) -> (&'static str, Option<&str>, Usage) {
    match outcome {
        AttemptOutcome::Reply(usage) => (REPLY, None, *usage),
        AttemptOutcome::Failed { class, message, may_be_billed } => {
            (class.as_str(), Some(message), *may_be_billed)
        }
    }
}

/// The outcome of a call that has a reply.
pub(super) const REPLY: &str = "reply";

/// The columns that hold a reply, for [`reply_at`].
pub(super) const REPLY_COLUMNS: &str = "reply, tool_calls, finish, input_tokens, cached_tokens, output_tokens, \
     reasoning_tokens, cache_written_tokens, reasoning, tokens, provider_state";

/// A reply from the columns [`REPLY_COLUMNS`] that start at this one; the error says which column is wrong.
pub(super) fn reply_at(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Result<ChatReply, String>> {
    let text: String = row.get(first)?;
    let tool_calls: Option<String> = row.get(first + 1)?;
    let finish: String = row.get(first + 2)?;
    let usage = usage_at(row, first + 3)?;
    let reasoning: Option<String> = row.get(first + 8)?;
    let tokens: Option<String> = row.get(first + 9)?;
    let state: Option<String> = row.get(first + 10)?;
    let read = || {
        let finish: Option<FinishReason> = parsed("finish", Some(finish))?;
        let finish = finish.expect("a column with a value has one");
        let mut reply = ChatReply::new(text, usage, finish)
            .with_tool_calls(parsed("tool_calls", tool_calls)?.unwrap_or_default())
            .with_reasoning(reasoning)
            .with_tokens(parsed("tokens", tokens)?);
        reply.provider_state = parsed("provider_state", state)?;
        Ok(reply)
    };
    Ok(read())
}

/// What a column holds as JSON; the error names the column.
fn parsed<T: DeserializeOwned>(column: &str, json: Option<String>) -> Result<Option<T>, String> {
    json.map(|json| serde_json::from_str(&json).map_err(|error| format!("`{column}`: {error}"))).transpose()
}
