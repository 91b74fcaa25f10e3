//! What each fault is on the wire, and that a seed decides them.

use crate::client::{Outcome, Reply, ask, body, start};
use mock_openai::fault::FaultRate;
use mock_openai::{Fault, FaultPlan, Latency, MockServer, ServerConfig};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

fn only(fault: Fault) -> ServerConfig {
    ServerConfig { faults: FaultPlan::only(fault, 1.0), ..ServerConfig::default() }
}

async fn outcome(fault: Fault) -> Outcome {
    ask(&start(only(fault)).await, body("well?")).await
}

async fn whole(fault: Fault) -> Reply {
    outcome(fault).await.whole()
}

/// The headers that say when to come back.
const RETRY_HEADERS: [&str; 3] = ["retry-after", "retry-after-ms", "x-ratelimit-reset-requests"];

#[tokio::test]
async fn rate_limits_say_when_to_come_back_in_one_way_or_none() {
    for (fault, expect) in [
        (Fault::RateLimit, None),
        (Fault::RateLimitRetryAfter, Some(("retry-after", "2"))),
        (Fault::RateLimitRetryAfterMs, Some(("retry-after-ms", "1500"))),
        (Fault::RateLimitReset, Some(("x-ratelimit-reset-requests", "1.5s"))),
    ] {
        let mut config = only(fault);
        config.faults.retry_after_s = 2;
        config.faults.retry_after = Duration::from_millis(1_500);
        let reply = ask(&start(config).await, body("well?")).await.whole();
        assert_eq!(reply.status, 429);
        let found: Vec<(&str, &str)> =
            RETRY_HEADERS.into_iter().filter_map(|name| Some((name, reply.header(name)?))).collect();
        assert_eq!(found, expect.into_iter().collect::<Vec<_>>(), "{fault}");
        assert_eq!(reply.json()["error"]["code"], "rate_limit_exceeded");
    }
}

#[tokio::test]
async fn failures_of_the_server_have_their_status() {
    let reply = whole(Fault::InternalError).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (500, &"server_error".into()));
    let reply = whole(Fault::Unavailable).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (503, &"server_error".into()));
    let reply = whole(Fault::BadGateway).await;
    assert_eq!((reply.status, reply.header("content-type")), (502, Some("text/html")));
}

#[tokio::test]
async fn a_page_is_a_success_to_http_alone() {
    let reply = whole(Fault::Html).await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html")));
    assert!(reply.body.starts_with(b"<!DOCTYPE html>"));
}

#[tokio::test]
async fn empty_choices_are_a_reply_without_one() {
    let reply = whole(Fault::EmptyChoices).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        (&reply.json()["choices"], &reply.json()["object"]),
        (&[(); 0][..].into(), &"chat.completion".into())
    );
}

#[tokio::test]
async fn null_content_is_a_whole_reply_otherwise() {
    let reply = whole(Fault::NullContent).await;
    assert_eq!(reply.status, 200);
    let choice = &reply.json()["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&().into(), &"stop".into()));
}

#[tokio::test]
async fn one_byte_of_a_whole_reply_is_no_utf_8() {
    let mut reply = whole(Fault::InvalidUtf8).await;
    assert_eq!(reply.status, 200);
    assert!(std::str::from_utf8(&reply.body).is_err());
    reply.body.retain(u8::is_ascii);
    assert_eq!(reply.text(), "");
}

#[tokio::test]
async fn an_oversized_reply_has_ten_megabytes() {
    let reply = whole(Fault::Oversized).await;
    assert_eq!((reply.status, reply.text().len()), (200, 10_000_000));
}

#[tokio::test]
async fn a_reset_comes_before_any_answer() {
    let error = outcome(Fault::Reset).await.broken();
    assert!(error.contains("reset by peer"), "{error}");
}

#[tokio::test]
async fn a_truncated_body_is_shorter_than_its_head_says() {
    let server = start(only(Fault::Truncated)).await;
    let error = ask(&server, body("well?")).await.broken();
    assert!(error.contains("body"), "{error}");
    let response = exchange(&server, &body("well?"));
    let (head, sent) = response.split_once("\r\n\r\n").unwrap();
    let promised = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(sent.len(), promised.parse::<usize>().unwrap() / 2);
    assert!(sent.starts_with(r#"{"id":"chatcmpl-"#), "{sent}");
}

/// Everything that the server sends before it closes the connection.
fn exchange(server: &MockServer, body: &str) -> String {
    let mut stream = TcpStream::connect(server.address().trim_start_matches("http://")).unwrap();
    let length = body.len();
    let request =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test]
async fn a_hang_ends_when_the_client_gives_up() {
    let server = start(only(Fault::Hang)).await;
    let (mut asked, mut hung) = (Box::pin(ask(&server, body("well?"))), false);
    while !hung {
        tokio::select! {
            outcome = &mut asked => panic!("{outcome:?}"),
            () = tokio::task::yield_now() => hung = server.stats().by_fault.contains_key(&Fault::Hang),
        }
    }
    assert_eq!((server.stats().in_flight, server.stats().abandoned), (1, 0));
    drop(asked);
    while server.stats().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((server.stats().requests, server.stats().abandoned), (1, 1));
}

/// One letter for each way in which an exchange can end.
fn letter(outcome: &Outcome) -> char {
    match outcome {
        Outcome::Broken(_) => 'x',
        Outcome::Whole(Reply { status: 200, .. }) => '.',
        Outcome::Whole(Reply { status: 429, .. }) => 'r',
        Outcome::Whole(reply) => panic!("{reply:?}"),
    }
}

/// How four attempts at each of twelve questions end; the questions are asked in this order.
async fn ends(seed: u64, order: &[usize]) -> Vec<String> {
    let rates = [(Fault::RateLimit, 0.3), (Fault::Reset, 0.2), (Fault::Truncated, 0.1)];
    let rates = rates.into_iter().map(|(fault, rate)| FaultRate { fault, rate }).collect();
    let faults = FaultPlan { rates, max_per_request: Some(3), ..FaultPlan::default() };
    let server = start(ServerConfig { seed, faults, ..ServerConfig::default() }).await;
    let mut ends = vec![String::new(); order.len()];
    for _ in 0..4 {
        for &question in order {
            ends[question].push(letter(&ask(&server, body(&format!("question {question}"))).await));
        }
    }
    ends
}

#[tokio::test]
async fn the_seed_decides_which_requests_fail_and_the_order_does_not() {
    let forward: Vec<usize> = (0..12).collect();
    let backward: Vec<usize> = forward.iter().rev().copied().collect();
    let found = ends(1, &forward).await;
    assert_eq!(found, ends(1, &backward).await);
    assert_ne!(found, ends(2, &forward).await);
    assert!(found.iter().all(|ends| ends.ends_with('.')), "{found:?}");
    for kind in ['.', 'r', 'x'] {
        assert!(found.iter().any(|ends| ends.contains(kind)), "{kind} in {found:?}");
    }
    assert!(found.iter().any(|ends| ends != &found[0]), "{found:?}");
}

#[tokio::test]
async fn a_configuration_that_cannot_work_is_refused() {
    let latency = Latency::LogNormal { median_ms: -1.0, sigma: 0.5 };
    for (config, expect) in [
        (ServerConfig { threads: 0, ..ServerConfig::default() }, "0 threads cannot serve"),
        (ServerConfig { latency, ..ServerConfig::default() }, "no latency is `LogNormal"),
        (
            ServerConfig { faults: FaultPlan::only(Fault::Hang, 2.0), ..ServerConfig::default() },
            "the rate of `hang` is 2; expected a number from 0 to 1",
        ),
    ] {
        let error = MockServer::start(config).await.unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    }
}
