//! What the server says it has seen.

use crate::client::{ask, ask_from, body, client, get, start};
use mock_openai::{Fault, FaultPlan, Latency, MockServer, ServerConfig, StartError, Stats};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

#[tokio::test]
async fn replies_and_models_are_those_of_the_dialect() {
    let server = start(ServerConfig::default()).await;
    let reply = ask(&server, body("well?")).await.whole();
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let reply = reply.json();
    assert_eq!(reply["choices"][0]["message"]["content"], "OK");
    assert_eq!((&reply["object"], &reply["model"]), (&"chat.completion".into(), &"small".into()));
    assert_eq!(reply["usage"]["prompt_tokens"], body("well?").len() / 4);
    let models = get(&server, "/v1/models").await.json();
    assert_eq!((&models["object"], &models["data"][0]["object"]), (&"list".into(), &"model".into()));
    let missing = get(&server, "/v2/models").await;
    assert_eq!((missing.status, &missing.json()["error"]["type"]), (404, &"invalid_request_error".into()));
    assert_eq!((server.stats().requests, server.stats().other_requests), (1, 2));
}

#[tokio::test]
async fn every_request_is_counted_once() {
    let faults = FaultPlan { max_per_request: Some(1), ..FaultPlan::only(Fault::Unavailable, 1.0) };
    let server = start(ServerConfig { faults, ..ServerConfig::default() }).await;
    let mut bytes_sent = 0;
    for question in ["a", "a", "a", "b"] {
        bytes_sent += ask(&server, body(question)).await.whole().body.len() as u64;
    }
    let stats = server.stats();
    assert_eq!(
        stats,
        Stats {
            requests: 4,
            answered: 2,
            repeated: 1,
            repeated_in_place: 1,
            distinct_bodies: 2,
            distinct_places: 2,
            max_in_flight: 1,
            connections: 4,
            bytes_received: 4 * body("a").len() as u64,
            bytes_sent,
            by_status: BTreeMap::from([(200, 2), (503, 2)]),
            by_fault: BTreeMap::from([(Fault::Unavailable, 2)]),
            ..Stats::default()
        }
    );
    let served = get(&server, "/stats").await.json();
    let expect = Stats { connections: 5, other_requests: 1, ..stats };
    assert_eq!(served, serde_json::to_value(&expect).unwrap());
    assert_eq!((&served["by_fault"], &served["by_status"]["503"]), (&json!({"unavailable": 2}), &json!(2)));
}

#[tokio::test]
async fn the_same_body_from_another_place_is_no_repetition_there() {
    let server = start(ServerConfig::default()).await;
    for place in [None, Some("step 1"), Some("step 2"), Some("step 2")] {
        ask_from(&server, body("a"), place).await.whole();
    }
    let stats = server.stats();
    assert_eq!((stats.repeated, stats.repeated_in_place), (3, 1));
    assert_eq!((stats.distinct_bodies, stats.distinct_places), (1, 3));
}

#[tokio::test]
async fn requests_in_flight_are_counted_together() {
    let latency = Latency::Fixed(Duration::from_secs(600));
    let server = start(ServerConfig { latency, threads: 2, ..ServerConfig::default() }).await;
    let mut asked = tokio::task::JoinSet::new();
    for question in 0..20 {
        let request = client().post(format!("{}/chat/completions", server.base_url()));
        asked.spawn(request.body(body(&question.to_string())).send());
    }
    while server.stats().in_flight < 20 {
        tokio::task::yield_now().await;
    }
    drop(asked);
    while server.stats().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    let stats = server.stats();
    assert_eq!((stats.max_in_flight, stats.abandoned, stats.answered), (20, 20, 0));
}

#[tokio::test]
async fn a_reset_begins_anew() {
    let faults = FaultPlan { max_per_request: Some(1), ..FaultPlan::only(Fault::Unavailable, 1.0) };
    let server = start(ServerConfig { faults, ..ServerConfig::default() }).await;
    for _ in 0..2 {
        let statuses =
            [ask(&server, body("a")).await.whole().status, ask(&server, body("a")).await.whole().status];
        assert_eq!(statuses, [503, 200]);
        client().post(format!("{}/stats/reset", server.address())).send().await.unwrap();
        assert_eq!(server.stats(), Stats::default());
    }
}

#[tokio::test]
async fn a_dropped_server_is_gone_and_its_port_is_free() {
    let server = start(ServerConfig::default()).await;
    ask(&server, body("a")).await.whole();
    let address = server.address().trim_start_matches("http://").parse().unwrap();
    let config = ServerConfig { address, ..ServerConfig::default() };
    let error = MockServer::start(config.clone()).await.unwrap_err();
    assert!(matches!(&error, StartError::Listen { .. }), "{error:?}");
    drop(server);
    assert!(std::net::TcpStream::connect(address).is_err());
    ask(&start(config).await, body("a")).await.whole();
}
