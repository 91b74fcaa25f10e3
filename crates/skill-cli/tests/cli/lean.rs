//! The default program stays lean.

use std::process::Command;

/// Crates that come after a feature, or come with one that does.
const BEHIND_FEATURES: [&str; 16] = [
    "skill-mcp",
    "skill-nats",
    "async-nats",
    "skill-openenv",
    "tokio-tungstenite",
    "skill-train",
    "candle-core",
    "tokenizers",
    "rmcp",
    "schemars",
    "chrono",
    "uuid",
    "opentelemetry",
    "opentelemetry_sdk",
    "prost",
    "tracing-opentelemetry",
];

#[test]
fn what_is_behind_a_feature_is_not_in_the_default_program() {
    let tree = |is_offline: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["tree", "--package", env!("CARGO_PKG_NAME"), "--edges", "normal", "--prefix", "none"])
            .args(["--no-dedupe", "--format", "{p}"])
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
    let names: Vec<&str> = lines.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"skill-serve"), "{names:?}");
    for name in BEHIND_FEATURES {
        assert!(!names.contains(&name), "the default program depends on {name}");
    }
}
