//! The log of a bank as text: a header, then one line of JSON for each event.
//!
//! It is read strictly: an event or a field that this version does not know is an error, since a bank without it would
//! be another bank.

use crate::error::BankError;
use crate::event::{Author, BankEvent, Record};
use crate::skill::Content;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use skill_core::Usage;

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

/// A [`Content`] as it is written, either a principle or a mistake.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenContent {
    title: Option<String>,
    principle: Option<String>,
    when_to_apply: Option<String>,
    description: Option<String>,
    why_it_happens: Option<String>,
    how_to_avoid: Option<String>,
}

impl TryFrom<WrittenContent> for Content {
    type Error = &'static str;

    fn try_from(written: WrittenContent) -> Result<Self, Self::Error> {
        match written {
            WrittenContent {
                title: Some(title),
                principle: Some(principle),
                when_to_apply,
                description: None,
                why_it_happens: None,
                how_to_avoid: None,
            } => Ok(Self::Principle { title, principle, when_to_apply: when_to_apply.unwrap_or_default() }),
            WrittenContent {
                title: None,
                principle: None,
                when_to_apply: None,
                description: Some(description),
                why_it_happens,
                how_to_avoid,
            } => Ok(Self::Mistake {
                description,
                why_it_happens: why_it_happens.unwrap_or_default(),
                how_to_avoid: how_to_avoid.unwrap_or_default(),
            }),
            _ => Err("the content has neither `title` and `principle` nor `description` alone"),
        }
    }
}

/// Reads a content whose fields are all known.
///
/// # Errors
///
/// An unknown field, one that is missing, or fields of both kinds of contents.
pub(crate) fn content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
    Content::try_from(WrittenContent::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// [`Usage`], of which other files may have more fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenUsage {
    input: u64,
    #[serde(default)]
    cached: u64,
    output: u64,
    #[serde(default)]
    reasoning: u64,
}

/// Reads tokens whose fields are all known.
///
/// # Errors
///
/// An unknown field, or a number that is missing.
pub(crate) fn usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    let WrittenUsage { input, cached, output, reasoning } = WrittenUsage::deserialize(deserializer)?;
    Ok(Usage { input, cached, output, reasoning })
}
