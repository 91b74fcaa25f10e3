//! The default program stays lean.

use crate::dependencies::dependencies;

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
    let names = dependencies(env!("CARGO_PKG_NAME"), &[]);
    assert!(names.iter().any(|name| name == "skill-serve"), "{names:?}");
    for name in BEHIND_FEATURES {
        assert!(!names.iter().any(|found| found == name), "the default program depends on {name}");
    }
}
