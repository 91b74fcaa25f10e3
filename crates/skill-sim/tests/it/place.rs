//! The place of the simulated models: only the facade and what is above it may use them, and nothing below knows the
//! worlds that they play in.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that must do without simulated models.
const WITHOUT: [&str; 6] =
    ["skill-core", "skill-llm", "skill-envs", "skill-bank", "skill-pipeline", "skill-report"];

/// Words of the demos' worlds and models, in lower case.
const DEMO_WORDS: [&str; 10] = [
    "alfworld",
    "clerk",
    "harbour",
    "household",
    "shopper",
    "simulatedagent",
    "simulatedoptimizer",
    "simulatedtarget",
    "skill_sim",
    "webshop",
];

/// The normal dependencies of a package with all its features, transitively, and the package itself.
fn dependencies(package: &str) -> Vec<String> {
    let tree = |is_offline: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["tree", "--package", package, "--all-features", "--edges", "normal", "--prefix", "none"])
            .args(["--format", "{p}"])
            .args(is_offline)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap()
    };
    // A build that has just run has everything that this needs; one without a lock file may have to look it up.
    let mut output = tree(&["--offline"]);
    if !output.status.success() {
        output = tree(&[]);
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

fn rust_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn nothing_below_the_facade_depends_on_simulated_models() {
    for package in WITHOUT {
        let names = dependencies(package);
        assert!(names.iter().any(|name| name == package), "{package}: {names:?}");
        assert!(!names.iter().any(|name| name == "skill-sim"), "{package} depends on skill-sim");
    }
    assert!(dependencies("skillrl").iter().any(|name| name == "skill-sim"), "the facade has them");
}

#[test]
fn the_teacher_does_without_the_bank() {
    let names = dependencies("skill-sim");
    assert!(!names.iter().any(|name| name == "skill-bank"), "{names:?}");
}

#[test]
fn the_models_know_no_world_of_the_demos() {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../skill-llm/src"), &mut files);
    assert!(files.len() > 80, "skill-llm was not found: {} files", files.len());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
        for word in DEMO_WORDS {
            assert!(!text.contains(word), "{} speaks of `{word}`", path.display());
        }
    }
}
