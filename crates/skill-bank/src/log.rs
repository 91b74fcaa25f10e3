//! The log of a bank as text: a header, then one line of JSON for each event.
//!
//! It is read strictly: an event or a field that this version does not know is an error, since a bank without it would
//! be another bank.
//!
//! In a file the log is chained: the last field of each line, `chain`, is the SHA-256 of the `chain` before it (for the
//! first event, the SHA-256 of the header) followed by the line without that field. So a line that was changed, removed
//! or inserted is found, unless it was the last one. Lines without the field, as earlier versions wrote them, are read
//! too, and count for the hash of the first line that has it.
//!
//! # Invariants
//!
//! - A log with an unknown event or field is refused with its line and the name, and one that is read keeps its
//!   bytes. Held by `a_log_is_read_strictly_and_keeps_its_bytes`.
//! - Every change of a chained log but the loss of its end is found. Held by
//!   `a_chained_log_shows_every_change_but_the_loss_of_its_end`.

use crate::error::BankError;
use crate::event::{Author, BankEvent, Record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill_core::canonical::hex_sha256;
use std::borrow::Cow;

/// The version of the log that this program writes.
const LOG_VERSION: u32 = 1;
/// What the first line of a log calls its format.
const LOG_FORMAT: &str = "skillrl-bank";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
}

/// The first line of a log.
pub(crate) fn log_header() -> String {
    let header = Header { format: LOG_FORMAT.to_owned(), version: LOG_VERSION };
    serde_json::to_string(&header).expect("a header serializes") + "\n"
}

/// One event as a line of the log, without its hash.
pub fn log_line(record: &Record) -> String {
    serde_json::to_string(record).expect("a record serializes") + "\n"
}

/// What comes before the hash at the end of a chained line, and after it.
const CHAIN: &str = ",\"chain\":\"";
const CHAIN_END: &str = "\"}";

/// The hash of a log up to a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChain(String);

impl LogChain {
    /// Of a log with this first line and no events.
    pub(crate) fn of_header(line: &str) -> Self {
        Self(hex_sha256(line.as_bytes()))
    }

    /// The line of the next event, with its hash.
    pub fn line(&mut self, record: &Record) -> String {
        let line = log_line(record);
        let line = line.trim_end();
        self.add(line);
        let hash = &self.0;
        format!("{}{CHAIN}{hash}{CHAIN_END}\n", line.strip_suffix('}').unwrap_or(line))
    }

    /// The hash, as 64 hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.0
    }

    /// Goes on by a line as it is in a log, and returns that without its hash, and whether it has one.
    ///
    /// # Errors
    ///
    /// A hash that is another one.
    pub(crate) fn follow<'line>(&mut self, line: &'line str) -> Result<(Cow<'line, str>, bool), String> {
        let Some((plain, hash)) = split_chain(line) else {
            self.add(line);
            return Ok((Cow::Borrowed(line), false));
        };
        self.add(&plain);
        if hash != self.0 {
            return Err("it or a line before it was changed after it was written".to_owned());
        }
        Ok((Cow::Owned(plain), true))
    }

    /// Adds a line without its hash.
    fn add(&mut self, line: &str) {
        self.0 = hex_sha256(format!("{}{line}", self.0).as_bytes());
    }
}

/// A line without its hash, and the hash; `None` for a line that has none.
fn split_chain(line: &str) -> Option<(String, &str)> {
    let (before, hash) = line.strip_suffix(CHAIN_END)?.rsplit_once(CHAIN)?;
    Some((format!("{before}}}"), hash))
}

/// Checks the first line of a log.
///
/// # Errors
///
/// [`BankError::BadLog`], and [`BankError::NewerVersion`] whatever else a later version writes into the line.
pub(crate) fn check_header(line: &str) -> Result<(), BankError> {
    let bad = |message: String| BankError::BadLog { line: 1, message };
    let fields: Map<String, Value> = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
    let format = fields.get("format").and_then(Value::as_str).unwrap_or_default();
    if format != LOG_FORMAT {
        return Err(bad(format!("the format is `{format}` and not `{LOG_FORMAT}`")));
    }
    let version =
        fields.get("version").and_then(Value::as_u64).and_then(|version| u32::try_from(version).ok());
    if let Some(version) = version.filter(|version| *version > LOG_VERSION) {
        return Err(BankError::NewerVersion { version, newest: LOG_VERSION });
    }
    if version == Some(0) {
        return Err(bad("the first version is 1, not 0".to_owned()));
    }
    let checked: Result<Header, _> = serde_json::from_value(Value::Object(fields));
    checked.map(|_| ()).map_err(|error| bad(error.to_string()))
}

/// The event of a line; the error says what is wrong with it, and names the field or the event that is not known.
pub(crate) fn read_line(text: &str) -> Result<Record, String> {
    let mut fields: Map<String, Value> = serde_json::from_str(text).map_err(|error| cause(&error))?;
    let n: u64 = take(&mut fields, "n")?.ok_or("`n` is missing")?;
    let round: u32 = take(&mut fields, "round")?.unwrap_or_default();
    let by: Author = take(&mut fields, "by")?.ok_or("`by` is missing")?;
    let event: BankEvent =
        serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
    Ok(Record { n, round, by, event })
}

fn take<T: for<'de> Deserialize<'de>>(
    fields: &mut Map<String, Value>,
    key: &str,
) -> Result<Option<T>, String> {
    let Some(value) = fields.remove(key) else { return Ok(None) };
    serde_json::from_value(value).map(Some).map_err(|error| format!("`{key}`: {error}"))
}

/// What a parser says about one line, with the column alone: the number of the line is that of the log.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause);
    format!("{cause} at column {}", error.column())
}
