//! The files in `tests/data/endpoint/`: what an agent sends, what the target is asked, what the agent gets.
//!
//! A file has `path`, `body`, and `reply` where it is not that of [`default_reply`]; its snapshot has the rest.

use crate::support::{Client, Target, served};
use serde_json::{Value, json};
use skill_envs::endpoint::{Endpoint, SessionSettings};
use skill_llm::ChatReply;

fn default_reply() -> Value {
    json!({"text": "Hello.", "usage": {"input": 12, "cached": 4, "output": 5, "reasoning": 3}, "finish": "stop"})
}

async fn exchange(case: &Value) -> Value {
    let endpoint = Endpoint::start().await.unwrap();
    let mut session = endpoint.session(SessionSettings::default());
    let client = Client::of(&endpoint, &session);
    let reply = case.get("reply").cloned().unwrap_or_else(default_reply);
    let reply: ChatReply = serde_json::from_value(reply).unwrap();
    let target = Target::new(move |_| Ok(reply.clone()));
    let path = case.get("path").and_then(Value::as_str).unwrap();
    let work = client.post(path, case.get("body").unwrap());
    let got = served(&mut session, &target.model, work).await;
    let is_stream =
        got.headers.get("content-type").unwrap().to_str().unwrap().starts_with("text/event-stream");
    let answer = if is_stream { json!(got.text.lines().collect::<Vec<_>>()) } else { got.json() };
    json!({"target_is_asked": target.seen(), "status": got.status.as_u16(), "agent_gets": answer})
}

#[test]
fn files() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    insta::glob!("../data/endpoint", "*/*.json", |path| {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        insta::assert_json_snapshot!(runtime.block_on(exchange(&case)));
    });
}

/// What is refused: the body's fields, put over a good body, and the complaint.
async fn check_refused(path: &str, cases: &[(Value, &str)]) {
    let endpoint = Endpoint::start().await.unwrap();
    let mut session = endpoint.session(SessionSettings::default());
    let client = Client::of(&endpoint, &session);
    let target = Target::echo();
    served(&mut session, &target.model, async {
        for (fields, expect) in cases {
            let mut body =
                json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9});
            for (name, value) in fields.as_object().unwrap() {
                body.as_object_mut().unwrap().insert(name.clone(), value.clone());
            }
            let got = client.post(path, &body).await;
            assert_eq!(got.status, 400, "{fields}: {}", got.text);
            assert_eq!(got.message(), *expect, "{fields}");
            assert_eq!(got.headers.get("x-should-retry").unwrap(), "false");
        }
    })
    .await;
    assert_eq!(target.seen(), []);
    assert_eq!(session.finish().unwrap().n_calls, 0);
}

#[tokio::test]
async fn what_chat_completions_cannot_honour_is_refused_by_name() {
    let one = |message: Value| json!({"messages": [message]});
    let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let tool = json!({"type": "function", "function": {"name": "look"}});
    check_refused(
        "/v1/chat/completions",
        &[
            (json!({"n": 2}), "`n` can only be 1: ask once for each reply"),
            (json!({"model": null}), "`model` is missing"),
            (json!({"messages": null}), "`messages` is missing"),
            (json!({"messages": []}), "`messages` holds no message of a user or an assistant"),
            (json!({"messages": "x"}), "`messages` is a string; expected a list"),
            (
                one(json!({"role": "system", "content": "x"})),
                "`messages` holds no message of a user or an assistant",
            ),
            (
                one(json!({"role": "robot", "content": "x"})),
                "`messages[0].role` is \"robot\"; expected `system`, `developer`, `user`, `assistant` or `tool`",
            ),
            (
                one(json!({"role": "tool", "content": "x", "tool_call_id": "c1"})),
                "`messages` holds a result for \"c1\", which is no tool call before it",
            ),
            (
                one(json!({"role": "assistant", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ]})),
                "`messages` holds no result for the tool call \"c1\"",
            ),
            (
                user(json!({"type": "input_audio"})),
                "`messages[0].content[0]` is of the type \"input_audio\"; expected `text` or `image_url`",
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}})),
                "`messages[0].content[0].image_url.url` is neither an http(s) address nor a `data:` URL in base64",
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}})),
                "`messages[0].content[0].image_url.url` is not whole base64",
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "data:text/html;base64,aaaa"}})),
                "`messages[0].content[0].image_url.url` has the media type \"text/html\"; expected an image",
            ),
            (json!({"temperature": 3}), "`temperature` is 3; expected a number from 0 to 2"),
            (json!({"top_p": "x"}), "`top_p` is a string; expected a number"),
            (json!({"max_tokens": 0}), "`max_tokens` is 0; expected a number from 1 to 4294967295"),
            (json!({"seed": -1}), "`seed` is a number; expected a whole number from 0 on"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "`stop` takes at most 4 texts, none of them empty"),
            (json!({"frequency_penalty": 0.5}), "`frequency_penalty` cannot be honoured by this endpoint; leave it out"),
            (json!({"logprobs": true}), "`logprobs` cannot be honoured by this endpoint; leave it out"),
            (json!({"functions": []}), "`functions` is the old form of `tools`, which is the one understood"),
            (
                json!({"tools": [{"type": "web_search"}]}),
                "`tools[0]` is of the type \"web_search\"; only functions can be called here",
            ),
            (json!({"tools": [tool, tool]}), "`tools` holds two tools of the name \"look\""),
            (json!({"tool_choice": "required"}), "`tool_choice` asks for a tool, and there are none"),
            (
                json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "go"}}}),
                "`tool_choice.function.name` is \"go\", which is none of the tools",
            ),
            (
                json!({"response_format": {"type": "xml"}}),
                "`response_format` is \"xml\"; expected `text`, `json_object` or `json_schema`",
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}),
                "`response_format.json_schema.schema` is missing",
            ),
            (json!({"stream": "yes"}), "`stream` is a string; expected true or false"),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_responses_cannot_honour_is_refused_by_name() {
    let one = |item: Value| json!({"input": [item]});
    let tool = json!({"type": "function", "name": "look"});
    let call = json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"});
    check_refused(
        "/v1/responses",
        &[
            (json!({}), "`input` is missing"),
            (json!({"input": []}), "`input` holds no message of a user or an assistant"),
            (json!({"input": "x", "model": null}), "`model` is missing"),
            (
                json!({"input": "x", "previous_response_id": "resp_0"}),
                "`previous_response_id` names what was stored, and nothing is stored here: send all of `input`",
            ),
            (
                json!({"input": "x", "background": true}),
                "`background` cannot be honoured by this endpoint; leave it out",
            ),
            (
                one(json!({"type": "item_reference", "id": "msg_0"})),
                "`input[0]` refers to what was stored, and nothing is stored here: send the item",
            ),
            (
                one(json!({"type": "web_search_call"})),
                "`input[0]` is of the type \"web_search_call\"; expected `message`, `function_call`, \
                 `function_call_output` or `reasoning`",
            ),
            (
                one(json!({"role": "robot", "content": "x"})),
                "`input[0].role` is \"robot\"; expected `system`, `developer`, `user` or `assistant`",
            ),
            (one(call), "`input` holds no result for the tool call \"c1\""),
            (
                one(json!({"type": "function_call_output", "call_id": "c1", "output": "x"})),
                "`input` holds a result for \"c1\", which is no tool call before it",
            ),
            (
                one(json!({"role": "user", "content": [{"type": "input_file"}]})),
                "`input[0].content[0]` is of the type \"input_file\"; expected `input_text` or `input_image`",
            ),
            (
                one(json!({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]})),
                "`input[0].content[0].file_id` names a stored file, and nothing is stored here",
            ),
            (
                json!({"input": "x", "tools": [{"type": "web_search"}]}),
                "`tools[0]` is of the type \"web_search\"; only functions can be called here",
            ),
            (
                json!({"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "go"}}),
                "`tool_choice.name` is \"go\", which is none of the tools",
            ),
            (
                json!({"input": "x", "text": {"format": {"type": "json_schema", "name": "a"}}}),
                "`text.format.schema` is missing",
            ),
            (
                json!({"input": "x", "max_output_tokens": 0}),
                "`max_output_tokens` is 0; expected a number from 1 to 4294967295",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_messages_cannot_honour_is_refused_by_name() {
    let user = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    check_refused(
        "/v1/messages",
        &[
            (json!({"max_tokens": null}), "`max_tokens` is missing"),
            (json!({"model": null}), "`model` is missing"),
            (
                json!({"messages": [{"role": "tool", "content": "x"}]}),
                "`messages[0].role` is \"tool\"; expected `user`, `assistant` or `system`",
            ),
            (
                user(json!({"type": "document", "source": {}})),
                "`messages[0].content[0]` is of the type \"document\"; expected `text`, `image` or `tool_result`",
            ),
            (
                user(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
                "`messages[0].content[0].source` is of the type \"file\"; expected `base64` or `url`",
            ),
            (
                user(json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"})),
                "`messages` holds a result for \"t1\", which is no tool call before it",
            ),
            (
                json!({"system": [{"type": "image"}]}),
                "`system[0]` is of the type \"image\"; only text can stand here",
            ),
            (json!({"top_k": 5}), "`top_k` cannot be honoured by this endpoint; leave it out"),
            (json!({"mcp_servers": [{"url": "x"}]}), "`mcp_servers` cannot be honoured by this endpoint; leave it out"),
            (
                json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
                "`tools[0]` is of the type \"bash_20250124\", which a server of Anthropic runs or defines; only tools \
                 with an `input_schema` can be called here",
            ),
            (json!({"tool_choice": {"type": "any"}}), "`tool_choice` asks for a tool, and there are none"),
            (json!({"stop_sequences": [" "]}), "`stop_sequences` holds a text that is blank"),
            (
                json!({"output_config": {"format": {"type": "xml"}}}),
                "`output_config.format` is of the type \"xml\"; expected `json_schema`",
            ),
        ],
    )
    .await;
}
