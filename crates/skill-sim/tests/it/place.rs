//! The place of the simulated models: only the facade and what is above it may use them, and nothing below knows the
//! worlds that they play in.

use crate::all_files::all_files;
use crate::dependencies::dependencies;
use std::path::Path;

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

#[test]
fn nothing_below_the_facade_depends_on_simulated_models() {
    for package in WITHOUT {
        let names = dependencies(package, &["--all-features"]);
        assert!(names.iter().any(|name| name == package), "{package}: {names:?}");
        assert!(!names.iter().any(|name| name == "skill-sim"), "{package} depends on skill-sim");
    }
    assert!(
        dependencies("skillrl", &["--all-features"]).iter().any(|name| name == "skill-sim"),
        "the facade has them"
    );
}

#[test]
fn the_teacher_does_without_the_bank() {
    let names = dependencies("skill-sim", &["--all-features"]);
    assert!(!names.iter().any(|name| name == "skill-bank"), "{names:?}");
}

#[test]
fn the_models_know_no_world_of_the_demos() {
    let mut files = all_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../skill-llm/src"));
    files.retain(|name, _| name.ends_with(".rs"));
    assert!(files.len() > 80, "skill-llm was not found: {} files", files.len());
    for (name, bytes) in files {
        let text = String::from_utf8(bytes).unwrap().to_lowercase();
        for word in DEMO_WORDS {
            assert!(!text.contains(word), "{name} speaks of `{word}`");
        }
    }
}
