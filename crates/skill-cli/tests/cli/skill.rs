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

/// A program that prints what Pi prints: it reads the skill if the query has a word of its description in it.
#[cfg(unix)]
const AGENT: &str = r##"#!/bin/sh
for last; do :; done
case "$*" in
  *--version*) echo "1.5.2"; exit 0 ;;
esac
line() { printf '%s\n' "$1"; }
line '{"type": "session", "id": "s"}'
case "$*" in
  *"--skill "*) ;;
  *)
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "r", "stopReason": "stop", "content": [{"type": "text", "text": "<description>Formats invoices.</description>"}]}}'
    line '{"type": "agent_settled"}'
    exit 0 ;;
esac
if [ -n "$FAIL_WITH" ]; then
  case "$FAIL_WITH" in
    401) why="401: invalid key" ;;
    *) why="429: usage limit reached" ;;
  esac
  line '{"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": "'"$why"'"}}'
  line '{"type": "agent_settled"}'
  exit 0
fi
folder=.pi/skills/my-skill
description=$(sed -n 's/^description: //p' $folder/SKILL.md | tr -d '"')
line '{"type": "message_end", "message": {"role": "system", "sections": {"skills": "<name>my-skill</name><description>'"$description"'</description>"}}}'
case "$description $last" in
  *invoices*invoice*)
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "1", "stopReason": "toolUse", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "'$folder'/SKILL.md"}}]}}'
    line '{"type": "message_end", "message": {"role": "toolResult", "toolCallId": "c", "isError": false, "content": [{"type": "text", "text": "# Do it"}]}}' ;;
esac
line '{"type": "message_end", "message": {"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{"type": "text", "text": "Done."}], "usage": {"input": 100, "output": 5, "cost": {"total": 0.5}}}}'
line '{"type": "agent_settled"}'
"##;

#[cfg(unix)]
fn with_agent(description: &str) -> TestContext {
    use std::os::unix::fs::PermissionsExt as _;
    let context = TestContext::new();
    context.write("pi.sh", AGENT);
    std::fs::set_permissions(context.path("pi.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    context.write(
        "my-skill/SKILL.md",
        &format!("---\nname: my-skill\ndescription: {description}\n---\n# A\n\nDo it.\n"),
    );
    let line = |query: String, should: bool| {
        json!({"query": query, "should": should, "near_miss": !should}).to_string()
    };
    let lines: Vec<String> = (0..15)
        .map(|idx| line(format!("write invoice {idx}"), true))
        .chain((0..5).map(|idx| line(format!("weather {idx}"), false)))
        .collect();
    context.write("my-skill-queries.jsonl", &lines.join("\n"));
    context
}

#[cfg(unix)]
const TRIGGERS: [&str; 9] =
    ["skill", "triggers", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--runs", "2"];

#[cfg(unix)]
fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    TRIGGERS.into_iter().chain(more.iter().copied()).collect()
}

#[cfg(unix)]
#[test]
fn triggers_are_measured_resumed_and_replayed() {
    let context = with_agent("Formats invoices.");
    let capped = context.run(&with(&["--calls", "5"]));
    assert_eq!(capped.code, Some(code::BUDGET), "{}", capped.stderr);
    let found: Value = serde_json::from_str(&context.succeed(&with(&["--json"]))).unwrap();
    assert_eq!((&found["planned"], &found["counted"]), (&json!(40), &json!(40)));
    let skill = &found["skills"]["my-skill"];
    assert_eq!((&skill["recall"]["rate"], &skill["false_positives"]["rate"]), (&json!(1.0), &json!(0.0)));
    assert_eq!((&skill["recall"]["runs"], &found["cost"]), (&json!(30), &json!(20.0)));
    let starts = context.read("my-skill-triggers-pi/starts.jsonl");
    assert_eq!(starts.lines().count(), 40);
    let again: Value = serde_json::from_str(&context.succeed(&with(&["--json", "--replay"]))).unwrap();
    assert_eq!(again, found);
    assert_eq!(context.read("my-skill-triggers-pi/starts.jsonl"), starts);
    let other = context.run(&with(&["--model", "other"]));
    assert_eq!(other.code, Some(code::OTHER_RUN), "{}", other.stderr);
    assert!(other.stderr.contains("model"));
}

#[cfg(unix)]
#[test]
fn an_agent_that_is_not_there_or_not_signed_in_is_told() {
    let context = with_agent("Formats invoices.");
    let missing = context.run(&["skill", "triggers", "my-skill", "--agent", "pi", "--program", "./none"]);
    assert_eq!(missing.code, Some(code::USAGE), "{}", missing.stderr);
    assert!(missing.stderr.contains("npm install"), "{}", missing.stderr);
    for (status, expected) in [("401", code::PROVIDER_REFUSED), ("429", code::OUTAGE)] {
        let mut command = context.command(&with(&["--pass-env", "FAIL_WITH", "--dir", status]));
        let outcome = command.env("FAIL_WITH", status).output().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
        assert_eq!(outcome.status.code(), Some(expected), "{said}");
    }
    let starts = context.read("401/starts.jsonl");
    assert_eq!(starts.lines().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_description_is_trained_by_train_with_an_agent() {
    let context = with_agent("Does things.");
    let arguments = [
        "train",
        "my-skill",
        "--agent",
        "pi",
        "--program",
        "./pi.sh",
        "--runs",
        "1",
        "--json",
        "--only",
        "description",
    ];
    let found: Value = serde_json::from_str(&context.succeed(&arguments)).unwrap();
    assert_eq!(found["description"], "Formats invoices.", "{found}");
    assert_eq!(found["steps"][0]["fate"], "accepted");
    assert!(context.read("my-skill-triggers-pi/best/my-skill/SKILL.md").contains("Formats invoices."));
    assert!(context.read("my-skill/SKILL.md").contains("Does things."));
}

#[test]
fn skills_and_queries_that_cannot_be_measured_are_refused_before_anything_is_started() {
    let context = TestContext::new();
    context.write("a/SKILL.md", "---\nname: a\ndescription: Does it.\n---\n# A\n");
    let missing = context.run(&["skill", "triggers", "a", "--agent", "pi"]);
    assert_eq!(missing.code, Some(code::USAGE));
    assert!(missing.stderr.contains("--draft"), "{}", missing.stderr);
    context.write("b/SKILL.md", "# No front matter\n");
    let bare = context.run(&["skill", "triggers", "b", "--agent", "pi"]);
    assert_eq!(bare.code, Some(code::USAGE), "{}", bare.stderr);
    context.write("all/one/SKILL.md", "---\nname: same\ndescription: Does one.\n---\n# A\n");
    context.write("all/two/SKILL.md", "---\nname: same\ndescription: Does two.\n---\n# A\n");
    let twice = context.run(&["skill", "triggers", "all", "--agent", "pi"]);
    assert_eq!(twice.code, Some(code::USAGE));
    assert!(twice.stderr.contains("one") && twice.stderr.contains("two"), "{}", twice.stderr);
    let seen = context.run(&["skill", "check", "all", "--json"]);
    assert_eq!(seen.code, Some(code::LINT), "{}", seen.stderr);
    let seen: Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(seen["agents"].as_array().unwrap().len(), 7);
    assert_eq!(seen["agents"][0]["listed"][0]["name"], "one");
    assert_eq!(seen["agents"][1]["listed"][0]["name"], "same");
}
