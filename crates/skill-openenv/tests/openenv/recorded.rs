//! The exchanges that OpenEnv's own server was recorded with: ours answers in the same shapes.

use crate::site::Site;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn recording(name: &str) -> Value {
    let root = std::env::var_os("SKILLRL_CONFORMANCE").unwrap();
    let path = std::path::Path::new(&root).join("rl-interfaces").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().map(|fields| fields.keys().map(String::as_str).collect()).unwrap_or_default()
}

#[tokio::test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
async fn conformance_of_replies_with_the_recorded_ones() {
    let recorded = recording("openenv-official-server.json");
    let site = Site::household().await;
    let mut client = site.session().await;
    client.reset(json!({})).await;
    let mut compared = 0;
    for exchange in recorded["exchanges"].as_array().unwrap() {
        let is_first = exchange["connection"] == "a" || exchange["connection"] == "b";
        if exchange["transport"] == "http" {
            compared += usize::from(http(&site, exchange).await);
            continue;
        }
        if !is_first || exchange.get("receive").is_none() {
            continue;
        }
        let mut sent = exchange["send"].clone();
        // The tasks of the recording are not ours, and nor are its skills.
        if let Some(data) = sent.get_mut("data").and_then(Value::as_object_mut) {
            for name in ["task_id", "skills"] {
                data.remove(name);
            }
        }
        let message = sent.as_str().map_or_else(|| sent.to_string(), str::to_owned);
        client.send(&message).await;
        let (reply, expect) = (client.receive().await, &exchange["receive"]);
        if sent["data"]["command"] == "before reset" || sent["data"]["command"] == "after done" {
            continue;
        }
        assert_eq!(reply["type"], expect["type"], "{sent}: {reply}");
        assert_eq!(reply["data"]["code"], expect["data"]["code"], "{sent}");
        if expect["type"] == "error" && expect["data"].get("errors").is_some() {
            assert_eq!(reply, *expect, "{sent}");
        }
        let missing: Vec<_> = keys(&expect["data"])
            .difference(&keys(&reply["data"]))
            .filter(|name| **name != "won" && **name != "task_id")
            .map(|name| name.to_owned())
            .collect();
        assert!(missing.is_empty(), "{sent}: {missing:?}");
        assert_eq!(keys(&reply["data"]["observation"]), keys(&expect["data"]["observation"]), "{sent}");
        compared += 1;
    }
    assert!(compared >= 20, "{compared}");
    drop(client);
    site.end().await;
}

/// Compares the answer to a request; false for one that names tasks of the recording.
async fn http(site: &Site, exchange: &Value) -> bool {
    let (request, expect) = (&exchange["request"], &exchange["response"]);
    let path = request["path"].as_str().unwrap().replace("/toy/", "/alfworld/");
    let line = format!("{} {path}", request["method"].as_str().unwrap());
    // A step of a request has no episode here, which is said; see the crate's documentation.
    if path == "/step" && expect["status"] == 200 {
        return false;
    }
    let mut body = request.get("body").cloned();
    if path == "/reset" {
        body = Some(json!({"seed": 7}));
    }
    let (status, answer) = site.ask(&line, "", &body.map(|body| body.to_string()).unwrap_or_default()).await;
    assert_eq!(json!(status), expect["status"], "{line}: {answer}");
    let missing: Vec<_> =
        keys(&expect["body"]).difference(&keys(&answer)).map(|name| (*name).to_owned()).collect();
    assert!(missing.is_empty(), "{line}: {missing:?}");
    if status == 422 || path == "/health" || path == "/state" || path == "/mcp" {
        assert_eq!(answer, expect["body"], "{line}");
    }
    true
}
