//! Lines of streams and session files as records.

use serde_json::Value;

/// The records of a text with one JSON value in each line, and the number of lines that are none.
///
/// Banners and torn lines are counted and passed over.
pub(crate) fn records(text: &str) -> (Vec<Value>, usize) {
    let (mut records, mut n_other) = (Vec::new(), 0);
    for line in text.split('\n') {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() {
            continue;
        }
        match serde_json::from_str::<Value>(line) {
            Ok(value @ Value::Object(_)) => records.push(value),
            _ => {
                match line.find('{').and_then(|start| line.get(start..)).map(serde_json::from_str::<Value>) {
                    // A progress line without a line end before it.
                    Some(Ok(value @ Value::Object(_))) => records.push(value),
                    _ => n_other += 1,
                }
            }
        }
    }
    (records, n_other)
}
