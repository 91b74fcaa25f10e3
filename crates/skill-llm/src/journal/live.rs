//! What has come into a journal lately: small questions for those who watch a run.
//!
//! Each is answered from an index or from the end of a table, so its cost does not grow with the journal.

use super::error::JournalError;
use super::query::JournalReader;
use super::record::ModelSpent;
use super::sent;
use super::spent::{elapsed, requests_written, spent_within};
use rusqlite::params;
use std::time::Duration;

/// What the calls after a certain one have cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpentSince {
    /// The last call that is in it; what comes later is asked for with this number.
    pub last_call: i64,
    /// Requests and tokens by model.
    pub spent: Vec<ModelSpent>,
    /// All requests that have no answer: those in flight, and those of processes that were killed. They are no part of
    /// `spent`, and of a later answer as a whole again.
    pub unanswered: Vec<ModelSpent>,
}

/// A finished unit of work other than a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// Its number in the journal.
    pub id: i64,
    /// Such as `rollout`.
    pub kind: String,
    /// Where in the run it was made first.
    pub place: String,
    /// What it is about, such as the item.
    pub subject: String,
    /// Its content, as JSON.
    pub content: String,
    /// Milliseconds since 1970, UTC.
    pub finished_at: i64,
}

impl JournalReader {
    /// Requests and tokens by model of the calls that were committed after this one; 0 stands for all, those that were
    /// pruned too.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn spent_since(&self, call: i64) -> Result<SpentSince, JournalError> {
        let sent = self.sent()?;
        let last_call = "SELECT coalesce(max(id), 0) FROM calls";
        self.read(|connection| {
            let last_call = connection.query_row(last_call, [], |row| row.get(0))?;
            Ok(SpentSince {
                last_call,
                spent: spent_within(connection, call, last_call)?,
                unanswered: sent::unanswered(connection, sent)?,
            })
        })
    }

    /// How many requests it holds, those of pruned calls too; `None` if no process has written to it.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn requests_written(&self) -> Result<Option<u64>, JournalError> {
        self.read(requests_written)
    }

    /// How long all processes worked, until their last commit.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn elapsed(&self) -> Result<Duration, JournalError> {
        self.read(elapsed)
    }

    /// How many results there are inside a place, such as `step 3 / rollout`.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn n_results_within(&self, place: &str) -> Result<u64, JournalError> {
        self.count_within("SELECT count(*) FROM results WHERE place >= ?1 AND place < ?2", place)
    }

    /// How many calls with a reply there are inside a place.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn n_replies_within(&self, place: &str) -> Result<u64, JournalError> {
        let sql = "SELECT count(*) FROM calls WHERE place >= ?1 AND place < ?2 AND outcome = 'reply'";
        self.count_within(sql, place)
    }

    fn count_within(&self, sql: &str, place: &str) -> Result<u64, JournalError> {
        // What is inside begins with the place and ` / `; `!` is the sign after a blank.
        let (from, to) = (format!("{place} / "), format!("{place} /!"));
        let count: i64 = self.read(|connection| {
            connection.prepare_cached(sql)?.query_row(params![from, to], |row| row.get(0))
        })?;
        Ok(count.unsigned_abs())
    }

    /// The last results that were committed after this one, at most `n`, in the order in which they were committed.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn last_results(&self, after: i64, n: u32) -> Result<Vec<ResultRow>, JournalError> {
        const SQL: &str = "SELECT id, kind, place, subject, content, finished_at FROM results WHERE id > ?1 \
                           ORDER BY id DESC LIMIT ?2";
        let mut rows = self.results(SQL, after, n)?;
        rows.reverse();
        Ok(rows)
    }

    /// The first results that were committed after this one, at most `n`, in the order in which they were committed; 0
    /// stands for the first of all.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn next_results(&self, after: i64, n: u32) -> Result<Vec<ResultRow>, JournalError> {
        const SQL: &str = "SELECT id, kind, place, subject, content, finished_at FROM results WHERE id > ?1 \
                           ORDER BY id LIMIT ?2";
        self.results(SQL, after, n)
    }

    fn results(&self, sql: &str, after: i64, n: u32) -> Result<Vec<ResultRow>, JournalError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![after, n], |row| {
                Ok(ResultRow {
                    id: row.get(0)?,
                    kind: row.get(1)?,
                    place: row.get(2)?,
                    subject: row.get(3)?,
                    content: row.get(4)?,
                    finished_at: row.get(5)?,
                })
            })?;
            rows.collect()
        })
    }
}
