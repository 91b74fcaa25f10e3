//! Cells, positions and workbooks as the official comparison of SpreadsheetBench judged them.
//!
//! What was recorded of cells and positions is in `tests/data/spreadsheet/`; recorded workbooks and real tasks are read
//! from `SKILLRL_CONFORMANCE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, and names the case")]

use serde_json::Value as Json;
use skill_envs::spreadsheet::{
    Cell, Compare, Gold, GoldError, Got, Value, Workbook, WorkbookComparison, XlsxError, resolve,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn recorded() -> PathBuf {
    match std::env::var_os("SKILLRL_CONFORMANCE") {
        Some(root) => PathBuf::from(root).join("spreadsheets"),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spreadsheet"),
    }
}

/// A folder beside or in that of the recorded data.
fn conformance(folder: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("SKILLRL_CONFORMANCE").unwrap()).join(folder)
}

fn lines(path: &Path) -> Vec<Json> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A value as it was recorded.
fn value(recorded: &Json) -> Value {
    let Some((kind, inner)) = recorded.as_object().and_then(|object| object.iter().next()) else {
        return Value::Empty;
    };
    let text = inner.as_str().unwrap_or_default();
    match kind.as_str() {
        "int" => Value::Whole(text.into()),
        "float" => Value::Float(text.parse().unwrap()),
        "str" => Value::Text(text.into()),
        "bool" => Value::Bool(inner.as_bool().unwrap()),
        "datetime" | "date" | "time" => Value::of_iso(text).unwrap(),
        "duration_us" => Value::Duration(inner.as_i64().unwrap()),
        other => panic!("{other}"),
    }
}

#[test]
fn cells_count_as_equal_as_recorded() {
    let mut wrong = Vec::new();
    let cases = lines(&recorded().join("cells.jsonl"));
    for case in &cases {
        let [gold, got] = ["gold", "got"].map(|name| Cell::of(value(&case[name])));
        let official = Compare::Official.is_equal(&gold, &got);
        let expect = case["official"].as_bool();
        if official.ok() != expect {
            wrong.push(format!("{}: official {official:?}", case["id"]));
        }
        if let Some(right) = case.get("right").and_then(Json::as_bool)
            && Compare::Strict.is_equal(&gold, &got) != Ok(right)
        {
            wrong.push(format!("{}: strict is not {right}", case["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 185);
}

/// A workbook with empty sheets of these names.
fn empty_workbook(sheets: &[&str]) -> Arc<[u8]> {
    crate::workbook::Book::of(sheets.iter().map(|name| (*name, "")).collect()).bytes()
}

#[test]
fn positions_mean_what_was_recorded() {
    let mut wrong = Vec::new();
    let cases = lines(&recorded().join("ranges.jsonl"));
    for case in &cases {
        let names: Vec<&str> = case["sheets"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
        let workbook = Workbook::open(empty_workbook(&names)).unwrap();
        let position = case["answer_position"].as_str().unwrap();
        let parts = resolve(position, case["answer_sheet"].as_str(), workbook.sheets()).unwrap_or_default();
        let found: Vec<(&str, String)> =
            parts.iter().map(|part| (names[part.sheet], part.area.name())).collect();
        let expect: Vec<(&str, String)> = case["right"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| {
                let range = part["range"].as_str().unwrap();
                // A cell as a range of its own, and one that ends with its column.
                let range = match range {
                    "A1:A1" => "A1",
                    "A1:A" => "A:A",
                    other => other,
                };
                (part["sheet"].as_str().unwrap(), range.to_owned())
            })
            .collect();
        if found != expect {
            wrong.push(format!("{}: {position:?} is {found:?}, not {expect:?}", case["id"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 68);
}

/// The verdict on a workbook, read anew.
fn judge(gold: &Gold, got: &[u8], compare: Compare) -> (Option<Got>, WorkbookComparison) {
    match gold.read_answer(got.into(), compare) {
        Ok(got) => {
            let verdict = gold.judge(&got, compare);
            (Some(got), verdict)
        }
        Err(error) => (None, WorkbookComparison::unreadable(error)),
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_workbooks() {
    let root = conformance("spreadsheets");
    let cases = lines(&root.join("workbooks.jsonl"));
    let mut wrong = Vec::new();
    for case in &cases {
        let id = case["id"].as_str().unwrap();
        let read = |name: &str| fs::read(root.join(case[name].as_str().unwrap()));
        let position = case["answer_position"].as_str().unwrap();
        let right = case.get("right").and_then(Json::as_bool);
        let gold = match Gold::read(read("gold").unwrap().into(), position, None) {
            Ok(gold) => gold,
            Err(error) => {
                wrong.push(format!("{id}: {error}"));
                continue;
            }
        };
        let got = read("got").unwrap_or_default();
        let (read_got, official) = judge(&gold, &got, Compare::Official);
        // Where the official verdict is wrong its positions may be too, and those are read as they are meant.
        let is_wrong_position = case["group"] == "positions" && right.is_some();
        let expect = case["official"].as_bool().unwrap_or(false);
        if official.is_right != expect && !is_wrong_position && case["official"].is_boolean() {
            wrong.push(format!("{id}: official {}: {}", official.is_right, official.reason()));
        }
        let Some(right) = right else { continue };
        // What only a calculation shows is not known here.
        let (_, strict) = judge(&gold, &got, Compare::Strict);
        let is_open = read_got.is_some_and(|got| got.has_formulas());
        if strict.is_right != right && !is_open {
            wrong.push(format!("{id}: strict {}, not {right}: {}", strict.is_right, strict.reason()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Answers against themselves, untouched inputs and changed copies.
#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_real_tasks() {
    let root = conformance("../data/spreadsheets");
    let began = std::time::Instant::now();
    let mut wrong = Vec::new();
    let mut n_compared = 0;
    let tasks = lines(&root.join("dataset.jsonl"));
    let recorded = lines(&root.join("verdicts.jsonl"));
    for task in &tasks {
        let (position, sheet) = (task["answer_position"].as_str().unwrap(), task["answer_sheet"].as_str());
        for case in task["cases"].as_array().unwrap() {
            let bytes = |name: &str| fs::read(root.join(case[name].as_str().unwrap())).unwrap();
            let gold = Gold::read(bytes("answer").into(), position, sheet);
            let expect = task["resolved"].as_array().map(|parts| {
                let parts = parts.iter().map(|part| {
                    let range = part["range"].as_str().unwrap();
                    let range = match range.split_once(':') {
                        Some((first, last)) if first == last && first.contains(char::is_numeric) => first,
                        Some(_) | None => range,
                    };
                    format!("{}!{range}", part["sheet"].as_str().unwrap())
                });
                parts.collect::<Vec<_>>().join(", ")
            });
            let found = gold.as_ref().ok().map(Gold::position);
            if found != expect {
                wrong.push(format!("{}: {found:?}, not {expect:?}", task["id"]));
            }
            let Ok(gold) = gold else { continue };
            let verdicts =
                recorded.iter().find(|row| row["id"] == task["id"] && row["case"] == case["no"]).unwrap();
            for (name, got) in [("answer", bytes("answer")), ("untouched_input", bytes("input"))] {
                let Some(expect) = verdicts["official"][name].as_bool() else { continue };
                // Their positions name sheets that the official comparison does not look at, or does not find.
                if task["id"] == "13-1" || task["id"] == "49300" {
                    continue;
                }
                n_compared += 1;
                let (_, verdict) = judge(&gold, &got, Compare::Official);
                if verdict.is_right != expect {
                    wrong.push(format!("{} {name}: {}: {}", task["id"], verdict.is_right, verdict.reason()));
                }
            }
        }
    }
    let sheet_of = |id: &Json| tasks.iter().find(|task| &task["id"] == id).unwrap()["answer_sheet"].as_str();
    for row in lines(&root.join("perturbed/verdicts.jsonl")) {
        let Some(expect) = row["official"].as_bool() else { continue };
        let bytes = |name: &str| fs::read(root.join(row[name].as_str().unwrap())).unwrap();
        let gold =
            Gold::read(bytes("gold").into(), row["answer_position"].as_str().unwrap(), sheet_of(&row["id"]));
        let (_, verdict) = judge(&gold.unwrap(), &bytes("got"), Compare::Official);
        n_compared += 1;
        if verdict.is_right != expect {
            wrong.push(format!("{} {}: {}: {}", row["id"], row["name"], verdict.is_right, verdict.reason()));
        }
    }
    // With reading both workbooks, and in an unoptimized build.
    println!("{n_compared} comparisons in {:?}", began.elapsed());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_compared > 100);
}

#[test]
fn what_is_no_workbook_is_told_by_its_kind() {
    let open = |bytes: &[u8]| Workbook::open(bytes.into()).map(|_| ()).unwrap_err();
    assert!(matches!(open(b"a,b\n1,2\n"), XlsxError::Archive(_)));
    assert!(matches!(open(b""), XlsxError::Archive(_)));
    let half = empty_workbook(&["In"]);
    assert!(matches!(open(&half[..half.len() / 2]), XlsxError::Archive(_)));
    let gold = Gold::read(empty_workbook(&["In"]), "Gone!A1", None);
    assert!(matches!(gold, Err(GoldError::Position(_))));
}
