//! Spreadsheets and Parquet files whose cells mean something else than their values.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::foreign_files;
use crate::workbook::Book;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};
use skill_core::{RatioSplit, SplitRatio};
use skill_envs::tasks::{DataSample, Splitting, TasksConfig, TasksEnv};
use skill_envs::{Env as _, EnvError, Split};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A workbook of one sheet with these cells (XML) and number formats.
fn workbook(dir: &TempDir, cells: &str, formats: &[&str]) -> PathBuf {
    let path = dir.path().join("data.xlsx");
    let book = Book { formats: formats.to_vec(), ..Book::of(vec![("Data", cells)]) };
    std::fs::write(&path, book.bytes()).unwrap();
    path
}

fn text(place: &str, text: &str) -> String {
    format!(r#"<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>"#)
}

fn header() -> String {
    format!(r#"<row r="1">{}{}</row>"#, text("A1", "question"), text("B1", "answer"))
}

fn config(path: &Path) -> TasksConfig {
    let mut config = foreign_files::config(path);
    let ratio = SplitRatio::Shares([1, 1, 0]);
    config.splitting = Splitting::PartsOrRatio(RatioSplit { ratio, ..RatioSplit::default() });
    config.optional = vec![Split::Test];
    config
}

/// The answers of all items by the id of the item.
fn answers(config: &TasksConfig) -> Vec<(String, Value)> {
    let env = TasksEnv::load(config).unwrap();
    let field = config.fields.answer.as_deref().unwrap_or("answer");
    let items = Split::ALL.into_iter().flat_map(|split| env.items(split).iter());
    let mut answers: Vec<(String, Value)> =
        items.map(|item| (item.id.to_string(), item.data.get(field).cloned().unwrap_or_default())).collect();
    answers.sort_by(|left, right| left.0.cmp(&right.0));
    answers
}

#[test]
fn percentages_and_leading_zeros_are_what_the_sheet_shows() {
    let dir = tempfile::tempdir().unwrap();
    let cells = format!(
        r#"<row r="1">{}{}{}</row><row r="2"><c r="A2" s="1"><v>0.075</v></c><c r="B2" s="2"><v>123</v></c><c r="C2" s="3"><v>1234.5</v></c></row>"#,
        text("A1", "rate"),
        text("B1", "zip"),
        text("C1", "sum")
    );
    let path = workbook(&dir, &cells, &["0.0%", "00000", "#,##0.00"]);
    let fields = Value::Object(DataSample::read(&path).unwrap().fields);
    assert_eq!(fields, json!({"rate": "7.5%", "zip": "00123", "sum": 1234.5}));
}

#[test]
fn values_in_the_corners_of_a_sheet_are_two_cells() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (2..=3)
        .map(|row| {
            format!(
                r#"<row r="{row}">{}{}</row>"#,
                text(&format!("A{row}"), "q"),
                text(&format!("B{row}"), "a")
            )
        })
        .collect();
    let cells = format!(r#"{}{rows}<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>"#, header());
    let path = workbook(&dir, &cells, &[]);
    assert_eq!(answers(&config(&path)).len(), 2);
}

#[test]
fn a_cell_with_an_error_is_missing_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let row = |row: u32, answer: &str| {
        let (question, note) = (text(&format!("A{row}"), "q"), "<v>#SPILL!</v>");
        format!(r#"<row r="{row}">{question}{answer}<c r="C{row}" t="e">{note}</c></row>"#)
    };
    let header = format!(
        r#"<row r="1">{}{}{}</row>"#,
        text("A1", "question"),
        text("B1", "answer"),
        text("C1", "note")
    );
    let good = format!("{header}{}{}", row(2, &text("B2", "a")), row(3, &text("B3", "b")));
    let path = workbook(&dir, &good, &[]);
    let expect = [("data-1", "a"), ("data-2", "b")].map(|(id, answer)| (id.to_owned(), Value::from(answer)));
    assert_eq!(answers(&config(&path)), expect);
    let fields = DataSample::read(&path).unwrap().fields;
    assert_eq!(fields["note"], Value::Null);
    for error in ["#N/A", "#CALC!"] {
        let bad = format!(
            "{header}{}{}",
            row(2, &text("B2", "a")),
            row(3, &format!(r#"<c r="B3" t="e"><v>{error}</v></c>"#))
        );
        let path = workbook(&dir, &bad, &[]);
        let fault = TasksEnv::load(&config(&path)).err().unwrap();
        assert!(
            matches!(&fault, EnvError::BadLine { line: 3, message, .. } if message.contains(error)),
            "{fault}"
        );
    }
}

/// A file of `datasets` with questions and labels.
fn labelled(dir: &TempDir, labels: &[i64]) -> PathBuf {
    let features = json!({"info": {"features": {
        "question": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["no", "yes"], "_type": "ClassLabel"},
    }}});
    let schema = "message data { required binary question (UTF8); required int64 label; }";
    let described = KeyValue::new("huggingface".to_owned(), features.to_string());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![described])).build();
    let path = dir.path().join("labels.parquet");
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut file =
        SerializedFileWriter::new(File::create(&path).unwrap(), schema, Arc::new(properties)).unwrap();
    let mut group = file.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let questions: Vec<ByteArray> = labels.iter().map(|_| ByteArray::from("q")).collect();
    column.typed::<ByteArrayType>().write_batch(&questions, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int64Type>().write_batch(labels, None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();
    path
}

#[test]
fn rows_that_nobody_has_labelled_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let of_label = |labels: &[i64]| {
        let mut config = config(&labelled(&dir, labels));
        config.fields.answer = Some("label".to_owned());
        config
    };
    let expect = [("labels-2", "yes"), ("labels-4", "no")];
    let expect = expect.map(|(id, answer)| (id.to_owned(), Value::from(answer)));
    assert_eq!(answers(&of_label(&[-1, 1, -1, 0])), expect);
    for label in [2, -2] {
        let fault = TasksEnv::load(&of_label(&[0, 1, label])).err().unwrap();
        assert!(matches!(fault, EnvError::BadLine { line: 3, .. }), "{fault}");
    }
    assert!(TasksEnv::load(&of_label(&[-1, -1])).is_err());
}

/// A range of merged rows has one value for all of them; merged columns have a value in the first one only.
#[test]
fn merged_cells_are_filled_downwards_only() {
    let dir = tempfile::tempdir().unwrap();
    let cells = format!(
        r#"<row r="1">{}{}{}</row><row r="2">{}{}</row><row r="3">{}</row></sheetData><mergeCells count="1"><mergeCell ref="B2:C3"/></mergeCells><sheetData>"#,
        text("A1", "question"),
        text("B1", "answer"),
        text("C1", "note"),
        text("A2", "q1"),
        text("B2", "a"),
        text("A3", "q2"),
    );
    let path = workbook(&dir, &cells, &[]);
    let fields = DataSample::read(&path).unwrap().fields;
    assert_eq!(fields.get("note"), Some(&json!("")), "{fields:?}");
    let answers: Vec<Value> = answers(&config(&path)).into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(answers, ["a", "a"]);
}
