//! What no client should send, and clients that go.

use crate::site::{Client, Site, code};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use skill_openenv::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn messages_that_are_wrong_are_answered_and_the_session_goes_on() {
    let site = Site::household().await;
    let mut client = site.session().await;
    client.reset(json!({"episode_id": "mine"})).await;
    for (message, expect) in [
        ("not json", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("[]", "INVALID_JSON"),
        ("{\"type\":\"sing\"}", "UNKNOWN_TYPE"),
        ("{}", "UNKNOWN_TYPE"),
        ("{\"type\":\"step\",\"data\":3}", "VALIDATION_ERROR"),
        ("{\"type\":\"step\",\"data\":{\"comand\":\"look\"}}", "VALIDATION_ERROR"),
    ] {
        client.send(message).await;
        assert_eq!(code(&client.receive().await), expect, "{message}");
    }
    client.socket.send(Message::binary(vec![0, 159, 146, 150])).await.unwrap();
    assert_eq!(code(&client.receive().await), "INVALID_JSON");
    client.send(&"[".repeat(200_000)).await;
    assert_eq!(code(&client.receive().await), "INVALID_JSON");
    assert_eq!(client.state().await["data"]["episode_id"], "mine");
    assert!(client.step("look").await["data"]["done"] == json!(false));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_message_of_10_mb_ends_its_session_and_no_other() {
    let site = Site::household().await;
    let (huge, mut other) = (site.session().await, site.session().await);
    other.reset(json!({})).await;
    let long = format!("{{\"type\":\"step\",\"data\":{{\"command\":\"{}\"}}}}", "x".repeat(10_000_000));
    let (mut sink, mut stream) = huge.socket.split();
    // The server does not read it to its end.
    let sending = tokio::spawn(async move { drop(sink.send(Message::text(long)).await) });
    let told = stream.next().await.unwrap().unwrap();
    let told = serde_json::from_str(told.to_text().unwrap()).unwrap();
    assert_eq!(code(&told), "SESSION_ERROR");
    let Some(Ok(Message::Close(Some(frame)))) = stream.next().await else { panic!("not closed") };
    assert_eq!(u16::from(frame.code), 1009);
    sending.await.unwrap();
    assert_eq!(other.step("look").await["type"], "observation");
    // A long command that is no longer than messages may be is an action like others.
    let step = other.step(&"x".repeat(500_000)).await;
    assert_eq!(step["data"]["metadata"]["understood"], json!(false));
    let (status, _) = site.ask("POST /reset", "", &" ".repeat(2_000_000)).await;
    assert_eq!(status, 413);
    drop(other);
    site.end().await;
}

#[tokio::test]
async fn ten_thousand_messages_at_once_are_answered_in_order_while_others_play() {
    const MESSAGES: usize = 10_000;
    let site = Site::household().await;
    let (mut fast, mut other) = (site.session().await, site.session().await);
    fast.reset(json!({})).await;
    other.reset(json!({})).await;
    let (mut sink, mut stream) = fast.socket.split();
    let sending = tokio::spawn(async move {
        for number in 0..MESSAGES {
            let message = json!({"type": "mcp", "data": {"id": number}}).to_string();
            sink.feed(Message::text(message)).await.unwrap();
        }
        sink.flush().await.unwrap();
        sink
    });
    for number in 0..MESSAGES {
        let reply = stream.next().await.unwrap().unwrap();
        let reply: serde_json::Value = serde_json::from_str(reply.to_text().unwrap()).unwrap();
        assert_eq!(reply["data"]["id"], json!(number));
        if number % 1_000 == 0 {
            assert_eq!(other.step("look").await["type"], "observation");
        }
    }
    drop(sending.await.unwrap());
    drop(other);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_sends_faster_than_the_limit_waits_and_loses_nothing() {
    const MESSAGES: u32 = 500;
    let site = Site::limited(Limits { messages_per_second: 50, ..Limits::default() }).await;
    let mut client = site.session().await;
    let start = tokio::time::Instant::now();
    for _ in 0..MESSAGES {
        assert_eq!(client.state().await["type"], "state");
    }
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds > 8.0, "{MESSAGES} messages in {seconds} s");
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_server_without_room_says_so_and_has_room_again() {
    let site = Site::limited(Limits { sessions: 2, ..Limits::default() }).await;
    let mut first = site.session().await;
    let mut second = site.session().await;
    // They are counted once they have been answered.
    first.state().await;
    second.state().await;
    let mut third = site.session().await;
    let told = third.receive().await;
    assert_eq!(code(&told), "CAPACITY_REACHED");
    assert_eq!([&told["data"]["active_sessions"], &told["data"]["max_sessions"]], [&json!(2), &json!(2)]);
    assert_eq!(third.closed().await.map(u16::from), Some(1000));
    first.send(r#"{"type":"close"}"#).await;
    assert_eq!(first.closed().await.map(u16::from), Some(1000));
    drop(first);
    // The seat is free before the client is told so.
    let mut fourth = site.session().await;
    assert_eq!(fourth.state().await["type"], "state");
    drop((second, third, fourth));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_says_nothing_ends() {
    let limits = Limits { idle: Duration::from_secs(600), ..Limits::default() };
    let site = Site::limited(limits).await;
    let mut client = site.session().await;
    client.reset(json!({})).await;
    // The client answers pings, so it is there; it only has nothing to say.
    let told = client.receive().await;
    assert_eq!(code(&told), "SESSION_ERROR");
    assert_eq!(client.closed().await.map(u16::from), Some(1000));
    drop(client);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_gone_without_a_word_is_let_go() {
    let site = Site::limited(Limits { sessions: 1, ..Limits::default() }).await;
    let mut gone = site.session().await;
    gone.reset(json!({})).await;
    // It reads nothing and answers no ping, as behind a line that was cut; in an hour it would be idle.
    let start = tokio::time::Instant::now();
    let mut next = loop {
        let mut next = site.session().await;
        next.send(r#"{"type":"state"}"#).await;
        let reply = next.receive().await;
        if reply["type"] == "state" {
            break next;
        }
        assert_eq!(code(&reply), "CAPACITY_REACHED");
        tokio::time::sleep(Duration::from_secs(10)).await;
    };
    assert!((80..200).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    assert_eq!(next.reset(json!({})).await["type"], "observation");
    drop(gone);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn half_open_connections_lock_nobody_out() {
    let site = Site::limited(Limits { sessions: 4, ..Limits::default() }).await;
    let mut half_open = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(site.address).await.unwrap();
        stream.write_all(b"GET /ws HTTP/1.1\r\nHost: loc").await.unwrap();
        half_open.push(stream);
    }
    let mut client = site.session().await;
    assert_eq!(client.reset(json!({})).await["type"], "observation");
    // All of them are closed in the end.
    for mut stream in half_open {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    }
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_leaves_its_seat() {
    let site = Site::limited(Limits { sessions: 1, ..Limits::default() }).await;
    for _ in 0..20 {
        let mut client = loop {
            // The server may not have noticed yet that the one before has gone.
            let mut client = site.session().await;
            client.send(r#"{"type":"reset"}"#).await;
            if client.receive().await["type"] == "observation" {
                break client;
            }
        };
        client.step("look").await;
    }
    site.end().await;
}

#[tokio::test]
async fn a_server_that_ends_tells_its_sessions() {
    let site = Site::household().await;
    let mut client: Client = site.session().await;
    client.reset(json!({})).await;
    let ending = tokio::spawn(site.end());
    assert_eq!(code(&client.receive().await), "SESSION_ERROR");
    assert_eq!(client.closed().await.map(u16::from), Some(1001));
    ending.await.unwrap();
}
