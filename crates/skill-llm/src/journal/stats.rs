//! What the calls of a journal came to, by stage of the run and by model.

use super::error::JournalError;
use super::query::JournalReader;
use super::record::{REPLY, usage_at};
use rusqlite::{Connection, Row};
use serde::Serialize;
use skill_core::Usage;

/// What the calls of one stage to one model came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StageCalls {
    /// The stage, over all steps: the second part of a place such as `step 3 / reflect / failure 1`, else the first.
    pub stage: String,
    /// Who served the model.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Calls with a reply that was asked for.
    pub replies: u64,
    /// Calls with a reply that was copied from a recording: nothing was sent.
    pub copied: u64,
    /// Calls that came to nothing.
    pub failed: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Tokens of all requests.
    pub usage: Usage,
    /// Milliseconds that the requests waited before they were sent.
    pub waited_ms: i64,
    /// Milliseconds that the requests took, waits not included.
    pub took_ms: i64,
}

impl StageCalls {
    /// Adds the calls of another stage or model to these.
    pub fn add(&mut self, other: &Self) {
        self.replies += other.replies;
        self.copied += other.copied;
        self.failed += other.failed;
        self.requests += other.requests;
        self.usage += other.usage;
        self.waited_ms = self.waited_ms.saturating_add(other.waited_ms);
        self.took_ms = self.took_ms.saturating_add(other.took_ms);
    }
}

/// One row per stage and model, in the order in which each had its first call.
///
/// The innermost query gives each call its stage, the middle one the sums over its requests. They are sums of floats
/// for the reason that is in `query.rs`.
const BY_STAGE: &str = "\
    SELECT stage, provider, name, \
      sum(outcome = 'reply' AND n_requests > 0), sum(outcome = 'reply' AND n_requests = 0), sum(outcome <> 'reply'), \
      sum(n_requests), CAST(total(input) AS INTEGER), CAST(total(cached) AS INTEGER), \
      CAST(total(output) AS INTEGER), CAST(total(reasoning) AS INTEGER), CAST(total(cache_written) AS INTEGER), \
      CAST(total(waited_us) AS INTEGER) / 1000, CAST(total(took_us) AS INTEGER) / 1000 \
    FROM ( \
      SELECT staged.*, count(attempts.call) AS n_requests, \
        total(attempts.input_tokens) AS input, total(attempts.cached_tokens) AS cached, \
        total(attempts.output_tokens) AS output, \
        total(attempts.reasoning_tokens) AS reasoning, \
        total(attempts.cache_written_tokens) AS cache_written, \
        total(waited_us) AS waited_us, total(took_us) AS took_us \
      FROM ( \
        SELECT id, model, outcome, \
          CASE WHEN instr(part, ' / ') > 0 THEN substr(part, 1, instr(part, ' / ') - 1) ELSE part END AS stage \
        FROM ( \
          SELECT id, model, outcome, \
            CASE WHEN place LIKE 'step _% / _%' THEN substr(place, instr(place, ' / ') + 3) ELSE place END AS part \
          FROM calls \
        ) \
      ) AS staged LEFT JOIN attempts ON attempts.call = staged.id GROUP BY staged.id \
    ) AS summed JOIN models ON models.id = summed.model \
    GROUP BY stage, provider, name ORDER BY min(summed.id)";

impl JournalReader {
    /// What the calls came to, by stage and model, in the order in which each had its first call.
    ///
    /// # Errors
    ///
    /// A journal that cannot be read.
    pub fn by_stage(&self) -> Result<Vec<StageCalls>, JournalError> {
        self.read(by_stage)
    }
}

fn by_stage(connection: &Connection) -> rusqlite::Result<Vec<StageCalls>> {
    debug_assert_eq!(REPLY, "reply");
    let mut statement = connection.prepare(BY_STAGE)?;
    let rows = statement.query_map([], |row| {
        Ok(StageCalls {
            stage: row.get(0)?,
            provider: row.get(1)?,
            model: row.get(2)?,
            replies: count_at(row, 3)?,
            copied: count_at(row, 4)?,
            failed: count_at(row, 5)?,
            requests: count_at(row, 6)?,
            usage: usage_at(row, 7)?,
            waited_ms: row.get(12)?,
            took_ms: row.get(13)?,
        })
    })?;
    rows.collect()
}

fn count_at(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}
