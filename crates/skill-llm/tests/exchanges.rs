//! What the tests of the wire hold, and what they leave behind, has no secret in it.

#[path = "../../skill-core/tests/support/all_files.rs"]
mod all_files;

use all_files::all_files;
use skill_core::SkillPackage;
use skill_core::lint::{Finding, Form, lint};
use std::path::Path;

/// With fewer files the test looks in the wrong place.
const MIN_FILES: usize = 30;

/// The rules that find secrets.
fn secrets(text: &str) -> Vec<Finding> {
    let package = SkillPackage { main: text.to_owned(), ..SkillPackage::default() };
    let findings = lint(&package, Form::Document, &[]);
    findings.into_iter().filter(|finding| finding.rule.starts_with("secret-key")).collect()
}

#[test]
fn no_exchange_holds_a_secret() {
    let files = all_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests"));
    assert!(files.len() >= MIN_FILES, "only {} files", files.len());
    for (name, bytes) in files {
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let found = secrets(text);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn a_secret_in_an_exchange_would_be_found() {
    // In parts, so that this file is none of those that hold one.
    for key in [["sk-ant-", "api03-Qz7RtB2mXw9LpV4cKd8N"], ["AIza", "SyB8q2Rk5Tn9Wd3Xf7Zj1Lm4Pv6Ch0Gs2Aq"]] {
        let text = format!("{{\n  \"x-api-key\": \"{}\"\n}}", key.concat());
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
}
