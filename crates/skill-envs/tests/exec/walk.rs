//! What a well behaved program is given, and what comes of its answers.

use crate::context::*;
use serde_json::json;
use skill_core::carried::CarriedFile;
use skill_core::{Role, SkillDoc, SkillPackage};
use skill_envs::exec::{ExecProgram, Mode, SkillDelivery};
use skill_envs::{Env as _, EnvError, Observation, RolloutCtx, Split, World as _};
use skill_llm::{ApiKey, LlmError};

#[tokio::test]
async fn a_world_is_stepped_through() {
    let program = ExecProgram::start(config("step", "none")).await.unwrap();
    assert_eq!((program.name(), program.mode()), ("walk", Mode::Step));
    assert_eq!(program.initial_skill(), Some(SkillDoc::new("Walk.")));
    let world = program.world().unwrap();
    assert_eq!(world.instructions(), "Say `left` or `right`.");
    assert_eq!(world.items(Split::Val).len(), 1);
    assert_eq!(*world.items(Split::Train)[0].data, json!({"goal": "good"}));

    let mut episode = episode(&world, "good");
    let first = episode.reset().await.unwrap();
    let process = process_in(&first.text);
    let at = |position: u32| Observation {
        admissible: Some(vec!["left".to_owned(), "right".to_owned()]),
        ..Observation::new(format!("You are at {position}. (process {process})"))
    };
    assert_eq!(first, at(0));
    let unknown = Observation { understood: false, ..at(0) };
    assert_eq!(episode.step("dance\n\u{2028}\"").await.unwrap(), unknown);
    assert_eq!(episode.step("right").await.unwrap(), at(1));
    assert_eq!(episode.step("right").await.unwrap(), at(2));
    let end = episode.step("right").await.unwrap();
    assert_eq!(end, Observation { reward: 1.0, done: true, won: true, ..at(3) });
    let error = episode.step("right").await.unwrap_err();
    assert!(matches!(error, EnvError::Broken { .. }), "{error}");
    assert_eq!(episode.reset().await.unwrap(), at(0));
}

/// An episode that is over has let go of its process, and one that is left too.
#[tokio::test]
async fn one_process_plays_one_episode_after_the_other() {
    let world = world(config("step", "none")).await;
    let mut first = episode(&world, "good");
    let process = process_in(&first.reset().await.unwrap().text);
    for _ in 0..3 {
        first.step("right").await.unwrap();
    }
    let mut second = episode(&world, "alone");
    assert_eq!(process_in(&second.reset().await.unwrap().text), process);
    second.step("right").await.unwrap();
    drop(second);
    let mut third = episode(&world, "good");
    let text = third.reset().await.unwrap().text;
    assert_eq!((process_in(&text), text.contains(" at 0.")), (process, true), "{text}");
}

#[tokio::test]
async fn a_rollout_is_made_by_the_program() {
    let env = env(config("rollout", "none")).await;
    assert_eq!(env.name(), "walk");
    assert_eq!(env.initial_skill(), Some(SkillDoc::new("Walk.")));
    let result = rollout(&env, "good").await.unwrap();
    assert_eq!((result.hard, result.soft, result.n_turns), (1.0, 0.5, 1));
    assert_eq!((result.id.as_str(), result.task_type.as_str()), ("good", "walk"));
    assert_eq!(result.predicted_answer, "here");
    assert_eq!(result.trajectory.messages[1].role, Role::Assistant);
    assert_eq!(result.target_user_prompt, r#"{"goal":"good"}"#);
    assert_eq!(result.extras["skill"], "Go right.");
    assert_eq!(result.extras["endpoint"], json!(null));
    let again = rollout(&env, "good").await.unwrap();
    assert_eq!(again.extras["n_rollouts"], 2, "one process for one rollout after the other");
    assert_eq!(again.extras["seed"], result.extras["seed"]);
    assert_ne!(rollout(&env, "alone").await.unwrap().extras["seed"], result.extras["seed"]);
}

#[tokio::test]
async fn a_skill_is_delivered_as_a_file_that_is_gone_afterwards() {
    let mut config = config("rollout", "none");
    config.skill = SkillDelivery::File;
    let env = env(config).await;
    let result = rollout(&env, "good").await.unwrap();
    assert_eq!(result.extras["skill"], "Go right.");
    let path = std::path::Path::new(result.extras["skill_file"].as_str().unwrap());
    assert!(path.ends_with("SKILL.md"));
    assert!(!path.parent().unwrap().exists(), "{}", path.display());
}

#[tokio::test]
async fn a_skill_that_is_a_folder_is_delivered_whole_or_as_its_text() {
    let mut package =
        SkillPackage { main: "---\nname: x\n---\nGo right.\n".to_owned(), ..SkillPackage::default() };
    package.references.insert("references/map.md".to_owned(), "# Map\n".to_owned());
    package.carry("scripts/run.sh", CarriedFile::new(*b"true\n", true));
    let skill = package.document().unwrap();
    let mut config = config("rollout", "none");
    let inline = rollout_with(&env(config.clone()).await, "good", &skill).await.unwrap();
    insta::assert_debug_snapshot!(
        inline.extras["skill"].as_str().unwrap(),
        @r##""Go right.\n\n<file path=\"references/map.md\">\n# Map\n</file>\n""##
    );
    config.skill = SkillDelivery::File;
    let env = env(config).await;
    let result = rollout_with(&env, "good", &skill).await.unwrap();
    assert_eq!(result.extras["skill"], package.main);
    let program = if cfg!(unix) { "scripts/run.sh*" } else { "scripts/run.sh" };
    assert_eq!(result.extras["skill_files"], json!(["SKILL.md", "references/map.md", program]));
    // Its text alone does not have all of it.
    let error = rollout_with(&env, "good", &SkillDoc::new(skill.source_text())).await.unwrap_err();
    assert!(error.to_string().contains("\"scripts/run.sh\""), "{error}");
}

/// Nothing but what a program needs, what is set and what is named: no key reaches it by accident.
#[tokio::test]
async fn the_environment_of_the_program_is_what_was_named() {
    let mut config = config("rollout", "none");
    config.set_env.insert("LEVEL".to_owned(), "hard".to_owned());
    // Set for every test of a crate.
    config.pass_env.push("CARGO_PKG_DESCRIPTION".to_owned());
    let result = rollout(&env(config).await, "good").await.unwrap();
    let variables = result.extras["variables"].as_array().unwrap();
    let names: Vec<&str> =
        variables.iter().map(|pair| pair.as_str().unwrap().split('=').next().unwrap()).collect();
    assert!(variables.contains(&json!("LEVEL=hard")));
    assert!(variables.contains(&json!("PYTHONUNBUFFERED=1")));
    assert!(names.contains(&"CARGO_PKG_DESCRIPTION") && names.contains(&"PATH"), "{names:?}");
    assert!(!names.contains(&"CARGO_PKG_NAME"), "{names:?}");
}

/// A program may find the key of a model, in a file or in the memory of another process.
#[tokio::test]
async fn a_secret_of_the_run_is_in_nothing_that_the_program_says() {
    const KEY: &str = "sk-of-the-run/0123456789";
    for mode in ["rollout", "step"] {
        let mut config = config(mode, "none");
        config.secrets.add(&ApiKey::new(KEY).unwrap());
        config.set_env.insert("LEVEL".to_owned(), format!("found {KEY}"));
        if mode == "rollout" {
            let result = rollout(&env(config).await, "good").await.unwrap();
            let variables = result.extras["variables"].as_array().unwrap();
            assert!(variables.contains(&json!("LEVEL=found [key]")), "{variables:?}");
            assert!(!format!("{result:?}").contains(KEY));
        } else {
            let mut episode = episode(&world(config).await, "good");
            assert!(!format!("{:?}", episode.reset().await).contains(KEY));
        }
    }
}

#[tokio::test]
async fn what_decides_results_is_in_the_settings() {
    let settings = async |change: fn(&mut skill_envs::exec::ExecConfig)| {
        let mut config = config("rollout", "none");
        change(&mut config);
        env(config).await.settings()
    };
    let plain = settings(|_| {}).await;
    assert_eq!((&plain["name"], &plain["version"]), (&json!("walk"), &json!("7")));
    let same = settings(|config| {
        config.processes = 3;
        config.deadlines.rollout_seconds = 5.0;
    });
    assert_eq!(same.await, plain);
    let secret = settings(|config| {
        config.set_env.insert("LEVEL".to_owned(), "hard".to_owned());
    });
    let secret = secret.await;
    assert_ne!(secret, plain);
    assert!(!secret.to_string().contains("hard"));
    assert_ne!(settings(|config| config.seed = 1).await, plain);
    assert_ne!(settings(|config| config.skill = SkillDelivery::File).await, plain);
    assert_ne!(settings(|config| drop(config.settings.insert("x".to_owned(), json!(1)))).await, plain);
}

#[tokio::test]
async fn every_rollout_may_have_a_process_of_its_own() {
    let mut config = config("rollout", "none");
    config.process_per_rollout = true;
    let env = env(config).await;
    let first = rollout(&env, "good").await.unwrap();
    let second = rollout(&env, "good").await.unwrap();
    assert_ne!(process_of(&first), process_of(&second));
    assert_eq!(second.extras["n_rollouts"], 1);
    assert_gone(process_of(&first));
}

/// Two rollouts are answered only when both are asked, in the other order.
#[tokio::test]
async fn a_process_that_can_works_on_several_things_at_once() {
    let env = env(config("rollout", "parallel")).await;
    let (first, second) = tokio::join!(rollout(&env, "good"), rollout(&env, "bad"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.id.as_str(), second.id.as_str()), ("good", "bad"));
    assert_eq!(process_of(&first), process_of(&second));
    assert_eq!((&first.extras["n_rollouts"], &second.extras["n_rollouts"]), (&json!(1), &json!(2)));
}

#[tokio::test]
async fn processes_run_side_by_side_up_to_their_number() {
    let mut config = config("step", "none");
    config.processes = 2;
    let world = world(config).await;
    let (mut first, mut second) = (episode(&world, "good"), episode(&world, "good"));
    let first_process = process_in(&first.reset().await.unwrap().text);
    let second_process = process_in(&second.reset().await.unwrap().text);
    assert_ne!(first_process, second_process);
    let mut third = episode(&world, "good");
    let third = third.reset();
    let freed = async {
        drop(first);
    };
    let (third, ()) = tokio::join!(third, freed);
    assert_eq!(process_in(&third.unwrap().text), first_process);
}

#[tokio::test]
async fn a_program_is_what_it_says() {
    let program = ExecProgram::start(config("step", "none")).await.unwrap();
    let error = program.env().err().unwrap();
    let text = error.to_string();
    assert!(["`walk`", "`step`", "`rollout`"].iter().all(|name| text.contains(name)), "{text}");
    program.close().await;
    let world = program.world().unwrap();
    let error = episode(&world, "good").reset().await.unwrap_err();
    assert!(matches!(&error, EnvError::Broken { item, .. } if item.as_str() == "good"), "{error:?}");
}

#[tokio::test]
async fn a_rollout_that_is_cancelled_takes_its_process_with_it() {
    let env = env(config("rollout", "silent")).await;
    let process = process_of(&rollout(&env, "good").await.unwrap());
    let bad = item(env.items(Split::Train), "bad");
    let ctx = RolloutCtx::default();
    let (skill, model) = (SkillDoc::new(""), no_model());
    // The rollout is asked for first, and then given up, before an answer can have come.
    let cancelled = async {
        tokio::task::yield_now().await;
        ctx.call.cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(env.rollout(&bad, &skill, &model, &ctx), cancelled);
    assert!(matches!(outcome, Err(EnvError::Model(LlmError::Cancelled))), "{outcome:?}");
    assert_ne!(process_of(&rollout(&env, "good").await.unwrap()), process);
    assert!(!is_running(process), "the next process starts when the one before is gone");
}
