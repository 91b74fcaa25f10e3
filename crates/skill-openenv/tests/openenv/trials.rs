//! Results of trainers, trials on them, and new candidates from what failed.

use crate::site::{Client, Site, code, household};
use crate::skills::{propose, site_with};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_bank::distill::TeacherPrompts;
use skill_bank::{Bank, BankEvent, Occasion, State, Tier, TrialVerdict};
use skill_core::Usage;
use skill_envs::Split;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skill_openenv::TeacherOptions;
use skill_pipeline::bank::BankSettings;
use skill_pipeline::bank_dir::{BankDir, read_bank};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A bank with an active skill, and a candidate.
fn bank_with_candidate(path: &Path) {
    let mut bank = Bank::new();
    propose(&mut bank, Tier::General, "look first", true);
    propose(&mut bank, Tier::General, "walk slowly", false);
    drop(BankDir::create(path, bank, None).unwrap());
}

fn settings() -> BankSettings {
    let mut settings = BankSettings::default();
    (settings.trial_samples, settings.max_trial_rollouts) = (4, 400);
    // Four failures of a type are enough.
    settings.weak_below = 0.9;
    settings
}

/// A server of a bank with a candidate.
async fn site_with_candidate() -> (tempfile::TempDir, PathBuf, Site) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    bank_with_candidate(&path);
    let site = site_with(&path, settings(), None, None).await;
    (dir, path, site)
}

async fn report(site: &Site, episode: &Value, reward: f64) -> (u16, Value) {
    let skills = &episode["data"]["metadata"]["skills"];
    let id = &episode["data"]["metadata"]["episode_id"];
    let body = json!({"episode_id": id, "skill_version": skills["version"], "reward": reward});
    site.post("/bank/results", body).await
}

/// Plays groups of all training tasks as GRPO would, until a trial is decided: what helps is the candidate.
async fn train(site: &Site, client: &mut Client, epochs: usize, helps: bool) -> Option<Value> {
    for epoch in 0..epochs {
        for index in 0..12 {
            for sample in 0..4 {
                let begun = client.reset(json!({"index": index, "skills": "trial"})).await;
                let has_candidate = begun["data"]["metadata"]["skills"]["half"] == "with";
                // A third of what has no help succeeds.
                let is_success = has_candidate == helps || (epoch + index + sample) % 3 == 0;
                let (status, told) = report(site, &begun, f64::from(u8::from(is_success))).await;
                assert_eq!((status, &told["recorded"]), (200, &json!(true)), "{told}");
                if told["trial"]["verdict"].is_string() {
                    return Some(told["trial"].clone());
                }
            }
        }
    }
    None
}

#[tokio::test]
async fn a_candidate_that_helps_in_groups_of_a_trainer_is_admitted() {
    let (_dir, path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    // Nothing is tried before it is known which tasks the trainer has.
    assert_eq!(train(&site, &mut client, 1, true).await, None);
    let (status, begun) = site.post("/bank/evolve", json!({})).await;
    assert_eq!(status, 200, "{begun}");
    assert_eq!(begun["trial"]["candidate"], "gen_002");
    let items = begun["trial"]["items"].as_u64().unwrap();
    assert!((1..=6).contains(&items), "half of the tasks are for the teacher: {begun}");
    let ended = train(&site, &mut client, 50, true).await.unwrap();
    assert_eq!(ended["verdict"], "admit", "{ended}");
    let bank = read_bank(&path).unwrap().bank;
    let states: Vec<State> = bank.skills().map(skill_bank::Skill::state).collect();
    assert_eq!(states, [State::Active, State::Active]);
    let skill = bank.skills().nth(1).unwrap();
    let utility = skill.active().unwrap().utility.unwrap();
    assert!(utility.difference > 0.2, "{utility:?}");
    let shown = site.get("/bank").await;
    let (trial, version) = (&shown["trial"], &shown["version"]);
    assert_eq!([&trial["occasion"], version], [&json!("after_admission"), &json!(bank.view().version())]);
    drop(client);
    site.end().await;
}

/// The differences of a skill by occasion.
fn measured(path: &Path) -> Vec<(Occasion, f64)> {
    let bank = read_bank(path).unwrap().bank;
    let measured = bank.log().iter().filter_map(|record| match &record.event {
        BankEvent::Measured { occasion, utility, .. } => Some((*occasion, utility.unwrap().difference)),
        _ => None,
    });
    measured.collect()
}

#[tokio::test]
async fn what_is_admitted_is_measured_on_further_groups_also_by_another_server() {
    let (_dir, path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    train(&site, &mut client, 1, true).await;
    site.post("/bank/evolve", json!({})).await;
    train(&site, &mut client, 50, true).await.unwrap();
    assert_eq!(measured(&path).len(), 1);
    // No other trial begins meanwhile, and a server that is started again goes on.
    let (_, waiting) = site.post("/bank/evolve", json!({})).await;
    assert_eq!(waiting["trial"]["occasion"], "after_admission", "{waiting}");
    drop(client);
    site.end().await;
    let site = site_with(&path, settings(), None, None).await;
    let shown = site.get("/bank").await;
    let n_groups = shown["trial"]["max_groups"].as_u64().unwrap();
    assert_eq!([&shown["trial"]["groups"], &json!(n_groups)], [&json!(0), &json!(8)]);
    let mut client = site.session().await;
    // From here on it does not help: what admitted it is not a part of the measurement.
    for _ in 0..12 {
        train(&site, &mut client, 1, false).await;
    }
    let found = measured(&path);
    let [(Occasion::Trial, trial), (Occasion::AfterAdmission, fresh)] = found[..] else {
        panic!("{found:?}")
    };
    assert!(fresh < 0.0 && trial > 0.0, "{fresh} {trial}");
    assert_eq!(site.get("/bank").await["trial"], json!(null));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_candidate_that_harms_is_retired() {
    let (_dir, path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    train(&site, &mut client, 1, false).await;
    site.post("/bank/evolve", json!({})).await;
    let ended = train(&site, &mut client, 50, false).await.unwrap();
    assert_eq!(ended["verdict"], json!(TrialVerdict::Reject));
    let bank = read_bank(&path).unwrap().bank;
    assert_eq!(bank.skills().nth(1).unwrap().state(), State::Retired);
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn halves_are_exact_in_every_group_and_a_trial_outlives_its_server() {
    let (_dir, path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    train(&site, &mut client, 1, true).await;
    let (_, begun) = site.post("/bank/evolve", json!({})).await;
    let n_items = begun["trial"]["items"].as_u64().unwrap();
    let halves = async |site: &Site, client: &mut Client| {
        let mut tried = 0;
        for index in 0..12 {
            let mut halves = Vec::new();
            for _ in 0..4 {
                let episode = client.reset(json!({"index": index, "skills": "trial"})).await;
                let half = episode["data"]["metadata"]["skills"]["half"].as_str().map(str::to_owned);
                let (_, told) = report(site, &episode, 0.0).await;
                assert_eq!(told["counted"], json!(half.is_some()));
                halves.extend(half);
            }
            halves.sort();
            assert!(halves.is_empty() || halves == ["with", "with", "without", "without"], "{halves:?}");
            tried += u64::from(!halves.is_empty());
        }
        tried
    };
    assert_eq!(halves(&site, &mut client).await, n_items);
    let groups = site.get("/bank").await["trial"]["groups"].clone();
    assert_eq!(groups, json!(n_items));
    // Half of a group is under way when the server is killed.
    client.reset(json!({"index": 0, "skills": "trial"})).await;
    drop(client);
    site.end().await;
    let site = site_with(&path, settings(), None, None).await;
    assert_eq!(site.get("/bank").await["trial"]["groups"], groups);
    let mut client = site.session().await;
    assert_eq!(halves(&site, &mut client).await, n_items);
    assert_eq!(site.get("/bank").await["trial"]["groups"], json!(2 * n_items));
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn groups_whose_episodes_were_given_up_hold_up_no_trial() {
    let (_dir, _path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    train(&site, &mut client, 1, true).await;
    site.post("/bank/evolve", json!({})).await;
    // The first episode of each group is never reported.
    for _ in 0..6 {
        for index in 0..12 {
            for sample in 0..4 {
                let episode = client.reset(json!({"index": index, "skills": "trial"})).await;
                if sample > 0 || index > 5 {
                    report(&site, &episode, 1.0).await;
                }
            }
        }
    }
    let trial = site.get("/bank").await["trial"].clone();
    // One whose tasks were all given up would have none; that is the case of a design without later tasks.
    let is_moving = trial["groups"].as_u64().is_some_and(|groups| groups > 0);
    assert!(is_moving || trial.is_null(), "{trial}");
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_result_is_recorded_once_and_says_what_is_wrong_with_it() {
    let (_dir, path, site) = site_with_candidate().await;
    let mut client = site.session().await;
    let episode = client.reset(json!({"episode_id": "mine"})).await;
    let version = episode["data"]["metadata"]["skills"]["version"].clone();
    let post = async |id: Value, version: Value, reward: Value| {
        site.post("/bank/results", json!({"episode_id": id, "skill_version": version, "reward": reward}))
            .await
            .0
    };
    for (id, version, reward, expect) in [
        (json!("other"), version.clone(), json!(1.0), 404),
        (json!("mine"), json!("0123456789abcdef"), json!(1.0), 404),
        (json!("mine"), json!("off"), json!(1.0), 409),
        (json!("mine"), json!("gen_002"), json!(1.0), 409),
        (json!("mine"), version.clone(), json!("much"), 422),
        (json!("mine"), version.clone(), json!(null), 422),
        (json!(3), version.clone(), json!(1.0), 422),
        (json!("mine"), json!(null), json!(1.0), 422),
        (json!("mine"), version.clone(), json!(0.5), 200),
        (json!("mine"), version.clone(), json!(0.5), 200),
        (json!("mine"), version.clone(), json!(0.25), 409),
    ] {
        assert_eq!(
            post(id.clone(), version.clone(), reward.clone()).await,
            expect,
            "{id} {version} {reward}"
        );
    }
    let lines = std::fs::read_to_string(path.join("results.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert_eq!(site.ask("POST /bank/results", "", "not json").await.0, 422);
    let again = client.reset(json!({"episode_id": "mine"})).await;
    assert_eq!(code(&again), "VALIDATION_ERROR");
    drop(client);
    site.end().await;
    // Another process knows it too.
    let site = site_with(&path, settings(), None, None).await;
    let body = json!({"episode_id": "mine", "skill_version": version, "reward": 0.5});
    let (status, told) = site.post("/bank/results", body).await;
    assert_eq!((status, &told["recorded"]), (200, &json!(false)));
    site.end().await;
}

/// A teacher with one thing to say.
struct Teaching(ModelId, &'static str);

#[async_trait]
impl ChatModel for Teaching {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        Ok(ChatReply::text(self.1, Usage::default()))
    }
}

fn teacher(reply: &'static str) -> Option<TeacherOptions> {
    let model = Arc::new(Teaching(ModelId::new("test", "teacher"), reply));
    let prompts = TeacherPrompts::embedded().unwrap();
    Some(TeacherOptions { model, prompts, max_reply_tokens: 1_000 })
}

/// Fails at all training tasks.
async fn fail(site: &Site, client: &mut Client) {
    for index in 0..12 {
        for _ in 0..4 {
            let episode = client.reset(json!({"index": index})).await;
            client.step("look").await;
            client.step("inventory").await;
            report(site, &episode, 0.0).await;
        }
    }
    // The last one is left by the next reset.
    client.reset(json!({"split": "test"})).await;
}

const ADVICE: &str = r#"[{"op": "add", "title": "Search every container", "principle": "Open each container before you leave a room.", "when_to_apply": "When the object is not in sight.", "task_type": "clean"}]"#;

#[tokio::test]
async fn failed_episodes_become_candidates_by_the_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    bank_with_candidate(&path);
    let site = site_with(&path, settings(), None, teacher(ADVICE)).await;
    let mut client = site.session().await;
    let before = site.get("/bank").await["version"].clone();
    fail(&site, &mut client).await;
    let unread = site.get("/bank").await["unread_episodes"].as_u64().unwrap();
    assert!(unread > 0 && unread < 48, "only what a teacher may read: {unread}");
    let (status, evolved) = site.post("/bank/evolve", json!({})).await;
    assert_eq!(status, 200, "{evolved}");
    assert_eq!((&evolved["calls"], evolved["episodes"].as_u64()), (&json!(1), Some(unread)), "{evolved}");
    let candidate = &evolved["candidates"][0];
    assert_eq!(evolved["version"], candidate["version"]);
    // The first task of the type is shown it, and so is nobody who does not ask.
    let task = json!({"task_id": household().items(Split::Train).iter().find(|item| {
        item.task_type.starts_with("pick_clean") || item.task_type == "clean"
    }).map(|item| item.id.clone()), "skill_version": candidate["version"]});
    let seen = client.reset(task).await;
    let shown = seen["data"]["metadata"]["skills"]["shown"].to_string();
    assert!(shown.contains(candidate["skill"].as_str().unwrap()), "{seen}");
    assert_eq!(evolved["bank_version"], before, "nothing is active without a trial");
    let bank = read_bank(&path).unwrap().bank;
    let n_candidates = evolved["candidates"].as_array().unwrap().len();
    assert_eq!(bank.skills().count(), 2 + n_candidates);
    assert_eq!(site.get("/bank").await["unread_episodes"], 0);
    drop(client);
    site.end().await;
}

#[tokio::test]
async fn a_teacher_that_says_nothing_of_use_leaves_the_bank_and_the_episodes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bank");
    bank_with_candidate(&path);
    let log = std::fs::read(path.join("log.jsonl")).unwrap();
    let site = site_with(&path, settings(), None, teacher("I have no idea.")).await;
    let mut client = site.session().await;
    let (status, nothing) = site.post("/bank/evolve", json!({})).await;
    assert_eq!((status, &nothing["calls"]), (200, &json!(0)), "there is nothing to read: {nothing}");
    fail(&site, &mut client).await;
    let unread = site.get("/bank").await["unread_episodes"].clone();
    let (status, _) = site.post("/bank/evolve", json!({})).await;
    assert_eq!(status, 502);
    assert_eq!(site.get("/bank").await["unread_episodes"], unread);
    assert_eq!(std::fs::read(path.join("log.jsonl")).unwrap(), log);
    drop(client);
    site.end().await;
    let site = site_with(&dir.path().join("bank"), settings(), None, None).await;
    let (status, _) = site.post("/bank/evolve", json!({})).await;
    assert_eq!(status, 501, "no teacher, and no task that a trial could be made on");
    site.end().await;
}
