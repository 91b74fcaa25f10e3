//! What was recorded from the reference system: its files, and how they are compared with ours.

use serde_json::Value;
use std::path::Path;

/// The JSON files of a folder of `tests/data/`, by name.
pub(crate) fn read_files(folder: &str) -> Vec<(String, Value)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        })
        .collect()
}

/// Equal, numbers to 1e-9; the order of keys does not matter.
pub(crate) fn is_same(ours: &Value, recorded: &Value) -> bool {
    match (ours, recorded) {
        (Value::Number(ours), Value::Number(recorded)) => {
            ours == recorded || (ours.as_f64().unwrap() - recorded.as_f64().unwrap()).abs() <= 1e-9
        }
        (Value::Array(ours), Value::Array(recorded)) => {
            ours.len() == recorded.len()
                && ours.iter().zip(recorded).all(|(ours, recorded)| is_same(ours, recorded))
        }
        (Value::Object(ours), Value::Object(recorded)) => {
            ours.len() == recorded.len()
                && ours
                    .iter()
                    .all(|(key, ours)| recorded.get(key).is_some_and(|recorded| is_same(ours, recorded)))
        }
        _ => ours == recorded,
    }
}
