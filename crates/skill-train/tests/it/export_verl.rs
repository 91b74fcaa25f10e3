//! Parquet files for verl: what is written comes back, and bad files are named.

use crate::export::{conversations, file_fault, row_fault, tasks};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use skill_core::Role;
use skill_train::export::verl::{self, Source};
use skill_train::export::{FieldFault, Kind, Turn};
use std::sync::Arc;

fn source() -> Source {
    Source { data_source: "skillrl/games".into(), ability: "agent".into(), split: "train".into() }
}

/// Each row as the reader of the library shows it.
fn shown(file: Vec<u8>) -> Vec<String> {
    let reader = SerializedFileReader::new(bytes::Bytes::from(file)).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

#[test]
fn conversations_come_back_from_a_file() {
    let file = verl::messages(&conversations()).unwrap();
    let checked = verl::check(&file).unwrap();
    assert_eq!((checked.kind, checked.n_rows), (Kind::Messages, 2));
    let rows = shown(file);
    insta::assert_snapshot!(
        rows[1],
        @r#"{messages: [{role: "user", content: "2 + 2?"}, {role: "assistant", content: "4"}]}"#
    );
    let said = conversations()[0][1].content.clone();
    assert!(rows[0].contains(&said), "{}", rows[0]);
    assert_eq!(rows[0].matches("role:").count(), 5);
}

#[test]
fn prompts_come_back_from_a_file() {
    let file = verl::prompts(&tasks(), &source()).unwrap();
    let checked = verl::check(&file).unwrap();
    assert_eq!((checked.kind, checked.n_rows), (Kind::Prompts, 2));
    insta::assert_snapshot!(
        shown(file)[1],
        @r#"{data_source: "skillrl/games", prompt: [{role: "user", content: "2 + 2?"}], ability: "agent", reward_model: {style: "rule", ground_truth: "4"}, extra_info: {index: 1, split: "train", task_id: "t2"}}"#
    );
}

#[test]
fn what_verl_would_not_learn_from_is_refused() {
    assert_eq!(file_fault(verl::messages(&[]), "the file"), FieldFault::Empty);
    row_fault(verl::messages(&[vec![]]), (0, "messages"), &FieldFault::Empty);
    let blank = vec![Turn::new(Role::User, "a"), Turn::new(Role::Assistant, "")];
    row_fault(
        verl::messages(&[conversations()[1].clone(), blank]),
        (1, "messages"),
        &FieldFault::NothingToLearn,
    );
    let mut open = tasks();
    open[1].turns.truncate(0);
    row_fault(verl::prompts(&open, &source()), (1, "prompt"), &FieldFault::Empty);
    let mut open = tasks();
    open[0].turns.truncate(1);
    let misplaced = FieldFault::MisplacedRole { role: "system".into(), expected: "user or tool" };
    row_fault(verl::prompts(&open, &source()), (0, "prompt[0].role"), &misplaced);
    let nameless = Source { data_source: String::new(), ..source() };
    row_fault(verl::prompts(&tasks(), &nameless), (0, "data_source"), &FieldFault::Empty);
}

/// A file of one row with these columns of texts.
fn texts(columns: &[(&str, &str)]) -> Vec<u8> {
    let fields: String =
        columns.iter().map(|(name, _)| format!("REQUIRED BYTE_ARRAY {name} (STRING);")).collect();
    let schema = parse_message_type(&format!("message schema {{ {fields} }}")).unwrap();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Default::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (_, value) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&[ByteArray::from(*value)], None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn files_of_other_kinds_are_named() {
    assert!(matches!(file_fault(verl::check(b"PAR1 not"), "the file"), FieldFault::Unreadable(_)));
    let mut cut = verl::messages(&conversations()).unwrap();
    cut.truncate(cut.len() - 10);
    assert!(matches!(file_fault(verl::check(&cut), "the file"), FieldFault::Unreadable(_)));
    row_fault(verl::check(&texts(&[("text", "a")])), (0, "messages"), &FieldFault::Missing);
    row_fault(
        verl::check(&texts(&[("messages", "a")])),
        (0, "messages"),
        &FieldFault::NotA("a list of messages"),
    );
    row_fault(verl::check(&texts(&[("prompt", "a")])), (0, "data_source"), &FieldFault::Missing);
}
