//! What the replies in a journal show of the tokens of the next call.

use super::record::REPLY;
use crate::error::ErrorClass;
use crate::layer::{AttemptsSeen, ModelSeen, SeenReply};
use rusqlite::{Connection, params};
use skill_core::Usage;

/// How many replies of each model are looked at, but for the longest.
const N_LATEST: u32 = 256;

fn count(value: i64) -> u64 {
    value.max(0).unsigned_abs()
}

/// Each model's answered and failed requests, its latest replies, and its longest.
pub(super) fn seen(connection: &Connection) -> rusqlite::Result<Vec<ModelSeen>> {
    let number_and_tokens = |condition: &str| {
        format!(
            "count(CASE WHEN {condition} THEN 1 END), \
             total(CASE WHEN {condition} THEN attempts.input_tokens + attempts.output_tokens END)"
        )
    };
    let dropped = ErrorClass::Cancelled.as_str();
    let of_replies = number_and_tokens(&format!("attempts.outcome = '{REPLY}'"));
    let of_failures = number_and_tokens(&format!("attempts.outcome NOT IN ('{REPLY}', '{dropped}')"));
    let mut statement = connection.prepare(&format!(
        "SELECT models.id, provider, name, \
         max(CASE WHEN attempts.outcome = '{REPLY}' THEN attempts.output_tokens ELSE 0 END), \
         {of_replies}, {of_failures} FROM attempts \
         JOIN calls ON calls.id = attempts.call JOIN models ON models.id = calls.model \
         GROUP BY models.id ORDER BY models.id"
    ))?;
    let models = statement
        .query_map([], |row| {
            let seen = ModelSeen {
                provider: row.get(1)?,
                model: row.get(2)?,
                attempts: AttemptsSeen {
                    n_replied: count(row.get(4)?),
                    replied_tokens: row.get::<_, f64>(5)? as u64,
                    n_failed: count(row.get(6)?),
                    failed_tokens: row.get::<_, f64>(7)? as u64,
                },
                longest_reply: count(row.get(3)?),
                latest: Vec::new(),
            };
            Ok((row.get::<_, i64>(0)?, seen))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut all = Vec::with_capacity(models.len());
    for (id, mut seen) in models {
        seen.latest = latest(connection, id)?;
        all.push(seen);
    }
    Ok(all)
}

/// The latest replies of a model, oldest first.
///
/// The bytes of a prompt are not known where it is more than text, or has tools or a schema.
fn latest(connection: &Connection, model: i64) -> rusqlite::Result<Vec<SeenReply>> {
    let mut statement = connection.prepare(&format!(
        "SELECT sum(octet_length(messages.text)), count(*), \
         total(messages.whole IS NOT NULL) > 0 OR instr(request, '\"tools\"') > 0 \
         OR instr(request, '\"response_schema\"') > 0, reply.input_tokens, reply.output_tokens \
         FROM (SELECT calls.id, calls.messages, calls.request, attempts.input_tokens, attempts.output_tokens \
         FROM calls JOIN attempts ON attempts.call = calls.id AND attempts.outcome = '{REPLY}' \
         WHERE calls.model = ?1 ORDER BY calls.id DESC LIMIT {N_LATEST}) AS reply, json_each(reply.messages) AS each \
         JOIN messages ON messages.id = each.value GROUP BY reply.id ORDER BY reply.id"
    ))?;
    let rows = statement.query_map(params![model], |row| {
        let is_more_than_text: bool = row.get(2)?;
        Ok(SeenReply {
            prompt_bytes: if is_more_than_text { 0 } else { count(row.get(0)?) },
            n_messages: count(row.get(1)?),
            usage: Usage { input: count(row.get(3)?), output: count(row.get(4)?), ..Usage::default() },
        })
    })?;
    rows.collect()
}
