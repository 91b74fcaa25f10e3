//! Every kind of environment is an episode.

use crate::site::{Site, code, text};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_envs::live::{LiveConfig, LiveKind, LiveWorld};
use skill_envs::qa::{QaEnv, QaItem, QaSettings};
use skill_envs::tasks::{TasksConfig, TasksEnv, TasksWorld};
use skill_envs::webshop::{WebshopConfig, WebshopWorld};
use skill_envs::{AnswerWorld, EnvError, Episode, Item, Observation, Split, World};
use skill_llm::{HttpRequest, HttpResponse, Transport, TransportError};
use skill_openenv::{EnvOptions, Limits};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

async fn serve(world: Arc<dyn World>) -> Site {
    Site::with(EnvOptions::on_loopback(world)).await
}

#[tokio::test]
async fn a_question_is_an_episode_of_one_step_with_the_score_of_a_rollout() {
    let question = |id: &str| QaItem::new(id, "What is the capital of France?", ["Paris", "Paname"]);
    let env = QaEnv::from_items(
        vec![question("a"), question("b")],
        vec![question("c")],
        vec![],
        QaSettings::default(),
    );
    let site = serve(Arc::new(AnswerWorld::new(Arc::new(env.unwrap())))).await;
    let mut client = site.session().await;
    for (answer, reward, won) in [
        ("Paris", 1.0, true),
        ("paname", 1.0, true),
        ("Paris or London", 0.5, false),
        ("London", 0.0, false),
        ("", 0.0, false),
    ] {
        let seen = client.reset(json!({"task_id": "a"})).await;
        assert!(text(&seen).contains("capital of France"), "{seen}");
        assert!(!text(&seen).contains("Paris"), "the answer is not told");
        let seen = client.step(answer).await;
        assert_eq!(seen["data"]["reward"].as_f64(), Some(reward), "{answer}");
        assert_eq!([&seen["data"]["done"], &seen["data"]["metadata"]["won"]], [&json!(true), &json!(won)]);
        assert_eq!(code(&client.step(answer).await), "EXECUTION_ERROR");
    }
    assert_eq!(code(&client.reset(json!({"split": "test"})).await), "VALIDATION_ERROR");
    let splits = site.get("/qa/splits").await;
    assert_eq!(splits.as_array().unwrap().len(), 2, "a split without tasks is none");
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn tasks_of_ones_own_data_are_episodes_scored_as_configured() {
    let dir = tempfile::tempdir().unwrap();
    let lines: String = (0..10)
        .map(|n| json!({"id": n, "question": format!("{n} + {n} = ?"), "answer": 2 * n}).to_string() + "\n")
        .collect();
    std::fs::write(dir.path().join("data.jsonl"), lines).unwrap();
    let env = TasksEnv::load(&TasksConfig::new(dir.path().join("data.jsonl"))).unwrap();
    let site = serve(Arc::new(TasksWorld::new(Arc::new(env)))).await;
    let mut client = site.session().await;
    // Ids that look like numbers become numbers in tables of data.
    let seen = client.reset(json!({"task_id": 4})).await;
    assert!(text(&seen).contains("4 + 4 = ?"), "{seen}");
    let seen = client.step("8").await;
    assert_eq!([&seen["data"]["reward"], &seen["data"]["done"]], [&json!(1.0), &json!(true)]);
    client.reset(json!({"task_id": "4"})).await;
    assert_eq!(client.step("9").await["data"]["reward"], json!(0.0));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_shop_is_played_to_a_purchase() {
    let world: Arc<dyn World> = Arc::new(WebshopWorld::load(&WebshopConfig::default()).unwrap());
    let site = serve(Arc::clone(&world)).await;
    let mut client = site.session().await;
    let seen = client.reset(json!({"split": "test", "index": 0})).await;
    let goal = world.goal(&world.items(Split::Test)[0]);
    if let Some(goal) = goal {
        assert_eq!(seen["data"]["metadata"]["goal"], json!(goal));
    }
    let seen = client.step("search[red shoes]").await;
    let commands = crate::site::admissible(&seen);
    let item = commands.iter().find(|command| command.starts_with("click[b") && !command.contains("back"));
    let item = item.unwrap_or_else(|| panic!("nothing to click: {commands:?}")).clone();
    client.step(&item).await;
    let seen = client.step("click[buy now]").await;
    assert_eq!(seen["data"]["done"], json!(true));
    assert!((0.0..=1.0).contains(&seen["data"]["reward"].as_f64().unwrap()));
    drop(client);
    site.end().await;
}

/// A world that does what its items say.
struct Odd(Vec<Item>);

struct OddEpisode {
    what: String,
    seed: Option<u64>,
}

impl World for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    fn items(&self, split: Split) -> &[Item] {
        if split == Split::Train { &self.0 } else { &[] }
    }

    fn instructions(&self) -> &str {
        ""
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        match item.id.as_str() {
            "none" => Err(EnvError::Configuration { message: "it cannot be loaded".to_owned() }),
            what => Ok(Box::new(OddEpisode { what: what.to_owned(), seed: None })),
        }
    }
}

#[async_trait]
impl Episode for OddEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        match self.what.as_str() {
            "never" => std::future::pending().await,
            _ => Ok(Observation::new(format!("seed {:?}", self.seed))),
        }
    }

    async fn reset_with_seed(&mut self, seed: u64) -> Result<Observation, EnvError> {
        self.seed = Some(seed);
        self.reset().await
    }

    async fn step(&mut self, _: &str) -> Result<Observation, EnvError> {
        Err(EnvError::Broken { item: "breaks".into(), message: "it fell over".to_owned() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_world_that_breaks_is_an_error_and_no_score() {
    let items = ["fine", "none", "never"].map(|id| Item::new(id, json!(null)));
    let limits = Limits { reset: Duration::from_secs(5), ..Limits::default() };
    let options = EnvOptions { limits, ..EnvOptions::on_loopback(Arc::new(Odd(items.into()))) };
    let site = Site::with(options).await;
    let mut client = site.session().await;
    for id in ["none", "never"] {
        let reply = client.reset(json!({"task_id": id})).await;
        assert_eq!(code(&reply), "FACTORY_ERROR", "{id}: {reply}");
        assert_eq!(client.state().await["data"]["episode_id"], json!(null));
    }
    assert_eq!(text(&client.reset(json!({"task_id": "fine", "seed": 5})).await), "seed Some(5)");
    assert_eq!(text(&client.reset(json!({"task_id": "fine"})).await), "seed None");
    let reply = client.step("go").await;
    assert_eq!(code(&reply), "EXECUTION_ERROR");
    assert!(reply["data"]["message"].as_str().unwrap().contains("it fell over"));
    // What is broken is not an episode any longer.
    assert_eq!(code(&client.step("go").await), "EXECUTION_ERROR");
    assert_eq!(client.state().await["data"]["episode_id"], json!(null));
    drop(client);
    site.end().await;
}

/// A server with one household, whose task is done when something is put down.
#[derive(Default)]
struct Household {
    is_away: AtomicBool,
}

#[async_trait]
impl Transport for Household {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if self.is_away.load(Ordering::Relaxed) {
            return Err(TransportError::Connect { message: "refused".to_owned() });
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let answer = match body["action"].as_str() {
            None => json!({"observation": "A room.", "available_actions": ["look", "put mug"],
                           "task_description": "put a mug on a desk"}),
            Some("put mug") => json!({"observation": "Done.", "done": true, "reward": 1}),
            Some(_) => json!({"observation": "Nothing happens.", "done": false, "reward": 0}),
        };
        Ok(HttpResponse { status: 200, headers: Vec::new(), body: answer.to_string().into_bytes() })
    }
}

#[tokio::test]
async fn a_world_on_a_live_server_is_played_and_its_faults_are_no_scores() {
    let config = LiveConfig {
        kind: LiveKind::Alfworld,
        servers: vec!["http://h:1".to_owned()],
        tasks: [vec!["t1".to_owned()], vec![], vec![]],
        unlisted: [0; 3],
        timeout_s: 5.0,
    };
    let household = Arc::new(Household::default());
    let transport = Arc::clone(&household) as Arc<dyn Transport>;
    let site = serve(Arc::new(LiveWorld::with_transport(&config, transport).unwrap())).await;
    let mut client = site.session().await;
    let seen = client.reset(json!({})).await;
    assert!(text(&seen).contains("put a mug on a desk"), "{seen}");
    assert_eq!(seen["data"]["observation"]["admissible_commands"], json!(["look", "put mug"]));
    let seen = client.step("look").await;
    assert_eq!([&seen["data"]["reward"], &seen["data"]["done"]], [&json!(0.0), &json!(false)]);
    let seen = client.step("put mug").await;
    assert_eq!([&seen["data"]["done"], &seen["data"]["metadata"]["won"]], [&json!(true), &json!(true)]);
    client.reset(json!({})).await;
    household.is_away.store(true, Ordering::Relaxed);
    assert_eq!(code(&client.step("look").await), "EXECUTION_ERROR");
    household.is_away.store(false, Ordering::Relaxed);
    assert!(text(&client.reset(json!({})).await).contains("put a mug on a desk"));
    drop(client);
    site.end().await;
}
