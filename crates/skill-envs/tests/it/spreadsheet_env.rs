//! The environment of SpreadsheetBench: what an agent is shown, how its programs run and what they come to.
//!
//! What runs programs needs `bwrap`, a Python with openpyxl and LibreOffice; `cargo xtask check sandbox` runs it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::fixed::{Fixed, says};
use crate::requests::check_requests;
use crate::workbook::Book;
use serde_json::json;
use skill_core::{RatioSplit, RolloutResult, SkillDoc, SplitRatio, Usage};
use skill_envs::spreadsheet::{
    Compare, ContainerConfig, Mode, Recalculate, SandboxChoice, SpreadsheetConfig, SpreadsheetEnv,
    describe_programs,
};
use skill_envs::tasks::Splitting;
use skill_envs::{Env as _, EnvError, RolloutCtx, Split};
use skill_llm::{ChatReply, ChatRequest, FinishReason, ScriptedModel, ToolCall};
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// Three parcels with weights; the answer doubles them in column C.
fn rows(weights: [u32; 3], answers: Option<[u32; 3]>) -> String {
    let cell = |place: &str, value: u32| format!(r#"<c r="{place}"><v>{value}</v></c>"#);
    let text =
        |place: &str, text: &str| format!(r#"<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>"#);
    let mut rows = format!(
        r#"<row r="1">{}{}{}</row>"#,
        text("A1", "parcel"),
        text("B1", "weight"),
        text("C1", "double")
    );
    for (index, weight) in weights.into_iter().enumerate() {
        let row = index + 2;
        let answer = answers.map(|answers| cell(&format!("C{row}"), answers[index])).unwrap_or_default();
        rows.push_str(&format!(
            r#"<row r="{row}">{}{}{answer}</row>"#,
            text(&format!("A{row}"), &format!("P{row}")),
            cell(&format!("B{row}"), weight)
        ));
    }
    rows
}

fn write(path: &Path, weights: [u32; 3], is_answer: bool) {
    let answers = is_answer.then(|| weights.map(|weight| 2 * weight));
    let rows = rows(weights, answers);
    let formats = Vec::new();
    fs::write(path, Book { sheets: vec![("Parcels", &rows)], formats }.bytes()).unwrap();
}

/// A data set of three tasks, each with two cases.
fn data() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for id in ["1", "2", "3"] {
        let folder = dir.path().join("spreadsheet").join(id);
        fs::create_dir_all(&folder).unwrap();
        for (case, weights) in [("1", [1, 2, 3]), ("2", [10, 20, 35])] {
            write(&folder.join(format!("{case}_{id}_input.xlsx")), weights, false);
            write(&folder.join(format!("{case}_{id}_answer.xlsx")), weights, true);
        }
        let task = json!({
            "id": id, "instruction": "Put twice the weight of each parcel into column C.",
            "instruction_type": "Cell-Level Manipulation", "answer_position": "C2:C4",
            "spreadsheet_path": format!("spreadsheet/{id}"),
        });
        lines.push_str(&format!("{task}\n"));
    }
    fs::write(dir.path().join("dataset.jsonl"), lines).unwrap();
    dir
}

fn config(dir: &Path) -> SpreadsheetConfig {
    let split = RatioSplit { ratio: SplitRatio::Shares([1, 1, 1]), ..RatioSplit::default() };
    SpreadsheetConfig {
        splitting: Splitting::PartsOrRatio(split),
        mode: Mode::Single,
        compare: Compare::Strict,
        ..SpreadsheetConfig::new(dir)
    }
}

const RIGHT: &str = "import openpyxl\nbook = openpyxl.load_workbook(INPUT_PATH)\nsheet = book.active\n\
    for row in range(2, sheet.max_row + 1):\n    sheet.cell(row, 3).value = 2 * sheet.cell(row, 2).value\n\
    book.save(OUTPUT_PATH)";
/// Right in the first case alone.
const FIXED: &str = "import openpyxl\nbook = openpyxl.load_workbook('input.xlsx')\nsheet = book.active\n\
    for row, value in zip((2, 3, 4), (2, 4, 6)):\n    sheet.cell(row, 3).value = value\nbook.save('output.xlsx')";
const FORMULAS: &str = "import openpyxl\nbook = openpyxl.load_workbook(INPUT_PATH)\nsheet = book.active\n\
    for row in range(2, sheet.max_row + 1):\n    sheet.cell(row, 3).value = f'=2*B{row}'\nbook.save(OUTPUT_PATH)";
const UNCHANGED: &str = "import shutil\nshutil.copy(INPUT_PATH, OUTPUT_PATH)";

fn fenced(code: &str) -> ChatReply {
    says(&format!("Here it is.\n\n```python\n{code}\n```"))
}

fn calls(tool: &str, arguments: serde_json::Value) -> ChatReply {
    let call =
        ToolCall { id: format!("call-{tool}"), name: tool.to_owned(), arguments: arguments.to_string() };
    ChatReply::new("", Usage::default(), FinishReason::ToolCalls).with_tool_calls(vec![call])
}

/// What a model that replies in turn comes to in an item of a split, and what it was asked.
async fn play(
    env: &SpreadsheetEnv,
    split: Split,
    replies: Vec<ChatReply>,
) -> (RolloutResult, Vec<ChatRequest>) {
    let model = Fixed::replying(replies);
    let item = &env.items(split)[0];
    let skill = SkillDoc::new("Read the header first.");
    let result = env.rollout(item, &skill, &model, &RolloutCtx::default()).await.unwrap();
    let asked = model.requests();
    check_requests(&result.trajectory, &asked);
    (result, asked)
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn a_program_is_scored_by_all_cases() {
    let dir = data();
    let config = config(dir.path());
    let env = SpreadsheetEnv::load(config).unwrap();
    for (code, hard, soft, reason) in [
        (RIGHT, 1.0, 1.0, ""),
        (FIXED, 0.0, 0.5, ": Parcels!C2: got 2, expected 20"),
        (UNCHANGED, 0.0, 0.0, "Parcels!C2: got empty, expected 2"),
        ("raise ValueError('no')", 0.0, 0.0, "ValueError: no"),
        ("pass", 0.0, 0.0, "without a workbook"),
        ("open(OUTPUT_PATH, 'w').write('a,b')", 0.0, 0.0, "not a workbook"),
        ("import os; os.mkfifo(OUTPUT_PATH)", 0.0, 0.0, "without a workbook"),
        (
            "import shutil\nshutil.copy(INPUT_PATH.replace('input', 'answer'), OUTPUT_PATH)",
            0.0,
            0.0,
            "No such file",
        ),
        ("import socket\nsocket.create_connection(('127.0.0.1', 1))", 0.0, 0.0, "refused"),
    ] {
        let (result, _) = play(&env, Split::Train, vec![fenced(code)]).await;
        assert_eq!((result.hard, result.soft), (hard, soft), "{code}: {}", result.fail_reason);
        assert!(result.fail_reason.contains(reason), "{code}: {}", result.fail_reason);
    }
    let (result, _) = play(&env, Split::Train, vec![says("I cannot do that.")]).await;
    assert_eq!(result.hard, 0.0);
    insta::assert_snapshot!(result.fail_reason, @"the reply has no program");
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn formulas_are_calculated_unless_nobody_asks_for_it() {
    let dir = data();
    let config = config(dir.path());
    let never = SpreadsheetConfig { recalculate: Recalculate::Never, ..config.clone() };
    let env = SpreadsheetEnv::load(never).unwrap();
    let (result, _) = play(&env, Split::Train, vec![fenced(FORMULAS)]).await;
    assert_eq!(result.hard, 0.0);
    assert!(result.fail_reason.contains("formulas without a stored value"), "{}", result.fail_reason);
    let env = SpreadsheetEnv::load(config).unwrap();
    let (result, _) = play(&env, Split::Train, vec![fenced(FORMULAS)]).await;
    assert_eq!(result.hard, 1.0, "{}", result.fail_reason);
}

/// An image with `sh`, `tar`, Python with openpyxl, and LibreOffice; and the program of the engine.
const IMAGE: &str = "SKILLRL_SPREADSHEET_IMAGE";
const ENGINE: &str = "SKILLRL_SANDBOX_ENGINE";

#[tokio::test]
#[ignore = "needs a container engine: SKILLRL_SPREADSHEET_IMAGE"]
async fn formulas_are_calculated_in_containers() {
    let Ok(image) = std::env::var(IMAGE) else {
        println!("not compared: {IMAGE} names no image");
        return;
    };
    let engine = std::env::var(ENGINE).unwrap_or_else(|_| "docker".to_owned());
    let container = ContainerConfig { engine, image, runtime: None, flags: Vec::new() };
    let dir = data();
    let config = SpreadsheetConfig { sandbox: SandboxChoice::Container(container), ..config(dir.path()) };
    let described = describe_programs(&config).unwrap();
    assert!(described.calculates, "{described:?}");
    // Both versions are read from the image.
    assert!(!described.lines.iter().any(|line| line.contains('?')), "{described:?}");
    let env = SpreadsheetEnv::load(config).unwrap();
    let (result, _) = play(&env, Split::Train, vec![fenced(FORMULAS)]).await;
    assert_eq!(result.hard, 1.0, "{}", result.fail_reason);
}

/// The conversation as one text.
fn conversation(requests: &[ChatRequest]) -> String {
    let last = requests.last().unwrap();
    let lines = last.messages.iter().map(|message| format!("--- {:?}\n{}", message.role, message.text()));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn rounds_show_errors_then_the_result() {
    let dir = data();
    let config = SpreadsheetConfig { mode: Mode::Multi, max_rounds: 6, ..config(dir.path()) };
    let env = SpreadsheetEnv::load(config).unwrap();
    let replies = vec![
        says("First I think about it."),
        fenced("print('so far')\nraise ValueError('no such column')"),
        fenced(RIGHT),
        says("DONE"),
    ];
    let (result, asked) = play(&env, Split::Val, replies).await;
    assert_eq!((result.hard, result.n_turns), (1.0, 4), "{}", result.fail_reason);
    insta::assert_snapshot!("spreadsheet_rounds", conversation(&asked));
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn only_training_tells_which_cells_are_wrong_and_never_what_is_right() {
    let dir = data();
    let config =
        SpreadsheetConfig { mode: Mode::Multi, review_rounds: 0, feedback_rounds: 2, ..config(dir.path()) };
    let env = SpreadsheetEnv::load(config).unwrap();
    let (result, asked) = play(&env, Split::Train, vec![fenced(UNCHANGED), fenced(RIGHT)]).await;
    assert_eq!((result.hard, asked.len()), (1.0, 2));
    let told = asked[1].messages.last().unwrap().text();
    assert!(told.contains("Parcels!C2: got empty") && !told.contains("expected"), "{told}");
    for split in [Split::Val, Split::Test] {
        let (result, asked) = play(&env, split, vec![fenced(UNCHANGED), fenced(RIGHT)]).await;
        assert_eq!((result.hard, asked.len()), (0.0, 1));
    }
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn tools_write_read_and_run() {
    let dir = data();
    let config = SpreadsheetConfig { mode: Mode::Tools, ..config(dir.path()) };
    let env = SpreadsheetEnv::load(config).unwrap();
    let replies = vec![
        calls("read_file", json!({"path": "input.xlsx"})),
        calls(
            "write_file",
            json!({"path": "look.py", "content": "print(INPUT_PATH)\nopen('note.txt', 'w').write('kept')"}),
        ),
        calls("run_python", json!({"path": "look.py"})),
        calls("read_file", json!({"path": "note.txt"})),
        calls("write_file", json!({"path": "../x", "content": "x"})),
        calls("write_file", json!({"path": "solution.py", "content": RIGHT})),
        calls("run_python", json!({"path": "solution.py"})),
        says("It is done."),
    ];
    let (result, asked) = play(&env, Split::Train, replies).await;
    assert_eq!((result.hard, result.n_turns), (1.0, 8), "{}", result.fail_reason);
    insta::assert_snapshot!("spreadsheet_tools", conversation(&asked));
    let (result, _) = play(&env, Split::Train, vec![says("It is done.")]).await;
    assert_eq!(result.hard, 0.0);
    insta::assert_snapshot!(result.fail_reason, @"the agent wrote no solution.py");
}

#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn a_finished_program_is_not_run_again() {
    let dir = data();
    let cache = dir.path().join("cache");
    let config = SpreadsheetConfig { cache: Some(cache.clone()), ..config(dir.path()) };
    let code = "import time\nopen(OUTPUT_PATH, 'w').write(str(time.time()))";
    let mut kept = Vec::new();
    for _ in 0..2 {
        // As another process would load it.
        let env = SpreadsheetEnv::load(config.clone()).unwrap();
        let (result, _) = play(&env, Split::Train, vec![fenced(code)]).await;
        assert_eq!(result.hard, 0.0);
        let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(&cache)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        kept.push(files);
    }
    assert_eq!(kept[0], kept[1]);
    assert_eq!(kept[0].len(), 2, "one for each case");
}

/// What runs of the same files in a directory of tools come to is kept too, with all files that they leave.
#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn programs_that_tools_ran_are_not_run_again() {
    let dir = data();
    let cache = dir.path().join("cache");
    let config = SpreadsheetConfig { mode: Mode::Tools, cache: Some(cache), ..config(dir.path()) };
    let look = "import time\nopen('note.txt', 'w').write(str(time.time_ns()))";
    let mut notes = Vec::new();
    for _ in 0..2 {
        let env = SpreadsheetEnv::load(config.clone()).unwrap();
        let replies = vec![
            calls("write_file", json!({"path": "look.py", "content": look})),
            calls("run_python", json!({"path": "look.py"})),
            calls("read_file", json!({"path": "note.txt"})),
            says("It is done."),
        ];
        let (_, asked) = play(&env, Split::Train, replies).await;
        notes.push(asked.last().unwrap().messages.last().unwrap().text());
    }
    assert!(notes[0].len() > 10 && notes[0].bytes().all(|byte| byte.is_ascii_digit()), "{}", notes[0]);
    assert_eq!(notes[0], notes[1]);
}

#[test]
fn tasks_that_cannot_be_judged_are_left_out_and_named() {
    let dir = data();
    let broken = json!({
        "id": 4, "instruction": "x", "instruction_type": "Sheet-Level Manipulation",
        "answer_position": "Gone!A1", "spreadsheet_path": "spreadsheet/3",
    });
    let path = dir.path().join("dataset.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<String> = [
        json!({"answer_position": "Gone!A1"}),
        json!({"answer_position": "C2:"}),
        json!({"answer_position": ""}),
        json!({"spreadsheet_path": "nowhere"}),
    ]
    .iter()
    .enumerate()
    .map(|(index, change)| {
        let mut task = broken.clone();
        task["id"] = json!(10 + index);
        task["answer_position"] = json!("C2:C4");
        for (name, value) in change.as_object().unwrap() {
            task[name] = value.clone();
        }
        task.to_string()
    })
    .collect();
    fs::write(&path, format!("{text}{}\n", lines.join("\n"))).unwrap();
    let env = SpreadsheetEnv::load(config(dir.path())).unwrap();
    let n_items: usize = Split::ALL.iter().map(|split| env.items(*split).len()).sum();
    assert_eq!((n_items, env.faults().len()), (3, 4));
    assert!(env.faults().iter().all(|fault| matches!(fault, EnvError::BadLine { .. })));
}

/// Adds a task with one case of these files.
fn add_task(dir: &Path, id: u32, position: &str, files: [(&str, &[u8]); 2]) {
    let folder = dir.join("spreadsheet").join(id.to_string());
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let task = json!({
        "id": id, "instruction": "x", "instruction_type": "Cell-Level Manipulation",
        "answer_position": position, "spreadsheet_path": format!("spreadsheet/{id}"),
    });
    let path = dir.join("dataset.jsonl");
    fs::write(&path, format!("{}{task}\n", fs::read_to_string(&path).unwrap())).unwrap();
}

/// What no program can work on, or no answer can be judged by, is told before anything is paid for.
#[test]
fn workbooks_that_cannot_be_used_are_left_out_and_named() {
    let dir = data();
    let folder = dir.path().join("spreadsheet/1");
    let [input, answer] =
        ["1_1_input.xlsx", "1_1_answer.xlsx"].map(|name| fs::read(folder.join(name)).unwrap());
    let compound = |name: &str| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        [&[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1][..], &name].concat()
    };
    let (old, encrypted) = (compound("Workbook"), compound("EncryptedPackage"));
    let right = "C2:C4";
    add_task(
        dir.path(),
        10,
        right,
        [("1_10_input.xlsx", &input[..input.len() / 2]), ("1_10_answer.xlsx", &answer)],
    );
    add_task(
        dir.path(),
        11,
        right,
        [("1_11_input.xlsx", &input), ("1_11_answer.xlsx", &answer[..answer.len() / 2])],
    );
    add_task(dir.path(), 12, right, [("1_12_input.xls", &old), ("1_12_answer.xlsx", &answer)]);
    add_task(dir.path(), 13, right, [("1_13_input.xlsx", &encrypted), ("1_13_answer.xlsx", &answer)]);
    add_task(dir.path(), 14, right, [("1_14_input.xlsx", &input), ("1_14_answer.xlsx", &encrypted)]);
    add_task(dir.path(), 15, right, [("1_15_input.xlsx", b"a,b\n1,2\n"), ("1_15_answer.xlsx", &answer)]);
    add_task(dir.path(), 16, "E7:F9", [("1_16_input.xlsx", &input), ("1_16_answer.xlsx", &answer)]);
    // Macros are never run, and nobody misses them in values.
    add_task(dir.path(), 17, right, [("1_17_input.xlsm", &input), ("1_17_answer.xlsm", &answer)]);
    // To empty cells is a task like others.
    add_task(dir.path(), 18, right, [("1_18_input.xlsx", &answer), ("1_18_answer.xlsx", &input)]);
    let env = SpreadsheetEnv::load(config(dir.path())).unwrap();
    let mut ids: Vec<&str> =
        Split::ALL.iter().flat_map(|split| env.items(*split)).map(|item| item.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["1", "17", "18", "2", "3"]);
    let lines = env.faults().iter().map(|fault| match fault {
        EnvError::BadLine { line, message, .. } => (*line, message.contains("spreadsheet/")),
        other => panic!("{other:?}"),
    });
    // Each with its line and its file.
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    assert_eq!(lines, (4..=10).map(|line| (line, true)).collect::<Vec<_>>());
}

/// Plays a Python that has openpyxl, and whose programs copy their input.
#[cfg(unix)]
const COPYING: &str = r#"#!/bin/sh
case "$2" in
  *sys.executable*) echo "[\"$0\", \"/usr\", \"/usr\"]";;
  *openpyxl.__version__*) echo "3.11.2 3.1.0";;
  *) cp input.xlsx output.xlsx;;
esac
"#;

/// A score of a workbook that changed under a run would be of another task.
#[tokio::test]
#[cfg(unix)]
async fn a_workbook_that_changes_under_a_run_is_an_error_and_no_score() {
    for changed in ["1_1_input.xlsx", "1_1_answer.xlsx"] {
        let dir = data();
        let python = dir.path().join("python");
        fs::write(&python, COPYING).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        let config = SpreadsheetConfig {
            sandbox: SandboxChoice::Off,
            python: Some(python),
            recalculate: Recalculate::Never,
            ..config(dir.path())
        };
        let env = SpreadsheetEnv::load(config).unwrap();
        let model = ScriptedModel::from_fn("agent", |_, _| Ok(fenced(UNCHANGED)));
        let mut splits = Split::ALL.into_iter().flat_map(|split| env.items(split));
        let item = splits.find(|item| item.id.as_str() == "1").unwrap();
        let skill = SkillDoc::default();
        let result = env.rollout(item, &skill, &model, &RolloutCtx::default()).await.unwrap();
        assert_eq!(result.hard, 0.0);
        write(&dir.path().join("spreadsheet/1").join(changed), [4, 5, 6], changed.contains("answer"));
        let outcome = env.rollout(item, &skill, &model, &RolloutCtx::default()).await;
        assert!(matches!(outcome, Err(EnvError::Configuration { .. })), "{changed}: {outcome:?}");
    }
}

/// Without a Python that has openpyxl no model is asked.
#[tokio::test]
#[cfg(unix)]
async fn what_programs_lack_is_told_before_anything_is_paid_for() {
    let dir = data();
    let python = dir.path().join("python");
    fs::write(&python, "#!/bin/sh\necho begun >>\"${0%/*}/starts\"\nexit 1\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let config =
        SpreadsheetConfig { sandbox: SandboxChoice::Off, python: Some(python), ..config(dir.path()) };
    let env = SpreadsheetEnv::load(config).unwrap();
    let model = ScriptedModel::from_fn("agent", |_, _| panic!("the agent was asked"));
    let item = &env.items(Split::Train)[0];
    for _ in 0..2 {
        let outcome = env.rollout(item, &SkillDoc::default(), &model, &RolloutCtx::default()).await;
        assert!(matches!(outcome, Err(EnvError::Configuration { .. })), "{outcome:?}");
    }
    // What is missing for one task is missing for all, and is looked for once.
    assert_eq!(fs::read_to_string(dir.path().join("starts")).unwrap(), "begun\n");
}

/// The data set's splits are lists of ids, beside tasks in no list.
#[test]
fn splits_are_made_by_lists_of_ids() {
    let dir = data();
    for (split, ids) in [("train", "[\"1\"]"), ("val", "[\"3\"]"), ("test", "[\"2\"]")] {
        fs::create_dir_all(dir.path().join("splits")).unwrap();
        fs::write(dir.path().join(format!("splits/{split}.json")), ids).unwrap();
    }
    let config =
        SpreadsheetConfig { splitting: Splitting::Ids(dir.path().join("splits")), ..config(dir.path()) };
    let env = SpreadsheetEnv::load(config).unwrap();
    let ids: Vec<&str> = Split::ALL.iter().map(|split| env.items(*split)[0].id.as_str()).collect();
    assert_eq!(ids, ["1", "3", "2"]);
}

/// Real tasks with programs written for them by hand: right, and the same program without its effect.
#[tokio::test]
#[ignore = "needs bwrap, openpyxl and LibreOffice: cargo xtask check sandbox"]
async fn real_tasks_with_a_right_program_are_solved_and_with_a_wrong_one_are_not() {
    let data = Path::new(&std::env::var_os("SKILLRL_CONFORMANCE").unwrap()).join("../data/spreadsheets");
    let config = SpreadsheetConfig {
        mode: Mode::Single,
        compare: Compare::Official,
        splitting: config(&data).splitting,
        ..SpreadsheetConfig::new(&data)
    };
    let env = SpreadsheetEnv::load(config).unwrap();
    let solutions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spreadsheet/solutions");
    let mut wrong = Vec::new();
    let mut n_tasks = 0;
    for entry in fs::read_dir(solutions).unwrap() {
        let path = entry.unwrap().path();
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let item = Split::ALL
            .iter()
            .flat_map(|split| env.items(*split))
            .find(|item| item.id.as_str() == id)
            .unwrap();
        n_tasks += 1;
        for (code, expect) in [(fs::read_to_string(&path).unwrap().as_str(), 1.0), (UNCHANGED, 0.0)] {
            let reply = fenced(code);
            let model = ScriptedModel::from_fn("agent", move |_, _| Ok(reply.clone()));
            let result =
                env.rollout(item, &SkillDoc::default(), &model, &RolloutCtx::default()).await.unwrap();
            // Of several cases an untouched workbook may be right in some.
            if result.hard != expect {
                wrong.push(format!("{id}: {} and not {expect}: {}", result.hard, result.fail_reason));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{n_tasks} real tasks");
    assert!(n_tasks >= 10);
}
