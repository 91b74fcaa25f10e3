//! The table itself.

use skill_agents::{agent, agents};
use std::collections::BTreeSet;

#[test]
fn every_agent_has_one_name_and_is_found_by_all_of_them() {
    let mut names = BTreeSet::new();
    for row in agents().unwrap() {
        for name in std::iter::once(&row.name).chain(&row.aliases) {
            assert!(names.insert(name.clone()), "{name} is twice in the table");
            assert_eq!(agent(name).unwrap().unwrap().name, row.name);
        }
        assert!(!row.versions.is_empty() && !row.session_files.is_empty(), "{}", row.name);
    }
    assert_eq!(agents().unwrap().len(), 7);
    assert!(agent("other").unwrap().is_none());
}

#[test]
fn versions_are_compared_as_programs_print_them() {
    let row = agent("claude-code").unwrap().unwrap();
    assert!(row.is_tried("2.1.332 (Claude Code)\n"));
    assert!(!row.is_tried("2.1.3321 (Claude Code)"));
    assert!(!row.is_tried(""));
    assert!(agent("copilot-cli").unwrap().unwrap().is_tried("GitHub Copilot CLI 1.0.102."));
    assert!(agent("codex").unwrap().unwrap().is_tried("codex-cli 0.171.0"));
}

/// Without its flag Gemini does not give its model the skill tool, and Qwen refuses it.
#[test]
fn agents_that_ask_before_they_load_a_skill_are_told_not_to() {
    for name in ["gemini-cli", "qwen-code", "copilot-cli"] {
        let start = &agent(name).unwrap().unwrap().start;
        assert!(start.arguments.iter().any(|word| word == "--yolo"), "{name}");
    }
}
