//! Messages: what is sent, and what is made of every answer.

use crate::support::{
    Canned, KEY, ask, conversation, json, look, plain, response, shown, shown_request, with_schema,
};
use proptest::prelude::*;
use serde_json::{Value, json as value};
use skill_llm::{
    AnthropicChat, AnthropicConfig, ApiKey, ChatModel as _, ChatRequest, Effort, HttpResponse, LlmError,
    Message, PromptCache, ResponseSchema, SchemaMode, ToolChoice, Transport,
};
use std::sync::Arc;
use std::time::Duration;

const REPLY: &str =
    r#"{"type": "message", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}"#;

fn config() -> AnthropicConfig {
    AnthropicConfig::new("https://api.anthropic.com/v1", "claude-test").with_key(ApiKey::new(KEY).unwrap())
}

fn model(config: AnthropicConfig, answer: HttpResponse) -> (AnthropicChat, Arc<Canned>) {
    let transport = Canned::new(Ok(answer));
    let model = AnthropicChat::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    (model, transport)
}

fn sent(config: AnthropicConfig, request: &ChatRequest) -> Value {
    let (model, transport) = model(config, response(200, REPLY));
    ask(&model, request).unwrap();
    shown_request(&transport.asked()[0])
}

fn body(change: impl FnOnce(&mut AnthropicConfig), request: &ChatRequest) -> Value {
    let mut config = config();
    change(&mut config);
    sent(config, request)["body"].clone()
}

#[test]
fn requests() {
    insta::assert_json_snapshot!("anthropic_plain", sent(config(), &plain()));
    insta::assert_json_snapshot!("anthropic_conversation", sent(config(), &conversation()));
    insta::assert_json_snapshot!("anthropic_schema", sent(config(), &with_schema())["body"]);
    let tool = body(|config| config.schema_mode = SchemaMode::Tool, &with_schema());
    insta::assert_json_snapshot!("anthropic_schema_as_tool", tool);
    let mut thinking = config();
    thinking.reasoning.effort = Some(Effort::High);
    thinking.reasoning.tokens = Some(2_000);
    thinking.sampling.max_tokens = Some(4_000);
    thinking.prompt_cache = PromptCache::OneHour;
    thinking.extra_body.insert("metadata".to_owned(), value!({"user_id": "u"}));
    thinking.extra_body.insert("output_config".to_owned(), value!({"effort": "max"}));
    thinking.server.extra_headers.push(("anthropic-beta".to_owned(), "context-1m".to_owned()));
    insta::assert_json_snapshot!("anthropic_thinking", sent(thinking, &with_schema()));
}

#[test]
fn the_skill_is_behind_a_mark_and_a_conversation_behind_another() {
    let marks = |body: &Value| body.to_string().matches("cache_control").count();
    assert_eq!(marks(&body(|_| {}, &plain())), 1);
    assert_eq!(marks(&body(|_| {}, &conversation())), 2);
    assert_eq!(marks(&body(|config| config.prompt_cache = PromptCache::Off, &conversation())), 0);
    // What would be read once is not paid for twice.
    let single = ChatRequest::new(vec![Message::user("Why?")]);
    assert_eq!(marks(&body(|_| {}, &single)), 0);
    let tools = ChatRequest { tools: vec![look()], ..single };
    let marked = body(|_| {}, &tools);
    assert_eq!(marked["tools"][0]["cache_control"], value!({"type": "ephemeral"}));
    assert_eq!(marks(&marked), 1);
}

#[test]
fn a_mark_does_not_change_what_identifies_a_call() {
    let of = |cache| {
        let config = AnthropicConfig { prompt_cache: cache, ..config() };
        model(config, response(200, REPLY)).0.parameters()
    };
    assert_eq!(of(PromptCache::Off), of(PromptCache::OneHour));
}

#[test]
fn a_loose_schema_is_left_to_the_prompt() {
    let loose = ChatRequest { response_schema: Some(ResponseSchema::any_object()), ..plain() };
    assert_eq!(body(|_| {}, &loose), body(|_| {}, &plain()));
    assert_eq!(body(|config| config.schema_mode = SchemaMode::Off, &with_schema()), body(|_| {}, &plain()));
}

#[test]
fn switches_of_thinking() {
    let thinking = |on| body(|config| config.reasoning.thinking = Some(on), &plain())["thinking"].clone();
    assert_eq!(thinking(true), value!({"type": "adaptive"}));
    assert_eq!(thinking(false), value!({"type": "disabled"}));
    assert_eq!(body(|_| {}, &plain())["thinking"], Value::Null);
}

#[track_caller]
fn check_choice(choice: Option<ToolChoice>, parallel: Option<bool>, expect: &Value) {
    let request =
        ChatRequest { tools: vec![look()], tool_choice: choice, parallel_tool_calls: parallel, ..plain() };
    assert_eq!(body(|_| {}, &request)["tool_choice"], *expect);
}

#[test]
fn choices_of_tools() {
    check_choice(None, None, &Value::Null);
    check_choice(None, Some(true), &value!({"type": "auto", "disable_parallel_tool_use": false}));
    check_choice(Some(ToolChoice::Auto), None, &value!({"type": "auto"}));
    check_choice(Some(ToolChoice::Never), Some(false), &value!({"type": "none"}));
    check_choice(Some(ToolChoice::Required), None, &value!({"type": "any"}));
    check_choice(Some(ToolChoice::Tool("look".to_owned())), None, &value!({"type": "tool", "name": "look"}));
}

#[track_caller]
fn check_refused(change: impl FnOnce(&mut AnthropicConfig), expect: &str) {
    let mut config = config();
    change(&mut config);
    let model = AnthropicChat::with_transport(config, Canned::new(Ok(response(200, REPLY))));
    let error = model.unwrap_err();
    assert!(matches!(error, LlmError::Configuration { .. }) && error.to_string().contains(expect), "{error}");
}

#[test]
fn what_the_interface_does_not_take_is_an_error() {
    check_refused(|config| config.model.clear(), "the name of the model");
    check_refused(|config| config.sampling.seed = Some(1), "`seed`");
    check_refused(|config| config.sampling.temperature = Some(1.5), "`temperature` is 1.5");
    check_refused(|config| config.reasoning.effort = Some(Effort::None), "\"none\"");
    check_refused(|config| config.reasoning.effort = Some(Effort::Minimal), "\"minimal\"");
    check_refused(|config| config.reasoning.tokens = Some(1_000), "at least 1024");
    check_refused(
        |config| {
            config.reasoning.thinking = Some(true);
            config.schema_mode = SchemaMode::Tool;
        },
        "a tool of a model that thinks",
    );
    check_refused(
        |config| {
            config.reasoning.thinking = Some(true);
            config.sampling.temperature = Some(0.0);
        },
        "`temperature` can only be 1",
    );
    check_refused(
        |config| drop(config.extra_body.insert("system".to_owned(), "x".into())),
        "`system` cannot be in `extra_body`",
    );
    check_refused(
        |config| config.server.extra_headers.push(("X-Api-Key".to_owned(), "x".to_owned())),
        "the header `X-Api-Key` cannot be set",
    );
    let (model, transport) = model(config(), response(200, REPLY));
    let mut request = plain();
    request.sampling.seed = Some(7);
    assert!(matches!(ask(&model, &request), Err(LlmError::Configuration { .. })));
    request.sampling = skill_llm::Sampling { temperature: Some(1.01), ..skill_llm::Sampling::default() };
    assert!(matches!(ask(&model, &request), Err(LlmError::Configuration { .. })));
    assert!(transport.asked().is_empty(), "nothing is sent");
}

#[track_caller]
fn check_reply(body: &str, expect: &str) {
    let (model, _) = model(config(), response(200, body));
    assert_eq!(shown(ask(&model, &plain())), expect, "{body}");
}

/// A reply that cannot be read, and a part of it that the error names.
#[track_caller]
fn check_invalid(body: &str, name: &str) {
    let (model, _) = model(config(), response(200, body));
    let error = ask(&model, &plain()).unwrap_err();
    assert!(matches!(error, LlmError::InvalidReply { .. }), "{body}: {error:?}");
    assert!(error.to_string().contains(name), "{error}");
}

#[test]
fn replies() {
    check_reply(
        r#"{"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Be"},
            {"type": "text", "text": "cause."}], "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 20, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100,
            "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}}"#,
        r#"Stop "Because." 125/100/9/4"#,
    );
    check_reply(
        r#"{"content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "toolu_1", "name": "look",
            "input": {"at": 1}}, {"type": "tool_use", "name": "look"}], "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "cache_read_input_tokens": null, "output_tokens": 2}}"#,
        r#"ToolCalls "I look." toolu_1=look({"at":1}) call_2=look() 1/0/2/0"#,
    );
    check_reply(
        r#"{"content": [], "stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "bio",
            "explanation": "Not this."}}"#,
        r#"ContentFilter "Not this." 0/0/0/0"#,
    );
    check_reply(
        r#"{"content": [{"type": "text", "text": "Well"}], "stop_reason": "refusal"}"#,
        r#"ContentFilter "Well" 0/0/0/0"#,
    );
    let finish = |reason: &str, expect: &str| {
        let body = format!(r#"{{"content": [{{"type": "text", "text": "x"}}], "stop_reason": {reason}}}"#);
        check_reply(&body, &format!(r#"{expect} "x" 0/0/0/0"#));
    };
    finish(r#""max_tokens""#, "Length");
    finish(r#""model_context_window_exceeded""#, "Length");
    finish(r#""stop_sequence""#, "Stop");
    finish(r#""pause_turn""#, "other:pause_turn");
    finish("null", "other:");
    check_invalid("{}", "`content`");
    // The models of this dialect end a turn with an empty list where they have nothing to add.
    check_reply(r#"{"content": [], "stop_reason": "end_turn"}"#, r#"Stop "" 0/0/0/0"#);
    check_reply(
        r#"{"content": [{"type": "text", "text": ""}], "stop_reason": null}"#,
        r#"other: "" 0/0/0/0"#,
    );
    check_reply(r#"{"content": [{"type": "thinking"}], "stop_reason": "end_turn"}"#, r#"Stop "" 0/0/0/0"#);
    check_reply(r#"{"content": [], "stop_reason": "max_tokens"}"#, r#"Length "" 0/0/0/0"#);
    for body in [
        r#"{"content": null, "stop_reason": "end_turn"}"#,
        r#"{"stop_reason": "end_turn"}"#,
        r#"{"content": []}"#,
        r#"{"content": [], "stop_reason": "tool_use"}"#,
        r#"{"content": [{"type": "text", "text": null}], "stop_reason": "end_turn"}"#,
    ] {
        let (model, _) = model(config(), response(200, body));
        let error = ask(&model, &plain()).unwrap_err();
        assert!(matches!(error, LlmError::NoContent { .. }) && error.is_retryable(), "{body}: {error:?}");
    }
    check_invalid(r#"{"content": "x"}"#, "`content`");
    check_invalid(r#"{"content": [{"type": "tool_use", "id": "a"}]}"#, "`content[0]`");
}

#[test]
fn the_input_of_the_schema_s_tool_is_the_reply() {
    let mut config = config();
    config.schema_mode = SchemaMode::Tool;
    let answer = r#"{"content": [{"type": "text", "text": "Here:"}, {"type": "tool_use", "id": "t", "name": "patch",
                     "input": {"a": "b"}}], "stop_reason": "tool_use"}"#;
    let (model, _) = model(config, response(200, answer));
    assert_eq!(shown(ask(&model, &with_schema())), r#"Stop "{\"a\":\"b\"}" 0/0/0/0"#);
    // Without a schema it is a call like any other.
    assert_eq!(shown(ask(&model, &plain())), r#"ToolCalls "Here:" t=patch({"a":"b"}) 0/0/0/0"#);
}

#[track_caller]
fn check_error(status: u16, headers: &[(&str, &str)], error: &str, expect: &str) {
    let headers = headers.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let body = format!(r#"{{"type": "error", "error": {error}, "request_id": "req_1"}}"#);
    let (model, _) = model(config(), HttpResponse { status, headers, body: body.clone().into_bytes() });
    let error = ask(&model, &plain()).unwrap_err();
    let wait = match &error {
        LlmError::RateLimited { retry_after, .. } | LlmError::ServerError { retry_after, .. } => *retry_after,
        _ => None,
    };
    let wait = wait.map_or_else(String::new, |wait: Duration| format!(" after {} s", wait.as_secs_f64()));
    assert_eq!(format!("{:?}{wait}", error.class()), expect, "{body}");
    assert!(!error.to_string().contains(KEY), "{error}");
}

#[test]
fn errors_by_class() {
    let error = |kind: &str, message: &str| format!(r#"{{"type": "{kind}", "message": "{message}"}}"#);
    check_error(529, &[], &error("overloaded_error", "Overloaded"), "ServerError");
    check_error(
        529,
        &[("retry-after", "3")],
        &error("overloaded_error", "Overloaded"),
        "ServerError after 3 s",
    );
    check_error(200, &[], &error("overloaded_error", "Overloaded"), "ServerError");
    check_error(500, &[], &error("api_error", "Internal server error"), "ServerError");
    check_error(
        429,
        &[("retry-after", "12")],
        &error("rate_limit_error", "slow down"),
        "RateLimited after 12 s",
    );
    let reset = [
        ("Date", "Wed, 21 Oct 2026 07:28:00 GMT"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2026-10-21T07:28:01Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-10-21T07:28:40Z"),
    ];
    check_error(
        429,
        &reset,
        &error("rate_limit_error", "output tokens per minute"),
        "RateLimited after 40 s",
    );
    let spent = r#"{"type": "rate_limit_error", "message": "limit", "details": {"error_code": "enforced_spend_limit_reached"}}"#;
    check_error(429, &[], spent, "QuotaExhausted");
    check_error(402, &[], &error("billing_error", "pay"), "QuotaExhausted");
    check_error(
        400,
        &[],
        &error("invalid_request_error", "Your credit balance is too low to access the Anthropic API."),
        "QuotaExhausted",
    );
    check_error(
        401,
        &[],
        &error("authentication_error", "invalid x-api-key sk-test-0123456789"),
        "Authentication",
    );
    check_error(403, &[], &error("permission_error", "no"), "Authentication");
    check_error(404, &[], &error("not_found_error", "model: claude-test"), "BadRequest");
    check_error(413, &[], &error("request_too_large", "Request exceeds the maximum size"), "BadRequest");
    check_error(
        400,
        &[],
        &error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "ContextTooLong",
    );
    check_error(
        400,
        &[],
        &error(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 199000 + 16384 > 200000",
        ),
        "ContextTooLong",
    );
    check_error(400, &[], &error("invalid_request_error", "messages: field required"), "BadRequest");
}

#[test]
fn nothing_shows_the_key() {
    let (model, transport) = model(config(), response(401, format!("bad key {KEY}")));
    let error = ask(&model, &plain()).unwrap_err();
    let request = &transport.asked()[0];
    for shown in [
        format!("{error:?} {error}"),
        format!("{model:?}"),
        format!("{request:?}"),
        model.parameters().to_string(),
    ] {
        assert!(!shown.contains(KEY), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(status in 100_u16..600, body in prop::collection::vec(any::<u8>(), 0..200)) {
        let (model, _) = model(config(), response(status, body));
        drop(ask(&model, &plain()));
    }

    #[test]
    fn no_json_makes_it_panic(status in prop_oneof![Just(200_u16), 100_u16..600], body in json()) {
        let (model, _) = model(config(), response(status, body.to_string()));
        drop(ask(&model, &plain()));
    }

    #[test]
    fn no_block_makes_it_panic(block in json(), usage in json(), stop in json()) {
        let body = value!({"content": [block], "usage": usage, "stop_reason": "refusal", "stop_details": stop});
        let (model, _) = model(config(), response(200, body.to_string()));
        drop(ask(&model, &plain()));
    }
}
