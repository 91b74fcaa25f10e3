//! Tasks with files: what tools come to, what is out of reach, and the conversation around them.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::files::files;
use crate::fixed::{Fixed, says, usage};
use crate::requests::check_requests;
use serde_json::{Value, json};
use skill_core::{Role, RolloutResult, SkillDoc, ToolUse, TrajectoryMessage};
use skill_envs::tasks::{FileTool, FilesConfig, Preset, TasksConfig, TasksEnv, TasksWorld, ToolFormat};
use skill_envs::{Env, EnvError, RolloutCtx, Split, World as _};
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, FinishReason, Journal, JournalOptions, Journaled, LlmError,
    ScriptedModel, ToolCall, ToolChoice,
};
use std::path::Path;
use std::sync::Arc;

/// Reports, one of them with pages, beside what nobody may read.
fn data() -> tempfile::TempDir {
    files(&[
        ("secret.txt", "the secret"),
        ("docs/1941/jan.txt", "Receipts\nTotal 12\n\u{c}Expenditures\nTotal 40\n\u{c}Notes\n"),
        ("docs/1941/feb.txt", "Receipts\nTotal 13\n"),
        ("docs/other.txt", "another item's\n"),
    ])
}

fn load(dir: &Path, item: &Value, change: impl FnOnce(&mut TasksConfig)) -> Result<TasksEnv, EnvError> {
    for split in ["train", "val", "test"] {
        let mut item = item.clone();
        item["id"] = json!(split);
        std::fs::write(dir.join(format!("{split}.jsonl")), item.to_string()).unwrap();
    }
    for split in ["train", "val", "test"] {
        let place = dir.join("data").join(split);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::rename(dir.join(format!("{split}.jsonl")), place.join("items.jsonl")).unwrap();
    }
    let mut config = Preset::OfficeQa.config(dir.join("data"));
    let files = FilesConfig::new(dir.join("docs"));
    config.files = Some(FilesConfig { field: Preset::OfficeQa.files_field().map(str::to_owned), ..files });
    change(&mut config);
    TasksEnv::load(&config)
}

fn item() -> Value {
    json!({"question": "What was spent?", "ground_truth": "40", "source_files": "1941/jan.txt\n1941/feb.txt"})
}

fn call(tool: &str, arguments: &str) -> ToolCall {
    ToolCall { id: format!("call-{tool}"), name: tool.to_owned(), arguments: arguments.to_owned() }
}

fn calls(calls: &[(&str, &str)]) -> ChatReply {
    ChatReply::new("", usage(), FinishReason::ToolCalls)
        .with_tool_calls(calls.iter().map(|(tool, arguments)| call(tool, arguments)).collect())
}

async fn rollout(env: &TasksEnv, model: &dyn ChatModel) -> Result<RolloutResult, EnvError> {
    let item = &env.items(Split::Train)[0];
    env.rollout(item, &SkillDoc::new("Look closely."), model, &RolloutCtx::default()).await
}

/// What one call comes to.
async fn result_of(tool: &str, arguments: &str) -> String {
    let dir = data();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let model = Fixed::replying(vec![calls(&[(tool, arguments)]), says("<answer>40</answer>")]);
    rollout(&env, &model).await.unwrap();
    let asked = model.requests();
    let last = asked[1].messages.last().unwrap();
    assert_eq!(
        (last.role, last.tool_call_id.as_deref()),
        (Role::Tool, Some(format!("call-{tool}").as_str()))
    );
    last.text()
}

#[tokio::test]
async fn what_tools_come_to() {
    for (tool, arguments, expect) in [
        ("list", "{}", "1941/jan.txt (48 bytes)\n1941/feb.txt (18 bytes)"),
        ("list", "", "1941/jan.txt (48 bytes)\n1941/feb.txt (18 bytes)"),
        ("glob", r#"{"pattern": "jan*"}"#, "1941/jan.txt (48 bytes)"),
        ("list", r#"{"pattern": "*.pdf"}"#, "None of the 2 files matches \"*.pdf\"."),
        ("read", r#"{"path": "feb.txt"}"#, "1941/feb.txt, lines 1 to 2 of 2:\nReceipts\nTotal 13"),
        (
            "read",
            r#"{"path": "1941/jan.txt", "first_page": 2, "last_page": "2"}"#,
            "1941/jan.txt, pages 2 to 2 of 3:\nExpenditures\nTotal 40\n",
        ),
        (
            "read",
            r#"{"path": "1941/jan.txt", "first_line": 2.0, "last_line": 2}"#,
            "1941/jan.txt, lines 2 to 2 of 5:\nTotal 12",
        ),
        (
            "read",
            r#"{"path": "1941/feb.txt", "max_bytes": 10}"#,
            "1941/feb.txt, lines 1 to 2 of 2:\nReceipts\nT\n(Cut in line 2; read on from there, or fewer lines.)",
        ),
        (
            "grep",
            r#"{"pattern": "total", "ignore_case": true}"#,
            "1941/jan.txt:2 (page 1): Total 12\n1941/jan.txt:4 (page 2): Total 40\n1941/feb.txt:2: Total 13",
        ),
        (
            "grep",
            r#"{"pattern": "13", "path": "*feb*", "context": 1}"#,
            "1941/feb.txt-1- Receipts\n1941/feb.txt:2: Total 13",
        ),
        (
            "grep",
            r#"{"pattern": "^Exp|^Notes"}"#,
            "1941/jan.txt:3 (page 2): Expenditures\n1941/jan.txt:5 (page 3): Notes",
        ),
        ("grep", r#"{"pattern": "yen"}"#, "No line of 2 files matches \"yen\"."),
    ] {
        assert!(
            result_of(tool, arguments).await.starts_with(expect),
            "{tool} {arguments}: {}",
            result_of(tool, arguments).await
        );
    }
}

/// Whatever a call says, the agent is told, and goes on.
#[tokio::test]
async fn a_call_that_is_wrong_is_an_observation() {
    for (tool, arguments, expect) in [
        ("read", "{\"path\": ", "error: the arguments are no JSON object"),
        ("read", "[1]", "error: the arguments are no JSON object"),
        ("read", "{}", "error: `path` is missing; expected the name of a file"),
        ("read", r#"{"path": 7}"#, "error: `path` is 7; expected a text"),
        (
            "read",
            r#"{"path": "jan.txt", "first_line": "one"}"#,
            "error: `first_line` is \"one\"; expected a whole number",
        ),
        (
            "read",
            r#"{"path": "jan.txt", "first_line": -1}"#,
            "error: `first_line` is -1; expected a whole number",
        ),
        (
            "read",
            r#"{"path": "jan.txt", "first_page": 9}"#,
            "error: \"1941/jan.txt\" has 3 pages, and there is none from 9 to 3",
        ),
        (
            "read",
            r#"{"path": "jan.txt", "first_page": 1, "last_line": 1}"#,
            "error: lines and pages are both given",
        ),
        (
            "read",
            r#"{"path": "jan.txt", "lines": 3}"#,
            "error: there is no argument `lines`; expected path, first_line",
        ),
        ("grep", r#"{"pattern": "("}"#, "error: `pattern` is no regular expression: unclosed group"),
        (
            "grep",
            r#"{"pattern": "x", "path": "*.pdf"}"#,
            "error: no file matches \"*.pdf\"; `list` shows their names",
        ),
        (
            "grep",
            r#"{"pattern": "x", "ignore_case": "yes"}"#,
            "error: `ignore_case` is \"yes\"; expected true or false",
        ),
        ("write", "{}", "error: there is no tool \"write\"; there are list, read, grep"),
        // What is out of reach.
        (
            "read",
            r#"{"path": "other.txt"}"#,
            "error: this task has no file \"other.txt\"; it has 1941/jan.txt, 1941/feb.txt",
        ),
        ("read", r#"{"path": "../secret.txt"}"#, "error: this task has no file \"../secret.txt\""),
        ("read", r#"{"path": "1941/../../secret.txt"}"#, "error: this task has no file"),
        ("read", r#"{"path": "/etc/passwd"}"#, "error: this task has no file \"/etc/passwd\""),
        ("grep", r#"{"pattern": "secret", "path": "../**"}"#, "error: no file matches \"../**\""),
    ] {
        let result = result_of(tool, arguments).await;
        assert!(result.starts_with(expect), "{tool} {arguments}: {result}");
    }
}

#[tokio::test]
async fn what_a_call_shows_has_a_limit() {
    let dir = data();
    std::fs::write(dir.path().join("docs/1941/jan.txt"), "Tötal 12\n".repeat(20_000)).unwrap();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let model = Fixed::replying(vec![
        calls(&[("read", r#"{"path": "1941/jan.txt"}"#), ("grep", r#"{"pattern": "T"}"#)]),
        calls(&[("list", "{}"); 10]),
        says("<answer>40</answer>"),
    ]);
    rollout(&env, &model).await.unwrap();
    let asked = model.requests();
    let texts: Vec<String> = asked[2]
        .messages
        .iter()
        .filter(|message| message.role == Role::Tool)
        .map(|message| message.text())
        .collect();
    assert!(texts.iter().all(|text| text.len() <= 24_100), "{}", texts[0].len());
    assert!(texts[9].starts_with("1941"), "{}", texts[9]);
    insta::assert_snapshot!(
        "what_a_call_leaves_out",
        [0, 1, 10].map(|text_idx: usize| texts[text_idx].lines().last().unwrap()).join("\n")
    );
}

#[tokio::test]
async fn a_trajectory_keeps_every_turn() {
    let dir = data();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let replies = vec![
        calls(&[("grep", r#"{"pattern": "Total"}"#)]),
        calls(&[("read", r#"{"path": "jan.txt", "first_page": 2}"#), ("read", "{")]),
        says("It is <answer>40</answer>."),
    ];
    let model = Fixed::replying(replies);
    let result = rollout(&env, &model).await.unwrap();
    assert_eq!((result.hard, result.n_turns, result.usage.input), (1.0, 3, 30));
    assert_eq!(result.predicted_answer, "40");
    let asked = model.requests();
    insta::assert_snapshot!(
        "a_task_with_files",
        format!("{}\n---\n{}", asked[0].messages[0].text(), asked[0].messages[1].text())
    );
    assert_eq!(
        asked[0].tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["list", "read", "grep"]
    );
    // Each request goes on with the one before, and the record holds what was sent.
    check_requests(&result.trajectory, &asked);
    let arguments = r#"{"first_page":2,"path":"jan.txt"}"#.to_owned();
    let expect = [ToolUse::new("read", Some(arguments), false), ToolUse::new("read", None, true)];
    assert_eq!(result.trajectory.turns[1].tools, expect);
    let messages: Vec<&TrajectoryMessage> = result.trajectory.conversation().collect();
    let roles: Vec<Role> = messages.iter().map(|message| message.role).collect();
    let (user, said, tool) = (Role::User, Role::Assistant, Role::Tool);
    assert_eq!(roles, [Role::System, user, said, tool, said, tool, tool, said]);
    assert_eq!(messages[2].as_text(), r#"[tool call] grep({"pattern": "Total"})"#);
    assert_eq!(result.target_user_prompt, asked[0].messages[1].text());
}

#[tokio::test]
async fn after_the_last_turn_with_tools_the_agent_has_to_answer() {
    let dir = data();
    let env = load(dir.path(), &item(), |config| config.files.as_mut().unwrap().max_turns = 2).unwrap();
    let model = Fixed::replying(vec![calls(&[("list", "{}")])]);
    let result = rollout(&env, &model).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (0.0, 3));
    insta::assert_snapshot!("a_call_in_place_of_an_answer", result.fail_reason);
    let asked = model.requests();
    assert_eq!(asked.len(), 3);
    assert_eq!((&asked[1].tool_choice, &asked[2].tool_choice), (&None, &Some(ToolChoice::Never)));
    assert!(asked[2].messages.last().unwrap().text().ends_with("Give your answer now."));
}

#[tokio::test]
async fn tools_in_text() {
    let dir = data();
    let change = |config: &mut TasksConfig| {
        let files = config.files.as_mut().unwrap();
        (files.format, files.tools) = (ToolFormat::Text, vec![FileTool::Grep]);
    };
    let env = load(dir.path(), &item(), change).unwrap();
    let model = Fixed::replying(vec![
        says("Let me see. <tool>{\"tool\": \"grep\", \"pattern\": \"spent|Expend\"}</tool>"),
        says("<tool>grep Total</tool>"),
        says("<tool>{\"tool\": \"read\", \"path\": \"jan.txt\"}"),
        says("<answer>40</answer>"),
    ]);
    let result = rollout(&env, &model).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (1.0, 4));
    let asked = model.requests();
    insta::assert_snapshot!("a_task_with_files_in_text", asked[0].messages[0].text());
    assert!(asked.iter().all(|request| request.tools.is_empty()));
    let seen: Vec<String> =
        asked[1..].iter().map(|request| request.messages.last().unwrap().text()).collect();
    insta::assert_snapshot!("what_tools_in_text_show", seen.join("\n"));
}

/// An outage is an error at any turn; what does not fit after the agent has read is its own doing.
#[tokio::test]
async fn what_the_model_does_not_take_is_told_apart_from_an_outage() {
    let dir = data();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let failing = |n_good: usize, error: LlmError| {
        ScriptedModel::from_fn("reader", move |request, _| {
            let good = request.messages.len() < 2 + 2 * n_good;
            if good { Ok(calls(&[("list", "{}")])) } else { Err(error.clone()) }
        })
    };
    let too_long =
        || LlmError::ContextTooLong { provider: "p".to_owned(), status: 400, message: "9 of 8".to_owned() };
    let result = rollout(&env, &failing(1, too_long())).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (0.0, 2));
    let reason = "the model does not take what the agent has read: the prompt is too long";
    assert!(result.fail_reason.starts_with(reason), "{}", result.fail_reason);
    let error = rollout(&env, &failing(0, too_long())).await.unwrap_err();
    assert!(matches!(error, EnvError::Model(LlmError::ContextTooLong { .. })), "{error}");
    let error = rollout(&env, &failing(1, LlmError::Cancelled)).await.unwrap_err();
    assert!(matches!(error, EnvError::Model(LlmError::Cancelled)), "{error}");
}

#[tokio::test]
async fn an_item_goes_on_where_it_stopped() {
    let dir = data();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let journal = Journal::open(&dir.path().join("journal.sqlite"), JournalOptions::default()).unwrap();
    let ctx = || RolloutCtx::new(CallCtx::new(CallPlace::new("step 1 / rollout train")));
    let play = async |model: ScriptedModel| {
        let model = Journaled::new(Arc::new(model), journal.clone());
        let result = env.rollout(&env.items(Split::Train)[0], &SkillDoc::new(""), &model, &ctx()).await;
        journal.flush().await.unwrap();
        result
    };
    let dies = ScriptedModel::from_fn("reader", |request, _| match request.messages.len() {
        2 => Ok(calls(&[("list", "{}")])),
        _ => Err(LlmError::Cancelled),
    });
    play(dies).await.unwrap_err();
    let goes_on = ScriptedModel::from_fn("reader", |request, _| match request.messages.len() {
        2 => panic!("paid for twice"),
        _ => Ok(says("<answer>40</answer>")),
    });
    let result = play(goes_on).await.unwrap();
    assert_eq!((result.hard, result.n_turns), (1.0, 2));
}

#[tokio::test]
async fn pages_that_answer_stand_in_the_prompt() {
    let dir = data();
    for (name, reference) in [
        ("pages_by_address", json!("https://example.org/jan?page=2\nhttps://example.org/feb?page=1")),
        ("pages_by_name", json!(["1941/jan.txt: page 2"])),
    ] {
        let mut item = item();
        item["source_docs"] = reference;
        let pages = |config: &mut TasksConfig| {
            config.files.as_mut().unwrap().pages_field = Some("source_docs".to_owned());
        };
        let env = load(dir.path(), &item, pages).unwrap();
        let model = Fixed::replying(vec![says("<answer>40</answer>")]);
        rollout(&env, &model).await.unwrap();
        let text = model.requests()[0].messages[1].text();
        insta::assert_snapshot!(name, text);
    }
}

#[track_caller]
fn refused(
    change_data: impl FnOnce(&Path),
    item: &Value,
    change: impl FnOnce(&mut TasksConfig),
    expect: &str,
) {
    let dir = data();
    change_data(dir.path());
    let error = match load(dir.path(), item, change) {
        Ok(_) => panic!("accepted; expected {expect}"),
        Err(error) => error.to_string(),
    };
    let text = error.replace(&dir.path().display().to_string(), "DIR");
    assert!(text.contains(expect), "{text}");
}

#[test]
fn files_that_cannot_be_had_are_named_with_their_item() {
    let with = |field: &str, value: Value| {
        let mut item = item();
        item[field] = value;
        item
    };
    let place = "items.jsonl, line 1: ";
    let names = |value: &str, fault: &str| {
        let expect = format!("{place}`source_files` names the file \"{value}\", which {fault}");
        refused(|_| {}, &with("source_files", json!([value])), |_| {}, &expect);
    };
    names("1941/mar.txt", "is not in DIR/docs");
    names("../secret.txt", "leads out of the directory");
    names("/etc/passwd", "leads out of the directory");
    names("1941", "is not a file");
    refused(
        |_| {},
        &with("source_files", json!(7)),
        |_| {},
        "`source_files` is a number; expected names of files",
    );
    let other = |config: &mut TasksConfig| config.files.as_mut().unwrap().field = Some("docs".to_owned());
    refused(|_| {}, &item(), other, "has no field `docs`, which names its files; its fields are `question`");
    let nowhere = |config: &mut TasksConfig| config.files.as_mut().unwrap().dir = "nowhere".into();
    refused(|_| {}, &item(), nowhere, "nowhere: is not a directory; `files_dir` names one");
    let pages = |config: &mut TasksConfig| {
        config.files.as_mut().unwrap().pages_field = Some("source_docs".to_owned());
    };
    for (value, expect) in [
        (json!("1941/jan.txt page 9"), "has 3 pages (a form feed ends a page)"),
        (json!("the last"), "which holds no number"),
        (json!("page 1"), "and it is not clear of which of its files"),
    ] {
        refused(|_| {}, &with("source_docs", value), pages, expect);
    }
    let no_tools = |config: &mut TasksConfig| config.files.as_mut().unwrap().tools.clear();
    refused(|_| {}, &item(), no_tools, "`file_tools` is empty");
}

#[cfg(unix)]
#[tokio::test]
async fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let link = |dir: &Path| symlink(dir.join("secret.txt"), dir.join("docs/link.txt")).unwrap();
    let with_link = json!({"question": "?", "ground_truth": "1", "source_files": ["link.txt"]});
    refused(link, &with_link, |_| {}, "is a symbolic link, or is behind one");
    // One that was put there later is not followed either.
    let dir = data();
    let env = load(dir.path(), &item(), |_| {}).unwrap();
    let place = dir.path().join("docs/1941");
    std::fs::rename(&place, dir.path().join("moved")).unwrap();
    symlink(dir.path().join("moved"), &place).unwrap();
    let model =
        Fixed::replying(vec![calls(&[("read", r#"{"path": "jan.txt"}"#)]), says("<answer>40</answer>")]);
    rollout(&env, &model).await.unwrap();
    let told = model.requests()[1].messages.last().unwrap().text();
    insta::assert_snapshot!("a_link_that_was_put_there_later", told);
    // Nor is one found where every item has all files.
    link(dir.path());
    let all = load(dir.path(), &item(), |config| config.files.as_mut().unwrap().field = None).unwrap();
    let model = Fixed::replying(vec![calls(&[("list", "{}")]), says("<answer>40</answer>")]);
    rollout(&all, &model).await.unwrap();
    assert_eq!(model.requests()[1].messages.last().unwrap().text(), "other.txt (15 bytes)");
}

#[test]
fn a_file_that_changes_makes_another_environment() {
    let dir = data();
    let before = load(dir.path(), &item(), |_| {}).unwrap().settings();
    assert_eq!(before, load(dir.path(), &item(), |_| {}).unwrap().settings());
    std::fs::write(dir.path().join("docs/other.txt"), "not one of the item's").unwrap();
    assert_eq!(before, load(dir.path(), &item(), |_| {}).unwrap().settings());
    std::fs::write(dir.path().join("docs/1941/feb.txt"), "Total 14").unwrap();
    assert_ne!(before, load(dir.path(), &item(), |_| {}).unwrap().settings());
}

#[tokio::test]
async fn an_item_is_played_by_hand() {
    let dir = data();
    let world = TasksWorld::new(Arc::new(load(dir.path(), &item(), |_| {}).unwrap()));
    let mut episode = world.episode(&world.items(Split::Train)[0]).unwrap();
    let first = episode.reset().await.unwrap().text;
    assert!(
        first.contains("What was spent?") && first.contains("<tool>{\"tool\": \"list\"}</tool>"),
        "{first}"
    );
    let seen = episode.step(r#"{"tool": "grep", "pattern": "40"}"#).await.unwrap();
    let wrong = episode.step("<tool>grep 40</tool>").await.unwrap();
    assert!(!seen.done && !wrong.understood && !wrong.done, "{seen:?} {wrong:?}");
    let end = episode.step("<answer>40</answer>").await.unwrap();
    assert_eq!((end.reward, end.done, end.won), (1.0, true, true));
    insta::assert_snapshot!("an_item_played_by_hand", [seen.text, wrong.text, end.text].join("\n"));
}
