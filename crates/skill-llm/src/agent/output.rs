//! What programs print, and the reply in it.

use super::config::OutputFormat;
use crate::chat::{ChatReply, FinishReason};
use crate::error::ErrorClass;
use crate::http::class_of_report;
use serde_json::Value;
use skill_core::{Usage, python_json};

/// Why there is no reply in an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program says that it failed.
    Reported {
        /// Its words.
        said: String,
        /// The HTTP status of the provider behind it, where it tells.
        status: Option<u16>,
    },
    /// The output is not what the program prints, as the end of "the program ...".
    Unreadable(String),
}

impl Fault {
    /// What kind of failure it is; `None` where nothing is said about it.
    pub(super) fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Reported { said, status } => Some(class_of_report(said, *status)),
            Self::Unreadable(_) => None,
        }
    }
}

/// Reads an output.
pub(super) fn read(format: OutputFormat, stdout: &str) -> Result<ChatReply, Fault> {
    match format {
        OutputFormat::Text => text(stdout),
        OutputFormat::Claude => claude(stdout),
        OutputFormat::Codex => codex(stdout),
        OutputFormat::Gemini => gemini(stdout),
    }
}

fn text(stdout: &str) -> Result<ChatReply, Fault> {
    match stdout.trim() {
        "" => Err(Fault::Unreadable("printed nothing".to_owned())),
        reply => Ok(ChatReply::text(reply, Usage::default())),
    }
}

/// One object with the result, or events of which the last one is the result.
fn claude(stdout: &str) -> Result<ChatReply, Fault> {
    let events = events(stdout)?;
    let is_result = |event: &&Value| text_of(event, "type") == Some("result");
    let result = events.iter().rev().find(is_result).or_else(|| events.iter().rev().find(has_outcome));
    let result = result.ok_or_else(|| Fault::Unreadable("printed no result".to_owned()))?;
    let said = text_of(result, "result");
    let subtype = text_of(result, "subtype").unwrap_or_default();
    let tokens = |name: &str| number(result.get("usage"), name);
    let (read, written) = (tokens("cache_read_input_tokens"), tokens("cache_creation_input_tokens"));
    let usage = Usage {
        input: tokens("input_tokens").saturating_add(read).saturating_add(written),
        cached: read,
        cache_written: written,
        output: tokens("output_tokens"),
        reasoning: 0,
    };
    let used_up = match subtype {
        "error_max_turns" => Some(FinishReason::turns_used_up()),
        "error_max_budget_usd" => Some(FinishReason::budget_used_up()),
        _ => None,
    };
    if let Some(finish) = used_up {
        return Ok(ChatReply::new(said.unwrap_or_default(), usage, finish));
    }
    if result.get("is_error").and_then(Value::as_bool) == Some(true) || subtype.starts_with("error") {
        let status = result.get("api_error_status").and_then(Value::as_u64);
        return Err(Fault::Reported {
            said: said.filter(|said| !said.is_empty()).unwrap_or(subtype).to_owned(),
            status: status.and_then(|status| u16::try_from(status).ok()),
        });
    }
    let said = said.ok_or_else(|| Fault::Unreadable("printed a result without a text".to_owned()))?;
    Ok(ChatReply::text(said, usage))
}

/// An object that says how it ended, as older versions print it without a type.
fn has_outcome(event: &&Value) -> bool {
    ["result", "is_error", "subtype"].iter().any(|name| event.get(*name).is_some())
        && text_of(event, "type").is_none()
}

/// Events, one in each line; the last message of the agent is the reply.
fn codex(stdout: &str) -> Result<ChatReply, Fault> {
    let mut reply = None;
    let mut usage = Usage::default();
    let mut failure = None;
    let mut is_completed = false;
    for event in events(stdout)? {
        match text_of(&event, "type").unwrap_or_default() {
            "item.completed" => {
                let item = event.get("item").filter(|item| text_of(item, "type") == Some("agent_message"));
                if let Some(text) = item.and_then(|item| text_of(item, "text")) {
                    reply = Some(text.to_owned());
                }
            }
            "turn.completed" => {
                is_completed = true;
                let tokens = |name: &str| number(event.get("usage"), name);
                usage += Usage {
                    input: tokens("input_tokens"),
                    cached: tokens("cached_input_tokens"),
                    output: tokens("output_tokens"),
                    reasoning: tokens("reasoning_output_tokens"),
                    ..Usage::default()
                };
            }
            "turn.failed" | "error" => {
                let message = event.get("error").and_then(|error| text_of(error, "message"));
                let message = message.or_else(|| text_of(&event, "message")).unwrap_or("it failed");
                failure = Some(Fault::Reported { said: message.to_owned(), status: None });
            }
            _ => {}
        }
    }
    // An error that was got over is followed by the end of the turn.
    match (reply, failure) {
        (_, Some(failure)) if !is_completed => Err(failure),
        (Some(reply), _) => Ok(ChatReply { usage, ..ChatReply::text(reply, usage) }),
        (None, Some(failure)) => Err(failure),
        (None, None) => Err(Fault::Unreadable("printed no message of the agent".to_owned())),
    }
}

/// One object with the reply and the tokens by model.
fn gemini(stdout: &str) -> Result<ChatReply, Fault> {
    /// The program's name and exit code for a session without turns left.
    const TURN_LIMIT: (&str, u64) = ("FatalTurnLimitedError", 53);
    let events = events(stdout)?;
    let is_outcome = |event: &&Value| {
        event.get("response").is_some() || event.get("error").is_some_and(|error| !error.is_null())
    };
    let printed = events.iter().rev().find(is_outcome);
    let printed =
        printed.ok_or_else(|| Fault::Unreadable("printed an object without a response".to_owned()))?;
    let usage = gemini_usage(printed);
    if let Some(error) = printed.get("error").filter(|error| !error.is_null()) {
        let code = error.get("code").and_then(Value::as_u64);
        if text_of(error, "type") == Some(TURN_LIMIT.0) || code == Some(TURN_LIMIT.1) {
            let said = text_of(printed, "response").unwrap_or_default();
            return Ok(ChatReply::new(said, usage, FinishReason::turns_used_up()));
        }
        let said = text_of(error, "message").map_or_else(|| error.to_string(), str::to_owned);
        let status = code.and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
        return Err(Fault::Reported { said, status });
    }
    let reply = text_of(printed, "response")
        .ok_or_else(|| Fault::Unreadable("printed an object without a response".to_owned()))?;
    Ok(ChatReply { finish: FinishReason::Stop, ..ChatReply::text(reply, usage) })
}

fn gemini_usage(printed: &Value) -> Usage {
    let mut usage = Usage::default();
    let models = printed.get("stats").and_then(|stats| stats.get("models")).and_then(Value::as_object);
    for model in models.into_iter().flat_map(serde_json::Map::values) {
        let tokens = |name: &str| number(model.get("tokens"), name);
        usage += Usage {
            input: tokens("prompt").saturating_add(tokens("tool")),
            cached: tokens("cached"),
            output: tokens("candidates").saturating_add(tokens("thoughts")),
            reasoning: tokens("thoughts"),
            ..Usage::default()
        };
    }
    usage
}

/// How many starts of a value are tried in one line.
const MAX_STARTS: usize = 8;

/// The objects of an output: over several lines or one in each, also those of lists. What version managers, hooks and
/// status lines print around them is passed over.
fn events(stdout: &str) -> Result<Vec<Value>, Fault> {
    let stdout = python_json::plain(stdout);
    let (mut events, mut has_json) = (Vec::new(), false);
    let mut rest = &*stdout;
    while !rest.is_empty() {
        let line_end = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
        let line = rest.get(..line_end).unwrap_or_default();
        let starts = line.match_indices(['{', '[']).map(|(at, _)| at).take(MAX_STARTS);
        let found = starts.filter_map(|start| Some((start, value_at(rest.get(start..)?)?))).next();
        let end = match found {
            Some((start, (value, length))) => {
                has_json = true;
                match value {
                    Value::Array(values) => events.extend(values.into_iter().filter(Value::is_object)),
                    value => events.push(value),
                }
                start + length
            }
            None => line_end,
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    if has_json { Ok(events) } else { Err(Fault::Unreadable("printed no JSON".to_owned())) }
}

/// The value that a text starts with, and its length.
fn value_at(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn number(group: Option<&Value>, name: &str) -> u64 {
    group.and_then(|group| group.get(name)).and_then(Value::as_u64).unwrap_or(0)
}
