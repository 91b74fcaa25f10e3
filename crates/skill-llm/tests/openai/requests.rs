//! What is sent.

use crate::support::{Canned, KEY, block_on, config, only, question, response, sent};
use serde_json::json;
use skill_llm::transport::{HeaderText, HttpMethod, MAX_RESPONSE_BYTES};
use skill_llm::{
    CallCtx, ChatModel as _, ChatRequest, ContentPart, ImageSource, LlmError, MaxTokensField, Message,
    ModelId, OpenAiChat, OpenAiConfig, ResponseFormat, ResponseSchema, Role, Sampling, ToolCall, ToolChoice,
    ToolSpec,
};
use std::time::Duration;

fn schema() -> Option<ResponseSchema> {
    Some(ResponseSchema::new("patch", json!({"type": "object"})))
}

#[test]
fn a_plain_request() {
    let request = ChatRequest::new(vec![Message::system("Be brief."), Message::user("Why?")]);
    let (body, asked) = sent(config(), &request, &CallCtx::default());
    assert_eq!(asked.method, HttpMethod::Post);
    assert_eq!(asked.url, "http://llm.example/v1/chat/completions");
    assert_eq!(asked.timeout, Some(Duration::from_secs(300)));
    assert_eq!(asked.max_response_bytes, MAX_RESPONSE_BYTES);
    let headers: Vec<(&str, &str)> =
        asked.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let bearer = format!("Bearer {KEY}");
    assert_eq!(headers, [("content-type", "application/json"), ("authorization", bearer.as_str())]);
    assert!(asked.headers.iter().any(|(_, value)| matches!(value, HeaderText::Secret(_))));
    insta::assert_json_snapshot!(body, @r#"
    {
      "model": "small",
      "messages": [
        {
          "role": "system",
          "content": "Be brief."
        },
        {
          "role": "user",
          "content": "Why?"
        }
      ]
    }
    "#);
}

#[test]
fn everything_at_once() {
    let request = ChatRequest {
        messages: vec![
            Message::system("Use the tool."),
            Message::new(
                Role::User,
                vec![
                    ContentPart::Text("What is on these?".into()),
                    ContentPart::Image(ImageSource::from_bytes("image/png", b"\x89PNG")),
                    ContentPart::Image(ImageSource::Url("https://pictures.example/1.png".to_owned())),
                ],
            ),
            Message::new(Role::Assistant, Vec::new()).with_tool_calls(vec![ToolCall {
                id: "call_7".to_owned(),
                name: "look".to_owned(),
                arguments: "{\"at\": 1}".to_owned(),
            }]),
            Message::tool_result("call_7", "a cat"),
        ],
        sampling: Sampling {
            temperature: Some(0.0),
            top_p: Some(0.9),
            max_tokens: Some(64_000),
            seed: Some(7),
            logprobs: Some(2),
        },
        tools: vec![ToolSpec {
            name: "look".to_owned(),
            description: "Looks closer.".to_owned(),
            parameters: json!({"type": "object", "properties": {"at": {"type": "integer"}}}),
        }],
        tool_choice: Some(ToolChoice::Tool("look".to_owned())),
        parallel_tool_calls: Some(false),
        stop: vec!["\nObservation:".to_owned()],
        response_schema: schema(),
    };
    let mut config = config();
    config.extra_body.insert("reasoning_effort".to_owned(), "low".into());
    config.server.extra_headers.push(("X-Title".to_owned(), "skills".to_owned()));
    let (body, asked) = sent(config, &request, &CallCtx::default());
    assert!(asked.headers.iter().any(|(name, value)| name == "X-Title" && value.expose() == "skills"));
    insta::assert_json_snapshot!(body);
}

#[track_caller]
fn check_tool_choice(choice: ToolChoice, expect: &serde_json::Value) {
    let tool = ToolSpec { name: "look".to_owned(), description: String::new(), parameters: json!({}) };
    let request = ChatRequest { tools: vec![tool], tool_choice: Some(choice), ..question() };
    let (body, _) = sent(config(), &request, &CallCtx::default());
    assert_eq!(body.get("tool_choice"), Some(expect));
    let (body, _) = sent(config(), &ChatRequest { tools: Vec::new(), ..request }, &CallCtx::default());
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn a_choice_of_tools_is_sent_where_there_are_tools() {
    check_tool_choice(ToolChoice::Auto, &json!("auto"));
    check_tool_choice(ToolChoice::Never, &json!("none"));
    check_tool_choice(ToolChoice::Required, &json!("required"));
    check_tool_choice(
        ToolChoice::Tool("look".to_owned()),
        &json!({"type": "function", "function": {"name": "look"}}),
    );
}

#[test]
fn a_schema_may_be_loose_and_any_object_has_its_own_mode() {
    let loose = ResponseSchema { strict: false, ..ResponseSchema::new("answer", json!({"type": "object"})) };
    let sent_for = |schema| {
        let request = ChatRequest { response_schema: Some(schema), ..question() };
        sent(config(), &request, &CallCtx::default()).0.get("response_format").cloned().unwrap()
    };
    let schema = json!({"name": "answer", "schema": {"type": "object"}, "strict": false});
    assert_eq!(sent_for(loose), json!({"type": "json_schema", "json_schema": schema}));
    assert_eq!(sent_for(ResponseSchema::any_object()), json!({"type": "json_object"}));
}

#[test]
fn text_parts_are_one_string() {
    let mut request = question();
    for message in &mut request.messages {
        message.content.push(ContentPart::Text("Now!".into()));
    }
    let (body, _) = sent(config(), &request, &CallCtx::default());
    assert_eq!(body.pointer("/messages/0/content").unwrap(), "well?\nNow!");
}

#[test]
fn an_empty_message_is_an_empty_string() {
    let request = ChatRequest::new(vec![Message::new(Role::Assistant, Vec::new())]);
    let (body, _) = sent(config(), &request, &CallCtx::default());
    assert_eq!(body.pointer("/messages/0/content").unwrap(), "");
}

#[test]
fn the_request_goes_before_the_configuration() {
    let mut config = config();
    config.sampling = Sampling {
        temperature: Some(0.7),
        top_p: Some(0.5),
        max_tokens: Some(10),
        seed: Some(1),
        logprobs: Some(0),
    };
    let mut request = question();
    request.sampling = Sampling { temperature: Some(0.0), seed: Some(2), ..Sampling::default() };
    let (body, _) = sent(config, &request, &CallCtx::default());
    let field = |name| body.get(name).unwrap().clone();
    assert_eq!(field("temperature"), json!(0.0));
    assert_eq!(field("top_p"), json!(0.5));
    assert_eq!(field("max_tokens"), json!(10));
    assert_eq!(field("seed"), json!(2));
    assert_eq!((field("logprobs"), body.get("top_logprobs")), (json!(true), None));
}

#[track_caller]
fn check_limit(base_url: &str, field: MaxTokensField, expect: &str) {
    let mut config = OpenAiConfig::new(base_url, "m");
    config.max_tokens_field = field;
    config.sampling.max_tokens = Some(5);
    let (body, asked) = sent(config, &question(), &CallCtx::default());
    let names: Vec<&String> =
        body.as_object().unwrap().keys().filter(|name| name.starts_with("max_")).collect();
    assert_eq!(names, [expect]);
    assert!(!asked.headers.iter().any(|(name, _)| name == "authorization"), "there is no key to send");
}

#[test]
fn the_limit_on_tokens_has_two_names() {
    check_limit("https://api.openai.com/v1", MaxTokensField::Auto, "max_completion_tokens");
    check_limit("https://API.OpenAI.com/v1/", MaxTokensField::Auto, "max_completion_tokens");
    check_limit("https://api.openai.com.example/v1", MaxTokensField::Auto, "max_tokens");
    check_limit("http://localhost:8080/v1", MaxTokensField::Auto, "max_tokens");
    check_limit("https://api.openai.com/v1", MaxTokensField::MaxTokens, "max_tokens");
    check_limit("http://localhost/v1", MaxTokensField::MaxCompletionTokens, "max_completion_tokens");
}

#[track_caller]
fn check_format(format: ResponseFormat, with_schema: bool, expect: &str) {
    let mut config = config();
    config.response_format = format;
    let request = ChatRequest { response_schema: schema().filter(|_| with_schema), ..question() };
    let (body, _) = sent(config, &request, &CallCtx::default());
    assert_eq!(body.get("response_format").map(ToString::to_string).unwrap_or_default(), expect);
}

#[test]
fn a_response_schema_is_asked_for_as_configured() {
    check_format(
        ResponseFormat::JsonSchema,
        true,
        r#"{"type":"json_schema","json_schema":{"name":"patch","schema":{"type":"object"},"strict":true}}"#,
    );
    check_format(
        ResponseFormat::JsonObjectSchema,
        true,
        r#"{"type":"json_object","schema":{"type":"object"}}"#,
    );
    check_format(ResponseFormat::JsonObject, true, r#"{"type":"json_object"}"#);
    check_format(ResponseFormat::Off, true, "");
    check_format(ResponseFormat::JsonSchema, false, "");
    check_format(ResponseFormat::JsonObject, false, "");
}

#[test]
fn the_caller_may_shorten_or_lengthen_the_timeout() {
    let call = CallCtx { timeout: Some(Duration::from_secs(900)), ..CallCtx::default() };
    let (_, asked) = sent(config(), &question(), &call);
    assert_eq!(asked.timeout, Some(Duration::from_secs(900)));
}

#[test]
fn a_query_of_the_address_is_sent_and_not_shown() {
    let config = OpenAiConfig::new("https://h:8443/d/?api-version=1&key=hunter2", "m");
    let transport = Canned::new(Ok(response(404, "")));
    let model = OpenAiChat::with_transport(config, transport.clone()).unwrap();
    assert_eq!(model.id(), &ModelId::new("https://h:8443/d", "m"));
    let error = block_on(model.chat(&question(), &CallCtx::default())).unwrap_err();
    let asked = only(&transport);
    assert_eq!(asked.url, "https://h:8443/d/chat/completions?api-version=1&key=hunter2");
    insta::assert_snapshot!(error, @"https://h:8443/d does not accept the request (HTTP 404): nothing at https://h:8443/d/chat/completions; does the address lack `/v1`?");
    for shown in [format!("{model:?}"), format!("{error:?}"), format!("{asked:?}")] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_number_that_json_cannot_hold_is_an_error() {
    let transport = Canned::new(Ok(response(200, "")));
    let model = OpenAiChat::with_transport(config(), transport).unwrap();
    for number in [f64::NAN, f64::INFINITY] {
        let mut request = question();
        request.sampling.temperature = Some(number);
        let error = block_on(model.chat(&request, &CallCtx::default())).unwrap_err();
        assert!(matches!(error, LlmError::Configuration { .. }), "{error:?}");
    }
}
