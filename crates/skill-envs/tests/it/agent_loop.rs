//! The agent loop, in a world that is small enough to be seen as a whole: a corridor with a goal at its end.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::fixed::{Fixed, says};
use crate::requests::check_requests;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::tokens::estimate_tokens;
use skill_core::{Ending, RolloutResult, SkillDoc, Usage};
use skill_envs::agent::{ActionFormat, AgentSettings, NoAction, WorldEnv, parse_action};
use skill_envs::{Env as _, EnvError, Episode, Item, Observation, RolloutCtx, Split, World};
use skill_llm::scripted::ScriptedModel;
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, ErrorClass, FinishReason, Journal, JournalOptions,
    Journaled, LlmError, Metered, ToolCall,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many doors lead to the goal.
const N_DOORS: usize = 3;

struct Corridor {
    items: Vec<Item>,
    tells_actions: bool,
}

#[derive(Default)]
struct Walk {
    door: usize,
    tells_actions: bool,
    breaks: bool,
}

impl World for Corridor {
    fn name(&self) -> &str {
        "corridor"
    }
    fn items(&self, split: Split) -> &[Item] {
        match split {
            Split::Train => &self.items,
            Split::Val | Split::Test => &[],
        }
    }
    fn instructions(&self) -> &str {
        "You are in a corridor. You can go on, or go back."
    }
    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        let breaks = item.data.get("breaks").is_some();
        Ok(Box::new(Walk { door: 0, tells_actions: self.tells_actions, breaks }))
    }
}

impl Walk {
    fn seen(&self, text: String) -> Observation {
        let actions = || vec!["go on".to_owned(), "go back".to_owned()];
        Observation { admissible: self.tells_actions.then(actions), ..Observation::new(text) }
    }
}

#[async_trait]
impl Episode for Walk {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.door = 0;
        Ok(self.seen("You are at door 0.".to_owned()))
    }
    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        if self.breaks {
            return Err(EnvError::Broken { item: "x".into(), message: "the corridor is closed".to_owned() });
        }
        match action {
            "go on" => self.door += 1,
            "go back" => self.door = self.door.saturating_sub(1),
            "give up" => {
                return Ok(Observation { done: true, ..self.seen("You leave.".to_owned()) });
            }
            _ => return Ok(Observation { understood: false, ..self.seen("Nothing happens.".to_owned()) }),
        }
        let won = self.door == N_DOORS;
        let reward = if won { 1.0 } else { 0.0 };
        Ok(Observation { won, done: won, reward, ..self.seen(format!("You are at door {}.", self.door)) })
    }
    fn task(&self) -> Option<&str> {
        Some("go to the end")
    }
}

fn env(settings: AgentSettings) -> WorldEnv {
    let world = Corridor { items: vec![Item::new("c1", Value::Null)], tells_actions: true };
    WorldEnv::new(Arc::new(world), settings, None).unwrap()
}

async fn played(settings: AgentSettings, replies: &[&str]) -> RolloutResult {
    play(&env(settings), &Fixed::saying(replies)).await.unwrap()
}

async fn play(env: &WorldEnv, model: &dyn ChatModel) -> Result<RolloutResult, EnvError> {
    let ctx = RolloutCtx { call: CallCtx::new(CallPlace::new("test")), ..RolloutCtx::default() };
    let item = &env.items(Split::Train)[0];
    env.rollout(item, &SkillDoc::new("Always go on."), model, &ctx).await
}

const ON: &str = "<think>The goal is ahead.</think><action>go on</action>";
const BACK: &str = "<action>go back</action>";

#[tokio::test]
async fn an_episode_that_is_won() {
    let model = Fixed::saying(&[ON]);
    let result = play(&env(AgentSettings::default()), &model).await.unwrap();
    assert_eq!((result.hard, result.soft, result.n_turns), (1.0, 1.0, 3));
    assert_eq!((result.fail_reason.as_str(), result.predicted_answer.as_str()), ("", "go on"));
    assert_eq!(result.usage, Usage { input: 30, output: 6, ..Usage::default() });
    let asked: Vec<String> = model.requests().iter().map(shown).collect();
    insta::assert_snapshot!(asked.join("\n==== next turn ====\n"));
    insta::assert_json_snapshot!("the_record_of_an_episode", result);
}

fn shown(request: &ChatRequest) -> String {
    let messages = request.messages.iter().map(|message| {
        let mut text = format!("[{}] {}", message.role.as_str(), message.text());
        for call in &message.tool_calls {
            text.push_str(&format!(" calls {}({}) as {}", call.name, call.arguments, call.id));
        }
        if let Some(id) = &message.tool_call_id {
            text.push_str(&format!(" (answers {id})"));
        }
        text
    });
    messages.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn the_record_holds_every_request_exactly() {
    let settings =
        AgentSettings { history_turns: Some(1), max_repetitions: None, ..AgentSettings::default() };
    let model = Fixed::saying(&[BACK, BACK, ON, "hm?", ON, ON]);
    let result = play(&env(settings), &model).await.unwrap();
    let asked = model.requests();
    check_requests(&result.trajectory, &asked);
    let actions: Vec<Option<&str>> =
        result.trajectory.turns.iter().map(|turn| turn.action.as_deref()).collect();
    let (back, on) = (Some("go back"), Some("go on"));
    assert_eq!(actions, [back, back, on, None, on, on]);
}

#[tokio::test]
async fn the_window_leaves_out_what_is_older() {
    let settings = AgentSettings {
        history_turns: Some(1),
        max_repetitions: None,
        think: false,
        ..AgentSettings::default()
    };
    let model = Fixed::saying(&[BACK, ON, BACK, ON, ON, ON]);
    play(&env(settings), &model).await.unwrap();
    insta::assert_snapshot!(shown(&model.requests()[3]), @r"
    [system] You are in a corridor. You can go on, or go back.

    Always go on.

    In each turn, write one action, between <action> and </action>, and nothing else.
    [user] Task: go to the end

    You are at door 0.

    (Turns in between are left out.)

    You are at door 1.
    [assistant] <action>go back</action>
    [user] You are at door 0.

    Possible actions:
    - go on
    - go back
    ");
}

/// The skill is in every prompt from the first turn on, and a prompt that is too long loses its oldest turns, never the
/// skill.
#[tokio::test]
async fn a_prompt_that_is_too_long_loses_history_and_never_the_skill() {
    let replies = [BACK, ON, BACK, ON, ON, ON];
    let long = format!("Always go on. {}", "Keep to it. ".repeat(200));
    let requests = async |max_prompt_tokens: Option<u64>| {
        let settings = AgentSettings {
            max_prompt_tokens,
            history_turns: None,
            max_repetitions: None,
            ..AgentSettings::default()
        };
        let model = Fixed::saying(&replies);
        let ctx = RolloutCtx { call: CallCtx::new(CallPlace::new("test")), ..RolloutCtx::default() };
        let env = env(settings);
        let item = &env.items(Split::Train)[0];
        env.rollout(item, &SkillDoc::new(long.as_str()), &model, &ctx).await.unwrap();
        model.requests()
    };
    let tokens = |request: &ChatRequest| -> u64 {
        request.messages.iter().map(|message| estimate_tokens(&message.text())).sum()
    };
    let whole = requests(None).await;
    let [first, last] = [&whole[0], &whole[whole.len() - 1]].map(tokens);
    for limit in [0, first, (first + last) / 2, last - 1, last] {
        let limited = requests(Some(limit)).await;
        assert_eq!(limited.len(), whole.len());
        for (turn, (request, whole)) in limited.iter().zip(&whole).enumerate() {
            let said = shown(request);
            assert!(said.contains(long.trim()), "turn {turn} with {limit} tokens lacks the skill");
            assert!(said.contains("go to the end"), "turn {turn} with {limit} tokens lacks the task");
            assert_eq!(request == whole, tokens(whole) <= limit || turn == 0, "turn {turn}, {limit}: {said}");
            let has_history = request.messages.len() > 2;
            assert!(tokens(request) <= limit || !has_history, "turn {turn} has history over {limit}: {said}");
            let now = whole.messages.last().unwrap().text();
            assert!(said.ends_with(now.trim_end()), "turn {turn} lacks what is seen now: {said}");
        }
    }
}

#[tokio::test]
async fn actions_as_tool_calls() {
    let settings = AgentSettings { action_format: ActionFormat::Tool, ..AgentSettings::default() };
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let model = Fixed::by(move |number| {
        let mut reply = says("");
        reply.tool_calls = match number {
            0 => {
                vec![call("a", "act", r#"{"action": "go on"}"#), call("b", "act", r#"{"action": "go back"}"#)]
            }
            1 => vec![call("c", "jump", "{}")],
            _ => vec![call("d", "act", r#"{"action": "Go on",}"#)],
        };
        Ok(reply)
    });
    let result = play(&env(settings), &model).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (1.0, 4));
    let asked = model.requests();
    assert_eq!(asked[0].tools[0].name, "act");
    insta::assert_snapshot!(shown(&asked[3]));
}

#[track_caller]
fn check_ending(result: &RolloutResult, ended: Ending, n_turns: u32, reason: &str) {
    assert_eq!(result.trajectory.ending, Some(ended), "{reason}");
    assert_eq!((result.n_turns, result.fail_reason.as_str(), result.hard), (n_turns, reason, 0.0));
}

#[tokio::test]
async fn every_limit_ends_an_episode_and_says_so() {
    let default = AgentSettings::default;
    let result = played(AgentSettings { max_turns: 2, ..default() }, &[ON]).await;
    check_ending(&result, Ending::Turns, 2, "the goal was not reached in 2 turns");
    let result = played(AgentSettings { max_episode_tokens: Some(20), ..default() }, &[ON]).await;
    check_ending(
        &result,
        Ending::Tokens,
        2,
        "the goal was not reached before the limit of tokens, in 2 turns",
    );
    let result = played(
        AgentSettings { max_invalid_actions: Some(2), ..default() },
        &["<action>fly</action>", ON, "?"],
    )
    .await;
    check_ending(
        &result,
        Ending::InvalidActions,
        4,
        "the last 2 replies held no action that the world understands",
    );
    let result = played(AgentSettings { max_repetitions: Some(2), ..default() }, &[BACK]).await;
    check_ending(
        &result,
        Ending::Repetition,
        2,
        "the agent did the same again and again, with the same outcome; last: \"go back\"",
    );
    let result = played(default(), &["<action>give up</action>"]).await;
    check_ending(&result, Ending::Lost, 1, "the episode ended without its goal");
    let result = played(AgentSettings { max_turns: 1, ..default() }, &["<action>fly</action>"]).await;
    check_ending(
        &result,
        Ending::Turns,
        1,
        "the goal was not reached in 1 turns; 1 of its actions meant nothing to the world",
    );
}

#[tokio::test]
async fn a_game_that_outgrows_the_models_context_is_lost_and_one_that_never_fitted_is_an_error() {
    let with_room_for = |n_turns: usize| {
        Fixed::by(move |number| {
            if number < n_turns {
                return Ok(says(BACK));
            }
            let (provider, message) = ("target".to_owned(), "1,030 tokens in a context of 1,024".to_owned());
            Err(LlmError::ContextTooLong { provider, status: 400, message })
        })
    };
    let result = play(&env(AgentSettings::default()), &with_room_for(2)).await.unwrap();
    assert_eq!((result.trajectory.ending, result.n_turns), (Some(Ending::Context), 2));
    assert_eq!((result.hard, result.trajectory.turns.len()), (0.0, 2), "{}", result.fail_reason);
    let error = play(&env(AgentSettings::default()), &with_room_for(0)).await.unwrap_err();
    assert!(matches!(error, EnvError::Model(error) if error.class() == ErrorClass::ContextTooLong));
}

#[tokio::test]
async fn invalid_actions_cost_what_was_asked() {
    let settings = AgentSettings { invalid_action_penalty: 0.25, ..AgentSettings::default() };
    let result = played(settings, &["<action>fly</action>", "I wonder.\nWhat now?", ON]).await;
    assert_eq!((result.hard, result.soft, result.n_turns), (1.0, 0.5, 5));
    assert_eq!(result.trajectory.invalid_actions, 2);
}

#[tokio::test]
async fn a_reply_that_was_cut_is_told() {
    let model = Fixed::by(|number| {
        let mut reply = says("<think>Let me see");
        if number > 0 {
            reply.text = ON.to_owned();
        } else {
            reply.finish = FinishReason::Length;
        }
        Ok(reply)
    });
    let result = play(&env(AgentSettings::default()), &model).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (1.0, 4));
    let told = model.requests()[1].messages.last().unwrap().text();
    assert!(told.contains(" cut ") && told.contains("<action>"), "{told}");
}

#[tokio::test]
async fn a_world_that_breaks_is_no_score() {
    let world = Corridor { items: vec![Item::new("c1", json!({"breaks": true}))], tells_actions: false };
    let env = WorldEnv::new(Arc::new(world), AgentSettings::default(), None).unwrap();
    let error = play(&env, &Fixed::saying(&[ON])).await.unwrap_err();
    assert!(matches!(&error, EnvError::Broken { .. }) && error.is_retryable(), "{error}");
}

#[tokio::test]
async fn an_episode_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.sqlite");
    let sent = Arc::new(AtomicU32::new(0));
    let run = async |stops_at: u32| {
        let count = Arc::clone(&sent);
        let model = ScriptedModel::from_fn("walker", move |_, _| {
            if count.load(Ordering::Relaxed) >= stops_at {
                return Err(LlmError::Cancelled);
            }
            count.fetch_add(1, Ordering::Relaxed);
            Ok(says(ON))
        });
        let journal = Journal::open(&path, JournalOptions::default()).unwrap();
        let model = Metered::new(Arc::new(Journaled::new(Arc::new(model), journal.clone())));
        let outcome = play(&env(AgentSettings::default()), &model).await;
        journal.flush().await.unwrap();
        outcome
    };
    run(2).await.unwrap_err();
    let result = run(100).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (1.0, 3));
    assert_eq!(sent.load(Ordering::Relaxed), 3, "no turn was asked for twice");
}

#[test]
fn settings_and_prompts_that_cannot_work_are_refused() {
    let check = |settings: AgentSettings, prompt: Option<&str>, expect: &str| {
        let world = Corridor { items: Vec::new(), tells_actions: true };
        let error = WorldEnv::new(Arc::new(world), settings, prompt).err().unwrap();
        assert_eq!(error.to_string(), expect);
    };
    let default = AgentSettings::default;
    check(AgentSettings { max_turns: 0, ..default() }, None, "`max_turns` is 0; expected at least 1");
    check(
        AgentSettings { max_repetitions: Some(1), ..default() },
        None,
        "`max_repetitions` is below 2: doing a thing once is not a repetition",
    );
    check(
        AgentSettings { invalid_action_penalty: 2.0, ..default() },
        None,
        "`invalid_action_penalty` is 2; expected a number from 0 to 1",
    );
    let prompt = |system: &str, user: &str| {
        format!("{{% block system %}}{system}{{% endblock %}}{{% block user %}}{user}{{% endblock %}}")
    };
    check(
        default(),
        Some(&prompt("{{ skill }}", "{{ admissible }}")),
        "prompt `rollout_world`: never shows `{{ observation }}`, without which nothing can be learned",
    );
    check(
        default(),
        Some(&prompt("{{ skill }}", "{{ observation }}")),
        "prompt `rollout_world`: never shows `{{ admissible }}`, which the settings ask for",
    );
    check(
        default(),
        Some(&prompt("", "{{ observation }} {{ admissible }}")),
        "prompt `rollout_world`: never shows `{{ skill }}`, without which nothing can be learned",
    );
}

#[track_caller]
fn check_action(text: &str, admissible: Option<&[&str]>, expect: Result<&str, NoAction>) {
    let admissible: Option<Vec<String>> =
        admissible.map(|known| known.iter().map(|action| (*action).to_owned()).collect());
    let found = parse_action(&ChatReply::text(text, Usage::default()), admissible.as_deref());
    assert_eq!(found, expect.map(str::to_owned), "{text:?}");
}

#[test]
fn actions_in_text() {
    let known: Option<&[&str]> = Some(&["look", "go to desk 1"]);
    check_action("<action>look</action>", known, Ok("look"));
    check_action(
        "<think>a</think>\n<action>\n  go to\n desk 1 </action> and then",
        known,
        Ok("go to desk 1"),
    );
    check_action("<ACTION>Look</ACTION>", known, Ok("look"));
    check_action("<action>`look`</action>", known, Ok("look"));
    check_action("<action>\"go to desk 1\"</action><action>look</action>", known, Ok("go to desk 1"));
    check_action(
        "<think>maybe <action>look</action>?</think><action>go to desk 1</action>",
        known,
        Ok("go to desk 1"),
    );
    check_action("<think>maybe <action>look</action>?</think> no", known, Err(NoAction::Missing));
    check_action("<action>go to desk 1\nbecause", known, Ok("go to desk 1"));
    check_action("<action>search[red shoes]</action>", None, Ok("search[red shoes]"));
    check_action("<action>dance</action>", known, Ok("dance"));
    check_action("  LOOK ", known, Ok("look"));
    check_action("dance", known, Err(NoAction::Missing));
    check_action("dance", None, Ok("dance"));
    check_action("I would look.\nOr dance.", None, Err(NoAction::Missing));
    check_action("<think>dance", None, Err(NoAction::Missing));
    check_action("<action></action>", known, Err(NoAction::Unusable));
    check_action(&format!("<action>{}</action>", "x".repeat(1_001)), known, Err(NoAction::Unusable));
    check_action("", known, Err(NoAction::Missing));
    check_action("<act", known, Err(NoAction::Missing));
}

#[test]
fn an_action_that_was_cut_is_none() {
    let cut = |text: &str| {
        let mut reply = ChatReply::text(text, Usage::default());
        reply.finish = FinishReason::Length;
        parse_action(&reply, None)
    };
    assert_eq!(cut("<action>go to de"), Err(NoAction::Cut));
    assert_eq!(cut("go to de"), Err(NoAction::Cut));
    assert_eq!(cut("<action>look</action> since"), Ok("look".to_owned()));
}
