//! What an agent did, from the requests that it made.

use crate::support::{Target, conversation, opened, served};
use serde_json::{Value, json};
use skill_core::{Role, TrajectoryMessage};
use skill_envs::endpoint::{SessionRecord, SessionSettings};
use skill_llm::{ChatReply, FinishReason, ToolCall, Usage};
use std::sync::Arc;

fn turns(turns: &[(Role, &str)]) -> Vec<TrajectoryMessage> {
    turns.iter().map(|(role, text)| TrajectoryMessage::new(*role, *text)).collect()
}

async fn trajectory_of(bodies: &[Value], target: &Target) -> SessionRecord {
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    served(&mut session, &target.model, async {
        for body in bodies {
            let got = client.post("/v1/chat/completions", body).await;
            assert_eq!(got.status, 200, "{}", got.text);
        }
    })
    .await;
    session.finish().unwrap()
}

#[tokio::test]
async fn a_history_that_grows_is_one_conversation() {
    let bodies = [
        conversation(&[("system", "S"), ("user", "one")]),
        conversation(&[("system", "S"), ("user", "one"), ("assistant", " re: one\n"), ("user", "two")]),
        // Its beginning is forgotten, and the system prompt has another time of day.
        conversation(&[("system", "S, later"), ("assistant", "re: two"), ("user", "three")]),
    ];
    let record = trajectory_of(&bodies, &Target::echo()).await;
    assert_eq!(
        record.conversation,
        turns(&[
            (Role::System, "S"),
            (Role::User, "one"),
            (Role::Assistant, "re: one"),
            (Role::User, "two"),
            (Role::Assistant, "re: two"),
            (Role::User, "three"),
            (Role::Assistant, "re: three"),
        ])
    );
    assert_eq!(record.conversation_starts, [0]);
    assert_eq!((record.n_calls, record.usage.input, record.usage.output), (3, 30, 6));
    assert_eq!(record.system_prompt(), "S");
    assert_eq!(record.last_finish(), Some(&FinishReason::Stop));
    // What is sent again is held once.
    assert!(Arc::ptr_eq(&record.requests[0].messages[1], &record.requests[1].messages[1]));
}

#[tokio::test]
async fn a_reply_that_the_agent_rewrites_does_not_break_its_conversation() {
    let target = Target::new(|_| Ok(ChatReply::text("<think>hm</think>yes", Usage::default())));
    let bodies = [
        conversation(&[("user", "one")]),
        conversation(&[("user", "one"), ("assistant", "yes"), ("user", "two")]),
    ];
    let record = trajectory_of(&bodies, &target).await;
    assert_eq!(
        record.conversation,
        turns(&[
            (Role::User, "one"),
            (Role::Assistant, "<think>hm</think>yes"),
            (Role::User, "two"),
            (Role::Assistant, "<think>hm</think>yes"),
        ])
    );
}

/// An agent reads the text of a reply itself: it gets what a server sends that keeps thoughts apart, and the record has all.
#[tokio::test]
async fn an_agent_is_given_no_thoughts_unless_it_asks_for_them() {
    let answered = async |asked: &str| {
        let target = Target::new(|_| Ok(ChatReply::text("Hm.\n</think>\n\nyes", Usage::default())));
        let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
        let mut texts = Vec::new();
        served(&mut session, &target.model, async {
            for path in ["/v1/chat/completions", "/v1/responses"] {
                let body = match path {
                    "/v1/responses" => json!({"model": "m", "input": asked}),
                    _ => conversation(&[("user", asked)]),
                };
                let got: Value = serde_json::from_str(&client.post(path, &body).await.text).unwrap();
                let text =
                    got.pointer("/choices/0/message/content").or(got.pointer("/output/0/content/0/text"));
                texts.push(text.unwrap().as_str().unwrap().to_owned());
            }
        })
        .await;
        let record = session.finish().unwrap();
        let kept = record.conversation.iter().filter(|message| message.role == Role::Assistant);
        assert!(kept.clone().count() > 0);
        assert!(kept.into_iter().all(|message| message.content == "Hm.\n</think>\n\nyes"));
        texts
    };
    assert_eq!(answered("one").await, ["yes", "yes"]);
    let asked_for = answered("Think between <think> and </think>.").await;
    assert_eq!(asked_for, ["Hm.\n</think>\n\nyes", "Hm.\n</think>\n\nyes"]);
}

#[tokio::test]
async fn conversations_side_by_side_are_kept_apart() {
    let bodies = [
        conversation(&[("system", "main"), ("user", "one")]),
        conversation(&[("system", "sub"), ("user", "go")]),
        conversation(&[("system", "sub"), ("user", "go"), ("assistant", "re: go"), ("user", "on")]),
        conversation(&[("system", "main"), ("user", "one"), ("assistant", "re: one"), ("user", "two")]),
    ];
    let record = trajectory_of(&bodies, &Target::echo()).await;
    let texts: Vec<Vec<&str>> = record
        .conversations()
        .map(|turns| turns.iter().map(|turn| turn.content.as_str()).collect())
        .collect();
    assert_eq!(
        texts,
        [["main", "one", "re: one", "two", "re: two"], ["sub", "go", "re: go", "on", "re: on"]]
    );
    assert_eq!(record.requests.iter().map(|call| call.conversation).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(
        (record.conversation_starts.as_slice(), record.trajectory().breaks.as_slice()),
        (&[0, 5][..], &[5][..])
    );
}

#[tokio::test]
async fn tool_calls_are_turns_too() {
    let target = Target::new(|request| {
        let called = request.messages.iter().any(|message| message.role == Role::Tool);
        let call = ToolCall { id: "c1".into(), name: "look".into(), arguments: r#"{"at": 1}"#.into() };
        Ok(if called {
            ChatReply::text("A cat.", Usage::default())
        } else {
            ChatReply::new("", Usage::default(), FinishReason::ToolCalls)
                .with_tool_calls(vec![call])
                .with_reasoning(Some("A cat?".to_owned()))
                .with_provider_state("dialect", Some(json!({"signature": "s"})))
        })
    });
    let (_endpoint, mut session, client) = opened(SessionSettings::default()).await;
    let question = json!({"role": "user", "content": "What is there?"});
    let tool = json!({"name": "look", "input_schema": {"type": "object"}});
    served(&mut session, &target.model, async {
        let body =
            |messages: Value| json!({"model": "m", "max_tokens": 9, "messages": messages, "tools": [tool]});
        let got = client.post("/v1/messages", &body(json!([question]))).await.json();
        let result = json!({"type": "tool_result", "tool_use_id": "c1", "content": "fur"});
        let messages = json!([
            question,
            {"role": "assistant", "content": got["content"]},
            {"role": "user", "content": [result]},
        ]);
        assert_eq!(client.post("/v1/messages", &body(messages)).await.status, 200);
    })
    .await;
    let record = session.finish().unwrap();
    let said: Vec<(Role, &str)> =
        record.conversation.iter().map(|message| (message.role, message.content.as_str())).collect();
    let (user, assistant) = (Role::User, Role::Assistant);
    let expect = [(user, "What is there?"), (assistant, ""), (Role::Tool, "fur"), (assistant, "A cat.")];
    assert_eq!(said, expect);
    assert_eq!(record.conversation[1].as_text(), "[tool call] look({\"at\": 1})");
    assert_eq!(record.conversation[1].reasoning.as_deref(), Some("A cat?"));
    assert_eq!(record.conversation[2].tool_call_id.as_deref(), Some("c1"));
    // What the agent's client has no place for goes back to the target all the same.
    let sent = target.seen.lock()[1].clone();
    let state =
        sent.messages[1].provider_state.as_deref().map(|state| (state.dialect.as_str(), &state.value));
    assert_eq!(state, Some(("dialect", &json!({"signature": "s"}))));
    // The record holds each request as it was sent: the client wrote the arguments of the call in its own way.
    let recorded = record.trajectory();
    assert_eq!((recorded.messages.len(), recorded.conversation.clone()), (5, Some(vec![0, 1, 2, 3])));
    assert_eq!(recorded.messages[4].tool_calls[0].arguments, r#"{"at":1}"#);
    let requests: Vec<(&[u32], u32)> =
        recorded.turns.iter().map(|turn| (turn.request.as_slice(), turn.reply)).collect();
    assert_eq!(requests, [(&[0][..], 1), (&[0, 4, 2][..], 3)]);
}
