//! What only the inside shows: that no body makes the readers panic.

use super::{anthropic, openai, responses, streaming};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use skill_llm::{ChatReply, FinishReason, ToolCall, Usage};

/// Any JSON, with the words of both dialects in many places.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<f64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        word().prop_map(Value::String),
        ".{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((word(), inner), 0..6).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "messages",
        "instructions",
        "call_id",
        "output",
        "function_call",
        "function_call_output",
        "input_text",
        "output_text",
        "format",
        "role",
        "content",
        "system",
        "user",
        "assistant",
        "tool",
        "type",
        "text",
        "image",
        "image_url",
        "url",
        "source",
        "base64",
        "media_type",
        "data",
        "tools",
        "function",
        "name",
        "id",
        "arguments",
        "input",
        "tool_use",
        "tool_result",
        "tool_use_id",
        "tool_call_id",
        "tool_calls",
        "input_schema",
        "parameters",
        "tool_choice",
        "any",
        "auto",
        "model",
        "max_tokens",
        "stop",
        "response_format",
        "json_schema",
        "schema",
        "data:image/png;base64,=",
        "stream",
        "n",
    ])
    .prop_map(str::to_owned)
}

fn body() -> impl Strategy<Value = Map<String, Value>> {
    let message = prop::collection::vec((word(), any_json()), 0..5);
    let messages = prop::collection::vec(message, 0..4);
    let fields = prop::collection::vec((word(), any_json()), 0..8);
    (messages, fields).prop_map(|(messages, fields)| {
        let mut body: Map<String, Value> = fields.into_iter().collect();
        let messages = messages.into_iter().map(|message| message.into_iter().collect::<Value>());
        let messages: Value = messages.collect();
        body.insert("input".to_owned(), messages.clone());
        body.insert("messages".to_owned(), messages);
        body
    })
}

proptest! {
    #[test]
    fn no_body_makes_a_reader_panic(body in body()) {
        let read = [
            openai::request(&body),
            responses::request(&body),
            anthropic::request(&body),
            anthropic::request_to_count(&body),
        ];
        for outcome in read {
            if let Err(problem) = outcome {
                prop_assert!(!problem.message.is_empty());
            }
        }
    }

    #[test]
    fn whatever_a_model_says_arrives_by_either_way(text in "\\PC{0,600}", arguments in "\\PC{0,40}") {
        let mut fields = Map::new();
        fields.insert("model".to_owned(), json!("m"));
        fields.insert("messages".to_owned(), json!([{"role": "user", "content": "x"}]));
        let form = openai::request(&fields).map_err(|problem| TestCaseError::fail(problem.message))?.form;
        let call = ToolCall { id: "c".to_owned(), name: "f".to_owned(), arguments: arguments.clone() };
        let reply =
            ChatReply::new(text.clone(), Usage::default(), FinishReason::ToolCalls).with_tool_calls(vec![call]);
        let openai = events(&streaming::openai_events(&reply, &form, "id"));
        prop_assert_eq!(joined(&openai, "/choices/0/delta/content"), text.clone());
        prop_assert_eq!(joined(&openai, "/choices/0/delta/tool_calls/0/function/arguments"), arguments.clone());
        let responses = events(&streaming::responses_events(&reply, &form, 0));
        let of_kind = |kind: &str| -> Vec<Value> {
            responses.iter().filter(|event| event.get("type").is_some_and(|found| found == kind)).cloned().collect()
        };
        prop_assert_eq!(joined(&of_kind("response.output_text.delta"), "/delta"), text.clone());
        prop_assert_eq!(joined(&of_kind("response.function_call_arguments.delta"), "/delta"), arguments.clone());
        let anthropic = events(&streaming::anthropic_events(&reply, &form, "id"));
        prop_assert_eq!(joined(&anthropic, "/delta/text"), text);
        let input: Value = serde_json::from_str(&joined(&anthropic, "/delta/partial_json"))
            .map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(input, anthropic::input(&arguments));
    }
}

/// The data of server-sent events.
fn events(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The texts at this place of the events, put together.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}
