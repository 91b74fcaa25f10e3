//! `skillrl skill`: skills in coding agents.

use crate::context::{TestContext, code};
use serde_json::{Value, json};

const STREAM: &str = r#"{"type": "system", "subtype": "init", "session_id": "s", "claude_code_version": "9.9.9", "model": "m"}
{"type": "assistant", "message": {"id": "1", "model": "m", "content": [{"type": "tool_use", "id": "c", "name": "Skill", "input": {"skill": "a"}}]}}
{"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": "Launching skill: a"}]}}
{"type": "result", "subtype": "success", "is_error": false}
"#;

#[test]
fn the_loads_of_a_recorded_run_are_shown() {
    let context = TestContext::new();
    context.write("run.jsonl", STREAM);
    let found =
        context.succeed(&["skill", "loads", "--agent", "claude", "run.jsonl", "--skill", "other", "--json"]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["agent"], "claude-code");
    assert_eq!(found["version"], "9.9.9");
    assert_eq!(found["loads"], json!([{"skill": "a", "how": "tool", "run": 1, "turn": 1}]));
    assert_eq!(found["trigger"]["a"]["outcome"], "triggered");
    assert_eq!(
        found["trigger"]["other"],
        json!({"offered": null, "described": null, "outcome": "not triggered"})
    );
    assert_eq!(found["not_visible"], json!(["skills_offered", "loads_by_person"]));
}

#[test]
fn an_agent_that_is_not_known_lists_all() {
    let context = TestContext::new();
    context.write("run.jsonl", STREAM);
    let outcome = context.run(&["skill", "loads", "--agent", "clod", "run.jsonl"]);
    assert_eq!(outcome.code, Some(code::USAGE));
    assert!(outcome.stderr.contains("codex") && outcome.stderr.contains("qwen-code"), "{}", outcome.stderr);
    let outcome = context.run(&["skill", "loads", "--agent", "codex"]);
    assert_eq!(outcome.code, Some(code::USAGE));
}
