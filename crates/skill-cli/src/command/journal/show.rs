//! `skillrl journal show`: one call with everything.

use crate::args::journal::JournalShowArgs;
use crate::table::{Column, counted, duration, harmless, table, terminal_width};
use serde_json::Value;
use std::fmt::Write as _;

const ATTEMPTS: [Column; 7] = [
    Column::number("#"),
    Column::text("started (UTC)"),
    Column::text("outcome"),
    Column::number("waited"),
    Column::number("took"),
    Column::number("in"),
    Column::number("out"),
];

/// How many numbers of a vector are shown.
const SHOWN_NUMBERS: usize = 4;

pub(super) fn run(args: &JournalShowArgs) -> crate::Result {
    let reader = super::open(&args.run)?;
    let Some(call) = reader.call(args.id).map_err(super::of_journal)? else {
        let message = format!("the journal holds no call with the number {}", args.id);
        let hint = format!("`skillrl journal list {}` shows the numbers", args.run.display());
        return Err(super::super::CommandError::new(message).with_hint(hint).into());
    };
    let text = if args.json { format!("{call}\n") } else { describe(&call, terminal_width()) };
    super::super::print(&text)
}

fn describe(call: &Value, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:8} {}", harmless(&value));
    };
    line("call", shown(at(call, "/call")));
    line("place", format!("{}{}", shown(at(call, "/place")), repetition(call)));
    let revision = at(call, "/model/revision").as_str().map(|revision| format!(" ({revision})"));
    let (name, provider) = (shown(at(call, "/model/name")), shown(at(call, "/model/provider")));
    line("model", format!("{name}{} at {provider}", revision.unwrap_or_default()));
    line("asked", asked(call));
    line("outcome", outcome(call));
    line("ended", utc(at(call, "/finished_at").as_i64().unwrap_or_default()));

    let is_embedding = at(call, "/kind") == "embedding";
    for (index, message) in elements(call, "/messages").enumerate() {
        let spoken = match message.get("text") {
            Some(text) => shown(text),
            None => spoken_parts(message),
        };
        let heading = if is_embedding { format!("text {index}") } else { shown(at(message, "/role")) };
        block(&mut text, &heading, &spoken);
    }
    if let Some(vectors) = call.get("vectors").and_then(Value::as_array).filter(|vectors| !vectors.is_empty())
    {
        let lines: String =
            vectors.iter().enumerate().map(|(index, vector)| vector_line(index, vector)).collect();
        block(&mut text, "vectors", &lines);
    }
    if call.get("reasoning").is_some_and(Value::is_string) {
        block(&mut text, "reasoning", &shown(at(call, "/reasoning")));
    }
    if call.get("reply").is_some_and(Value::is_string) {
        let calls = elements(call, "/tool_calls").map(|tool| tool.to_string() + "\n");
        block(&mut text, "reply", &(shown(at(call, "/reply")) + "\n" + &calls.collect::<String>()));
    }
    if call.get("error").is_some_and(Value::is_string) {
        block(&mut text, "error", &shown(at(call, "/error")));
    }
    text.push_str(&attempts(call, width));
    text
}

/// Text under a heading; the heading's colour is taken away where it does not belong.
fn block(text: &mut String, heading: &str, content: &str) {
    let style = anstyle::Style::new().bold();
    let content = harmless(content);
    let _ = writeln!(text, "\n{style}── {} ──{style:#}", harmless(heading));
    let _ = writeln!(text, "{}", content.trim_end());
}

fn attempts(call: &Value, width: Option<usize>) -> String {
    let microseconds =
        |attempt: &Value, path: &str| duration(at(attempt, path).as_i64().unwrap_or_default() / 1000);
    let rows: Vec<Vec<String>> = elements(call, "/attempts")
        .map(|attempt| {
            vec![
                shown(at(attempt, "/number")),
                utc(at(attempt, "/started_at").as_i64().unwrap_or_default()),
                shown(at(attempt, "/outcome")),
                microseconds(attempt, "/waited_us"),
                microseconds(attempt, "/took_us"),
                shown(at(attempt, "/usage/input")),
                shown(at(attempt, "/usage/output")),
            ]
        })
        .collect();
    let mut text = String::new();
    if rows.is_empty() {
        block(&mut text, "attempts", "none: the reply was copied from a recording");
        return text;
    }
    block(&mut text, "attempts", &table(&ATTEMPTS, &rows, width));
    for attempt in
        elements(call, "/attempts").filter(|attempt| attempt.get("error").is_some_and(Value::is_string))
    {
        let error = format!("{}: {}", shown(at(attempt, "/number")), shown(at(attempt, "/error")));
        let _ = writeln!(text, "{}", harmless(&error));
    }
    text
}

fn repetition(call: &Value) -> String {
    match at(call, "/occurrence").as_i64() {
        Some(occurrence) if occurrence > 0 => format!(" (asked the same {occurrence} times before)"),
        Some(_) | None => String::new(),
    }
}

/// The length of a vector and its first numbers; `--json` shows all of it.
fn vector_line(index: usize, vector: &Value) -> String {
    let numbers = vector.as_array().map(Vec::as_slice).unwrap_or_default();
    let first: Vec<String> = numbers.iter().take(SHOWN_NUMBERS).map(Value::to_string).collect();
    let rest = if numbers.len() > SHOWN_NUMBERS { ", …" } else { "" };
    format!("{index}: {} numbers, {}{rest}\n", numbers.len(), first.join(", "))
}

/// The sampling parameters, the tools' names and the name of the schema.
fn asked(call: &Value) -> String {
    if at(call, "/kind") == "embedding" {
        return format!("vectors of {}", counted(elements(call, "/messages").count() as u64, "text"));
    }
    let sampling = at(call, "/request/sampling").as_object();
    let mut parts: Vec<String> =
        sampling.into_iter().flatten().map(|(name, value)| format!("{name} {value}")).collect();
    parts.extend(elements(call, "/request/tools").map(|tool| format!("tool {}", shown(at(tool, "/name")))));
    if let Some(schema) = at(call, "/request/response_schema/name").as_str() {
        parts.push(format!("reply as {schema}"));
    }
    if parts.is_empty() { "nothing in particular".to_owned() } else { parts.join(", ") }
}

fn outcome(call: &Value) -> String {
    let outcome = shown(at(call, "/outcome"));
    if outcome != "reply" {
        return outcome;
    }
    let tokens = |name: &str| shown(at(call, &format!("/usage/{name}")));
    if at(call, "/kind") == "embedding" {
        return format!("reply, {} tokens in", tokens("input"));
    }
    let [input, cached, output, reasoning] = ["input", "cached", "output", "reasoning"].map(tokens);
    format!(
        "reply ({}), {input} tokens in ({cached} cached), {output} out ({reasoning} reasoning)",
        shown(at(call, "/finish"))
    )
}

/// What a message says that is more than text.
fn spoken_parts(message: &Value) -> String {
    let mut lines: Vec<String> = elements(message, "/content")
        .map(|part| part.get("text").map_or_else(|| "[an image]".to_owned(), shown))
        .collect();
    lines.extend(elements(message, "/tool_calls").map(Value::to_string));
    if let Some(id) = message.get("tool_call_id").and_then(Value::as_str) {
        lines.insert(0, format!("[answers the tool call {id}]"));
    }
    lines.join("\n")
}

/// What is there, or null.
fn at<'value>(value: &'value Value, pointer: &str) -> &'value Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn elements<'value>(value: &'value Value, pointer: &str) -> impl Iterator<Item = &'value Value> {
    at(value, pointer).as_array().into_iter().flatten()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "nothing".to_owned(),
        other => other.to_string(),
    }
}

/// Milliseconds since 1970 as a date and a time of day; a number that no calendar reaches stays one.
fn utc(milliseconds: i64) -> String {
    match jiff::Timestamp::from_millisecond(milliseconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        Err(_) => format!("{milliseconds} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_are_dates() {
        for (milliseconds, expect) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_399_999, "2000-02-28 23:59:59.999"),
            (951_868_799_000, "2000-02-29 23:59:59.000"),
            (1_709_251_200_000, "2024-03-01 00:00:00.000"),
            (1_735_689_599_007, "2024-12-31 23:59:59.007"),
            (-1, "1969-12-31 23:59:59.999"),
            (i64::MAX, "9223372036854775807 ms"),
        ] {
            assert_eq!(utc(milliseconds), expect);
        }
    }

    #[test]
    fn a_call_is_shown_with_everything() {
        let usage = json!({"input": 12, "cached": 3, "output": 5, "reasoning": 1});
        let call = json!({
            "call": 7, "place": "step 3 / rollout / q1", "occurrence": 1,
            "model": {"provider": "https://example.org/v1", "name": "m"},
            "messages": [
                {"role": "system", "text": "Be exact.\n"},
                {"role": "user", "content": [{"text": "Look:"}, {"image": {"url": "u"}}]},
                {"role": "tool", "content": [{"text": "42"}], "tool_call_id": "t1"},
            ],
            "request": {
                "sampling": {"max_tokens": 64}, "tools": [{"name": "look"}], "response_schema": {"name": "patch"},
            },
            "outcome": "reply", "reply": "done\u{1b}[31m", "tool_calls": [{"name": "look"}], "finish": "stop",
            "error": null, "usage": usage, "finished_at": 1_709_251_200_000_i64,
            "attempts": [
                {"number": 1, "started_at": 0, "waited_us": 0, "took_us": 1_500_000, "outcome": "rate_limited",
                 "error": "slow down", "usage": {"input": 0, "output": 0}},
                {"number": 2, "started_at": 2000, "waited_us": 250_000, "took_us": 9000, "outcome": "reply",
                 "error": null, "usage": usage},
            ],
        });
        insta::assert_snapshot!(anstream::adapter::strip_str(&describe(&call, Some(80))));
    }

    #[test]
    fn a_call_of_an_embedding_model_is_shown_with_its_vectors() {
        let usage = json!({"input": 12, "cached": 0, "output": 0, "reasoning": 0});
        let call = json!({
            "call": 8, "place": "step 3 / retrieve", "occurrence": 0, "kind": "embedding",
            "model": {"provider": "https://example.org/v1", "name": "vectors"},
            "messages": [{"role": "user", "text": "heat an egg"}, {"role": "user", "text": "cool a cup"}],
            "request": {}, "outcome": "reply", "reply": null, "tool_calls": null, "finish": null, "error": null,
            "usage": usage, "finished_at": 1_709_251_200_000_i64,
            "vectors": [[0.5, -1.0, 0.25, 1e-3, 7.0, 8.0], [1.0, 2.0]],
            "attempts": [
                {"number": 1, "started_at": 0, "waited_us": 0, "took_us": 9000, "outcome": "reply", "error": null,
                 "usage": usage},
            ],
        });
        insta::assert_snapshot!(anstream::adapter::strip_str(&describe(&call, Some(80))));
    }

    #[test]
    fn a_call_that_came_to_nothing_says_why() {
        let call = json!({
            "call": 1, "place": "baseline / q", "outcome": "timeout", "error": "no answer in 60 s", "reply": null,
            "messages": [], "attempts": [],
        });
        let text = anstream::adapter::strip_str(&describe(&call, None)).to_string();
        assert!(text.contains("outcome  timeout\n") && text.contains("no answer in 60 s"), "{text}");
    }
}
