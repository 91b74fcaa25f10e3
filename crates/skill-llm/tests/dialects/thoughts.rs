//! Reasoning, log-probabilities, and what dialects need back with the results of tool calls.

use crate::support::{Canned, ask, look, plain, response, shown_request};
use proptest::prelude::*;
use serde_json::{Value, json};
use skill_llm::{
    AgentConfig, AgentKind, AgentModel, AnthropicChat, AnthropicConfig, ChatModel, ChatReply, ChatRequest,
    Effort, ErrorClass, Message, OpenAiChat, OpenAiConfig, ProviderState, ResponsesChat, ResponsesConfig,
    Sampling, Script, ScriptedModel, ToolChoice, Transport,
};
use std::sync::Arc;

fn canned(answer: &Value) -> Arc<Canned> {
    Canned::new(Ok(response(200, answer.to_string())))
}

fn openai(transport: &Arc<Canned>) -> OpenAiChat {
    let config = OpenAiConfig::new("https://llm.example/v1", "m");
    OpenAiChat::with_transport(config, Arc::clone(transport) as Arc<dyn Transport>).unwrap()
}

fn anthropic(transport: &Arc<Canned>, change: impl FnOnce(&mut AnthropicConfig)) -> AnthropicChat {
    let mut config = AnthropicConfig::new("https://llm.example/v1", "m");
    change(&mut config);
    AnthropicChat::with_transport(config, Arc::clone(transport) as Arc<dyn Transport>).unwrap()
}

fn responses(transport: &Arc<Canned>) -> ResponsesChat {
    let mut config = ResponsesConfig::new("https://llm.example/v1", "m");
    config.reasoning.effort = Some(Effort::Low);
    ResponsesChat::with_transport(config, Arc::clone(transport) as Arc<dyn Transport>).unwrap()
}

fn first() -> ChatRequest {
    ChatRequest { tools: vec![look()], ..plain() }
}

/// The request after a reply whose first tool call was answered.
fn second(reply: &ChatReply) -> ChatRequest {
    let mut request = first();
    let id = reply.tool_calls[0].id.clone();
    request.messages.extend([Message::reply(reply), Message::tool_result(id, "a cat")]);
    request
}

/// The reply to the first request, and the body of the second one.
fn two_turns(model: &dyn ChatModel, transport: &Canned) -> (ChatReply, Value) {
    let reply = ask(model, &first()).unwrap();
    ask(model, &second(&reply)).unwrap();
    (reply, shown_request(&transport.asked()[1])["body"].clone())
}

/// What the journal and the wire between machines do to a message.
fn copied(message: &Message) -> Message {
    serde_json::from_str(&serde_json::to_string(message).unwrap()).unwrap()
}

fn thinking_blocks() -> Value {
    json!([
        {"type": "thinking", "thinking": "A cat?", "signature": "EqQB"},
        {"type": "redacted_thinking", "data": "EmwK"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}},
    ])
}

#[test]
fn thoughts_of_anthropic_go_back_unchanged_with_the_results_of_calls() {
    let transport = canned(&json!({"content": thinking_blocks(), "stop_reason": "tool_use"}));
    let model = anthropic(&transport, |config| config.reasoning.tokens = Some(2_000));
    let (reply, body) = two_turns(&model, &transport);
    assert_eq!((reply.text.as_str(), reply.reasoning.as_deref()), ("I look.", Some("A cat?")));
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": thinking_blocks()}));
    let message = Message::reply(&reply);
    assert_eq!(copied(&message), message);
    // Another dialect sends what it knows of the message.
    let other = canned(&json!({"choices": [{"message": {"content": "x"}}]}));
    ask(&openai(&other), &second(&reply)).unwrap();
    let sent = &shown_request(&other.asked()[0])["body"]["messages"][2];
    assert_eq!((&sent["content"], &sent["tool_calls"][0]["id"]), (&json!("I look."), &json!("toolu_1")));
}

#[test]
fn an_answer_keeps_no_thoughts_for_later() {
    let transport = canned(&json!({
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
    }));
    let reply = ask(&anthropic(&transport, |_| {}), &plain()).unwrap();
    assert_eq!((reply.reasoning.as_deref(), reply.provider_state), (Some("Hm."), None));
}

#[track_caller]
fn check_refused(model: &dyn ChatModel, request: &ChatRequest, transport: Option<&Canned>, expect: &str) {
    let error = ask(model, request).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Configuration, "{error}");
    assert!(error.to_string().contains(expect), "{error}");
    assert!(transport.is_none_or(|transport| transport.asked().is_empty()), "nothing is sent");
}

#[test]
fn what_a_thinking_model_would_refuse_is_refused_before_it_is_sent() {
    let transport = canned(&json!({"content": thinking_blocks(), "stop_reason": "tool_use"}));
    let reply = ask(&anthropic(&transport, |_| {}), &first()).unwrap();
    let mut without = second(&reply);
    without.messages[2].provider_state = None;
    let mut foreign = second(&reply);
    foreign.messages[2].provider_state =
        Some(Arc::new(ProviderState { dialect: "openai".to_owned(), value: json!({}) }));
    for request in [&without, &foreign] {
        let transport = canned(&json!({}));
        let budget = anthropic(&transport, |config| config.reasoning.tokens = Some(2_000));
        check_refused(&budget, request, Some(&transport), "thinking_tokens");
        // A model that thinks as it sees fit may not have thought.
        let transport =
            canned(&json!({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}));
        ask(&anthropic(&transport, |config| config.reasoning.thinking = Some(true)), request).unwrap();
    }
    let required = ChatRequest { tool_choice: Some(ToolChoice::Required), ..first() };
    let transport = canned(&json!({}));
    let thinking = anthropic(&transport, |config| config.reasoning.thinking = Some(true));
    check_refused(&thinking, &required, Some(&transport), "required");
}

#[test]
fn signatures_and_reasoning_of_chat_completions_go_back_with_the_results_of_calls() {
    let signature = json!({"google": {"thought_signature": "AY89"}});
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    let message = json!({
        "role": "assistant", "content": null, "reasoning_content": "A cat?", "reasoning_details": details,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": signature},
            {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        ],
    });
    let transport = canned(&json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}));
    let (reply, body) = two_turns(&openai(&transport), &transport);
    assert_eq!(reply.reasoning.as_deref(), Some("A cat?"));
    let sent = &body["messages"][2];
    assert_eq!(sent["tool_calls"], message["tool_calls"]);
    assert_eq!((&sent["reasoning_content"], &sent["reasoning_details"]), (&json!("A cat?"), &details));
}

#[test]
fn a_request_without_state_is_what_it_was() {
    let transport = canned(&json!({"choices": [{"message": {
        "content": "I look.", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": "{}"}}],
    }}]}));
    let (reply, body) = two_turns(&openai(&transport), &transport);
    assert_eq!((reply.provider_state, reply.reasoning), (None, None));
    let call = json!({"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
    let expect = json!({"role": "assistant", "content": "I look.", "tool_calls": [call]});
    assert_eq!(body["messages"][2], expect);
}

#[test]
fn reasoning_items_of_responses_are_requested_and_go_back_with_the_results_of_calls() {
    let output = json!([
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A cat?"}],
         "encrypted_content": "gAAA"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ]);
    let transport = canned(&json!({"status": "completed", "output": output}));
    let (reply, body) = two_turns(&responses(&transport), &transport);
    assert_eq!(reply.reasoning.as_deref(), Some("A cat?"));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[2..4], *output.as_array().unwrap());
    assert_eq!(input[4]["call_id"], "call_1");
    // Without tools nothing has to go back.
    ask(&responses(&transport), &plain()).unwrap();
    assert_eq!(shown_request(&transport.asked()[2])["body"].get("include"), None);
}

fn with_logprobs(n_top: u8) -> ChatRequest {
    ChatRequest { sampling: Sampling { logprobs: Some(n_top), ..Sampling::default() }, ..plain() }
}

fn listed() -> Value {
    json!([
        {"token": "ca", "logprob": -0.5, "bytes": [99, 97],
         "top_logprobs": [{"token": "ca", "logprob": -0.5}, {"token": "do", "logprob": -1.5}]},
        {"token": "\u{fffd}", "logprob": -0.25, "bytes": [240, 159]},
    ])
}

#[test]
fn log_probabilities_are_requested_and_read() {
    let openai_transport = canned(&json!({
        "prompt_token_ids": [5, 6],
        "choices": [{"message": {"content": "ca"}, "finish_reason": "stop", "logprobs": {"content": listed()},
                     "token_ids": [7, 8]}],
    }));
    let from_openai = ask(&openai(&openai_transport), &with_logprobs(2)).unwrap().tokens.unwrap();
    let body = &shown_request(&openai_transport.asked()[0])["body"];
    assert_eq!((&body["logprobs"], &body["top_logprobs"]), (&json!(true), &json!(2)));
    assert_eq!((&from_openai.prompt_ids[..], &from_openai.ids[..]), (&[5, 6][..], &[7, 8][..]));
    let [first, second] = &from_openai.logprobs[..] else { panic!("{from_openai:?}") };
    assert_eq!((first.token.as_str(), first.logprob, &first.bytes), ("ca", -0.5, &None));
    assert_eq!((first.top[1].token.as_str(), first.top[1].logprob), ("do", -1.5));
    assert_eq!(second.bytes.as_deref(), Some(&[240, 159][..]), "bytes that are not the token's text");

    let part = json!({"type": "output_text", "text": "ca", "logprobs": listed()});
    let output = json!([{"type": "message", "content": [part]}]);
    let transport = canned(&json!({"status": "completed", "output": output}));
    let from_responses = ask(&responses(&transport), &with_logprobs(2)).unwrap().tokens.unwrap();
    assert_eq!(from_responses.logprobs, from_openai.logprobs);
    let body = &shown_request(&transport.asked()[0])["body"];
    assert_eq!(body["include"], json!(["message.output_text.logprobs"]));
    assert_eq!(body["top_logprobs"], 2);
}

#[test]
fn models_without_log_probabilities_refuse_them() {
    let transport = canned(&json!({}));
    let what = "log-probabilities";
    check_refused(&anthropic(&transport, |_| {}), &with_logprobs(0), Some(&transport), what);
    let script = r#"{"version": 1, "rules": [], "otherwise": {"reply": "x"}}"#;
    let scripted = ScriptedModel::from_rules("s", Script::parse("s", script).unwrap());
    check_refused(&scripted, &with_logprobs(0), None, what);
    let program = AgentModel::new(AgentConfig::new(AgentKind::Claude, "m")).unwrap();
    check_refused(&program, &with_logprobs(0), None, what);
}

#[test]
fn extras_in_an_unexpected_shape_are_left_out() {
    for logprobs in [
        json!(null),
        json!([]),
        json!({"content": null}),
        json!({"content": "x"}),
        json!({"content": [{"token": "x"}]}),
        json!({"content": [{"token": 7, "logprob": -1.0}]}),
        json!({"content": [{"token": "x", "logprob": "-inf"}]}),
        json!({"tokens": ["x"], "token_logprobs": [-1.0]}),
    ] {
        let choice = json!({"message": {"content": "x", "reasoning_content": {"a": 1}}, "logprobs": logprobs,
                            "token_ids": [1, -2], "finish_reason": "stop"});
        let transport = canned(&json!({"choices": [choice], "prompt_token_ids": "none"}));
        let reply = ask(&openai(&transport), &with_logprobs(0)).unwrap();
        assert_eq!((reply.text.as_str(), reply.reasoning, reply.tokens), ("x", None, None), "{logprobs}");
    }
}

proptest! {
    #[test]
    fn no_extras_make_a_dialect_panic(extra in crate::support::json(), other in crate::support::json()) {
        let call = json!({"id": "1", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra});
        let message = json!({"content": "x", "reasoning_details": extra, "reasoning_content": other, "tool_calls": [call]});
        let choice = json!({"message": message, "logprobs": other, "token_ids": extra});
        let transport = canned(&json!({"choices": [choice], "prompt_token_ids": other}));
        two_turns(&openai(&transport), &transport);
        let blocks = json!([{"type": "thinking", "thinking": extra, "signature": other},
                            {"type": "tool_use", "id": "1", "name": "f", "input": other}]);
        let transport = canned(&json!({"content": blocks, "stop_reason": "tool_use"}));
        two_turns(&anthropic(&transport, |_| {}), &transport);
        let output = json!([{"type": "reasoning", "summary": extra, "content": other},
                            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}]);
        let transport = canned(&json!({"status": "completed", "output": output}));
        two_turns(&responses(&transport), &transport);
    }
}
