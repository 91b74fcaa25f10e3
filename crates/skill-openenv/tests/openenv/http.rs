//! The replies over HTTP, and the task API.

use crate::site::{Site, household};
use serde_json::{Value, json};
use skill_envs::Split;

#[tokio::test]
async fn the_server_says_what_validators_ask_for() {
    let site = Site::household().await;
    assert_eq!(site.get("/health").await, json!({"status": "healthy"}));
    let metadata = site.get("/metadata").await;
    assert!(metadata["name"] == "alfworld" && metadata["description"].is_string(), "{metadata}");
    let schema = site.get("/schema").await;
    assert_eq!(schema["action"]["required"], json!(["command"]));
    for part in ["action", "observation", "state"] {
        assert_eq!(schema[part]["type"], "object");
    }
    let openapi = site.get("/openapi.json").await;
    assert!(openapi["info"]["version"].is_string());
    for path in ["/reset", "/step", "/state", "/mcp"] {
        assert!(openapi["paths"][path].is_object(), "{path}");
    }
    assert!(openapi["paths"]["/bank"].is_null());
    assert_eq!(site.get("/state").await, json!({"episode_id": null, "step_count": 0}));
    let (status, answer) = site.ask("POST /mcp", "", "{}").await;
    assert_eq!((status, &answer["jsonrpc"], &answer["id"]), (200, &json!("2.0"), &Value::Null));
    let (status, _) = site.ask("GET /nowhere", "", "").await;
    assert_eq!(status, 404);
    let (status, _) = site.ask("GET /bank", "", "").await;
    assert_eq!(status, 404, "there is no bank");
    site.end().await;
}

#[tokio::test]
async fn an_episode_of_a_request_is_shown_and_cannot_be_gone_on_with() {
    let site = Site::household().await;
    let (status, begun) = site.post("/reset", json!({"split": "test"})).await;
    assert_eq!((status, &begun["reward"], &begun["done"]), (200, &Value::Null, &json!(false)));
    assert!(begun["observation"]["text"].as_str().unwrap().len() > 50);
    let (status, _) = site.post("/reset", json!({"task_id": "none"})).await;
    assert_eq!(status, 422);
    let (status, wrong) = site.post("/step", json!({"action": {"wrong": 1}})).await;
    assert_eq!((status, &wrong["detail"][0]["type"]), (422, &json!("missing")));
    let (status, _) = site.post("/step", json!({"action": {"command": "look"}})).await;
    assert_eq!(status, 409);
    site.end().await;
}

#[tokio::test]
async fn the_task_api_lists_the_tasks_of_the_world() {
    let site = Site::household().await;
    let world = household();
    assert_eq!(site.get("/list_environments").await, json!(["alfworld"]));
    let splits = site.get("/alfworld/splits").await;
    let named: Vec<&str> =
        splits.as_array().unwrap().iter().map(|split| split["name"].as_str().unwrap()).collect();
    assert_eq!(named, ["train", "val", "test"]);
    let ids = |found: &Value| -> Vec<String> {
        let tasks = found["tasks"].as_array().unwrap();
        tasks.iter().map(|task| task["task_id"].as_str().unwrap().to_owned()).collect()
    };
    let own: Vec<String> = world.items(Split::Test).iter().map(|item| item.id.to_string()).collect();
    let (_, all) = site.post("/alfworld/tasks", json!({"split": "test"})).await;
    assert_eq!((ids(&all), &all["env_name"]), (own.clone(), &json!("alfworld")));
    let (_, count) = site.post("/alfworld/num_tasks", json!({"split": "train"})).await;
    assert_eq!(count, json!({"num_tasks": 12}));
    let (_, one) = site.post("/alfworld/task", json!({"split": "test", "index": 1})).await;
    assert_eq!(one["task"]["task_id"], json!(own[1]));
    for (range, expect) in [
        (json!({"split": "test", "start": 1, "stop": 3}), &own[1..3]),
        (json!({"split": "test"}), &own[..]),
        (json!({"split": "test", "start": 2, "stop": 99}), &own[2..]),
        (json!({"split": "test", "start": 9, "stop": 3}), &own[3..]),
    ] {
        let (_, found) = site.post("/alfworld/task_range", range.clone()).await;
        assert_eq!(ids(&found), expect, "{range}");
    }
    for (path, body, expect) in [
        ("/other/tasks", json!({"split": "train"}), 404),
        ("/alfworld/tasks", json!({"split": "exam"}), 422),
        ("/alfworld/tasks", json!({}), 422),
        ("/alfworld/task", json!({"split": "test", "index": 3}), 404),
        ("/alfworld/task", json!({"split": "test"}), 422),
        ("/alfworld/task", json!({"split": "test", "index": "1"}), 422),
    ] {
        let (status, answer) = site.post(path, body.clone()).await;
        assert_eq!(status, expect, "{path} {body}: {answer}");
    }
    site.end().await;
}
