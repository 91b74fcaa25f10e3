//! Streams and session files as records.

use serde_json::Value;
use skill_core::python_json;

/// How many starts of a value are tried in one line.
const MAX_STARTS: usize = 8;

/// The objects of a text, one in each line, over several lines or in lists, and the number of lines that are none.
///
/// Banners, progress lines and torn lines are counted and passed over; objects within a torn line are no records.
pub(crate) fn records(text: &str) -> (Vec<Value>, usize) {
    let (mut records, mut n_other) = (Vec::new(), 0);
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
        let (line, after) = rest.split_at(end);
        let trimmed = line.trim_start_matches('\u{feff}').trim();
        if trimmed.is_empty() || take(whole(trimmed), &mut records) {
            rest = after;
            continue;
        }
        let starts = line.match_indices(['{', '[']).map(|(at, _)| at);
        let n_starts = if trimmed.starts_with('{') { 1 } else { MAX_STARTS };
        let found = starts.take(n_starts).find_map(|start| {
            let (value, length) = value_at(rest.get(start..)?)?;
            take(Some(value), &mut records).then_some(start + length)
        });
        n_other += usize::from(found.is_none());
        rest = found.map_or(after, |end| rest.get(end..).unwrap_or_default());
    }
    (records, n_other)
}

/// A line that is one value; JavaScript writes escapes of half a character, which is not JSON here.
fn whole(line: &str) -> Option<Value> {
    let value = serde_json::from_str(line).ok();
    value.or_else(|| serde_json::from_str(&python_json::plain(line)).ok())
}

/// The value that a text starts with, and its length.
fn value_at(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Keeps an object, or the objects of a list; false if there is none.
fn take(value: Option<Value>, records: &mut Vec<Value>) -> bool {
    let n_before = records.len();
    match value {
        Some(Value::Array(values)) => records.extend(values.into_iter().filter(Value::is_object)),
        Some(value @ Value::Object(_)) => records.push(value),
        _ => {}
    }
    records.len() > n_before
}

#[cfg(test)]
mod tests {
    use super::records;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(text: &str, expect: Value, n_other: usize) {
        let (found, other) = records(text);
        assert_eq!((Value::from(found), other), (expect, n_other), "{text}");
    }

    #[test]
    fn objects_are_found_between_whatever_else_is_printed() {
        let two = json!([{"a": 1}, {"b": 2}]);
        check("{\"a\": 1}\n{\"b\": 2}\n", two.clone(), 0);
        check("\u{feff}{\"a\": 1}\r\n\r\n{\"b\": 2}\r\n", two.clone(), 0);
        check("[{\"a\": 1}, 7, {\"b\": 2}]", two.clone(), 0);
        check("[\n  {\"a\": 1},\n  {\"b\": 2}\n]\n", two.clone(), 0);
        check("{\n  \"a\": 1\n}\n{\"b\": 2}", two.clone(), 0);
        check("Now using node v22\n[hook] {ready} {\"a\": 1}\n{\"b\": 2}\nbye\n", two.clone(), 2);
        check("\u{1b}]0;title\u{7}{\"a\": 1}\n{\"b\": 2}", two.clone(), 0);
        check("{hook}\n{\"a\": 1}\n{\"b\": 2}\n{done}", two.clone(), 2);
        check("loading\r{\"a\": 1}\n[not JSON]\n{\"b\": 2}", two, 1);
    }

    #[test]
    fn torn_lines_are_passed_over_as_a_whole() {
        check("{\"a\": 1}\n{\"b\": {\"type\": \"result\"}, \"c", json!([{"a": 1}]), 1);
        check("{\"b\": {\"type\": \"result\"}\n{\"a\": 1}", json!([{"a": 1}]), 1);
        check("{\"a\": \"\\ud83d\"}", json!([{"a": "\u{fffd}"}]), 0);
        check("", json!([]), 0);
    }
}
