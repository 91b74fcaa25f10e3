//! What is made of every answer.

use crate::said::Said;
use crate::support::{Canned, KEY, block_on, config, json, outcome, question, response};
use async_trait::async_trait;
use proptest::prelude::*;
use skill_llm::{
    ApiKey, CallCtx, ChatModel as _, FinishReason, HttpRequest, HttpResponse, LlmError, OpenAiChat,
    Transport, TransportError,
};
use std::sync::Arc;

/// Text, tool calls, finish reason and tokens in one line.
fn shown(body: &str) -> String {
    crate::support::shown(outcome(Ok(response(200, body))))
}

#[track_caller]
fn check_message(message: &str, expect: &str) {
    assert_eq!(shown(&of_message(message)), expect, "{message}");
}

fn of_message(message: &str) -> String {
    format!(r#"{{"choices": [{{"message": {message}, "finish_reason": "stop"}}]}}"#)
}

#[test]
fn messages_in_every_shape() {
    check_message(r#"{"role": "assistant", "content": "hi"}"#, r#"Stop "hi" 0/0/0/0"#);
    check_message(r#"{"content": ""}"#, r#"Stop "" 0/0/0/0"#);
    check_message(r#"{"content": "hi", "refusal": null}"#, r#"Stop "hi" 0/0/0/0"#);
    check_message(r#"{"content": "hi", "refusal": ""}"#, r#"Stop "hi" 0/0/0/0"#);
    check_message(r#"{"content": null, "refusal": "I will not."}"#, r#"ContentFilter "I will not." 0/0/0/0"#);
    check_message(r#"{"content": "hm", "refusal": "no"}"#, r#"ContentFilter "hm" 0/0/0/0"#);
    check_message(r#"{"content": [{"type": "refusal", "refusal": "no"}]}"#, r#"ContentFilter "no" 0/0/0/0"#);
    check_message(r#"{"content": "42", "reasoning_content": "long thought"}"#, r#"Stop "42" 0/0/0/0"#);
    check_message(
        r#"{"content": [{"type": "text", "text": "a"}, {"type": "thinking", "text": "x"}, {"type": "text", "text": "b"}]}"#,
        r#"Stop "ab" 0/0/0/0"#,
    );
    check_message(
        r#"{"content": ["a", {"text": "b"}, {"type": "text"}, 7, {"type": "output_text", "text": "c"}]}"#,
        r#"Stop "abc" 0/0/0/0"#,
    );
    check_message(r#"{"content": "hi", "tool_calls": null}"#, r#"Stop "hi" 0/0/0/0"#);
    check_message(
        r#"{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{\"a\": 1}"}}]}"#,
        r#"Stop "" c1=look({"a": 1}) 0/0/0/0"#,
    );
    check_message(
        r#"{"tool_calls": [{"function": {"name": "a", "arguments": {"x": [1]}}}, {"id": "", "function": {"name": "b"}}]}"#,
        r#"Stop "" call_0=a({"x":[1]}) call_1=b() 0/0/0/0"#,
    );
    check_message(
        r#"{"content": null, "function_call": {"name": "old", "arguments": "not json"}}"#,
        r#"Stop "" call_0=old(not json) 0/0/0/0"#,
    );
    check_message(r#"{"content": "", "function_call": null}"#, r#"Stop "" 0/0/0/0"#);
}

#[test]
fn a_reply_without_content_is_a_fault_unless_it_says_why() {
    #[track_caller]
    fn check(message: &str, finish: &str, expect: &str) {
        let body = format!(r#"{{"choices": [{{"message": {message}, "finish_reason": {finish}}}]}}"#);
        assert_eq!(shown(&body), expect, "{message} {finish}");
    }
    let faulty = |message: &str, finish: &str, reason: &str| {
        let body = format!(r#"{{"choices": [{{"message": {message}, "finish_reason": {finish}}}]}}"#);
        let error = outcome(Ok(response(200, body))).unwrap_err();
        assert!(matches!(error, LlmError::NoContent { .. }), "{message} {finish}: {error:?}");
        let said = error.to_string();
        assert!(said.contains("`content`") && said.contains(reason), "{said}");
    };
    for message in
        [r#"{"content": null}"#, "{}", r#"{"content": []}"#, r#"{"content": null, "tool_calls": []}"#]
    {
        faulty(message, r#""stop""#, "`stop`");
        faulty(message, r#""tool_calls""#, "`tool_calls`");
        faulty(message, "null", "no finish reason");
        check(message, r#""length""#, r#"Length "" 0/0/0/0"#);
        check(message, r#""content_filter""#, r#"ContentFilter "" 0/0/0/0"#);
    }
    // All that the model wrote are its thoughts, and it came to an end.
    for thoughts in [
        r#""reasoning_content": "hm""#,
        r#""reasoning": "hm""#,
        r#""reasoning_details": [{"type": "reasoning.encrypted"}]"#,
    ] {
        let message = format!(r#"{{"content": null, {thoughts}}}"#);
        check(&message, r#""stop""#, r#"Stop "" 0/0/0/0"#);
        faulty(&message, "null", "no finish reason");
    }
    for no_thoughts in [r#""reasoning": null"#, r#""reasoning_content": " ""#, r#""reasoning_details": []"#] {
        faulty(&format!(r#"{{"content": null, {no_thoughts}}}"#), r#""stop""#, "`stop`");
    }
    let reply = r#"{"choices": [{"message": {"content": null}, "finish_reason": "stop"}]}"#;
    let error = outcome(Ok(response(200, reply))).unwrap_err();
    assert!(matches!(error, LlmError::NoContent { .. }) && error.is_retryable(), "{error:?}");
}

/// Whatever a server repeats of what it was shown, and of what other servers of the run were shown, is in no reply.
#[test]
fn a_reply_holds_no_secret_of_the_run() {
    const OTHER: &str = "sk-of-another/model-77";
    let (front, behind) = OTHER.split_at(8);
    let body = serde_json::json!({"choices": [{
        "message": {
            "content": [{"text": format!("I am {KEY}, not {OTHER}. ")}, {"text": front}, {"text": behind}],
            "tool_calls": [{
                "id": format!("call-{KEY}"),
                "function": {"name": KEY, "arguments": serde_json::json!({"key": OTHER, KEY: 1}).to_string()},
            }],
        },
        "finish_reason": format!("because-{OTHER}"),
    }]});
    // A server may write any letter as an escape.
    let escaped = body.to_string().replace("sk-", "\\u0073k-");
    for body in [body.to_string(), escaped] {
        let config = config();
        config.server.secrets.add(&ApiKey::new(OTHER).unwrap());
        let transport = Canned::new(Ok(response(200, body)));
        let model = OpenAiChat::with_transport(config, transport).unwrap();
        let reply = block_on(model.chat(&question(), &CallCtx::default())).unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(reply.text, @"I am [key], not [key]. [key]");
        }
        let call = &reply.tool_calls[0];
        assert_eq!((call.id.as_str(), call.name.as_str()), ("call-[key]", "[key]"));
        // In the order in which it was written.
        assert_eq!(call.arguments, r#"{"key":"[key]","[key]":1}"#);
        assert_eq!(reply.finish, FinishReason::Other("because-[key]".to_owned()));
    }
}

#[track_caller]
fn check_finish(reason: &str, expect: &str) {
    let body = format!(r#"{{"choices": [{{"message": {{"content": "x"}}{reason}}}]}}"#);
    assert_eq!(shown(&body), format!(r#"{expect} "x" 0/0/0/0"#));
}

#[test]
fn finish_reasons() {
    check_finish(r#", "finish_reason": "stop""#, "Stop");
    check_finish(r#", "finish_reason": "length""#, "Length");
    check_finish(r#", "finish_reason": "tool_calls""#, "ToolCalls");
    check_finish(r#", "finish_reason": "function_call""#, "ToolCalls");
    check_finish(r#", "finish_reason": "content_filter""#, "ContentFilter");
    check_finish(r#", "finish_reason": "eos""#, "Stop");
    check_finish(r#", "finish_reason": null"#, "other:");
    check_finish(r#", "finish_reason": 7"#, "other:");
    check_finish("", "other:");
}

#[track_caller]
fn check_usage(usage: &str, expect: &str) {
    let body =
        format!(r#"{{"choices": [{{"message": {{"content": "x"}}, "finish_reason": "stop"}}]{usage}}}"#);
    assert_eq!(shown(&body), format!(r#"Stop "x" {expect}"#));
}

#[test]
fn tokens() {
    check_usage(
        r#", "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 14}"#,
        "9/4/5/3",
    );
    check_usage(r#", "usage": {"prompt_tokens": 9, "completion_tokens": 5}"#, "9/0/5/0");
    check_usage(r#", "usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}"#, "9/8/1/0");
    check_usage(r#", "usage": {"prompt_tokens": 9, "prompt_tokens_details": null}"#, "9/0/1/0");
    check_usage(r#", "usage": {"prompt_tokens": null, "completion_tokens": -1}"#, "0/0/0/0");
    check_usage(r#", "usage": null"#, "0/0/0/0");
    check_usage(r#", "usage": "many""#, "0/0/0/0");
    check_usage("", "0/0/0/0");
}

#[track_caller]
pub(super) fn check_body(body: &str, expect: &str) {
    assert_eq!(shown(body), expect, "{body}");
}

#[test]
fn bodies_that_are_no_reply() {
    let mut said = Said::default();
    let mut check_body = |body: &str, names: &[&str]| {
        said.add(&shown(body), &[&["InvalidReply: ", "http://llm.example/v1"], names].concat());
    };
    check_body("", &[]);
    check_body(" \n", &[]);
    check_body("{}", &["`choices`"]);
    check_body("[]", &["`choices`"]);
    check_body("null", &["`choices`"]);
    check_body(r#"{"choices": null}"#, &["`choices`"]);
    check_body(r#"{"choices": {}}"#, &["`choices`"]);
    check_body(r#"{"choices": []}"#, &["`choices`"]);
    check_body(r#"{"choices": [{}]}"#, &["`choices[0]`", "`message`"]);
    check_body(r#"{"choices": [{"message": "hi"}]}"#, &["`choices[0]`", "`message`"]);
    check_body(&of_message(r#"{"content": 7}"#), &["`content`"]);
    check_body(&of_message(r#"{"content": {"text": "hi"}}"#), &["`content`"]);
    check_body(&of_message(r#"{"tool_calls": "look"}"#), &["`tool_calls`"]);
    check_body(&of_message(r#"{"tool_calls": [{}]}"#), &["`tool_calls[0]`"]);
    check_body(&of_message(r#"{"tool_calls": [{"function": {}}]}"#), &["`tool_calls[0]`"]);
    check_body("<html>\n<body>It works!</body></html>", &["line 1"]);
    let long = format!("plain {}", "x".repeat(300));
    check_body(&long, &[&format!("plain {}..", "x".repeat(194))]);
    check_body(
        r#"{"choices": [{"message": {"content": "cu"#,
        &["line 1", "40", "\"choices\"", "\"message\"", "\"content\""],
    );
    insta::assert_snapshot!(said.text());
}

/// A reply of these bytes and this finish reason, which the server names or not.
#[track_caller]
fn check_bytes(content: &[u8], finish: &str, expect: Result<&str, &str>) {
    let end = format!(r#""}}, "finish_reason": "{finish}"}}]}}"#);
    let body = [br#"{"choices": [{"message": {"content": ""#, content, end.as_bytes()].concat();
    let outcome = outcome(Ok(HttpResponse { body, ..response(200, "") }));
    let found = outcome.as_ref().map(|reply| reply.text.as_str());
    match (found, expect) {
        (Ok(text), Ok(expect)) => assert_eq!(text, expect),
        (Err(LlmError::HalfCharacter { text, .. }), Err(expect)) => {
            assert_eq!(text, expect);
            assert!(outcome.as_ref().unwrap_err().is_retryable());
        }
        (found, expect) => assert_eq!(format!("{found:?}"), format!("{expect:?}"), "{finish}"),
    }
}

#[test]
fn a_reply_that_breaks_off_within_a_character_is_none() {
    check_bytes(b"Paris \xf0\x9f", "stop", Err("Paris"));
    check_bytes(b"Paris \xc3", "tool_calls", Err("Paris"));
    check_bytes(br"Paris \ud83d", "stop", Err("Paris"));
    // A limit on tokens is the reason, and the reply is known to be cut.
    check_bytes(b"Paris \xf0\x9f", "length", Ok("Paris \u{fffd}"));
    check_bytes("Paris \u{fffd}".as_bytes(), "stop", Ok("Paris \u{fffd}"));
    check_bytes("Paris 😀".as_bytes(), "stop", Ok("Paris 😀"));
    check_bytes(br"Paris \ud83d\ude00", "stop", Ok("Paris 😀"));
    // Tokens beside the reply may be halves of its characters.
    let [before, after] = [
        r#"{"choices": [{"message": {"content": "a"}, "logprobs": {"content": [{"token": ""#,
        r#"", "logprob": -0.5}]}, "finish_reason": "stop"}]}"#,
    ];
    let body = [before.as_bytes(), b"\xf0\x9f", after.as_bytes()].concat();
    assert_eq!(outcome(Ok(HttpResponse { body, ..response(200, "") })).unwrap().text, "a");
}

/// Never answers.
struct Silent;

#[async_trait]
impl Transport for Silent {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn cancelling_ends_a_call_that_waits() {
    let model = OpenAiChat::with_transport(config(), Arc::new(Silent)).unwrap();
    let call = CallCtx::default();
    let request = question();
    let (outcome, ()) = tokio::join!(model.chat(&request, &call), async { call.cancel.cancel() });
    assert!(matches!(outcome, Err(LlmError::Cancelled)), "{outcome:?}");
}

const NAMES: &[&str] = &[
    "choices",
    "message",
    "content",
    "error",
    "code",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "usage",
    "prompt_tokens",
    "prompt_tokens_details",
    "cached_tokens",
    "refusal",
    "metadata",
    "raw",
    "finish_reason",
    "detail",
    "status",
    "function_call",
];

const WORDS: &[&str] = &["text", "stop", "length", "tool_calls", "function_call", "content_filter"];

proptest! {
    #[test]
    fn no_bytes_make_it_panic(status in 100_u16..600, body in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(outcome(Ok(response(status, body))));
    }

    #[test]
    fn no_json_makes_it_panic(status in prop_oneof![Just(200_u16), 100_u16..600], body in json(NAMES, WORDS)) {
        drop(outcome(Ok(response(status, body.to_string()))));
    }

    #[test]
    fn no_choice_makes_it_panic(message in json(NAMES, WORDS), usage in json(NAMES, WORDS), error in json(NAMES, WORDS)) {
        let body = serde_json::json!({
            "choices": [{"message": message, "error": error}], "usage": usage,
        });
        drop(outcome(Ok(response(200, body.to_string()))));
    }
}
