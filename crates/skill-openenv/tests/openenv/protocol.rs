//! Episodes over the WebSocket.

use crate::site::{Site, admissible, code, household, text};
use serde_json::json;
use skill_envs::Split;
use skill_envs::alfworld::Expert;
use skill_openenv::EnvOptions;

#[tokio::test]
async fn an_expert_wins_every_game_of_a_session() {
    let site = Site::household().await;
    let world = household();
    let mut client = site.session().await;
    for item in world.items(Split::Train) {
        let mut seen = client.reset(json!({"task_id": item.id})).await;
        assert_eq!(seen["data"]["reward"], json!(null));
        assert_eq!(seen["data"]["metadata"]["task_id"], json!(item.id));
        let (mut expert, mut steps, mut total) = (Expert::new(text(&seen)), 0, 0.0);
        while seen["data"]["done"] == json!(false) {
            let command = expert.act(text(&seen), &admissible(&seen));
            seen = client.step(&command).await;
            steps += 1;
            total += seen["data"]["reward"].as_f64().unwrap();
        }
        assert_eq!((total, &seen["data"]["metadata"]["won"]), (1.0, &json!(true)), "{}", item.id);
        let state = client.state().await;
        assert_eq!(state["data"]["step_count"], json!(steps));
        assert_eq!(state["data"]["won"], json!(true));
    }
    client.send(r#"{"type":"close"}"#).await;
    assert_eq!(client.closed().await.map(u16::from), Some(1000));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn what_the_world_shows_is_what_a_session_shows() {
    let site = Site::household().await;
    let world = household();
    let item = &world.items(Split::Test)[1];
    let mut episode = world.episode(item).unwrap();
    let mut own = episode.reset().await.unwrap();
    let mut client = site.session().await;
    let mut seen = client.reset(json!({"task_id": item.id})).await;
    for command in ["look", "inventory", "dance", "examine the moon", "help"] {
        assert_eq!(text(&seen), own.text);
        assert_eq!(admissible(&seen), own.admissible.clone().unwrap_or_default());
        (own, seen) = (episode.step(command).await.unwrap(), client.step(command).await);
        assert_eq!(seen["data"]["reward"].as_f64(), Some(own.reward));
        let understood = seen["data"]["metadata"]["understood"].as_bool().unwrap_or(true);
        assert_eq!(understood, own.understood, "{command}");
    }
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_reset_chooses_its_task() {
    let site = Site::household().await;
    let world = household();
    let id = |split: Split, idx: usize| json!(world.items(split)[idx].id);
    let mut client = site.session().await;
    let mut task = async |data| client.reset(data).await["data"]["metadata"]["task_id"].clone();
    // Without anything the tasks of the training split take turns.
    assert_eq!([task(json!({})).await, task(json!({})).await], [id(Split::Train, 0), id(Split::Train, 1)]);
    assert_eq!(task(json!({"split": "test"})).await, id(Split::Test, 0));
    assert_eq!(task(json!({"split": "val", "index": 2})).await, id(Split::Val, 2));
    assert_eq!(task(json!({"task": id(Split::Val, 1)})).await, id(Split::Val, 1));
    assert_eq!(task(json!({"task_id": id(Split::Test, 1), "split": "test"})).await, id(Split::Test, 1));
    // A seed picks the same task each time, and not all seeds the same.
    let mut picked = Vec::new();
    for seed in 0..20 {
        let found = [task(json!({"seed": seed})).await, task(json!({"seed": seed})).await];
        assert_eq!(found[0], found[1]);
        picked.push(found[0].to_string());
    }
    picked.sort();
    picked.dedup();
    assert!(picked.len() > 5, "{picked:?}");
    // Columns of a row that are none of ours are not looked at.
    assert_eq!(
        task(json!({"index": 0, "prompt": [1, 2], "seed": null, "level": {}})).await,
        id(Split::Train, 0)
    );
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_reset_that_is_wrong_says_where_and_leaves_the_episode() {
    let site = Site::household().await;
    let mut client = site.session().await;
    client.reset(json!({"split": "test", "episode_id": "mine"})).await;
    client.step("look").await;
    for (data, field) in [
        (json!({"task_id": "none"}), "task_id"),
        (json!({"task_id": ["a"]}), "task_id"),
        (json!({"split": "exam"}), "split"),
        (json!({"index": 99}), "index"),
        (json!({"index": -1}), "index"),
        (json!({"seed": "x"}), "seed"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"episode_id": "a\nb"}), "episode_id"),
        (json!({"episode_id": "x".repeat(200)}), "episode_id"),
        (json!({"skills": "bank"}), "skills"),
        (json!({"skills": {"depth": 3}}), "depth"),
    ] {
        let reply = client.reset(data.clone()).await;
        assert_eq!(code(&reply), "VALIDATION_ERROR", "{data}");
        assert_eq!(reply["data"]["errors"][0]["loc"], json!([field]), "{data}");
        let state = client.state().await;
        // A server without a bank finds that out when the episode has begun.
        if field != "skills" && field != "depth" {
            assert_eq!(state["data"]["episode_id"], "mine", "{data}");
            assert_eq!(state["data"]["step_count"], 1, "{data}");
        }
    }
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn steps_outside_of_an_episode_are_refused_and_the_session_goes_on() {
    let options = EnvOptions { max_steps: Some(2), ..EnvOptions::on_loopback(household()) };
    let site = Site::with(options).await;
    let mut client = site.session().await;
    assert_eq!(client.state().await["data"], json!({"episode_id": null, "step_count": 0}));
    assert_eq!(code(&client.step("look").await), "EXECUTION_ERROR");
    client.reset(json!({})).await;
    assert_eq!(client.step("look").await["data"]["done"], json!(false));
    let last = client.step("look").await;
    assert_eq!(last["data"]["done"], json!(true));
    assert_eq!(last["data"]["metadata"], json!({"truncated": true, "won": false, "total_reward": 0.0}));
    assert_eq!(code(&client.step("look").await), "EXECUTION_ERROR");
    assert_eq!(client.state().await["data"]["step_count"], 2);
    client.reset(json!({})).await;
    assert_eq!(client.step("look").await["data"]["done"], json!(false));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn sessions_know_nothing_of_each_other() {
    let site = Site::household().await;
    let (mut one, mut other) = (site.session().await, site.session().await);
    one.reset(json!({"episode_id": "a", "index": 1})).await;
    other.reset(json!({"episode_id": "b", "index": 2})).await;
    for _ in 0..3 {
        one.step("look").await;
    }
    let [state, of_other] = [one.state().await, other.state().await];
    assert_eq!([&state["data"]["episode_id"], &of_other["data"]["episode_id"]], [&json!("a"), &json!("b")]);
    assert_eq!([&state["data"]["step_count"], &of_other["data"]["step_count"]], [&json!(3), &json!(0)]);
    drop((one, other));
    site.end().await;
}
