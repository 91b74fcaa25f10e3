//! What a journal says that its run has cost.
//!
//! # Invariants
//!
//! - Paid calls stay counted: neither pruning nor a further process starts a cap from zero unless the user asks for
//!   it. Held by `what_pruned_calls_had_cost_stays_counted`, `a_lost_journal_is_not_begun_anew_unasked`,
//!   `an_older_copy_of_a_journal_is_not_gone_on_with_unasked`.

use super::error::JournalError;
use super::query::JournalReader;
use super::record::{ModelSpent, usage_at};
use super::sent::{self, SentRow};
use rusqlite::{Connection, params};
use skill_core::Usage;
use std::time::Duration;

/// The condition for calls of coding agents that report what they cost.
pub(super) const REPORTS: &str = "ifnull(calls.provider_state, '') LIKE '{\"dialect\":\"agent\"%' \
    AND json_extract(calls.provider_state, '$.value.cost') IS NOT NULL";

impl JournalReader {
    /// Requests and tokens by model, also of calls that were pruned and of requests without an answer.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn spent(&self) -> Result<Vec<ModelSpent>, JournalError> {
        let sent = self.sent()?;
        self.read(|connection| spent(connection, sent))
    }

    /// What the file of requests in flight holds; read before the database, so that nothing is missed between them.
    pub(super) fn sent(&self) -> Result<Vec<SentRow>, JournalError> {
        sent::read(&self.path)
    }

    /// True if a reply has no request in this journal, since it was copied from another one.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn has_copies(&self) -> Result<bool, JournalError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM calls WHERE outcome = 'reply' \
                   AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempts.call = calls.id))";
        self.read(|connection| connection.query_row(sql, [], |row| row.get(0)))
    }
}

// A server may count what it likes, and `sum` ends in an error where 63 bits are passed: `total` adds floating-point
// numbers, exact up to 2^53, and the cast stops at the most that there is.

/// What each model has cost, over all attempts; `sent` is what the file of requests in flight held before.
pub(super) fn spent(connection: &Connection, sent: Vec<SentRow>) -> rusqlite::Result<Vec<ModelSpent>> {
    let mut all = spent_within(connection, 0, i64::MAX)?;
    for unanswered in sent::unanswered(connection, sent)? {
        ModelSpent::add_to(&mut all, unanswered);
    }
    Ok(all)
}

/// Usage per model for calls in `(after, last]`; without a lower bound it includes pruned calls.
pub(super) fn spent_within(
    connection: &Connection,
    after: i64,
    last: i64,
) -> rusqlite::Result<Vec<ModelSpent>> {
    let mut requests =
        "SELECT calls.model AS model, count(*) AS requests, total(attempts.input_tokens) AS input, \
         total(attempts.cached_tokens) AS cached, total(attempts.output_tokens) AS output, \
         total(attempts.reasoning_tokens) AS reasoning, total(attempts.cache_written_tokens) AS cache_written \
         FROM attempts JOIN calls ON calls.id = attempts.call \
         WHERE attempts.call > ?1 AND attempts.call <= ?2 GROUP BY calls.model"
            .to_owned();
    if after == 0 {
        requests.push_str(
            " UNION ALL SELECT model, requests, input_tokens, cached_tokens, output_tokens, reasoning_tokens, \
             cache_written_tokens FROM pruned",
        );
    }
    let mut statement = connection.prepare(&format!(
        "SELECT provider, name, CAST(total(requests) AS INTEGER), CAST(total(input) AS INTEGER), \
         CAST(total(cached) AS INTEGER), CAST(total(output) AS INTEGER), CAST(total(reasoning) AS INTEGER), \
         CAST(total(cache_written) AS INTEGER) FROM ({requests}) AS sent JOIN models ON models.id = sent.model GROUP BY provider, name \
         ORDER BY provider, name"
    ))?;
    let rows = statement.query_map(params![after, last], |row| {
        Ok(ModelSpent {
            provider: row.get(0)?,
            model: row.get(1)?,
            requests: row.get::<_, i64>(2)?.unsigned_abs(),
            usage: usage_at(row, 3)?,
            reported: 0.0,
        })
    })?;
    let mut all: Vec<ModelSpent> = rows.collect::<rusqlite::Result<_>>()?;
    add_reported(connection, (after, last), &mut all)?;
    Ok(all)
}

/// What was sent for calls that were pruned, by all models together.
pub(super) fn pruned(connection: &Connection) -> rusqlite::Result<(u64, Usage)> {
    connection.query_row(
        "SELECT CAST(total(requests) AS INTEGER), CAST(total(input_tokens) AS INTEGER), \
         CAST(total(cached_tokens) AS INTEGER), CAST(total(output_tokens) AS INTEGER), \
         CAST(total(reasoning_tokens) AS INTEGER), CAST(total(cache_written_tokens) AS INTEGER) FROM pruned",
        [],
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), usage_at(row, 1)?)),
    )
}

/// How many requests were sent, those of pruned calls and those of processes that were killed too; `None` if no process
/// has written to the journal.
pub(super) fn requests_written(connection: &Connection) -> rusqlite::Result<Option<u64>> {
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let unanswered = count("SELECT count(*) FROM unanswered")?;
    // A process that was killed before its first commit has no row, and may have sent something.
    if unanswered == 0 && count("SELECT count(*) FROM processes")? == 0 {
        return Ok(None);
    }
    let sent = count("SELECT count(*) FROM attempts")?;
    Ok(Some(sent.saturating_add(pruned(connection)?.0).saturating_add(unanswered)))
}

/// How long all processes worked.
pub(super) fn elapsed(connection: &Connection) -> rusqlite::Result<Duration> {
    let elapsed: i64 =
        connection
            .query_row("SELECT CAST(total(elapsed_ms) AS INTEGER) FROM processes", [], |row| row.get(0))?;
    Ok(Duration::from_millis(elapsed.max(0).unsigned_abs()))
}

/// Adds what coding agents report of the calls in `(after, last]` that were sent.
fn add_reported(
    connection: &Connection,
    (after, last): (i64, i64),
    all: &mut [ModelSpent],
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!(
        "SELECT provider, name, total(json_extract(provider_state, '$.value.cost')) FROM calls \
         JOIN models ON models.id = calls.model WHERE calls.id > ?1 AND calls.id <= ?2 AND {REPORTS} \
         AND EXISTS (SELECT 1 FROM attempts WHERE attempts.call = calls.id) GROUP BY provider, name"
    ))?;
    let rows = statement.query_map(params![after, last], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, f64>(2)?))
    })?;
    for row in rows {
        let (provider, model, reported) = row?;
        let is_it = |spent: &&mut ModelSpent| spent.provider == provider && spent.model == model;
        if let Some(spent) = all.iter_mut().find(is_it) {
            spent.reported += reported.max(0.0);
        }
    }
    Ok(())
}
