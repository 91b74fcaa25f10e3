//! What programs print, and the reply in it.

use super::config::OutputFormat;
use crate::chat::{ChatReply, FinishReason};
use serde_json::Value;
use skill_core::Usage;

/// Why there is no reply in an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program says that it failed.
    Reported(String),
    /// The output is not what the program prints, as the end of "the program ...".
    Unreadable(String),
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

/// One object with the result, or a list of events that ends with it.
fn claude(stdout: &str) -> Result<ChatReply, Fault> {
    let printed: Value = serde_json::from_str(stdout.trim())
        .map_err(|error| Fault::Unreadable(format!("printed no JSON ({error})")))?;
    let result = match &printed {
        Value::Array(events) => events.iter().rev().find(|event| text_of(event, "type") == Some("result")),
        other => Some(other),
    };
    let result = result.ok_or_else(|| Fault::Unreadable("printed no result".to_owned()))?;
    let said = text_of(result, "result");
    let subtype = text_of(result, "subtype").unwrap_or_default();
    if result.get("is_error").and_then(Value::as_bool) == Some(true) || subtype.starts_with("error") {
        return Err(Fault::Reported(said.filter(|said| !said.is_empty()).unwrap_or(subtype).to_owned()));
    }
    let said = said.ok_or_else(|| Fault::Unreadable("printed a result without a text".to_owned()))?;
    let tokens = |name: &str| number(result.get("usage"), name);
    let (read, written) = (tokens("cache_read_input_tokens"), tokens("cache_creation_input_tokens"));
    let usage = Usage {
        input: tokens("input_tokens").saturating_add(read).saturating_add(written),
        cached: read,
        output: tokens("output_tokens"),
        reasoning: 0,
    };
    Ok(ChatReply::text(said, usage))
}

/// Events, one in each line; the last message of the agent is the reply.
fn codex(stdout: &str) -> Result<ChatReply, Fault> {
    let mut reply = None;
    let mut usage = Usage::default();
    let mut failure = None;
    let mut is_completed = false;
    for line in stdout.lines().filter(|line| !line.trim().is_empty()) {
        // What other programs print in between is not an event.
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
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
                };
            }
            "turn.failed" | "error" => {
                let message = event.get("error").and_then(|error| text_of(error, "message"));
                let message = message.or_else(|| text_of(&event, "message")).unwrap_or("it failed");
                failure = Some(message.to_owned());
            }
            _ => {}
        }
    }
    // An error that was got over is followed by the end of the turn.
    match (reply, failure) {
        (_, Some(failure)) if !is_completed => Err(Fault::Reported(failure)),
        (Some(reply), _) => Ok(ChatReply { usage, ..ChatReply::text(reply, usage) }),
        (None, Some(failure)) => Err(Fault::Reported(failure)),
        (None, None) => Err(Fault::Unreadable("printed no message of the agent".to_owned())),
    }
}

/// One object with the reply and the tokens by model, after whatever else was printed.
fn gemini(stdout: &str) -> Result<ChatReply, Fault> {
    let object = stdout.find('{').and_then(|start| stdout.get(start..)).unwrap_or_default();
    let printed: Value = serde_json::from_str(object.trim())
        .map_err(|error| Fault::Unreadable(format!("printed no JSON ({error})")))?;
    if let Some(error) = printed.get("error").filter(|error| !error.is_null()) {
        let message = text_of(error, "message").map_or_else(|| error.to_string(), str::to_owned);
        return Err(Fault::Reported(message));
    }
    let reply = text_of(&printed, "response")
        .ok_or_else(|| Fault::Unreadable("printed an object without a response".to_owned()))?;
    let mut usage = Usage::default();
    let models = printed.get("stats").and_then(|stats| stats.get("models")).and_then(Value::as_object);
    for model in models.into_iter().flat_map(serde_json::Map::values) {
        let tokens = |name: &str| number(model.get("tokens"), name);
        usage += Usage {
            input: tokens("prompt").saturating_add(tokens("tool")),
            cached: tokens("cached"),
            output: tokens("candidates").saturating_add(tokens("thoughts")),
            reasoning: tokens("thoughts"),
        };
    }
    Ok(ChatReply { finish: FinishReason::Stop, ..ChatReply::text(reply, usage) })
}

fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

fn number(group: Option<&Value>, name: &str) -> u64 {
    group.and_then(|group| group.get(name)).and_then(Value::as_u64).unwrap_or(0)
}
