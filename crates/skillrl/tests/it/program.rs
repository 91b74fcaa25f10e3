//! Runs of a program's own environment and models.

use serde_json::json;
use skillrl::engine::{Engine, RunModels};
use skillrl::env::{self, Score};
use skillrl::envs::{Env as _, EnvError};
use skillrl::prelude::*;
use skillrl::{Error, Failure, program};
use std::path::Path;
use std::sync::Arc;

fn rows(name: &str) -> Vec<Item> {
    (0..2)
        .map(|number| Item::new(format!("{name}-{number}"), json!({"text": "hi", "answer": "HELLO"})))
        .collect()
}

fn splits() -> [Vec<Item>; 3] {
    ["train", "val", "test"].map(rows)
}

fn target() -> Arc<dyn ChatModel> {
    Arc::new(ScriptedModel::answering("target", |request| {
        let is_told = request.text_of(Role::System).contains("capitals");
        if is_told { "HELLO" } else { "hello" }.to_owned()
    }))
}

fn optimizer() -> Arc<dyn ChatModel> {
    let edits = r#"{"edits": [{"op": "append", "content": "- Answer in capitals."}]}"#;
    Arc::new(ScriptedModel::answering("optimizer", |_| edits.to_owned()))
}

async fn train(settings: &str, env: Arc<dyn Env>, dir: &Path) -> Result<Summary, Error> {
    let loaded = program::settings(settings, "settings")?;
    let engine = Engine::new(&loaded);
    let models = RunModels { target: engine.own(target()), optimizer: engine.own(optimizer()), judge: None };
    let trainer = program::trainer(&engine, env, models, Arc::new(|_: &Event| {}), StopSignal::default())?;
    Ok(trainer.train(dir).await?)
}

#[tokio::test]
async fn an_agent_records_its_calls_with_their_requests() {
    let env = env::from_fn("twice", splits(), |item, agent: env::Agent| async move {
        let first = agent.answer(env::text(&item, "text")).await?;
        let talk = vec![Message::user("hi"), Message::assistant(&*first), Message::user("again")];
        let second = agent.ask(talk).await?;
        Ok(Score::exact(&second.text, env::text(&item, "answer")))
    });
    let item = &rows("a")[0];
    let skill = SkillDoc::new("Be brief.");
    let result = env.rollout(item, &skill, target().as_ref(), &RolloutCtx::default()).await.unwrap();
    assert_eq!((result.hard, result.predicted_answer.as_str()), (0.0, "hello"));
    assert_eq!((result.n_turns, result.reference_text.as_str()), (2, "HELLO"));
    assert_eq!(result.target_system_prompt, "Be brief.");
    assert!(result.usage.output > 0);
    let turns: Vec<Vec<&str>> = result
        .trajectory
        .turns
        .iter()
        .map(|turn| result.trajectory.request(turn).map(|message| message.content.as_str()).collect())
        .collect();
    assert_eq!(turns, [vec!["Be brief.", "hi"], vec!["hi", "hello", "again"]]);
}

#[tokio::test]
async fn a_fault_of_the_model_is_no_score_whatever_the_function_makes_of_it() {
    let env = env::from_fn("stubborn", splits(), |_, agent: env::Agent| async move {
        let _ = agent.answer("hi").await;
        Ok(Score::right())
    });
    let silent = ScriptedModel::from_rules("no rules", skillrl::llm::Script::default());
    let skill = SkillDoc::new("");
    let outcome = env.rollout(&rows("a")[0], &skill, &silent, &RolloutCtx::default()).await;
    assert!(matches!(outcome, Err(EnvError::Model(LlmError::NoRule { .. }))), "{outcome:?}");
}

#[tokio::test]
async fn a_handle_that_outlives_its_rollout_asks_nothing() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let env = env::from_fn("leaky", splits(), |_, agent: env::Agent| {
        let sender = sender.clone();
        async move {
            sender.send(agent).unwrap();
            Ok(Score::right())
        }
    });
    env.rollout(&rows("a")[0], &SkillDoc::new(""), target().as_ref(), &RolloutCtx::default()).await.unwrap();
    let agent = receiver.recv().unwrap();
    assert!(matches!(agent.answer("hi").await, Err(EnvError::Model(LlmError::Cancelled))));
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_ask_with_and_without_a_shared_target() {
    let env = env::from_fn("threads", splits(), |item, agent: env::Agent| async move {
        let asked = tokio::task::spawn_blocking(move || {
            let request = ChatRequest::new(vec![Message::user("capitals?")]);
            agent.send_blocking(request, None).map(|reply| reply.text)
        });
        Ok(Score::exact(&asked.await.unwrap()?, env::text(&item, "answer")))
    });
    for shared in [None, Some(target())] {
        let ctx = RolloutCtx { target: shared, ..RolloutCtx::default() };
        let result = env.rollout(&rows("a")[0], &SkillDoc::new(""), target().as_ref(), &ctx).await.unwrap();
        assert_eq!((result.n_turns, result.predicted_answer.as_str()), (1, "hello"));
    }
}

#[tokio::test]
async fn a_program_trains_by_settings_of_the_configuration_and_is_held_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let make = || {
        Arc::new(env::from_fn("shout", splits(), |item, agent: env::Agent| async move {
            Ok(Score::exact(&agent.answer("hi").await?, env::text(&item, "answer")))
        }))
    };
    let soft = "[train]\nepochs = 1\nslow_update = \"off\"\n[gate]\nmetric = \"soft\"\n";
    let capped = train(&format!("{soft}[budget]\ncalls = 3\n"), make(), &run).await.unwrap_err();
    assert_eq!(capped.failure(), Failure::Budget);
    let summary = train(soft, make(), &run).await.unwrap();
    assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
    assert_eq!(summary.config["env"], json!({"kind": "program", "name": "shout", "settings": null}));
    let other = train("[train]\nepochs = 1\n[run]\nseed = 7\n", make(), &run).await.unwrap_err();
    assert_eq!(other.failure(), Failure::OtherRun);
    let report = skillrl::report::read(&run).unwrap();
    assert!(report.headline.is_some(), "a run without a configuration file has a report");
}

#[test]
fn settings_and_names_that_cannot_work_are_named() {
    let wrong = program::settings("[train]\nepohcs = 1\n", "settings").unwrap_err();
    assert!(wrong.to_string().contains("epohcs"), "{wrong}");
    for (name, part) in [("gpt-5", "openai/gpt-5-mini"), ("opnai/gpt-5", "opnai")] {
        let Err(error) = skillrl::model(name) else { panic!("{name} is a model") };
        let text = skillrl::llm::error::with_causes(&error);
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn workers_cannot_make_the_rollouts_of_a_program() {
    let env = env::from_fn("none", splits(), |_, _| async move { Ok(Score::exact("", "")) });
    let dir = tempfile::tempdir().unwrap();
    let refused = train("[run]\nrunner = \"nats\"\n", Arc::new(env), dir.path()).await.unwrap_err();
    assert!(matches!(refused, Error::NoWorkers { .. }), "{refused}");
}
