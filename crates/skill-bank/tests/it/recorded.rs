//! Recorded data of the reference: where it lies, and how many rows of it were compared.

use serde_json::Value;
use std::path::PathBuf;

/// Says at its end how many cases were compared; without the recorded data it says that there were none.
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
        if std::thread::panicking() {
            return;
        }
        match folder() {
            None => println!("{}: nothing compared, SKILLRL_CONFORMANCE is not set", self.what),
            Some(_) => {
                println!("{}: {} cases compared", self.what, self.n_cases);
                assert!(self.n_cases > 0, "{} has no cases", self.what);
            }
        }
    }
}

/// The folder of the recorded data; `None` without the variable.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os("SKILLRL_CONFORMANCE").map(|root| PathBuf::from(root).join("skillbank"))
}

/// A file of the recorded data; `None` without the variable.
pub(crate) fn file(name: &str) -> Option<Value> {
    let path = folder()?.join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(serde_json::from_str(&text).unwrap())
}

/// The rows of one list of a file; none without the variable.
pub(crate) fn rows(name: &str, list: &str) -> Vec<Value> {
    file(name).map(|mut file| file[list].take().as_array().unwrap().clone()).unwrap_or_default()
}

/// The types of an official bank, in the order of the file.
pub(crate) fn bank_types(bank: &str) -> Vec<String> {
    let bank = file(&format!("banks/{bank}.json")).unwrap();
    let types = bank.get("task_specific_skills").or_else(|| bank.get("query_type_skills"));
    types.unwrap().as_object().unwrap().keys().cloned().collect()
}
