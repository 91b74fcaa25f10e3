//! Reads the records of one file.

use super::{Place, Record};
use crate::error::{EnvError, read_error};
use serde_json::{Map, Value};
use skill_core::member::kind_of;
use skill_core::python_json::{self, JsonFault};
use skill_llm::text_file::{self, Lines};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of one object holds its items in one of these members, as the original files of several benchmarks do.
const ITEMS_MEMBERS: [&str; 6] = ["data", "examples", "items", "instances", "records", "rows"];

/// The largest data file that is read: 1 GiB.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The format of a data file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// One array of objects.
    Json,
    /// One object a line.
    JsonLines,
    /// A header and one row a record, with this delimiter.
    Csv(u8),
    /// Apache Parquet; read with the cargo feature `tables`.
    Parquet,
    /// The first sheet of a workbook of Excel or OpenDocument; read with the cargo feature `tables`.
    Spreadsheet,
}

impl Format {
    /// The format of this file; `None` if the name says nothing.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        if extension.eq_ignore_ascii_case("json") {
            Some(Self::Json)
        } else if ["jsonl", "ndjson"].iter().any(|name| extension.eq_ignore_ascii_case(name)) {
            Some(Self::JsonLines)
        } else {
            Self::of_table(extension)
        }
    }

    fn of_table(extension: &OsStr) -> Option<Self> {
        if extension.eq_ignore_ascii_case("csv") {
            Some(Self::Csv(b','))
        } else if extension.eq_ignore_ascii_case("tsv") {
            Some(Self::Csv(b'\t'))
        } else if extension.eq_ignore_ascii_case("parquet") {
            Some(Self::Parquet)
        } else if ["xlsx", "xls", "xlsb", "ods"].iter().any(|name| extension.eq_ignore_ascii_case(name)) {
            Some(Self::Spreadsheet)
        } else {
            None
        }
    }
}

/// All records of a file, in order.
///
/// # Errors
///
/// A file that cannot be read, is not UTF-8, is not JSON, or holds something that is not an object.
pub(crate) fn read_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    let Some(format) = Format::of(path) else {
        let message = "the name must end in .jsonl (one item a line), .json (an array of items), .csv or .tsv (a header \
                       and rows), .parquet or .xlsx";
        return Err(EnvError::BadData { path: path.to_path_buf(), message: message.to_owned() });
    };
    let whole = |read: &dyn Fn(&str) -> Result<Vec<Record>, EnvError>| {
        read(&text_file::read_up_to(path, MAX_FILE_BYTES).map_err(|source| read_error(path, source))?)
    };
    match format {
        Format::Json => whole(&|text| json_records(path, text)),
        Format::JsonLines => json_lines_records(path),
        Format::Csv(delimiter) => whole(&|text| super::csv::csv_records(path, text, delimiter)),
        Format::Parquet | Format::Spreadsheet => table_records(path, format),
    }
}

/// The records of a file that is not a text.
#[cfg(feature = "tables")]
fn table_records(path: &Path, format: Format) -> Result<Vec<Record>, EnvError> {
    let n_bytes = std::fs::metadata(path).map_err(|source| read_error(path, source))?.len();
    if n_bytes > MAX_FILE_BYTES {
        return Err(super::bad_data(path, format!("has more than {MAX_FILE_BYTES} bytes")));
    }
    let records = match format {
        Format::Parquet => super::parquet::parquet_records(path)?,
        Format::Spreadsheet => super::spreadsheet::spreadsheet_records(path)?,
        Format::Json | Format::JsonLines | Format::Csv(_) => Vec::new(),
    };
    let tidy = |record: Record| Record { fields: without_spare_capacity(record.fields), ..record };
    Ok(records.into_iter().map(tidy).collect())
}

/// That this build does not read such files.
#[cfg(not(feature = "tables"))]
fn table_records(path: &Path, format: Format) -> Result<Vec<Record>, EnvError> {
    let (name, conversion) = match format {
        Format::Parquet => ("Parquet", "convert it to .jsonl"),
        _ => ("spreadsheets", "save it as CSV (UTF-8)"),
    };
    let message = format!(
        "{name} are read by builds with the cargo feature `tables`, which this build does not have; {conversion}"
    );
    Err(EnvError::BadData { path: path.to_path_buf(), message })
}

/// The records of a file that is never in memory whole.
fn json_lines_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    let fault = |source| read_error(path, source);
    let mut lines = Lines::open(path, MAX_FILE_BYTES).map_err(fault)?;
    let file = Arc::new(path.to_path_buf());
    let mut records = Vec::new();
    while let Some((line_number, line)) = lines.next_line().map_err(fault)? {
        if line.trim().is_empty() {
            continue;
        }
        let place = Place { file: Arc::clone(&file), line: line_number, element: None, stem: None };
        let value = python_json::read(&line).map_err(|fault| {
            place.error(format!("{}; a .jsonl file holds one whole object on each line", not_json(&fault)))
        })?;
        records.push(record(value, place)?);
    }
    Ok(records)
}

/// What is wrong with a text, where its line is told apart.
fn not_json(fault: &JsonFault) -> String {
    format!("is not JSON: {} at column {}", fault.message, fault.column)
}

fn json_records(path: &Path, text: &str) -> Result<Vec<Record>, EnvError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let value: Value = python_json::read(text).map_err(|fault| EnvError::BadLine {
        path: path.to_path_buf(),
        line: fault.line,
        message: format!(
            "{}; a .json file holds one array of items, a .jsonl file one item a line",
            not_json(&fault)
        ),
    })?;
    let file: Arc<PathBuf> = Arc::new(path.to_path_buf());
    let (elements, starts) = match value {
        Value::Array(elements) => (elements, element_lines(text, 1)),
        Value::Object(mut fields) if items_member_of(&fields).is_some() => {
            let name = items_member_of(&fields).unwrap_or_default();
            let elements = match fields.remove(name) {
                Some(Value::Array(elements)) => elements,
                Some(_) | None => Vec::new(),
            };
            let (line, inner) = items_member(text, name).unwrap_or((1, "[]"));
            (elements, element_lines(inner, line))
        }
        value => {
            return Err(EnvError::BadData {
                path: path.to_path_buf(),
                message: format!("is {} at its top, not an array of items", kind_of(&value)),
            });
        }
    };
    // The list that was found in the text may be another one: its key can be written with an escape, or twice. Then the
    // lines are not known, and the elements are those that were read.
    let starts = if starts.len() == elements.len() { starts } else { vec![1; elements.len()] };
    let numbered = elements.into_iter().zip(starts).enumerate();
    numbered
        .flat_map(|(element_idx, (value, line))| {
            let place = Place { file: Arc::clone(&file), line, element: Some(element_idx + 1), stem: None };
            questions_in(&value)
                .unwrap_or_else(|| vec![value])
                .into_iter()
                .map(move |value| record(value, place.clone()))
        })
        .collect()
}

/// The questions of an article as the original files of SQuAD nest them: `paragraphs` with a `context` and `qas`, each
/// question an item with the context and the title. `None` for an element of another form.
fn questions_in(article: &Value) -> Option<Vec<Value>> {
    let mut items = Vec::new();
    for paragraph in article.get("paragraphs")?.as_array()? {
        let context = paragraph.get("context")?;
        for question in paragraph.get("qas")?.as_array()? {
            let mut fields = question.as_object()?.clone();
            fields.insert("context".to_owned(), context.clone());
            if let Some(title) = article.get("title") {
                fields.insert("title".to_owned(), title.clone());
            }
            items.push(Value::Object(fields));
        }
    }
    Some(items)
}

fn record(value: Value, place: Place) -> Result<Record, EnvError> {
    match value {
        Value::Object(fields) => {
            Ok(Record { fields: without_spare_capacity(fields), place, missing: Vec::new() })
        }
        other => {
            Err(place.error(format!("an item must be an object {{..}}, but this is {}", kind_of(&other))))
        }
    }
}

/// The same fields in memory that they fill: a parser makes room for more, and items stay for the whole run.
fn without_spare_capacity(fields: Map<String, Value>) -> Map<String, Value> {
    fields
        .into_iter()
        .map(|(mut name, mut value)| {
            name.shrink_to_fit();
            match &mut value {
                Value::String(text) => text.shrink_to_fit(),
                Value::Array(elements) => elements.shrink_to_fit(),
                Value::Object(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
            (name, value)
        })
        .collect()
}

/// The member that holds the items of a file of one object: the list `data`, or a list of objects under another usual name.
pub fn items_member_of(fields: &Map<String, Value>) -> Option<&'static str> {
    ITEMS_MEMBERS.into_iter().find(|name| match fields.get(*name) {
        Some(Value::Array(items)) => *name == "data" || items.first().is_some_and(Value::is_object),
        _ => false,
    })
}

/// The array of a member with all that follows it, and the line at which it starts; the text is known to be a
/// JSON object.
fn items_member<'a>(text: &'a str, name: &str) -> Option<(usize, &'a str)> {
    let quoted = format!("\"{name}\"");
    let (mut line, mut depth) = (1, 0_usize);
    let (mut in_string, mut is_escaped, mut is_named) = (false, false, false);
    let mut string_start = 0;
    for (offset, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            if !in_string && depth == 1 {
                is_named = text.get(string_start..=offset) == Some(quoted.as_str());
            }
            continue;
        }
        match byte {
            b'\n' => line += 1,
            b'"' => (in_string, string_start) = (true, offset),
            b'[' if depth == 1 && is_named => return text.get(offset..).map(|array| (line, array)),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => is_named = false,
            _ => {}
        }
    }
    None
}

/// The line at which each element of the array starts, where the array starts at `line`; the text is known to begin
/// with a JSON array, and nothing behind that is looked at.
fn element_lines(text: &str, mut line: usize) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut depth = 0_usize;
    let (mut in_string, mut is_escaped, mut awaits_element) = (false, false, false);
    for byte in text.bytes() {
        if in_string {
            in_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        if depth == 1 && awaits_element && !byte.is_ascii_whitespace() && byte != b']' {
            lines.push(line);
            awaits_element = false;
        }
        match byte {
            b'\n' => line += 1,
            b'"' => in_string = true,
            b'[' | b'{' => {
                awaits_element |= depth == 0;
                depth += 1;
            }
            b']' | b'}' if depth == 1 => break,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' => awaits_element |= depth == 1,
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_element_lines(text: &str, expect: &[usize]) {
        assert_eq!(element_lines(text, 1), expect, "{text}");
        let elements: Vec<Value> = serde_json::from_str(text).unwrap();
        assert_eq!(elements.len(), expect.len(), "{text}");
    }

    #[test]
    fn nested_questions_are_items_with_their_context() {
        let text = r#"{"version": "1.1", "data": [{"title": "T", "paragraphs": [
            {"context": "C", "qas": [{"id": "a", "question": "q", "answers": []}, {"id": "b", "question": "r", "answers": []}]}]}]}"#;
        let records = json_records(Path::new("squad.json"), text).unwrap();
        let ids: Vec<&Value> = records.iter().map(|record| &record.fields["id"]).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!((&records[1].fields["context"], &records[1].fields["title"]), (&"C".into(), &"T".into()));
        let other = json_records(Path::new("a.json"), r#"[{"paragraphs": ["x"], "id": 1}]"#).unwrap();
        assert!(other[0].fields.contains_key("paragraphs"));
    }

    #[test]
    fn no_item_is_lost_where_its_line_is_not_known() {
        for text in [
            r#"{"d\u0061ta": [{"id": 1}, {"id": 2}]}"#,
            r#"{"data": [{"id": 9}], "data": [{"id": 1}, {"id": 2}]}"#,
            r#"{"data": 7, "data": [{"id": 1}, {"id": 2}]}"#,
        ] {
            let records = json_records(Path::new("a.json"), text).unwrap();
            let ids: Vec<&Value> = records.iter().map(|record| &record.fields["id"]).collect();
            assert_eq!(ids, [1, 2], "{text}");
        }
    }

    #[test]
    fn elements_are_found_where_they_start() {
        check_element_lines("[]", &[]);
        check_element_lines(" [ \n ] ", &[]);
        check_element_lines("[1, 2,\n3]", &[1, 1, 2]);
        check_element_lines("[\n{\"a\": [1, 2]},\n\n  {\"b\": {\"c\": 1, \"d\": 2}}\n]", &[2, 4]);
        let nested = "{\"a\": [1],\n\"data\":\n[1,\n2], \"b\": [3]}";
        let (line, array) = items_member(nested, "data").unwrap();
        assert_eq!((line, element_lines(array, line)), (3, vec![3, 4]));
        let hidden = r#"{"x": "\"data\": [", "y": {"data": [1]}, "data" : [5]}"#;
        assert_eq!(items_member(hidden, "data"), Some((1, "[5]}")));
        assert_eq!(items_member(r#"{"x": "data", "y": [1]}"#, "data"), None);
        check_element_lines(r#"["],[\"", "\\", [",\"]"], null]"#, &[1, 1, 1, 1]);
    }
}
