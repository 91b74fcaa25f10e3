//! Responses: what is sent, and what is made of every answer.

use crate::said::Said;
use crate::support::{
    Canned, KEY, ask, conversation, json, plain, response, shown, shown_request, with_schema,
};
use proptest::prelude::*;
use serde_json::{Value, json as value};
use skill_llm::{
    ApiKey, ChatModel as _, ChatRequest, Effort, LlmError, ResponseFormat, ResponseSchema, ResponsesChat,
    ResponsesConfig, ToolChoice, Transport,
};
use std::sync::Arc;

const REPLY: &str = r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]}"#;

fn config() -> ResponsesConfig {
    ResponsesConfig::new("https://api.openai.com/v1", "gpt-test").with_key(ApiKey::new(KEY).unwrap())
}

fn model(config: ResponsesConfig, status: u16, body: &str) -> (ResponsesChat, Arc<Canned>) {
    let transport = Canned::new(Ok(response(status, body)));
    let model = ResponsesChat::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    (model, transport)
}

fn sent(config: ResponsesConfig, request: &ChatRequest) -> Value {
    let (model, transport) = model(config, 200, REPLY);
    ask(&model, request).unwrap();
    shown_request(&transport.asked()[0])
}

#[test]
fn requests() {
    insta::assert_json_snapshot!("responses_plain", sent(config(), &plain()));
    insta::assert_json_snapshot!("responses_conversation", sent(config(), &conversation())["body"]);
    let mut thinking = config();
    thinking.reasoning.effort = Some(Effort::Minimal);
    thinking.extra_body.insert("reasoning".to_owned(), value!({"summary": "auto"}));
    thinking.extra_body.insert("text".to_owned(), value!({"verbosity": "low"}));
    insta::assert_json_snapshot!("responses_schema_and_thinking", sent(thinking, &with_schema())["body"]);
}

#[test]
fn formats_and_switches() {
    let format = |format, schema: ResponseSchema| {
        let request = ChatRequest { response_schema: Some(schema), ..plain() };
        sent(ResponsesConfig { response_format: format, ..config() }, &request)["body"]["text"].clone()
    };
    let object = value!({"format": {"type": "json_object"}});
    assert_eq!(format(ResponseFormat::JsonSchema, ResponseSchema::any_object()), object);
    assert_eq!(format(ResponseFormat::JsonObject, crate::support::schema()), object);
    assert_eq!(format(ResponseFormat::Off, crate::support::schema()), Value::Null);
    let effort = |thinking| {
        let mut config = config();
        config.reasoning.thinking = thinking;
        sent(config, &plain())["body"]["reasoning"].clone()
    };
    assert_eq!(effort(Some(false)), value!({"effort": "none"}));
    assert_eq!(effort(Some(true)), value!({"effort": "medium"}));
    assert_eq!(effort(None), Value::Null);
    let named = ChatRequest { tool_choice: Some(ToolChoice::Tool("look".to_owned())), ..conversation() };
    assert_eq!(sent(config(), &named)["body"]["tool_choice"], value!({"type": "function", "name": "look"}));
}

#[test]
fn what_the_interface_does_not_take_is_an_error() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut ResponsesConfig), expect: &str) {
        let mut config = config();
        change(&mut config);
        let model = ResponsesChat::with_transport(config, Canned::new(Ok(response(200, REPLY))));
        let error = model.unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    }
    check(|config| config.sampling.seed = Some(1), "`seed`");
    check(|config| config.sampling.max_tokens = Some(15), "`max_tokens` is 15");
    check(|config| config.reasoning.tokens = Some(15), "`thinking_tokens`");
    check(|config| config.response_format = ResponseFormat::JsonObjectSchema, "json_object_schema");
    check(
        |config| drop(config.extra_body.insert("input".to_owned(), 1.into())),
        "`input` cannot be in `extra_body`",
    );
    let (model, transport) = model(config(), 200, REPLY);
    let request = ChatRequest { stop: vec!["x".to_owned()], ..plain() };
    assert!(matches!(ask(&model, &request), Err(LlmError::Configuration { .. })));
    assert!(transport.asked().is_empty(), "nothing is sent");
}

#[track_caller]
fn check_reply(status: u16, body: &str, expect: &str) {
    let (model, _) = model(config(), status, body);
    assert_eq!(shown(ask(&model, &plain())), expect, "{body}");
}

#[test]
fn replies() {
    check_reply(
        200,
        r#"{"id": "resp_1", "object": "response", "status": "completed", "error": null, "incomplete_details": null,
            "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "Be", "annotations": []}, {"type": "output_text",
            "text": "cause."}]}], "usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 30},
            "output_tokens": 87, "output_tokens_details": {"reasoning_tokens": 64}, "total_tokens": 123}}"#,
        r#"Stop "Because." 36/30/87/64"#,
    );
    check_reply(
        200,
        r#"{"status": "completed", "output": [{"type": "function_call", "id": "fc_1", "call_id": "call_1",
            "name": "look", "arguments": "{\"at\": 1}", "status": "completed"}, {"type": "function_call",
            "name": "look"}]}"#,
        r#"ToolCalls "" call_1=look({"at": 1}) call_1=look() 0/0/0/0"#,
    );
    check_reply(
        200,
        r#"{"status": "completed", "output": [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}]}"#,
        r#"ContentFilter "No." 0/0/0/0"#,
    );
    let incomplete = |reason: &str, expect: &str| {
        let body = format!(
            r#"{{"status": "incomplete", "incomplete_details": {{"reason": {reason}}}, "output": [{{"type": "message",
                "content": [{{"type": "output_text", "text": "x"}}]}}]}}"#
        );
        check_reply(200, &body, &format!(r#"{expect} "x" 0/0/0/0"#));
    };
    incomplete(r#""max_output_tokens""#, "Length");
    incomplete(r#""content_filter""#, "ContentFilter");
    incomplete("null", "other:");
    check_reply(200, r#"{"output": [{"content": "x"}]}"#, r#"other: "x" 0/0/0/0"#);
    let phases = |messages: &[(&str, &str)], expect: &str, reasoning: Option<&str>| {
        let items: Vec<Value> = messages
            .iter()
            .map(|(phase, text)| {
                let mut item =
                    value!({"type": "message", "content": [{"type": "output_text", "text": text}]});
                if !phase.is_empty() {
                    item["phase"] = (*phase).into();
                }
                item
            })
            .collect();
        let body = value!({"status": "completed", "output": items}).to_string();
        let reply = ask(&model(config(), 200, &body).0, &plain()).unwrap();
        assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), (expect, reasoning), "{body}");
    };
    let (commentary, last) = (("commentary", "I think of it."), ("final_answer", "Paris"));
    phases(&[commentary, last], "Paris", Some("I think of it."));
    phases(&[last, commentary], "Paris", Some("I think of it."));
    phases(&[("commentary", "Paris"), last], "Paris", Some("Paris"));
    phases(&[commentary, ("", "Paris")], "Paris", Some("I think of it."));
    phases(&[commentary, ("", "Lyon"), last], "Paris", Some("I think of it.\n\nLyon"));
    phases(&[commentary], "I think of it.", None);
    phases(&[("", "Be"), ("", "cause.")], "Be\n\ncause.", None);
    phases(&[last, ("final_answer", "Or Lyon")], "Paris\n\nOr Lyon", None);
    let said = |text: &str| {
        let part = format!(r#"{{"type": "output_text", "text": {text}}}"#);
        format!(r#"{{"status": "completed", "output": [{{"type": "message", "content": [{part}]}}]}}"#)
    };
    check_reply(200, &said(r#""""#), r#"Stop "" 0/0/0/0"#);
    check_reply(200, r#"{"status": "completed", "output": [{"type": "reasoning"}]}"#, r#"Stop "" 0/0/0/0"#);
    let cut =
        r#"{"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}"#;
    check_reply(200, cut, r#"Length "" 0/0/0/0"#);
    for body in [
        r#"{"status": "completed", "output": []}"#,
        r#"{"status": "completed", "output": [{"type": "message", "content": null}]}"#,
        r#"{"status": "completed", "output": [{"type": "message", "content": []}]}"#,
        r#"{"status": "incomplete", "output": []}"#,
        r#"{"output": []}"#,
        &said("null"),
    ] {
        let error = ask(&model(config(), 200, body).0, &plain()).unwrap_err();
        assert!(matches!(error, LlmError::NoContent { .. }) && error.is_retryable(), "{body}: {error:?}");
    }
}

#[test]
fn errors_by_class() {
    const AT: &str = "https://api.openai.com/v1";
    let mut said = Said::default();
    let mut check_reply = |status: u16, body: &str, names: &[&str]| {
        let (model, _) = model(config(), status, body);
        said.add(&shown(ask(&model, &plain())), &[&[AT], names].concat());
    };
    check_reply(200, "{}", &["InvalidReply: ", "`output`"]);
    check_reply(200, r#"{"output": 1}"#, &["InvalidReply: ", "`output`"]);
    check_reply(200, r#"{"status": "in_progress", "output": []}"#, &["InvalidReply: "]);
    check_reply(200, r#"{"status": "failed", "output": []}"#, &["ServerError: "]);
    check_reply(
        200,
        r#"{"status": "failed", "error": {"code": "server_error", "message": "oh"}, "output": []}"#,
        &["ServerError: ", "HTTP 200", ": oh"],
    );
    check_reply(
        200,
        r#"{"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}, "output": []}"#,
        &["RateLimited: ", "HTTP 429", ": slow"],
    );
    check_reply(
        400,
        r#"{"error": {"message": "too much", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#,
        &["ContextTooLong: ", "HTTP 400", ": too much"],
    );
    check_reply(
        404,
        r#"{"error": {"message": "no such path"}}"#,
        &["BadRequest: ", "HTTP 404", "/responses", ": no such path"],
    );
    check_reply(
        401,
        &format!(r#"{{"error": {{"message": "wrong: {KEY}"}}}}"#),
        &["Authentication: ", "HTTP 401", "wrong: [key]"],
    );
    insta::assert_snapshot!("responses_errors", said.text());
}

#[test]
fn nothing_shows_the_key() {
    let (model, _) = model(config(), 200, REPLY);
    let shown = format!("{model:?} {}", model.parameters());
    assert!(!shown.contains(KEY), "{shown}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(status in 100_u16..600, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let model = ResponsesChat::with_transport(config(), Canned::new(Ok(response(status, body)))).unwrap();
        drop(ask(&model, &plain()));
    }

    #[test]
    fn no_item_makes_it_panic(item in json(), usage in json(), error in json()) {
        let body = value!({"output": [item], "usage": usage, "error": error, "status": "incomplete"});
        drop(ask(&model(config(), 200, &body.to_string()).0, &plain()));
        let body = value!({"output": [{"type": "message", "content": [item]}], "status": "completed"});
        drop(ask(&model(config(), 200, &body.to_string()).0, &plain()));
    }
}
