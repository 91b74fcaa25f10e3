//! Agents that ask the model which the engine serves them.

use crate::context::*;
use serde_json::{Value, json};
use skill_core::{Role, SkillDoc, Usage};
use skill_envs::exec::{ENDPOINT_VARIABLES, ExecConfig, ExecProgram, SkillDelivery};
use skill_envs::{Env as _, EnvError, RolloutCtx, Split, reach};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{ChatReply, LlmError};

fn asking() -> ExecConfig {
    let mut config = config("rollout", "asks");
    config.endpoint = true;
    config
}

/// Says what the skill in its prompt says; each call takes ten tokens.
fn target() -> ScriptedModel {
    ScriptedModel::from_fn("walker", |request, _| {
        let knows = request.text_of(Role::System).contains("Go right.");
        let usage = Usage { input: 10, output: 1, ..Usage::default() };
        Ok(ChatReply::text(if knows { "right" } else { "left" }, usage))
    })
}

#[tokio::test]
async fn what_the_agent_did_is_the_trajectory() {
    let mut config = asking();
    config.skill = SkillDelivery::SystemPrompt;
    let env = env(config).await;
    let good = item(env.items(Split::Train), "good");
    let ctx = RolloutCtx::default();
    let result = env.rollout(&good, &SkillDoc::new("Go right."), &target(), &ctx).await.unwrap();
    assert_eq!((result.hard, result.predicted_answer.as_str()), (1.0, "right"));
    assert_eq!((result.n_turns, result.usage.input, result.usage.output), (2, 20, 2));
    let turns: Vec<(Role, &str)> =
        result.trajectory.conversation().map(|message| (message.role, message.content.as_str())).collect();
    assert!(turns[0].1.contains("You walk.") && turns[0].1.contains("Go right."), "{turns:?}");
    let expect = [
        (Role::User, "good"),
        (Role::Assistant, "right"),
        (Role::User, "Are you sure?"),
        (Role::Assistant, "right"),
    ];
    assert_eq!(turns[1..], expect);
    assert_eq!(result.target_system_prompt, turns[0].1);
    assert_eq!(result.target_user_prompt, "good");
    assert_eq!(result.extras["skill"], "", "the program is not given it");

    // The endpoint adds nothing to the prompt where the skill is delivered otherwise, and the token is another one.
    let again = self::env(asking()).await;
    let other = again.rollout(&good, &SkillDoc::new("Go right."), &target(), &ctx).await.unwrap();
    assert_eq!((other.hard, other.target_system_prompt.as_str()), (0.0, "You walk."));
    assert_eq!(other.extras["skill"], "Go right.");
    assert_ne!(other.extras["token_backwards"], result.extras["token_backwards"]);
    assert_ne!(again.settings(), env.settings());
}

/// Where the skill may not have reached the agent is in the extras of its result.
#[tokio::test]
async fn it_is_told_where_the_skill_does_not_reach_the_agent() {
    async fn told(trick: &str, delivery: SkillDelivery, skill: &str) -> (Vec<(String, Value)>, String) {
        let mut config = config("rollout", trick);
        (config.endpoint, config.skill) = (true, delivery);
        config.initial_skill = Some("You\n walk.".to_owned());
        let env = env(config).await;
        let good = item(env.items(Split::Train), "good");
        let result =
            env.rollout(&good, &SkillDoc::new(skill), &target(), &RolloutCtx::default()).await.unwrap();
        let keys = [
            reach::NO_REQUEST_KEY,
            reach::WITHOUT_SKILL_KEY,
            reach::NOTHING_REPLACED_KEY,
            reach::SKILL_TWICE_KEY,
        ];
        let told = keys.iter().filter_map(|key| Some(((*key).to_owned(), result.extras.get(*key)?.clone())));
        (told.collect(), result.target_system_prompt)
    }
    let is = |key: &str, value: Value| vec![(key.to_owned(), value)];
    for (trick, delivery, skill, expect, system) in [
        ("none", SkillDelivery::SystemPrompt, "Go right.", is(reach::NO_REQUEST_KEY, json!(true)), None),
        ("none", SkillDelivery::Inline, "Go right.", is(reach::NO_REQUEST_KEY, json!(true)), None),
        ("asks", SkillDelivery::SystemPrompt, "Go right.", vec![], Some("You walk.\n\nGo right.")),
        ("asks", SkillDelivery::SystemPrompt, "You walk.", is(reach::SKILL_TWICE_KEY, json!(true)), None),
        ("asks", SkillDelivery::SystemPrompt, "", vec![], Some("You walk.")),
        (
            "asks",
            SkillDelivery::Inline,
            "Go right.",
            is(reach::WITHOUT_SKILL_KEY, json!(2)),
            Some("You walk."),
        ),
        ("asks", SkillDelivery::Inline, "You walk.", vec![], Some("You walk.")),
        ("asks", SkillDelivery::Inline, "", vec![], Some("You walk.")),
        ("asks", SkillDelivery::File, "Go right.", vec![], Some("You walk.")),
        ("asks", SkillDelivery::Replace, "Go right.", vec![], Some("Go right.")),
        ("asks", SkillDelivery::Replace, "", vec![], Some("")),
    ] {
        let (told, shown) = told(trick, delivery, skill).await;
        assert_eq!(told, expect, "{trick}, {delivery:?}, {skill:?}");
        assert_eq!(system.unwrap_or(&shown), shown, "{trick}, {delivery:?}, {skill:?}");
    }
}

#[tokio::test]
async fn a_skill_that_replaces_nothing_is_told() {
    let mut config = asking();
    config.skill = SkillDelivery::Replace;
    config.initial_skill = Some("You run.".to_owned());
    let env = env(config).await;
    let good = item(env.items(Split::Train), "good");
    let result = env.rollout(&good, &SkillDoc::new("x"), &target(), &RolloutCtx::default()).await.unwrap();
    assert_eq!(result.extras[reach::NOTHING_REPLACED_KEY], true);
    assert_eq!(result.extras[reach::WITHOUT_SKILL_KEY], 2);
    assert!(matches!(reach::out_of_reach(&result), Some(EnvError::Program { .. })));
}

#[tokio::test]
async fn an_outage_of_the_model_is_an_error_and_no_score() {
    let env = env(asking()).await;
    let good = item(env.items(Split::Train), "good");
    let first = env.rollout(&good, &SkillDoc::new(""), &target(), &RolloutCtx::default()).await.unwrap();
    let error = rollout(&env, "good").await.unwrap_err();
    assert!(matches!(error, EnvError::Model(LlmError::Cancelled)), "{error:?}");
    let next = env.rollout(&good, &SkillDoc::new(""), &target(), &RolloutCtx::default()).await.unwrap();
    assert_eq!(next.id, first.id);
}

/// The program reports an error when its model does: after a refusal its agent has failed, and nobody is to blame.
#[tokio::test]
async fn an_agent_that_gives_up_after_a_refusal_has_failed_its_task() {
    let mut config = asking();
    config.limits.restarts = 0;
    let env = env(config).await;
    let good = item(env.items(Split::Train), "good");
    let long = ScriptedModel::from_fn("walker", |request, _| {
        // The second question of the agent is too much.
        if request.messages.len() <= 2 {
            return Ok(ChatReply::text("left", Usage { input: 10, output: 1, ..Usage::default() }));
        }
        let (provider, message) = ("p".to_owned(), "9 of 8 tokens".to_owned());
        Err(LlmError::ContextTooLong { provider, status: 400, message })
    });
    for _ in 0..3 {
        let ctx = RolloutCtx::default();
        let result = env.rollout(&good, &SkillDoc::new(""), &long, &ctx).await.unwrap();
        assert_eq!((result.hard, result.soft, result.usage.input), (0.0, 0.0, 10));
        let reason = "the agent gave up: prompt is too long: 9 of 8 tokens; ";
        assert!(result.fail_reason.starts_with(reason), "{}", result.fail_reason);
        assert!(result.fail_reason.contains("`rollout` failed: no model"), "{}", result.fail_reason);
        let refused = json!([{"class": "context_too_long", "message": "prompt is too long: 9 of 8 tokens"}]);
        assert_eq!(result.extras["agent_calls_refused"], refused);
        let last = &result.trajectory.conversation().last().unwrap().content;
        insta::allow_duplicates! {
            insta::assert_snapshot!(last, @"[no reply of the model] prompt is too long: 9 of 8 tokens");
        }
    }
}

#[tokio::test]
async fn a_process_of_one_rollout_has_its_endpoint_in_its_environment() {
    let mut config = asking();
    config.process_per_rollout = true;
    config.skill = SkillDelivery::File;
    let env = env(config).await;
    let good = item(env.items(Split::Train), "good");
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let result =
            env.rollout(&good, &SkillDoc::new("x"), &target(), &RolloutCtx::default()).await.unwrap();
        let variables = result.extras["variables"].to_string();
        assert!(
            ENDPOINT_VARIABLES.iter().all(|name| variables.contains(&format!("\"{name}="))),
            "{variables}"
        );
        // What is scrubbed there is the token that the program was given.
        assert_eq!(result.extras["token"], "[key]");
        assert!(variables.contains("\"OPENAI_API_KEY=[key]\""), "{variables}");
        let token = result.extras["token_backwards"].as_str().unwrap().to_owned();
        assert!(variables.contains("\"OPENAI_BASE_URL=http://127.0.0.1:"), "{variables}");
        tokens.push(token);
    }
    assert_ne!(tokens[0], tokens[1]);
}

#[tokio::test]
async fn an_endpoint_is_for_programs_that_run_an_agent() {
    let mut stepped = config("step", "none");
    stepped.endpoint = true;
    let error = start_error(stepped).await;
    assert!(
        matches!(&error, EnvError::Configuration { message } if message.starts_with("`endpoint` ")),
        "{error:?}"
    );
    let mut config = config("rollout", "none");
    config.skill = SkillDelivery::SystemPrompt;
    let error = ExecProgram::start(config).await.err().unwrap().to_string();
    assert!(error.contains("set `endpoint` to true"), "{error}");
}
