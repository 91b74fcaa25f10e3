//! The Jinja of transformers: its filters, functions and ways to write values.

use super::{Conversation, RenderOptions, date, json, methods};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value, escape_formatter};
use serde_json::Map;
use std::collections::BTreeMap;

/// The name of the only template, or of that for conversations without tools.
pub(super) const DEFAULT: &str = "default";
/// The name of the template for conversations with tools.
pub(super) const TOOL_USE: &str = "tool_use";

/// The message of `raise_exception`, by which a template refuses a conversation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RaisedByTemplate(pub(super) String);

/// An environment without templates.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // The delimiters are the usual ones, which always work together.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_formatter(|out, state, value| match (value.kind(), value.is_true()) {
        (ValueKind::Bool, true) => out.write_str("True").map_err(Error::from),
        (ValueKind::Bool, false) => out.write_str("False").map_err(Error::from),
        (ValueKind::None, _) => out.write_str("None").map_err(Error::from),
        _ => escape_formatter(out, state, value),
    });
    environment.set_unknown_method_callback(|_, value, method, args| methods::call(value, method, args));
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", to_json);
    // Of `tools` and `documents`, which are `None` where there are none, templates ask exactly this.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    let raised = RaisedByTemplate(message.to_owned());
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let separators: Option<Vec<String>> = options.get("separators")?;
    let layout = json::Layout {
        indent: options.get("indent")?,
        separators: separators.and_then(|pair| <[String; 2]>::try_from(pair).ok()),
        ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sorted: options.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    options.assert_all_used()?;
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, "not JSON").with_source(error))?;
    Ok(layout.dump(&value))
}

/// The variables of a template.
pub(super) fn context(
    conversation: &Conversation,
    options: &RenderOptions,
    tokens: &Map<String, serde_json::Value>,
    now: Option<i64>,
) -> Value {
    let list =
        |values: &[serde_json::Value]| Value::from(values.iter().map(json::ordered).collect::<Vec<_>>());
    let mut variables: BTreeMap<String, Value> = BTreeMap::new();
    for (name, value) in tokens.iter().chain(&options.variables) {
        variables.insert(name.clone(), json::ordered(value));
    }
    let tools = if conversation.tools.is_empty() { Value::from(()) } else { list(&conversation.tools) };
    let messages: Vec<serde_json::Value> = conversation.messages.iter().map(with_reasoning).collect();
    variables.insert("messages".to_owned(), list(&messages));
    variables.insert("tools".to_owned(), tools);
    variables.insert("documents".to_owned(), Value::from(()));
    variables.insert("add_generation_prompt".to_owned(), Value::from(options.generation_prompt));
    if let Some(now) = now {
        let strftime_now = move |format: &str| {
            date::format(now, format).map_err(|message| Error::new(ErrorKind::InvalidOperation, message))
        };
        variables.insert("strftime_now".to_owned(), Value::from_function(strftime_now));
    }
    Value::from(variables)
}

/// A message whose thoughts have every name that templates read them by, as transformers gives them.
fn with_reasoning(message: &serde_json::Value) -> serde_json::Value {
    let fields = ["reasoning_content", "thinking", "reasoning"];
    let thoughts =
        fields.iter().find_map(|field| message.get(field).filter(|value| !value.is_null())).cloned();
    let mut message = message.clone();
    if let (Some(thoughts), Some(fields)) = (thoughts, message.as_object_mut()) {
        fields.insert("reasoning_content".to_owned(), thoughts.clone());
        fields.entry("thinking").or_insert(thoughts);
    }
    message
}

/// The template with the tags `generation` and `endgeneration`, by which training templates mark what the agent says,
/// as an `if` that always holds. (Spans are found by difference here, which needs no marks.)
pub(super) fn without_generation_marks(source: &str) -> String {
    let mut written = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, tag)) = rest.split_once("{%") {
        written.push_str(before);
        written.push_str("{%");
        rest = tag;
        let opened = tag.trim_start_matches(['-', '+']);
        let word = opened.trim_start();
        for (mark, instead) in [("generation", "if true"), ("endgeneration", "endif")] {
            let after = word
                .strip_prefix(mark)
                .filter(|after| after.trim_start().trim_start_matches(['-', '+']).starts_with("%}"));
            if let Some(after) = after {
                let control = tag.len() - opened.len();
                written.push_str(tag.get(..control).unwrap_or_default());
                written.push_str(&format!(" {instead} "));
                rest = after.trim_start();
            }
        }
    }
    written.push_str(rest);
    written
}
