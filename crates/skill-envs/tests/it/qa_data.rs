//! Data files of the `qa` environment: what is understood, and what is said about what is not.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::files::files;
use crate::said::Said;
use skill_core::{SplitRatio, SplitRule};
use skill_envs::qa::{QaConfig, QaEnv, QaItem, QaSettings};
use skill_envs::{Env, EnvError, Split};
use std::error::Error as _;
use std::path::Path;

const TRAIN: &str = r#"{"id": "t1", "question": "q", "answers": ["a"]}"#;
const VAL: &str = r#"{"id": "v1", "question": "q", "answers": ["a"]}"#;
const TEST: &str = r#"{"id": "s1", "question": "q", "answers": ["a"]}"#;

/// The error with the temporary directory left out.
fn told(error: &EnvError, directory: &Path) -> String {
    let text = error.to_string();
    let prefix = format!("{}{}", directory.display(), std::path::MAIN_SEPARATOR);
    text.replace(&prefix, "").replace(&directory.display().to_string(), "DIR").replace('\\', "/")
}

/// Loads one file of this name in this directory, split 1:1:1.
fn load_in(directory: &tempfile::TempDir, name: &str) -> Result<QaEnv, EnvError> {
    let config = QaConfig { split_ratio: [1, 1, 1].into(), ..QaConfig::new(directory.path().join(name)) };
    QaEnv::load(&config)
}

/// Loads one file of this name, split 1:1:1.
fn load_one(name: &str, bytes: impl AsRef<[u8]>) -> Result<QaEnv, String> {
    let directory = files(&[(name, bytes)]);
    load_in(&directory, name).map_err(|error| {
        assert!(!error.is_retryable() && !error.hint().is_empty());
        told(&error, directory.path())
    })
}

fn ids(env: &QaEnv, split: Split) -> Vec<String> {
    env.items(split).iter().map(|item| item.id.to_string()).collect()
}

fn all_ids(env: &QaEnv) -> Vec<String> {
    let mut all: Vec<String> = Split::ALL.into_iter().flat_map(|split| ids(env, split)).collect();
    all.sort();
    all
}

/// An item that must be refused, on the second line of a file and as the second element of an array.
#[track_caller]
fn check_bad_item(said: &mut Said, item: &str, names: &[&str]) {
    let lines = format!("{TRAIN}\n{item}\n{VAL}\n{TEST}\n");
    let array = format!("[\n{TRAIN},\n\n {item},\n{VAL}, {TEST}]");
    let directory = files(&[("qa.jsonl", lines), ("qa.json", array)]);
    let message = match load_in(&directory, "qa.jsonl").unwrap_err() {
        EnvError::BadLine { line: 2, message, .. } => message,
        other => panic!("{other:?}"),
    };
    match load_in(&directory, "qa.json").unwrap_err() {
        EnvError::BadElement { element: 2, line: 4, message: of_array, .. } => assert_eq!(of_array, message),
        other => panic!("{other:?}"),
    }
    said.add(&message, names);
}

#[test]
fn a_bad_item_is_named_with_its_place() {
    let mut said = Said::default();
    check_bad_item(&mut said, "17", &[]);
    check_bad_item(&mut said, "null", &[]);
    check_bad_item(&mut said, "[1]", &[]);
    check_bad_item(&mut said, "\"x\"", &[]);
    check_bad_item(&mut said, "true", &[]);
    check_bad_item(&mut said, "{}", &["`id`"]);
    check_bad_item(&mut said, r#"{"id": null}"#, &["`id`"]);
    check_bad_item(&mut said, r#"{"id": " "}"#, &["`question`"]);
    check_bad_item(&mut said, r#"{"id": " ", "question": "q", "answer": "a"}"#, &["`id`"]);
    check_bad_item(&mut said, r#"{"id": "a\nb", "question": "q", "answer": "a"}"#, &["`id`"]);
    check_bad_item(&mut said, r#"{"id": ["x"]}"#, &["`id`"]);
    check_bad_item(&mut said, r#"{"id": 1.5}"#, &["`id`", "64"]);
    check_bad_item(&mut said, r#"{"id": "x", "answers": ["a"]}"#, &["`question`"]);
    check_bad_item(&mut said, r#"{"id": "x", "question": 1}"#, &["`question`"]);
    check_bad_item(&mut said, r#"{"id": "x", "question": " \t", "answers": ["a"]}"#, &["`question`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn an_item_without_a_usable_answer_is_refused() {
    let mut said = Said::default();
    let mut check = |answers: &str, names: &[&str]| {
        check_bad_item(&mut said, &format!(r#"{{"id": "x", "question": "q"{answers}}}"#), names);
    };
    check("", &["`answers`"]);
    check(r#", "answers": null"#, &["`answers`"]);
    check(r#", "answers": []"#, &["`answers`"]);
    check(r#", "answers": """#, &["`answers`"]);
    check(r#", "answers": ["a", " "]"#, &["`answers`"]);
    check(r#", "answers": ["a", null]"#, &["`answers[1]`"]);
    check(r#", "answers": [["a"]]"#, &["`answers[0]`"]);
    check(r#", "answers": {"text": "a"}"#, &["`answers`"]);
    check(r#", "answer": true"#, &["`answer`"]);
    check(r#", "answer": 1e300"#, &["`answer`"]);
    check(r#", "answer": 9500000000000000.5"#, &["`answer`"]);
    check(r#", "answer": "a", "context": ["c"]"#, &["`context`"]);
    check(r#", "answer": "a", "task_type": 3"#, &["`task_type`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn the_same_id_twice_is_named_with_both_places() {
    let mut said = Said::default();
    let lines = format!("{TRAIN}\n\n{VAL}\n{TRAIN}\n");
    said.add(
        &load_one("qa.jsonl", lines.as_bytes()).unwrap_err(),
        &["qa.jsonl, line 4", "`t1`", "qa.jsonl, line 1"],
    );
    let array = format!("[{TRAIN},\n{VAL},\n{TRAIN}]");
    said.add(
        &load_one("qa.json", array.as_bytes()).unwrap_err(),
        &["qa.json", "element 3", "line 3", "`t1`", "element 1", "line 1"],
    );
    // A number and a string that read the same are the same id.
    let lines = "{\"id\": 7, \"question\": \"q\", \"answer\": \"a\"}\n{\"id\": \"7\", \"question\": \"q\", \"answer\": \"a\"}";
    said.add(&load_one("qa.jsonl", lines.as_bytes()).unwrap_err(), &["qa.jsonl", "line 2", "`7`", "line 1"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn malformed_files_are_named_with_the_line() {
    let mut said = Said::default();
    #[track_caller]
    fn check(said: &mut Said, name: &str, bytes: impl AsRef<[u8]>, names: &[&str]) {
        said.add(&load_one(name, bytes).unwrap_err(), names);
    }
    check(
        &mut said,
        "qa.jsonl",
        format!("{TRAIN}\n{{\"id\": \"é\" 1}}"),
        &["qa.jsonl", "line 2", "`,`", "`}`", "column 12"],
    );
    check(&mut said, "qa.jsonl", format!("{TRAIN}\r\n{{\"id\":\r\n"), &["qa.jsonl", "line 2", "column 7"]);
    check(&mut said, "qa.jsonl", format!("{TRAIN} {VAL}"), &["qa.jsonl", "line 1", "column 49"]);
    check(&mut said, "qa.json", format!("{TRAIN}\n{VAL}\n"), &["qa.json", "line 2", "column 1"]);
    check(&mut said, "qa.json", "[\n{\"id\": }]", &["qa.json", "line 2", "column 8"]);
    check(&mut said, "qa.json", "{\"items\": []}", &["qa.json"]);
    let deep = format!("[{}", "[".repeat(10_000));
    check(&mut said, "qa.json", deep, &["qa.json", "line 1", "recursion limit"]);
    check(
        &mut said,
        "qa.jsonl",
        [TRAIN.as_bytes(), b"\n{\"id\": \"\xff\"}"].concat(),
        &["qa.jsonl", "line 2", "8"],
    );
    check(&mut said, "qa.json", b"[\xff", &["qa.json", "line 1", "8"]);
    check(&mut said, "qa.json", b"\xff\xfe[", &["qa.json", "line 1", "16"]);
    check(&mut said, "qa.txt", TRAIN, &["qa.txt"]);
    check(&mut said, "qa", TRAIN, &["qa"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn empty_data_is_named() {
    let mut said = Said::default();
    said.add(&load_one("qa.jsonl", b"").unwrap_err(), &["qa.jsonl"]);
    said.add(&load_one("qa.jsonl", b"\xef\xbb\xbf\r\n \n").unwrap_err(), &["qa.jsonl"]);
    said.add(&load_one("qa.json", b" \n").unwrap_err(), &["qa.json"]);
    said.add(&load_one("qa.json", b"[ ]").unwrap_err(), &["qa.json"]);
    let error = load_one("qa.jsonl", format!("{TRAIN}\n{VAL}").as_bytes()).unwrap_err();
    said.add(&error, &["qa.jsonl", "2 items", "1:1:1", "`test`", "`split_ratio`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn directories_that_do_not_hold_the_three_parts() {
    let mut said = Said::default();
    let mut check = |parts: &[(&str, &str)], names: &[&str]| {
        let directory = files(parts);
        let Err(error) = QaEnv::load(&QaConfig::new(directory.path())) else { panic!("{parts:?} is taken") };
        said.add(&told(&error, directory.path()), names);
    };
    check(&[], &["`train`", "train.jsonl", "train.csv"]);
    check(
        &[("train.jsonl", TRAIN), ("val.jsonl", VAL), ("valid/items.json", "[]"), ("test.jsonl", TEST)],
        &["`val`", "val.jsonl"],
    );
    check(&[("train.jsonl", TRAIN), ("val/notes.txt", ""), ("test.jsonl", TEST)], &[]);
    check(&[("train.jsonl", TRAIN), ("val.jsonl", "\n"), ("test.jsonl", TEST)], &["val.jsonl", "`val`"]);
    check(
        &[("train.jsonl", TRAIN), ("val.jsonl", VAL), ("test/items.json", "[]")],
        &["test/items.json", "`test`"],
    );
    check(
        &[("train.jsonl", TRAIN), ("val.jsonl", VAL), ("test.json", &format!("[{TEST},\n{TRAIN}]"))],
        &["test.json", "element 2", "line 2", "`t1`", "train.jsonl", "line 1"],
    );
    check(&[("train", TRAIN), ("val.jsonl", VAL), ("test.jsonl", TEST)], &[]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn what_is_not_there_cannot_be_read() {
    let directory = files(&[("file.jsonl", "")]);
    for name in ["missing.jsonl", "missing", "file.jsonl/below"] {
        let path = directory.path().join(name);
        let error = QaEnv::load(&QaConfig::new(&path)).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read {}", path.display()));
        assert!(error.source().is_some());
        assert!(!error.is_retryable());
    }
}

#[track_caller]
fn check_directory(parts: &[(&str, &str)]) {
    let env = QaEnv::load(&QaConfig::new(files(parts).path())).unwrap();
    assert_eq!(Split::ALL.map(|split| ids(&env, split)), [["t1"], ["v1"], ["s1"]]);
}

#[test]
fn directories_with_the_three_parts() {
    let [train, val, test] = [TRAIN, VAL, TEST].map(|item| format!("[{item}]"));
    check_directory(&[("train.jsonl", TRAIN), ("val.jsonl", VAL), ("test.jsonl", TEST)]);
    check_directory(&[("train.json", &train), ("valid.json", &val), ("test.JSON", &test)]);
    check_directory(&[("train/items.json", &train), ("validation/x.jsonl", VAL), ("test.jsonl", TEST)]);
    check_directory(&[("train.jsonl", TRAIN), ("selection.jsonl", VAL), ("valid_unseen.jsonl", TEST)]);
    check_directory(&[
        ("train.jsonl", TRAIN),
        ("valid_seen.jsonl", VAL),
        ("test/items.json", &test),
        ("test/README.md", "not data"),
        ("test/._items.json", "left by a file manager"),
        ("split_manifest.json", "{}"),
        (".train.json", "left by an editor"),
        ("notes.txt", "not a part"),
    ]);
}

#[test]
fn one_file_is_split_by_the_ratio() {
    let lines: Vec<String> =
        (0..20).map(|n| format!(r#"{{"id": "q{n:02}", "question": "q", "answer": "a"}}"#)).collect();
    let directory = files(&[("qa.jsonl", lines.join("\n"))]);
    let env = QaEnv::load(&QaConfig::new(directory.path().join("qa.jsonl"))).unwrap();
    assert_eq!(Split::ALL.map(|split| env.items(split).len()), [7, 7, 6]);
    let config =
        QaConfig { split_ratio: [2, 1, 7].into(), ..QaConfig::new(directory.path().join("qa.jsonl")) };
    let env = QaEnv::load(&config).unwrap();
    assert_eq!(Split::ALL.map(|split| env.items(split).len()), [4, 2, 14]);
    assert_eq!(all_ids(&env), (0..20).map(|n| format!("q{n:02}")).collect::<Vec<_>>());

    let config =
        QaConfig { split_ratio: [0, 0, 0].into(), ..QaConfig::new(directory.path().join("qa.jsonl")) };
    let mut said = Said::default();
    said.add(&told(&QaEnv::load(&config).unwrap_err(), directory.path()), &["`split_ratio`", "0:0:0"]);
    let config = QaConfig { split_ratio: [u32::MAX, 0, u32::MAX].into(), ..config };
    said.add(&told(&QaEnv::load(&config).unwrap_err(), directory.path()), &["qa.jsonl", "20 items", "`val`"]);
    insta::assert_snapshot!(said.text());
}

#[test]
fn every_form_of_an_item_is_understood() {
    let lines = "\u{feff}{\"id\": \"a\", \"question\": \"q\", \"answers\": [\"x\", 2, 2.5, -1]}\r\n\
                 \r\n   \n\
                 {\"id\": 7, \"question\": \" q \", \"answers\": \"one\", \"answer\": \"not used\"}\r\n\
                 {\"id\": -3, \"question\": \"q\", \"answers\": null, \"answer\": [1.0], \"context\": \"c\\n\", \
                 \"task_type\": \"t\", \"year\": 1e-7, \"nested\": {\"k\": [null]}}";
    let env = load_one("qa.jsonl", lines.as_bytes()).unwrap();
    assert_eq!(all_ids(&env), ["-3", "7", "a"]);
    let question = |id: &str| env.question(&id.into()).unwrap();
    assert_eq!(question("a"), QaItem::new("a", "q", ["x", "2", "2.5", "-1"]));
    assert_eq!(question("7"), QaItem::new("7", " q ", ["one"]));
    let last =
        QaItem { context: "c\n".to_owned(), task_type: "t".to_owned(), ..QaItem::new("-3", "q", ["1.0"]) };
    assert_eq!(question("-3"), last);

    let items: Vec<_> = Split::ALL.into_iter().flat_map(|split| env.items(split)).collect();
    let item = items.into_iter().find(|item| item.id.as_str() == "-3").unwrap();
    assert_eq!(item.task_type, "t");
    assert_eq!(item.data["nested"], serde_json::json!({"k": [null]}));
    assert_eq!(item.data["id"], serde_json::json!(-3));
}

#[test]
fn items_of_a_program_are_checked_too() {
    #[track_caller]
    fn check(train: Vec<QaItem>, test: Vec<QaItem>, settings: QaSettings, message: &str) {
        let error = QaEnv::from_items(train, Vec::new(), test, settings).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert!(!error.is_retryable());
    }
    let item = |id: &str| QaItem::new(id, "q", ["a"]);
    let default = QaSettings::default;
    check(
        vec![item("x")],
        vec![item("x")],
        default(),
        "item `x`: the id occurs twice; ids are unique over all splits",
    );
    check(vec![item("")], Vec::new(), default(), "item ``: `id` is blank");
    check(vec![QaItem::new("x", "\n", ["a"])], Vec::new(), default(), "item `x`: `question` is blank");
    check(
        vec![QaItem::new("x", "q", [""; 0])],
        Vec::new(),
        default(),
        "item `x`: has no answer; `answers` must hold at least one",
    );
    check(
        vec![QaItem::new("x", "q", [" "])],
        Vec::new(),
        default(),
        "item `x`: has a blank answer in `answers`; leave it out",
    );
    let settings = QaSettings { max_tokens: Some(0), ..default() };
    check(vec![item("x")], Vec::new(), settings, "`max_tokens` is 0; expected at least 1, or none");
}

#[test]
fn an_item_of_a_program_can_be_written_and_read_again() {
    let full =
        QaItem { context: "c".to_owned(), task_type: "t".to_owned(), ..QaItem::new("x", "q", ["a", "b"]) };
    let bare = QaItem::new("y", "q", ["a"]);
    let env = QaEnv::from_items(vec![full, bare], Vec::new(), Vec::new(), QaSettings::default()).unwrap();
    let [full, bare] = env.items(Split::Train) else { unreachable!("two items") };
    assert_eq!(full.task_type, "t");
    let lines = format!("{}\n{}\n{TEST}", full.data, bare.data);
    let again = load_one("qa.jsonl", lines.as_bytes()).unwrap();
    for item in [full, bare] {
        assert_eq!(again.question(&item.id), env.question(&item.id));
    }
}

#[test]
fn a_configuration_is_read_with_its_defaults() {
    let config: QaConfig = serde_json::from_str(r#"{"data": "d"}"#).unwrap();
    assert_eq!(config, QaConfig::new("d"));
    assert_eq!((config.split_ratio, config.split_seed), (SplitRatio::Auto, 42));
    assert_eq!(config.split_rule, SplitRule::Float);
    let with_unknown_key = r#"{"data": "d", "ratio": [1, 1, 1]}"#;
    assert!(serde_json::from_str::<QaConfig>(with_unknown_key).is_err());
}

#[test]
fn a_data_set_for_runs_that_read_no_test_split_may_do_without_one() {
    let directory = files(&[("train.jsonl", TRAIN), ("val.jsonl", VAL)]);
    let mut config = QaConfig::new(directory.path());
    assert!(QaEnv::load(&config).is_err());
    config.test_is_optional = true;
    let env = QaEnv::load(&config).unwrap();
    assert_eq!(env.items(Split::Test), []);
    assert!(!env.items(Split::Val).is_empty());
}
