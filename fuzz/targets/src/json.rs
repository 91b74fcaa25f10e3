//! JSON out of any text.

use serde_json::Value;
use skill_core::json::{MAX_DEPTH, extract, extract_json, read_object, read_patch};

/// Reads a model's reply in every way: nothing is made up, and what was read is read the same again.
pub fn json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let found = extract_json(&text);
    assert_eq!(found, extract_json(&text));
    if let Some(value) = &found {
        check_size(&text, value);
    }
    if let Some(extracted) = extract(&text, |_| true) {
        check_size(&text, &extracted.value);
    }
    if let Some(extracted) = read_object(&text, "edits") {
        check_size(&text, &extracted.value);
        assert!(extracted.value.get("edits").is_some());
    }
    let reply = read_patch(&text);
    match (&reply.patch, &reply.value) {
        (Some(patch), Some(value)) => {
            check_size(&text, value);
            // An edit has at least its two braces, or is a string.
            assert!(patch.edits.len() <= text.len(), "{} edits of {} bytes", patch.edits.len(), text.len());
        }
        (Some(_), None) => panic!("a patch out of nothing"),
        (None, _) => assert!(!reply.notes.is_empty(), "no patch, and nobody says why"),
    }
    // What is nothing but an object is that object, but for backslashes that a model did not double.
    let has_short_escape = ["\\b", "\\f", "\\n", "\\r", "\\t"].iter().any(|escape| text.contains(escape));
    if let Ok(whole @ Value::Object(_)) = serde_json::from_str::<Value>(&text)
        && !has_short_escape
    {
        assert_eq!(found, Some(whole));
    }
}

/// A value has no more nodes and no more text than what it was read from.
fn check_size(text: &str, value: &Value) {
    let (n_nodes, n_bytes) = size(value, 0);
    assert!(n_nodes <= text.len(), "{n_nodes} nodes out of {} bytes", text.len());
    assert!(n_bytes <= text.len(), "{n_bytes} bytes out of {} bytes: {value}", text.len());
}

/// Nodes, and bytes of strings and keys.
fn size(value: &Value, depth: usize) -> (usize, usize) {
    assert!(depth <= MAX_DEPTH, "nested too deep");
    let sum = |(nodes, bytes): (usize, usize), (more, text): (usize, usize)| (nodes + more, bytes + text);
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (1, 0),
        Value::String(text) => (1, text.len()),
        Value::Array(values) => values.iter().map(|value| size(value, depth + 1)).fold((1, 0), sum),
        Value::Object(members) => {
            let of_member = |(key, value): (&String, &Value)| sum((0, key.len()), size(value, depth + 1));
            members.iter().map(of_member).fold((1, 0), sum)
        }
    }
}
