//! Calls are taken out of a journal; what they had cost stays.

use super::error::JournalError;
use super::query::{CallFilter, JournalReader};
use super::{MAX_BYTES, schema, sent, sum};
use rusqlite::{Connection, ToSql, params_from_iter};
use serde::Serialize;
use std::path::Path;

/// What was pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Pruned {
    /// Calls that are gone.
    pub calls: usize,
    /// Results that are gone.
    pub results: usize,
    /// Messages that no call has any more.
    pub messages: usize,
    /// Texts whose vectors are gone.
    pub embeddings: usize,
}

impl JournalReader {
    /// What [`prune`] with this filter would take out.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn prunable(&self, filter: &CallFilter) -> Result<Pruned, JournalError> {
        let count = |sql: &str, values: Vec<&dyn ToSql>| {
            self.read(|connection| connection.query_row(sql, params_from_iter(values), |row| row.get(0)))
                .map(|count: i64| usize::try_from(count).unwrap_or_default())
        };
        let (condition, values) = filter.condition();
        // The sums of pruned calls have no place for what agents report, so these calls stay.
        let condition = format!("({condition}) AND NOT ({})", super::spent::REPORTS);
        let calls =
            format!("SELECT calls.id FROM calls JOIN models ON models.id = calls.model WHERE {condition}");
        let messages = format!(
            "SELECT count(*) FROM messages WHERE id NOT IN (SELECT each.value FROM calls, json_each(calls.messages) \
             AS each WHERE calls.id NOT IN ({calls}))"
        );
        let results = match filter.results_condition() {
            Some((condition, values)) => {
                count(&format!("SELECT count(*) FROM results WHERE {condition}"), values)?
            }
            None => 0,
        };
        Ok(Pruned {
            calls: count(&format!("SELECT count(*) FROM ({calls})"), values.clone())?,
            results,
            messages: count(&messages, values.clone())?,
            embeddings: count(&format!("SELECT count(*) FROM embeddings WHERE call IN ({calls})"), values)?,
        })
    }
}

/// Takes calls, and the results made at the same places, out of a journal that nobody works with.
///
/// The vectors of a pruned call go with it. A resumed run repeats the calls that it still needs. What they had
/// cost stays in the totals of the journal, so no cap of the run is reset.
///
/// # Errors
///
/// A journal that cannot be opened or written.
pub fn prune(path: &Path, filter: &CallFilter) -> Result<Pruned, JournalError> {
    if !path.is_file() {
        return Err(JournalError::Missing { path: path.to_owned() });
    }
    let failed = |source| JournalError::sqlite("write", path, source);
    let mut connection = schema::open_to_write(path, MAX_BYTES)?;
    // While the attempts that carry the same numbers are still there.
    sent::absorb(&mut connection, path)?;
    let pruned = take_out(&mut connection, filter).map_err(failed)?;
    connection.close().map_err(|(_, source)| failed(source))?;
    sum::note_closed(path);
    Ok(pruned)
}

/// Deletes the calls and what only they use, and shrinks the file.
fn take_out(connection: &mut Connection, filter: &CallFilter) -> rusqlite::Result<Pruned> {
    let transaction = connection.transaction()?;
    let (condition, values) = filter.condition();
    // What was paid stays counted: caps are on the whole run.
    transaction.execute(&keep_cost(&condition), params_from_iter(&values))?;
    let meant =
        format!("SELECT calls.id FROM calls JOIN models ON models.id = calls.model WHERE {condition}");
    // They go with their calls.
    let embeddings: i64 = transaction.query_row(
        &format!("SELECT count(*) FROM embeddings WHERE call IN ({meant})"),
        params_from_iter(&values),
        |row| row.get(0),
    )?;
    let calls =
        transaction.execute(&format!("DELETE FROM calls WHERE id IN ({meant})"), params_from_iter(values))?;
    let results = match filter.results_condition() {
        Some((condition, values)) => transaction
            .execute(&format!("DELETE FROM results WHERE {condition}"), params_from_iter(values))?,
        None => 0,
    };
    let messages = transaction.execute(
        "DELETE FROM messages WHERE id NOT IN (SELECT each.value FROM calls, json_each(calls.messages) AS each)",
        [],
    )?;
    transaction.commit()?;
    connection.execute_batch("VACUUM")?;
    let embeddings = usize::try_from(embeddings).unwrap_or_default();
    Ok(Pruned { calls, results, messages, embeddings })
}

/// Adds what the calls of a condition have cost to what pruned ones had.
fn keep_cost(condition: &str) -> String {
    let sum = |column: &str| format!("CAST(total(attempts.{column}) AS INTEGER)");
    let columns =
        ["input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cache_written_tokens"];
    let added =
        ["requests"].into_iter().chain(columns).map(|name| format!("{name} = {name} + excluded.{name}"));
    format!(
        "INSERT INTO pruned (model, requests, {}) SELECT calls.model, count(*), {} FROM attempts \
         JOIN calls ON calls.id = attempts.call JOIN models ON models.id = calls.model WHERE {condition} \
         GROUP BY calls.model ON CONFLICT (model) DO UPDATE SET {}",
        columns.join(", "),
        columns.map(sum).join(", "),
        added.collect::<Vec<_>>().join(", "),
    )
}
