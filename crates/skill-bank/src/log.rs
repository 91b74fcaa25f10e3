//! The log of a bank as text: a header, then one line of JSON for each event.
//!
//! It is read strictly: an event or a field that this version does not know is an error, since a bank without it would
//! be another bank.
//!
//! # Invariants
//!
//! - A log with an unknown event or field is refused with its line and the name, and one that is read keeps its
//!   bytes. Held by `a_log_is_read_strictly_and_keeps_its_bytes`.

use crate::error::BankError;
use crate::event::{Author, BankEvent, Record};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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
    serde_json::to_string(&header).unwrap_or_default() + "\n"
}

/// One event as a line of the log.
pub fn log_line(record: &Record) -> String {
    serde_json::to_string(record).unwrap_or_default() + "\n"
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
