//! Data as other programs save it: encodings, JSON and cells of Python, hints for Excel, choices of the Hub.

use crate::files::files;
use serde_json::{Value, json};
use skill_envs::folder::{FolderError, has_byte_order_mark, read_folder, write_folder};
use skill_envs::score::ChoiceBy;
use skill_envs::tasks::{FieldNames, NamedPrompt, ScorerConfig, Splitting, TasksConfig, TasksEnv};
use skill_envs::{Env as _, EnvError, Item, Split};
use std::path::Path;

fn utf16(text: &str) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// Questions and exact answers.
pub(crate) fn config(path: &Path) -> TasksConfig {
    let mut config = TasksConfig::new(path);
    let source = "{% block system %}{{ skill }}{% endblock %}{% block user %}{{ question }}{% endblock %}";
    config.settings.prompt = Some(NamedPrompt { name: "user_prompt".to_owned(), source: source.to_owned() });
    config.settings.scorer = ScorerConfig::Exact { ignore_case: false };
    config
}

/// All records of a file as items.
fn load(name: &str, bytes: &[u8], change: impl FnOnce(&mut TasksConfig)) -> Result<Vec<Item>, EnvError> {
    let dir = files(&[(name, bytes)]);
    let mut config = config(&dir.path().join(name));
    config.splitting = Splitting::Field("split".to_owned());
    change(&mut config);
    let env = TasksEnv::load(&config)?;
    Ok(Split::ALL.into_iter().flat_map(|split| env.items(split).to_vec()).collect())
}

const JSONL: &str = "{\"id\": \"a\", \"question\": \"Q\u{e9}\", \"answer\": \"1\", \"split\": \"train\"}\n\
                     {\"id\": \"b\", \"question\": \"Q\", \"answer\": \"2\", \"split\": \"val\"}\n\
                     {\"id\": \"c\", \"question\": \"Q\", \"answer\": \"3\", \"split\": \"test\"}\n";
const CSV: &str = "id,question,answer,split\na,Q\u{e9},1,train\nb,Q,2,val\nc,Q,3,test\n";

#[test]
fn data_is_read_in_every_encoding_with_a_mark() {
    let array = format!("[{}]", JSONL.trim().replace('\n', ","));
    for (name, text) in [("d.jsonl", JSONL), ("d.json", &array), ("d.csv", CSV)] {
        let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
        for bytes in [text.as_bytes().to_vec(), marked, utf16(text)] {
            let items = load(name, &bytes, |_| {}).unwrap();
            let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
            assert_eq!(ids, ["a", "b", "c"], "{name}");
            assert_eq!(items[0].data["question"], "Q\u{e9}", "{name}");
        }
        let latin: Vec<u8> = text.chars().map(|char| u8::try_from(u32::from(char)).unwrap()).collect();
        let fault = load(name, &latin, |_| {}).unwrap_err();
        let line = if name == "d.csv" { 2 } else { 1 };
        assert!(matches!(&fault, EnvError::BadLine { line: found, .. } if *found == line), "{fault}");
    }
}

#[test]
fn lists_of_ids_are_read_in_every_encoding_with_a_mark() {
    for encode in [|text: &str| [b"\xef\xbb\xbf", text.as_bytes()].concat(), utf16] {
        let lists = [("s/train.txt", "a\r\n"), ("s/val.json", "[\"b\"]"), ("s/test.csv", "id\nc\n")];
        let lists = lists.map(|(name, text)| (name, encode(text)));
        let mut all: Vec<(&str, &[u8])> =
            lists.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
        all.push(("d.jsonl", JSONL.as_bytes()));
        let dir = files(&all);
        let mut config = config(&dir.path().join("d.jsonl"));
        config.splitting = Splitting::Ids(dir.path().join("s"));
        let env = TasksEnv::load(&config).unwrap();
        let ids = Split::ALL.map(|split| env.items(split)[0].id.to_string());
        assert_eq!(ids, ["a", "b", "c"]);
    }
}

#[test]
fn a_skill_has_no_mark_and_neither_has_its_folder() {
    let main = "---\nname: a\n---\n# A\n";
    let with_mark = [b"\xef\xbb\xbf", main.as_bytes()].concat();
    let dir = files(&[("a/SKILL.md", &with_mark), ("a/references/b.md", &utf16("# B\n"))]);
    let package = read_folder(&dir.path().join("a")).unwrap();
    assert!(has_byte_order_mark(&dir.path().join("a")) && !has_byte_order_mark(dir.path()));
    assert_eq!(package.main, main);
    assert_eq!(package.references["references/b.md"], "# B\n");
    write_folder(&dir.path().join("out"), &package).unwrap();
    assert!(std::fs::read(dir.path().join("out/SKILL.md")).unwrap().starts_with(b"---"));
    let dir = files(&[("a/SKILL.md", b"# A\n\xe9\n")]);
    let fault = read_folder(&dir.path().join("a")).unwrap_err();
    assert!(matches!(fault, FolderError::NotText { fault, .. } if fault.line() == 2), "{fault:?}");
}

/// A line of the three splits, with a field in place of `answer`.
fn rows(fields: &str) -> String {
    let row = |split: &str| format!("{{\"question\": \"Q\", {fields}, \"split\": \"{split}\"}}\n");
    ["train", "val", "test"].map(row).concat()
}

#[test]
fn json_of_python_is_read() {
    let first =
        |fields: &str| load("d.jsonl", rows(fields).as_bytes(), |_| {}).map(|items| items[0].data.clone());
    let data = first(r#""answer": "1", "score": NaN, "range": [-Infinity, Infinity]"#).unwrap();
    assert_eq!((&data["score"], &data["range"]), (&Value::Null, &json!([null, null])));
    assert!(matches!(first(r#""answer": NaN"#).unwrap_err(), EnvError::BadLine { line: 1, .. }));
    assert_eq!(first(r#""answer": "a\ud83d""#).unwrap()["answer"], "a\u{fffd}");
    let digits = "340282366920938463463374607431768211455";
    assert_eq!(first(&format!("\"answer\": {digits}")).unwrap()["answer"], digits);
    let ids = "{\"id\": 340282366920938463463374607431768211455, \"question\": \"Q\", \"answer\": 1, \"split\": \"train\"}\n";
    let rest = JSONL.split_once('\n').unwrap().1;
    let items = load("d.jsonl", format!("{ids}{rest}").as_bytes(), |_| {}).unwrap();
    assert_eq!(items[0].id.as_str(), digits);
}

#[test]
fn a_line_for_excel_names_the_delimiter() {
    for (hint, delimiter) in
        [("sep=;", ";"), ("\"sep=;\"", ";"), ("SEP=|", "|"), ("sep=\t", "\t"), ("sep=,", ",")]
    {
        let text = format!("{hint}\r\n{}", CSV.replace(',', delimiter).replace('\n', "\r\n"));
        let items = load("d.csv", text.as_bytes(), |_| {}).unwrap();
        assert_eq!((items.len(), items[0].id.as_str()), (3, "a"), "{hint}");
    }
    let cut = CSV.replace(",val", "");
    let fault = load("d.csv", format!("sep=,\n{cut}").as_bytes(), |_| {}).unwrap_err();
    assert!(matches!(fault, EnvError::BadLine { line: 4, .. }), "{fault}");
    // A column may have such a name.
    let items = load("d.csv", CSV.replace("question", "sep=x").as_bytes(), |config| {
        config.settings.prompt = Some(NamedPrompt {
            name: "user_prompt".to_owned(),
            source: "{% block system %}{{ skill }}{% endblock %}{% block user %}{{ item }}{% endblock %}"
                .to_owned(),
        });
    });
    assert_eq!(items.unwrap().len(), 3);
}

fn by_choice(config: &mut TasksConfig) {
    config.settings.scorer = ScorerConfig::Choice { by: ChoiceBy::Label };
    config.fields = FieldNames::default();
}

#[test]
fn choices_may_be_two_lists() {
    for choices in [
        r#"{"text": ["red", "green"], "label": ["A", "B"]}"#,
        r#"{"text": ["red", "green"]}"#,
        r#""{'text': array(['red', 'green'], dtype=object), 'label': array(['A', 'B'], dtype=object)}""#,
        r#""['red' 'green']""#,
    ] {
        let fields = format!("\"choices\": {choices}, \"answerKey\": \"B\"");
        let items = load("d.jsonl", rows(&fields).as_bytes(), by_choice).unwrap();
        assert_eq!(items.len(), 3, "{choices}");
    }
    for choices in [r#"{"text": ["red", "green"], "label": ["A"]}"#, r#"{"text": ["red", {}]}"#, r#""red""#] {
        let fields = format!("\"choices\": {choices}, \"answerKey\": \"B\"");
        let fault = load("d.jsonl", rows(&fields).as_bytes(), by_choice).unwrap_err();
        assert!(matches!(fault, EnvError::BadLine { line: 1, .. }), "{choices}: {fault}");
    }
}
