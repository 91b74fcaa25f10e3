//! Recorded data of the reference: where it lies, and how many rows of it were compared.

use crate::support::conformance;
use serde_json::Value;
use std::path::PathBuf;

/// Says at its end how many cases were compared, and fails if there were none.
pub(crate) struct Counted {
    what: &'static str,
    n_cases: usize,
}

impl Counted {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, n_cases: 0 }
    }

    pub(crate) fn add(&mut self) {
        self.n_cases += 1;
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            println!("{}: {} cases compared", self.what, self.n_cases);
            assert!(self.n_cases > 0, "{} has no cases", self.what);
        }
    }
}

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
