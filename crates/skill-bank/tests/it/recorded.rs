//! Recorded data of the reference: where it lies, and how many rows of it were compared.

#[path = "../../../skill-train/tests/it/recorded/counted.rs"]
mod counted;

pub(crate) use counted::Counted;

use crate::support::conformance;
use serde_json::Value;
use std::path::PathBuf;

/// The folder of the recorded data.
pub(crate) fn folder() -> PathBuf {
    let root = std::env::var_os("SKILLRL_CONFORMANCE").unwrap();
    PathBuf::from(root).join("skillbank")
}

/// A file of the recorded data.
pub(crate) fn file(name: &str) -> Value {
    serde_json::from_str(&conformance(name)).unwrap()
}

/// The rows of one list of a file.
pub(crate) fn rows(name: &str, list: &str) -> Vec<Value> {
    file(name)[list].take().as_array().unwrap().clone()
}

/// The types of an official bank, in the order of the file.
pub(crate) fn bank_types(bank: &str) -> Vec<String> {
    let bank = file(&format!("banks/{bank}.json"));
    let types = bank.get("task_specific_skills").or_else(|| bank.get("query_type_skills"));
    types.unwrap().as_object().unwrap().keys().cloned().collect()
}
