//! Recorded data: where they lie, how their numbers are compared, and how many cases there were.
//!
//! `$SKILLRL_CONFORMANCE/weights` if the variable is set, else what `tests/data/weights` holds of it.

mod counted;

pub(crate) use counted::Counted;

use serde_json::Value;
use std::path::PathBuf;

/// A file of the recorded data.
pub(crate) fn path(name: &str) -> PathBuf {
    match std::env::var_os("SKILLRL_CONFORMANCE") {
        Some(root) => PathBuf::from(root).join("weights").join(name),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/weights").join(name),
    }
}

pub(crate) fn text(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap()
}

/// A number, or one of the texts `nan`, `inf` and `-inf`.
pub(crate) fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some(text) => text.parse().unwrap(),
        None => value.as_f64().unwrap_or_else(|| panic!("not a number: {value}")),
    }
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

pub(crate) fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value.as_array().unwrap().iter().map(numbers).collect()
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

/// The allowed difference from a recorded number.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) relative: f64,
    pub(crate) absolute: f64,
}

#[track_caller]
pub(crate) fn close(ours: f64, recorded: f64, tolerance: Tolerance, what: &str) {
    let allowed = tolerance.relative * recorded.abs() + tolerance.absolute;
    assert!((ours - recorded).abs() <= allowed, "{what}: {ours} is not {recorded} (allowed {allowed})");
}
