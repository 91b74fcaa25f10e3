//! Data from Parquet files and spreadsheets, as pyarrow, pandas and openpyxl wrote them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use skill_core::RatioSplit;
use skill_envs::tasks::{DataSample, DataSurvey, NamedPrompt, Splitting, TasksConfig, TasksEnv};
use skill_envs::{Env as _, EnvError, Split};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tables").join(name)
}

/// Rows are read with their types: the first row of each file.
#[track_caller]
fn check_first_row(name: &str, expect: &Value) {
    let sample = DataSample::read(&file(name)).unwrap();
    assert_eq!(&Value::Object(sample.fields), expect, "{name}");
}

#[test]
fn parquet_is_read_in_the_compressions_that_are_usual() {
    for compression in ["snappy", "zstd", "gzip", "none"] {
        check_first_row(
            &format!("{compression}.parquet"),
            &json!({
                "id": 1, "body": "Charged twice", "queue": "billing", "urgent": true, "amount": 12.5,
                "answers": ["billing", "Billing"], "meta": {"by": "web", "n": 1},
            }),
        );
    }
}

#[test]
fn spreadsheets_are_read_with_whole_numbers_truths_and_dates() {
    for name in ["tickets.xlsx", "tickets.ods"] {
        let sample = DataSample::read(&file(name)).unwrap();
        let expect =
            json!({"id": 1, "body": "Charged twice", "queue": "billing", "urgent": true, "amount": 12.5});
        let mut fields = sample.fields;
        let opened = fields.remove("opened").unwrap();
        assert!(opened.as_str().is_some_and(|text| text == "2026-03-01"), "{name}: {opened}");
        assert_eq!(Value::Object(fields), expect, "{name}");
    }
}

#[test]
fn an_environment_is_made_from_either() {
    for name in ["snappy.parquet", "tickets.xlsx"] {
        let mut config = TasksConfig::new(file(name));
        config.splitting = Splitting::PartsOrRatio(RatioSplit::default());
        config.fields.answer = Some("queue".to_owned());
        let source =
            "{% block system %}{{ skill }}{% endblock %}{% block user %}{{ body }}{% endblock %}".to_owned();
        config.settings.prompt = Some(NamedPrompt { name: "user_prompt".to_owned(), source });
        let env = TasksEnv::load(&config).unwrap();
        let n_items: usize = Split::ALL.map(|split| env.items(split).len()).into_iter().sum();
        assert_eq!(n_items, 3, "{name}");
    }
    let survey = DataSurvey::read(&file("tickets.xlsx"), Some("queue"), &BTreeMap::new()).unwrap();
    assert_eq!((survey.labels, survey.id_field), (None, None));
}

/// The error names the file, and the row where there is one.
#[track_caller]
fn check_error(path: &Path, line: Option<usize>, part: &str) {
    let error = DataSample::read(path).unwrap_err();
    let found = match &error {
        EnvError::BadLine { line, .. } => Some(*line),
        _ => None,
    };
    assert_eq!(found, line, "{error}");
    let said = skill_llm::error::with_causes(&error);
    assert!(said.contains(&path.display().to_string()) && said.contains(part), "{said}");
}

#[test]
fn what_is_no_table_is_named() {
    check_error(&file("twice.xlsx"), Some(1), "`body`");
    check_error(&file("unnamed.xlsx"), Some(1), "column 2");
    check_error(&file("empty.xlsx"), None, "sheet");
    check_error(&file("brotli.parquet"), Some(1), "brotli");
    let folder = tempfile::tempdir().unwrap();
    for name in ["cut.parquet", "cut.xlsx"] {
        let source = if name.ends_with("xlsx") { file("tickets.xlsx") } else { file("snappy.parquet") };
        let bytes = std::fs::read(source).unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        check_error(&path, None, "is not read as");
    }
}
