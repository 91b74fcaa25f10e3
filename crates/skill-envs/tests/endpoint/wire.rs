//! The files in `tests/data/endpoint/`: what an agent sends, what the target is asked, what the agent gets.
//!
//! A file has `path`, `body`, and `reply` where it is not that of [`default_reply`]; its snapshot has the rest.

use crate::said::Said;
use crate::support::{Target, opened, served};
use serde_json::{Value, json};
use skill_envs::endpoint::SessionSettings;
use skill_llm::ChatReply;

fn default_reply() -> Value {
    json!({"text": "Hello.", "usage": {"input": 12, "cached": 4, "output": 5, "reasoning": 3}, "finish": "stop"})
}

async fn exchange(case: &Value) -> Value {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
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

/// What is refused: the body's fields, put over a good body, and what the complaint names; returns all complaints.
async fn check_refused(path: &str, cases: &[(Value, &[&str])]) -> String {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    let target = Target::echo();
    let mut said = Said::default();
    served(&mut session, &target.model, async {
        for (fields, names) in cases {
            let mut body =
                json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9});
            for (name, value) in fields.as_object().unwrap() {
                body.as_object_mut().unwrap().insert(name.clone(), value.clone());
            }
            let got = client.post(path, &body).await;
            assert_eq!(got.status, 400, "{fields}: {}", got.text);
            said.add(&got.message(), names);
            assert_eq!(got.headers.get("x-should-retry").unwrap(), "false");
        }
    })
    .await;
    assert_eq!(target.seen(), []);
    assert_eq!(session.finish().unwrap().n_calls, 0);
    said.text().to_owned()
}

#[tokio::test]
async fn what_chat_completions_cannot_honour_is_refused_by_name() {
    let one = |message: Value| json!({"messages": [message]});
    let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
    let tool = json!({"type": "function", "function": {"name": "look"}});
    let said = check_refused(
        "/v1/chat/completions",
        &[
            (json!({"n": 2}), &["`n`", "1"]),
            (json!({"model": null}), &["`model`"]),
            (json!({"messages": null}), &["`messages`"]),
            (json!({"messages": []}), &["`messages`"]),
            (json!({"messages": "x"}), &["`messages`"]),
            (one(json!({"role": "system", "content": "x"})), &["`messages`"]),
            (
                one(json!({"role": "robot", "content": "x"})),
                &[
                    "`messages[0].role`",
                    "\"robot\"",
                    "`system`",
                    "`developer`",
                    "`user`",
                    "`assistant`",
                    "`tool`",
                ],
            ),
            (one(json!({"role": "tool", "content": "x", "tool_call_id": "c1"})), &["`messages`", "\"c1\""]),
            (
                one(json!({"role": "assistant", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
                ]})),
                &["`messages`", "\"c1\""],
            ),
            (
                user(json!({"type": "input_audio"})),
                &["`messages[0].content[0]`", "\"input_audio\"", "`text`", "`image_url`"],
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}})),
                &["`messages[0].content[0].image_url.url`", "`data:`"],
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,a"}})),
                &["`messages[0].content[0].image_url.url`"],
            ),
            (
                user(json!({"type": "image_url", "image_url": {"url": "data:text/html;base64,aaaa"}})),
                &["`messages[0].content[0].image_url.url`", "\"text/html\""],
            ),
            (json!({"temperature": 3}), &["`temperature`", "3", "0", "2"]),
            (json!({"top_p": "x"}), &["`top_p`"]),
            (json!({"max_tokens": 0}), &["`max_tokens`", "0", "1", "4294967295"]),
            (json!({"seed": -1}), &["`seed`", "0"]),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), &["`stop`", "4"]),
            (json!({"frequency_penalty": 0.5}), &["`frequency_penalty`"]),
            (json!({"logprobs": true}), &["`logprobs`"]),
            (json!({"functions": []}), &["`functions`", "`tools`"]),
            (json!({"tools": [{"type": "web_search"}]}), &["`tools[0]`", "\"web_search\""]),
            (json!({"tools": [tool, tool]}), &["`tools`", "\"look\""]),
            (json!({"tool_choice": "required"}), &["`tool_choice`"]),
            (
                json!({"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "go"}}}),
                &["`tool_choice.function.name`", "\"go\""],
            ),
            (
                json!({"response_format": {"type": "xml"}}),
                &["`response_format`", "\"xml\"", "`text`", "`json_object`", "`json_schema`"],
            ),
            (
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}}),
                &["`response_format.json_schema.schema`"],
            ),
            (json!({"stream": "yes"}), &["`stream`"]),
        ],
    )
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn what_responses_cannot_honour_is_refused_by_name() {
    let one = |item: Value| json!({"input": [item]});
    let tool = json!({"type": "function", "name": "look"});
    let call = json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"});
    let said = check_refused(
        "/v1/responses",
        &[
            (json!({}), &["`input`"]),
            (json!({"input": []}), &["`input`"]),
            (json!({"input": "x", "model": null}), &["`model`"]),
            (json!({"input": "x", "previous_response_id": "resp_0"}), &["`previous_response_id`", "`input`"]),
            (json!({"input": "x", "background": true}), &["`background`"]),
            (one(json!({"type": "item_reference", "id": "msg_0"})), &["`input[0]`"]),
            (
                one(json!({"type": "web_search_call"})),
                &[
                    "`input[0]`",
                    "\"web_search_call\"",
                    "`message`",
                    "`function_call`",
                    "`function_call_output`",
                    "`reasoning`",
                ],
            ),
            (
                one(json!({"role": "robot", "content": "x"})),
                &["`input[0].role`", "\"robot\"", "`system`", "`developer`", "`user`", "`assistant`"],
            ),
            (one(call), &["`input`", "\"c1\""]),
            (
                one(json!({"type": "function_call_output", "call_id": "c1", "output": "x"})),
                &["`input`", "\"c1\""],
            ),
            (
                one(json!({"role": "user", "content": [{"type": "input_file"}]})),
                &["`input[0].content[0]`", "\"input_file\"", "`input_text`", "`input_image`"],
            ),
            (
                one(json!({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]})),
                &["`input[0].content[0].file_id`"],
            ),
            (json!({"input": "x", "tools": [{"type": "web_search"}]}), &["`tools[0]`", "\"web_search\""]),
            (
                json!({"input": "x", "tools": [tool], "tool_choice": {"type": "function", "name": "go"}}),
                &["`tool_choice.name`", "\"go\""],
            ),
            (
                json!({"input": "x", "text": {"format": {"type": "json_schema", "name": "a"}}}),
                &["`text.format.schema`"],
            ),
            (json!({"input": "x", "max_output_tokens": 0}), &["`max_output_tokens`", "0", "1", "4294967295"]),
        ],
    )
    .await;
    insta::assert_snapshot!(said);
}

#[tokio::test]
async fn what_messages_cannot_honour_is_refused_by_name() {
    let user = |block: Value| json!({"messages": [{"role": "user", "content": [block]}]});
    let said = check_refused(
        "/v1/messages",
        &[
            (json!({"max_tokens": null}), &["`max_tokens`"]),
            (json!({"model": null}), &["`model`"]),
            (
                json!({"messages": [{"role": "tool", "content": "x"}]}),
                &["`messages[0].role`", "\"tool\"", "`user`", "`assistant`", "`system`"],
            ),
            (
                user(json!({"type": "document", "source": {}})),
                &["`messages[0].content[0]`", "\"document\"", "`text`", "`image`", "`tool_result`"],
            ),
            (
                user(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
                &["`messages[0].content[0].source`", "\"file\"", "`base64`", "`url`"],
            ),
            (
                user(json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"})),
                &["`messages`", "\"t1\""],
            ),
            (json!({"system": [{"type": "image"}]}), &["`system[0]`", "\"image\""]),
            (json!({"top_k": 5}), &["`top_k`"]),
            (json!({"mcp_servers": [{"url": "x"}]}), &["`mcp_servers`"]),
            (
                json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}),
                &["`tools[0]`", "\"bash_20250124\"", "`input_schema`"],
            ),
            (json!({"tool_choice": {"type": "any"}}), &["`tool_choice`"]),
            (json!({"stop_sequences": [" "]}), &["`stop_sequences`"]),
            (
                json!({"output_config": {"format": {"type": "xml"}}}),
                &["`output_config.format`", "\"xml\"", "`json_schema`"],
            ),
        ],
    )
    .await;
    insta::assert_snapshot!(said);
}
