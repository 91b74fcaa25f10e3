//! Exports: what is written, and what is found in files that no trainer would learn from.

use serde_json::{Value, json};
use skill_core::Role;
use skill_train::export::{ExportError, FieldFault, Kind, TaskPrompt, Turn, llama_factory, trl};

fn turn(role: Role, content: &str) -> Turn {
    Turn::new(role, content)
}

pub(crate) fn conversations() -> Vec<Vec<Turn>> {
    vec![
        vec![
            turn(Role::System, "Play the game."),
            turn(Role::User, "You see a box. «é» 日本"),
            turn(Role::Assistant, "open the box\n"),
            turn(Role::User, "It is \"empty\"."),
            turn(Role::Assistant, "stop"),
        ],
        vec![turn(Role::User, "2 + 2?"), turn(Role::Assistant, "4")],
    ]
}

pub(crate) fn tasks() -> Vec<TaskPrompt> {
    let task = |id: &str, turns: &[Turn], truth: &str| TaskPrompt {
        turns: turns.to_vec(),
        task_id: id.to_owned(),
        ground_truth: truth.to_owned(),
    };
    let all = conversations();
    vec![task("t1", &all[0][..2], "open the box"), task("t2", &all[1][..1], "4")]
}

#[track_caller]
pub(crate) fn row_fault(
    error: Result<impl std::fmt::Debug, ExportError>,
    at: (usize, &str),
    expect: &FieldFault,
) {
    match error {
        Err(ExportError::Row { row, field, fault }) => {
            assert_eq!(((row, field.as_str()), &fault), (at, expect));
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub(crate) fn file_fault(error: Result<impl std::fmt::Debug, ExportError>, at: &str) -> FieldFault {
    match error {
        Err(ExportError::File { field, fault }) => {
            assert_eq!(field, at);
            fault
        }
        other => panic!("{other:?}"),
    }
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn trl_gets_a_line_for_each_row() {
    let messages = trl::messages(&conversations()).unwrap();
    assert_eq!(
        rows(&messages)[1],
        json!({"messages": [
            {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"},
        ]})
    );
    let checked = trl::check(&messages).unwrap();
    assert_eq!((checked.kind, checked.n_rows), (Kind::Messages, 2));
    let completions = trl::prompt_completion(&conversations()).unwrap();
    assert_eq!(rows(&completions)[0]["completion"], json!([{"role": "assistant", "content": "stop"}]));
    assert_eq!(rows(&completions)[0]["prompt"].as_array().unwrap().len(), 4);
    assert_eq!(trl::check(&completions).unwrap().kind, Kind::PromptCompletion);
    let prompts = trl::prompts(&tasks()).unwrap();
    assert_eq!(
        rows(&prompts)[1],
        json!({
            "prompt": [{"role": "user", "content": "2 + 2?"}], "task_id": "t2", "ground_truth": "4",
        })
    );
    let checked = trl::check(&prompts).unwrap();
    assert_eq!(
        (checked.kind, checked.columns.as_slice()),
        (Kind::Prompts, ["task_id".to_owned(), "ground_truth".to_owned()].as_slice())
    );
}

#[test]
fn conversations_without_a_place_in_a_format_are_refused() {
    let open = vec![turn(Role::User, "a")];
    let misplaced = |role: &str, expected| FieldFault::MisplacedRole { role: role.to_owned(), expected };
    row_fault(
        trl::messages(&[conversations()[1].clone(), open.clone()]),
        (1, "messages[0].role"),
        &misplaced("user", "assistant"),
    );
    row_fault(trl::messages(&[vec![]]), (0, "messages"), &FieldFault::Empty);
    let blank = vec![turn(Role::User, "a"), turn(Role::Assistant, " \n")];
    row_fault(trl::messages(std::slice::from_ref(&blank)), (0, "messages"), &FieldFault::NothingToLearn);
    row_fault(trl::prompt_completion(&[blank]), (0, "completion"), &FieldFault::NothingToLearn);
    row_fault(trl::prompt_completion(&[vec![turn(Role::Assistant, "a")]]), (0, "prompt"), &FieldFault::Empty);
    let late = vec![turn(Role::User, "a"), turn(Role::System, "b"), turn(Role::Assistant, "c")];
    row_fault(
        trl::messages(&[late]),
        (0, "messages[1].role"),
        &misplaced("system", "a system message only at the beginning"),
    );
    let mut answered = tasks();
    answered[1].turns = conversations()[1].clone();
    row_fault(
        trl::prompts(&answered),
        (1, "prompt[1].role"),
        &misplaced("assistant", "user, tool or system"),
    );
    assert_eq!(file_fault(trl::messages(&[]), "the file"), FieldFault::Empty);
    let tool = vec![turn(Role::User, "a"), turn(Role::Tool, "b"), turn(Role::Assistant, "c")];
    row_fault(
        llama_factory::write("d", &[tool]),
        (0, "messages[1].role"),
        &misplaced("tool", "user or assistant"),
    );
    let twice = vec![turn(Role::User, "a"), turn(Role::User, "b"), turn(Role::Assistant, "c")];
    row_fault(
        llama_factory::write("d", &[twice]),
        (0, "conversations[1].from"),
        &misplaced("human", "a turn of the agent's side"),
    );
}

#[track_caller]
fn trl_refuses(rows: &[Value], at: (usize, &str), expect: &FieldFault) {
    let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    row_fault(trl::check(&text), at, expect);
}

#[test]
fn rows_that_trl_would_not_learn_from_are_named() {
    let good = json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]});
    let with = |messages: Value| json!({"messages": messages});
    trl_refuses(&[good.clone(), json!([])], (1, "the row"), &FieldFault::NotA("an object"));
    trl_refuses(&[json!({"text": "a"})], (0, "messages"), &FieldFault::Missing);
    trl_refuses(&[good.clone(), json!({"prompt": "a"})], (1, "the row"), &FieldFault::OtherKind);
    trl_refuses(&[with(json!("a"))], (0, "messages"), &FieldFault::NotA("a list of messages"));
    trl_refuses(&[with(json!(["a"]))], (0, "messages[0]"), &FieldFault::NotA("an object"));
    trl_refuses(&[with(json!([{"content": "a"}]))], (0, "messages[0].role"), &FieldFault::Missing);
    trl_refuses(
        &[with(json!([{"role": "user", "content": null}]))],
        (0, "messages[0].content"),
        &FieldFault::Missing,
    );
    trl_refuses(
        &[with(json!([{"role": "user", "content": 3}]))],
        (0, "messages[0].content"),
        &FieldFault::NotA("a text"),
    );
    trl_refuses(
        &[with(json!([{"role": "human", "content": "a"}]))],
        (0, "messages[0].role"),
        &FieldFault::UnknownRole("human".to_owned()),
    );
    trl_refuses(&[json!({"completion": "a"})], (0, "prompt"), &FieldFault::Missing);
    trl_refuses(&[json!({"prompt": "a", "completion": " "})], (0, "completion"), &FieldFault::NothingToLearn);
    trl_refuses(
        &[json!({"prompt": "a", "completion": []})],
        (0, "completion"),
        &FieldFault::NotA("a text, as the prompt is"),
    );
    trl_refuses(&[json!({"prompt": ""})], (0, "prompt"), &FieldFault::Empty);
    let prompt = |extra: &[(&str, Value)]| {
        let mut row = json!({"prompt": "a"});
        extra.iter().for_each(|(name, value)| row[*name] = value.clone());
        row
    };
    trl_refuses(&[prompt(&[("id", json!(1))]), prompt(&[])], (1, "id"), &FieldFault::Missing);
    trl_refuses(
        &[prompt(&[("id", json!(1))]), prompt(&[("id", json!("1"))])],
        (1, "id"),
        &FieldFault::OtherType,
    );
    trl_refuses(&[prompt(&[]), prompt(&[("id", json!(1))])], (1, "id"), &FieldFault::ExtraColumn);
    let broken = trl::check(&format!("{good}\n{{"));
    assert!(
        matches!(&broken, Err(ExportError::Row { row: 1, fault: FieldFault::Unreadable(_), .. })),
        "{broken:?}"
    );
    assert_eq!(file_fault(trl::check("\n"), "the file"), FieldFault::Empty);
    assert!(trl::check(&format!("{good}\n\n{good}")).is_ok());
}

#[test]
fn llama_factory_gets_a_data_set_and_its_description() {
    let files = llama_factory::write("games", &conversations()).unwrap();
    assert_eq!(files.data_name, "games.json");
    let info: Value = serde_json::from_str(&files.info).unwrap();
    assert_eq!(info["games"]["columns"], json!({"messages": "conversations", "system": "system"}));
    let data: Value = serde_json::from_str(&files.data).unwrap();
    assert_eq!(data[0]["system"], "Play the game.");
    assert_eq!(data[0]["conversations"][1], json!({"from": "gpt", "value": "open the box\n"}));
    assert_eq!(data[1]["system"], "");
    let checked = llama_factory::check(&files.info, |_| Some(files.data.clone())).unwrap();
    assert_eq!(checked.iter().map(|set| set.n_rows).collect::<Vec<_>>(), [2]);
}

/// Checks rows under the description that this crate writes.
fn llama_rows(rows: Value) -> Result<impl std::fmt::Debug, ExportError> {
    let files = llama_factory::write("games", &conversations()).unwrap();
    llama_factory::check(&files.info, |_| Some(rows.to_string()))
}

#[test]
fn rows_that_llama_factory_would_skip_are_named() {
    let human = json!({"from": "human", "value": "a"});
    let gpt = json!({"from": "gpt", "value": "b"});
    let with = |turns: Value| json!([{"conversations": turns, "system": ""}]);
    row_fault(llama_rows(with(json!([human, gpt, human]))), (0, "conversations"), &FieldFault::OddTurns(3));
    row_fault(llama_rows(with(json!([]))), (0, "conversations"), &FieldFault::Empty);
    row_fault(
        llama_rows(with(json!([{"from": "human"}, gpt]))),
        (0, "conversations[0].value"),
        &FieldFault::Missing,
    );
    let misplaced =
        FieldFault::MisplacedRole { role: "gpt".to_owned(), expected: "a turn of the user's side" };
    row_fault(llama_rows(with(json!([gpt, gpt]))), (0, "conversations[0].from"), &misplaced);
    let system = json!({"from": "system", "value": "s"});
    assert!(llama_rows(with(json!([system, human, gpt]))).is_ok());
    row_fault(llama_rows(with(json!([system, gpt, gpt]))), (0, "conversations[1].from"), &misplaced);
    let empty = json!({"from": "gpt", "value": ""});
    row_fault(
        llama_rows(with(json!([human, empty]))),
        (0, "conversations[1].value"),
        &FieldFault::NothingToLearn,
    );
    row_fault(
        llama_rows(json!([{"conversations": [human, gpt], "system": 1}])),
        (0, "system"),
        &FieldFault::NotA("a text"),
    );
    row_fault(llama_rows(json!([{"turns": []}])), (0, "conversations"), &FieldFault::Missing);
    assert_eq!(file_fault(llama_rows(json!([])), "games.json"), FieldFault::Empty);
    assert!(matches!(file_fault(llama_rows(json!({})), "games.json"), FieldFault::Unreadable(_)));
}

#[test]
fn descriptions_that_llama_factory_would_refuse_are_named() {
    let check = |info: Value| llama_factory::check(&info.to_string(), |_| None);
    assert_eq!(file_fault(check(json!({})), "dataset_info.json"), FieldFault::Empty);
    assert!(matches!(file_fault(check(json!([])), "dataset_info.json"), FieldFault::Unreadable(_)));
    assert_eq!(file_fault(check(json!({"d": {}})), "d.file_name"), FieldFault::Missing);
    let alpaca = file_fault(check(json!({"d": {"file_name": "d.json"}})), "d.formatting");
    assert!(matches!(alpaca, FieldFault::Unknown { value, .. } if value == "alpaca"));
    let gone = json!({"d": {"file_name": "d.json", "formatting": "sharegpt"}});
    assert_eq!(file_fault(check(gone), "d.json"), FieldFault::Missing);
}
