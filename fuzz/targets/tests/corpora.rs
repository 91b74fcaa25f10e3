//! The corpora of the fuzz targets: whatever was found once holds from then on.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and names the file"
)]

use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

/// With fewer files a corpus is lost.
const MIN_FILES: usize = 10;

fn check(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(name);
    let mut n_files = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if let Err(payload) = catch_unwind(|| target(&bytes)) {
            eprintln!("this file breaks a promise: {}", path.display());
            resume_unwind(payload);
        }
        n_files += 1;
    }
    assert!(n_files >= MIN_FILES, "{n_files} files in {}", corpus.display());
}

#[test]
fn json() {
    check("json", fuzz_targets::json);
}

#[test]
fn editor() {
    check("editor", fuzz_targets::editor);
}

#[test]
fn journal() {
    check("journal", fuzz_targets::journal);
}

#[test]
fn run_dir() {
    check("run_dir", fuzz_targets::run_dir);
}

#[test]
fn shop() {
    check("shop", fuzz_targets::shop);
}

#[test]
fn alfworld_problem() {
    check("alfworld_problem", fuzz_targets::alfworld_problem);
}

#[test]
fn alfworld_commands() {
    check("alfworld_commands", fuzz_targets::alfworld_commands);
}

#[test]
fn agent_actions() {
    check("agent_actions", fuzz_targets::agent_actions);
}

#[test]
fn exec_protocol() {
    check("exec_protocol", fuzz_targets::exec_protocol);
}
