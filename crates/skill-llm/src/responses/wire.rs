//! Replies as servers of the dialect write them.
//!
//! They are read by hand instead of by a schema: only what makes a reply unusable is an error.
//!
//! An `output_text` of `""` is an empty reply, and so is an output of nothing but reasoning. A finished output without
//! a message, a call or a thought means that the server failed behind a successful status.

use super::DIALECT;
use crate::chat::{ChatReply, FinishReason, ToolCall};
use crate::http::Fault;
use crate::openai::wire::{token_logprob, usage};
use crate::wire;
use serde_json::Value;
use skill_core::{ReplyTokens, TokenLogprob};

/// Reads the body of a reply.
pub(super) fn reply(body: &Value) -> Result<ChatReply, Fault> {
    let items = match body.get("output") {
        Some(Value::Array(items)) => items.as_slice(),
        Some(Value::Null) | None => return Err(Fault::Unreadable("it has no `output`".to_owned())),
        Some(_) => return Err(Fault::Unreadable("`output` is not a list".to_owned())),
    };
    let mut said = Said::default();
    let mut tool_calls = Vec::new();
    let mut reasoning = Vec::new();
    let answering = answering_phase(items);
    let (mut has_message, mut thinks) = (false, false);
    for (item_idx, item) in items.iter().enumerate() {
        match item.get("type").and_then(Value::as_str) {
            Some("message") | None => {
                has_message = true;
                let message = Said::of(item);
                if answering.holds(item) {
                    said.add(message);
                } else if !message.text.is_empty() {
                    // What a model says on its way to the answer is no part of it.
                    reasoning.push(message.text);
                }
            }
            Some("function_call") => tool_calls.push(tool_call(item, item_idx)?),
            Some("reasoning") => {
                thinks = true;
                reasoning.extend(thoughts(item).into_iter().map(str::to_owned));
            }
            // Whatever the server does by itself is not what the model answers.
            Some(_) => {}
        }
    }
    let Said { mut text, refusal, has_text } = said;
    let finish = if refusal.is_empty() {
        finish_reason(body, !tool_calls.is_empty())?
    } else {
        // A refusal is what the model said, and it is not an answer: the finish reason tells it apart.
        FinishReason::ContentFilter
    };
    if !has_text && tool_calls.is_empty() {
        let says_why = match &finish {
            FinishReason::Length | FinishReason::ContentFilter => true,
            FinishReason::Stop => !has_message && !items.is_empty(),
            FinishReason::ToolCalls | FinishReason::Other(_) => false,
        };
        if !says_why {
            return Err(Fault::no_content("`output` holds no text and no call", &finish));
        }
    }
    if text.is_empty() {
        text = refusal;
    }
    // After an answer the thoughts that led to it are needed no more.
    let state = (thinks && !tool_calls.is_empty()).then(|| Value::from(items));
    let n_characters = [&text].into_iter().chain(&reasoning).map(|text| text.chars().count()).sum();
    let (usage, gap) = usage(body.get("usage"), n_characters);
    Ok(ChatReply::new(text, usage, finish)
        .with_usage_gap(gap)
        .with_tool_calls(tool_calls)
        .with_reasoning(Some(reasoning.join("\n\n")))
        .with_tokens(Some(ReplyTokens::new(Vec::new(), logprobs(items, answering))))
        .with_provider_state(DIALECT, state))
}

/// The texts of a reasoning item: the reasoning itself where the server shows it, else its summary.
fn thoughts(item: &Value) -> Vec<&str> {
    let texts = |name: &str| -> Vec<&str> {
        let parts = item.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        parts.iter().filter_map(|part| part.get("text")?.as_str()).filter(|text| !text.is_empty()).collect()
    };
    let whole = texts("content");
    if whole.is_empty() { texts("summary") } else { whole }
}

/// Which messages are the answer, where a server tells commentary from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answering {
    /// Those of the last phase.
    Final,
    /// Those without a phase.
    WithoutPhase,
    /// All of them.
    All,
}

impl Answering {
    fn holds(self, item: &Value) -> bool {
        match self {
            Self::Final => phase(item) == Some(FINAL_PHASE),
            Self::WithoutPhase => phase(item).is_none(),
            Self::All => true,
        }
    }
}

/// The phase of messages that answer, as opposed to commentary.
const FINAL_PHASE: &str = "final_answer";

fn phase(item: &Value) -> Option<&str> {
    item.get("phase")?.as_str()
}

fn answering_phase(items: &[Value]) -> Answering {
    let is_message =
        |item: &&Value| matches!(item.get("type").and_then(Value::as_str), Some("message") | None);
    let has = |answering: Answering| items.iter().filter(is_message).any(|item| answering.holds(item));
    [Answering::Final, Answering::WithoutPhase]
        .into_iter()
        .find(|answering| has(*answering))
        .unwrap_or(Answering::All)
}

/// The tokens of the texts of the answer; none where one of them is not of the expected form.
fn logprobs(items: &[Value], answering: Answering) -> Vec<TokenLogprob> {
    let answers = items.iter().filter(|item| answering.holds(item));
    let parts = answers.filter_map(|item| item.get("content")?.as_array()).flatten();
    let listed = parts.filter_map(|part| part.get("logprobs")?.as_array()).flatten();
    listed.map(token_logprob).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// What messages say.
#[derive(Debug, Default)]
struct Said {
    text: String,
    refusal: String,
    /// There is a text, which may be empty.
    has_text: bool,
}

impl Said {
    fn of(item: &Value) -> Self {
        let mut said = Self::default();
        said.has_text = read_message(item, &mut said.text, &mut said.refusal);
        said
    }

    /// Adds a later message, as a paragraph of its own.
    fn add(&mut self, later: Self) {
        if !self.text.is_empty() && !later.text.is_empty() {
            self.text.push_str("\n\n");
        }
        self.text.push_str(&later.text);
        self.refusal.push_str(&later.refusal);
        self.has_text |= later.has_text;
    }
}

/// Adds what a message says; whether it has a text, which may be empty.
fn read_message(item: &Value, text: &mut String, refusal: &mut String) -> bool {
    let mut has_text = false;
    match item.get("content") {
        Some(Value::String(said)) => {
            has_text = true;
            text.push_str(said);
        }
        Some(Value::Array(parts)) => {
            for part in parts {
                let said = |name: &str| part.get(name).and_then(Value::as_str);
                match said("type") {
                    Some("output_text" | "text") => {
                        has_text |= said("text").is_some();
                        text.push_str(said("text").unwrap_or_default());
                    }
                    Some("refusal") => refusal.push_str(said("refusal").unwrap_or_default()),
                    Some(_) | None => {}
                }
            }
        }
        Some(_) | None => {}
    }
    has_text
}

fn tool_call(item: &Value, item_idx: usize) -> Result<ToolCall, String> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("name").ok_or_else(|| format!("`output[{item_idx}]` is a call without a name"))?;
    let id = text("call_id").or_else(|| text("id")).map_or_else(|| format!("call_{item_idx}"), str::to_owned);
    let arguments = match item.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
    };
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

fn finish_reason(body: &Value, calls_tools: bool) -> Result<FinishReason, Fault> {
    let reason = body.get("incomplete_details").and_then(|details| details.get("reason"));
    Ok(match (body.get("status").and_then(Value::as_str).unwrap_or_default(), calls_tools) {
        ("completed" | "", true) => FinishReason::ToolCalls,
        ("completed", false) => FinishReason::Stop,
        ("incomplete", _) => match wire::finish(reason)? {
            // It came to no end, whatever the word.
            FinishReason::Stop | FinishReason::ToolCalls => FinishReason::Other("incomplete".to_owned()),
            reason => reason,
        },
        (failed @ ("failed" | "cancelled"), _) => return Err(Fault::Failed(failed.to_owned())),
        ("queued" | "in_progress", _) => return Err(Fault::Unreadable("it is not finished".to_owned())),
        (other, _) => FinishReason::Other(other.to_owned()),
    })
}
