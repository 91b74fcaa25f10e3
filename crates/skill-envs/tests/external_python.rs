//! The Python examples, played by the engine; `cargo xtask ci --external` runs this, since it needs Python.

use skill_core::{Role, SkillDoc};
use skill_envs::exec::{ExecConfig, ExecProgram, SkillDelivery};
use skill_envs::{Env as _, Item, RolloutCtx, Split, World as _};
use skill_llm::LlmError;
use skill_llm::scripted::ScriptedModel;
use std::path::Path;

fn config(program: &str) -> ExecConfig {
    let mut config = ExecConfig::new(["python3", program]);
    config.directory = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/exec-python"));
    config
}

/// Halves what is left, as a person would.
#[tokio::test]
async fn the_number_is_found_by_halving() {
    let mut config = config("guess.py");
    config.settings.insert("highest".to_owned(), 120.into());
    let world = ExecProgram::start(config).await.unwrap().world().unwrap();
    assert_eq!(Split::ALL.map(|split| world.items(split).len()), [20, 10, 30]);
    for item in world.items(Split::Train) {
        let mut episode = world.episode(item).unwrap();
        let first = episode.reset().await.unwrap();
        assert_eq!(first.text, "I think of a number from 1 to 120. You have 7 guesses.");
        assert!(!episode.step("guess thirty").await.unwrap().understood);
        let (mut low, mut high) = (1, 120);
        let end = loop {
            let guess = i32::midpoint(low, high);
            let seen = episode.step(&format!("guess {guess}")).await.unwrap();
            if seen.done {
                break seen;
            }
            if seen.text.contains("higher") {
                low = guess + 1;
            } else {
                high = guess - 1;
            }
        };
        assert!(end.won, "{}: {end:?}", item.id);
    }
}

#[tokio::test]
async fn the_dates_are_written_as_the_skill_says() {
    for delivery in [SkillDelivery::Inline, SkillDelivery::File] {
        let mut config = config("dates.py");
        config.skill = delivery;
        let env = ExecProgram::start(config).await.unwrap().env().unwrap();
        assert_eq!(env.initial_skill(), Some(SkillDoc::new("# Dates\n")));
        let model = ScriptedModel::from_fn("nobody", |_, _| Err(LlmError::Cancelled));
        for item in env.items(Split::Test) {
            let play = async |skill: &str| {
                env.rollout(item, &SkillDoc::new(skill), &model, &RolloutCtx::default()).await.unwrap()
            };
            let before = play("# Dates\n").await;
            assert_eq!((before.hard, before.n_turns), (0.0, 1));
            assert!(before.fail_reason.contains(" is not `"), "{}", before.fail_reason);
            let after = play("Write dates as YYYY-MM-DD.").await;
            assert_eq!((after.hard, after.soft), (1.0, 1.0));
        }
    }
}

/// The same program with a model of its own, which the engine serves.
#[tokio::test]
async fn the_dates_are_written_by_the_target() {
    let mut config = config("dates.py");
    (config.endpoint, config.skill) = (true, SkillDelivery::SystemPrompt);
    let env = ExecProgram::start(config).await.unwrap().env().unwrap();
    let model = ScriptedModel::answering("clerk", |request| {
        let knows = request.text_of(Role::System).contains("YYYY-MM-DD");
        if knows { "1944-06-06" } else { "June 6th" }.to_owned()
    });
    let item = env.items(Split::Test).iter().find(|item| item.id.as_str() == "June 6, 1944").unwrap();
    for (skill, hard) in [("# Dates\n", 0.0), ("Write dates as YYYY-MM-DD.", 1.0)] {
        let played = env.rollout(item, &SkillDoc::new(skill), &model, &RolloutCtx::default()).await.unwrap();
        assert_eq!((played.hard, played.n_turns), (hard, 1));
        assert!(played.target_system_prompt.contains(skill.trim()), "{}", played.target_system_prompt);
    }
}

/// What goes wrong in the program is an error with its place, and the process lives on.
#[tokio::test]
async fn an_exception_is_an_error_that_shows_where_it_was() {
    let env = ExecProgram::start(config("dates.py")).await.unwrap().env().unwrap();
    let model = ScriptedModel::from_fn("nobody", |_, _| Err(LlmError::Cancelled));
    let odd = Item::new("odd", serde_json::json!({"date": "yesterday"}));
    let error = env.rollout(&odd, &SkillDoc::new(""), &model, &RolloutCtx::default()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        error.is_retryable() && text.contains("`rollout` failed: ValueError: not enough values"),
        "{text}"
    );
    assert!(text.contains("its stderr ends with:\n") && text.contains("dates.py\", line "), "{text}");
}
