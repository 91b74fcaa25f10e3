//! Worlds on servers: what is sent, how answers are read, and that no two episodes share a server.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::SkillDoc;
use skill_envs::agent::{AgentSettings, WorldEnv};
use skill_envs::live::{LiveConfig, LiveKind, LiveWorld};
use skill_envs::{Env as _, EnvError, Item, Observation, RolloutCtx, Split, World as _};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{HttpRequest, HttpResponse, Transport, TransportError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Servers without a network: each counts the steps of the one episode that it plays.
#[derive(Default)]
struct Fake {
    /// Per server, what was asked, in order.
    asked: Mutex<BTreeMap<String, Vec<(String, Value)>>>,
    /// Answers to give in order instead of the usual ones.
    answers: Mutex<Vec<Result<HttpResponse, TransportError>>>,
}

#[async_trait]
impl Transport for Fake {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (server, path) = request.url.rsplit_once('/').unwrap();
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let steps = {
            let mut asked = self.asked.lock();
            let log = asked.entry(server.to_owned()).or_default();
            log.push((path.to_owned(), body.clone()));
            log.iter().rev().take_while(|(path, _)| path == "step").count()
        };
        if let Some(answer) = self.answers.lock().pop() {
            return answer;
        }
        tokio::task::yield_now().await;
        let answer = json!({"observation": format!("step {steps}"), "done": steps == 2, "reward": if steps == 2 { 1 } else { 0 }});
        Ok(ok(&answer))
    }
}

fn ok(answer: &Value) -> HttpResponse {
    HttpResponse { status: 200, headers: Vec::new(), body: answer.to_string().into_bytes() }
}

fn config(kind: LiveKind, servers: &[&str]) -> LiveConfig {
    LiveConfig {
        kind,
        servers: servers.iter().map(|server| (*server).to_owned()).collect(),
        tasks: [vec!["t1".to_owned(), "t2".to_owned()], vec!["v1".to_owned()], Vec::new()],
        unlisted: [0; 3],
        timeout_s: 5.0,
    }
}

/// A world whose servers give this answer.
fn answering(kind: LiveKind, answer: Result<HttpResponse, TransportError>) -> (LiveWorld, Item) {
    let fake = Fake { answers: Mutex::new(vec![answer]), ..Fake::default() };
    let world = LiveWorld::with_transport(&config(kind, &["http://h:1/"]), Arc::new(fake)).unwrap();
    let item = world.items(Split::Train)[0].clone();
    (world, item)
}

async fn reset(kind: LiveKind, answer: Value) -> (Observation, Option<String>) {
    let (world, item) = answering(kind, Ok(ok(&answer)));
    let mut episode = world.episode(&item).unwrap();
    let seen = episode.reset().await.unwrap();
    (seen, episode.task().map(str::to_owned))
}

#[tokio::test]
async fn an_episode_speaks_the_protocol() {
    let fake = Arc::new(Fake::default());
    let world = LiveWorld::with_transport(&config(LiveKind::Alfworld, &[]), fake.clone()).unwrap();
    let mut episode = world.episode(&world.items(Split::Val)[0]).unwrap();
    assert_eq!(episode.reset().await.unwrap().text, "step 0");
    let first = episode.step("go to desk 1").await.unwrap();
    let second = episode.step("look").await.unwrap();
    assert_eq!(
        (first.done, first.won, second.done, second.won, second.reward),
        (false, false, true, true, 1.0)
    );
    let asked = fake.asked.lock();
    let expect = [
        ("reset".to_owned(), json!({"task_id": "v1"})),
        ("step".to_owned(), json!({"action": "go to desk 1"})),
        ("step".to_owned(), json!({"action": "look"})),
    ];
    assert_eq!(asked["http://localhost:3000"], expect);
}

#[tokio::test]
async fn answers_are_read() {
    let goal = "put a mug on a desk";
    let (seen, task) = reset(
        LiveKind::Alfworld,
        json!({"observation": "A room.", "available_actions": ["look"], "task_description": goal,
               "task_category": "pick", "info": {"steps": 0}}),
    )
    .await;
    assert_eq!((seen.admissible, task.as_deref()), (Some(vec!["look".to_owned()]), Some(goal)));
    let (_, task) =
        reset(LiveKind::Alfworld, json!({"observation": "Your task is to: x.", "task_description": "x"}))
            .await;
    assert_eq!(task, None, "the observation says it already");
    let (seen, _) =
        reset(LiveKind::Alfworld, json!({"observation": "Nothing happens.", "reward": null})).await;
    assert!(!seen.understood);
    let page = json!({"observation": "Shop", "available_actions": {"has_search_bar": true, "clickables": ["search", "b01"]}});
    let (seen, _) = reset(LiveKind::Webshop, page).await;
    assert_eq!(seen.admissible, Some(vec!["search[words]".to_owned(), "click[b01]".to_owned()]));
    for (kind, reward, info, won) in [
        (LiveKind::Webshop, 0.7, json!({}), false),
        (LiveKind::Webshop, 1.0, json!({}), true),
        (LiveKind::Alfworld, 0.5, json!(null), true),
        (LiveKind::Alfworld, 1.0, json!({"won": false}), false),
        (LiveKind::Webshop, 0.2, json!({"success": true}), true),
    ] {
        let (seen, _) =
            reset(kind, json!({"observation": "", "done": true, "reward": reward, "info": info})).await;
        assert_eq!((seen.won, seen.done), (won, true), "{kind:?} {reward} {info}");
    }
}

#[tokio::test]
async fn a_category_is_the_type_of_the_task() {
    let answer = json!({"observation": "A room.", "task_description": "put a mug", "task_category": " Heat ",
                        "done": true, "reward": 1});
    for (own, expect) in [("", "Heat"), ("cool", "cool")] {
        let (world, mut item) = answering(LiveKind::Alfworld, Ok(ok(&answer)));
        item.task_type = own.to_owned();
        let env = WorldEnv::new(Arc::new(world), AgentSettings::default(), None).unwrap();
        let model = ScriptedModel::answering("nobody", |_| String::new());
        let skill = SkillDoc::new("");
        let result = env.rollout(&item, &skill, &model, &RolloutCtx::default()).await.unwrap();
        assert_eq!((result.task_type.as_str(), result.hard), (expect, 1.0));
    }
}

#[tokio::test]
async fn a_server_without_a_list_of_tasks_chooses_them() {
    let fake = Arc::new(Fake::default());
    let config =
        LiveConfig { tasks: Default::default(), unlisted: [2, 1, 0], ..config(LiveKind::Webshop, &[]) };
    let world = LiveWorld::with_transport(&config, fake.clone()).unwrap();
    let ids = |split| world.items(split).iter().map(|item| item.id.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (ids(Split::Train), ids(Split::Val)),
        (vec!["train-1".to_owned(), "train-2".to_owned()], vec!["val-1".to_owned()])
    );
    assert!(ids(Split::Test).is_empty());
    world.episode(&world.items(Split::Train)[1]).unwrap().reset().await.unwrap();
    let asked = fake.asked.lock();
    assert_eq!(asked["http://localhost:3001"], [("reset".to_owned(), json!({"task_id": null}))]);
}

#[tokio::test]
async fn faults_of_servers_are_no_scores() {
    let status = |status, body: &str| Ok(HttpResponse { status, headers: Vec::new(), body: body.into() });
    let cases = [
        (status(500, "boom\n"), "http://h:1/reset answered with status 500: boom"),
        (
            status(200, "<html>"),
            "the answer of http://h:1/reset: it is not JSON: expected value at line 1 column 1",
        ),
        (status(200, "{}"), "the answer of http://h:1/reset: it has no `observation`"),
        (status(200, r#"{"observation": 1}"#), "the answer of http://h:1/reset: `observation` is not text"),
        (
            status(200, r#"{"observation": "", "done": "yes"}"#),
            "the answer of http://h:1/reset: `done` is neither true nor false",
        ),
        (
            status(200, r#"{"observation": "", "reward": "1"}"#),
            "the answer of http://h:1/reset: `reward` is not a number",
        ),
        (
            Err(TransportError::Connect { message: "refused".to_owned() }),
            "http://h:1/reset gave no answer: refused; is the server running?",
        ),
    ];
    for (answer, expect) in cases {
        let (world, item) = answering(LiveKind::Alfworld, answer);
        let error = world.episode(&item).unwrap().reset().await.unwrap_err();
        assert!(error.is_retryable());
        assert_eq!(error.to_string(), format!("item t1: {expect}"));
    }
}

#[tokio::test]
async fn a_server_plays_one_episode_at_a_time() {
    let fake = Arc::new(Fake::default());
    let servers = ["http://h:1", "http://h:2"];
    let world =
        Arc::new(LiveWorld::with_transport(&config(LiveKind::Alfworld, &servers), fake.clone()).unwrap());
    let mut plays = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let world = Arc::clone(&world);
        plays.spawn(async move {
            let mut episode = world.episode(&world.items(Split::Train)[0]).unwrap();
            episode.reset().await.unwrap();
            let texts = [episode.step("a").await.unwrap().text, episode.step("b").await.unwrap().text];
            assert_eq!(texts, ["step 1", "step 2"], "another episode came in between");
        });
    }
    while let Some(play) = plays.join_next().await {
        play.unwrap();
    }
    let asked = fake.asked.lock();
    assert_eq!(asked.values().map(Vec::len).sum::<usize>(), 30);
    assert_eq!(asked.len(), 2, "both servers play");
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let check = |change: fn(&mut LiveConfig), expect: &str| {
        let mut config = config(LiveKind::Alfworld, &["http://h:1"]);
        change(&mut config);
        let error = LiveWorld::with_transport(&config, Arc::new(Fake::default())).err().unwrap();
        assert!(matches!(error, EnvError::Configuration { .. }));
        assert_eq!(error.to_string(), expect);
    };
    check(|config| config.timeout_s = 0.0, "`timeout_s` is 0; expected a number above 0");
    check(
        |config| config.servers = vec!["h:1".to_owned()],
        "the server `h:1` is not an address; expected one like `http://localhost:3000`",
    );
    check(
        |config| config.servers = vec!["http://h".to_owned(); 2],
        "the server `http://h` is named twice; a server plays one episode at a time, so naming it twice helps nothing",
    );
    check(
        |config| config.tasks[2] = vec!["t1".to_owned()],
        "the task `t1` occurs twice; ids are unique over all splits",
    );
    check(|config| config.tasks[2] = vec![" ".to_owned()], "the id \" \" of a task is blank");
}
