//! `skillrl eval SKILL --agent NAME`: arms, controls, verdicts.
#![cfg(unix)]

use crate::context::{TestContext, code};
use serde_json::json;

/// Prints what Pi prints, and does the task if the skill is there; it loads the skill unless told otherwise.
const AGENT: &str = r##"#!/bin/sh
echo start >> "LAB/starts"
cat > /dev/null
line() { printf '%s\n' "$1"; }
line '{"type": "session", "id": "s"}'
if [ -f .pi/skills/my-skill/SKILL.md ]; then
  cat numbers.txt > total.txt
  if [ ! -f "LAB/never-loads" ]; then
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "1", "stopReason": "toolUse", "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": ".pi/skills/my-skill/SKILL.md"}}]}}'
    line '{"type": "message_end", "message": {"role": "toolResult", "toolCallId": "c", "isError": false, "content": [{"type": "text", "text": "# Do it"}]}}'
  fi
fi
line '{"type": "message_end", "message": {"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{"type": "text", "text": "Done."}], "usage": {"input": 100, "output": 5, "cost": {"total": 0.5}}}}'
line '{"type": "agent_settled"}'
"##;

fn lab() -> TestContext {
    use std::os::unix::fs::PermissionsExt as _;
    let context = TestContext::new();
    let lab = context.path("").display().to_string();
    context.write("pi.sh", &AGENT.replace("LAB", lab.trim_end_matches('/')));
    std::fs::set_permissions(context.path("pi.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    context.write("my-skill/SKILL.md", "---\nname: my-skill\ndescription: Adds up.\n---\n# A\n\nDo it.\n");
    context.write("my-skill/evals/files/numbers.txt", "42\n");
    let check = json!([{"type": "file", "path": "total.txt", "contains": "42"}]);
    let mut cases: Vec<_> = (0..6)
        .map(|idx| json!({"id": idx, "prompt": "Add up.", "files": ["files/numbers.txt"], "checks": check}))
        .collect();
    cases.push(json!({"id": "idle", "prompt": "Look.", "checks": [{"type": "diff", "max_files": 5}]}));
    cases.push(json!({"id": "named", "prompt": "Use the my-skill skill.", "files": ["files/numbers.txt"], "checks": check}));
    context
        .write("my-skill/evals/evals.json", &json!({"skill_name": "my-skill", "evals": cases}).to_string());
    context
}

const EVAL: [&str; 9] = ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--runs", "2", "--yes"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    EVAL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_skill_that_helps_is_better_and_what_tests_nothing_is_excluded() {
    let context = lab();
    let found = context.succeed_json(&with(&["--out", "measured", "--json"]));
    let agent = &found["agents"][0];
    let arms = agent["arms"].as_array().unwrap();
    let rates: Vec<_> = arms.iter().map(|arm| (arm["name"].clone(), arm["pass_rate"].clone())).collect();
    assert_eq!(rates, [(json!("none"), json!(0.0)), (json!("current"), json!(1.0))]);
    assert_eq!(arms[1]["activations"], json!({"loaded": 16, "runs": 16}));
    assert_eq!(arms[1]["dollars"], json!(0.5));
    let difference = &agent["differences"][0];
    assert_eq!((&difference["verdict"], &difference["comparison"]["n"]), (&json!("better"), &json!(6)));
    let excluded = |id: &str| {
        let cases = agent["cases"].as_array().unwrap();
        cases.iter().find(|case| case["id"] == id).unwrap()["excluded"].clone()
    };
    assert_eq!((excluded("idle"), excluded("named")), (json!("tests_nothing"), json!("names_the_method")));
    assert!(excluded("0").is_null());
    let benchmark: serde_json::Value =
        serde_json::from_str(&context.read("measured/pi/workspace/benchmark.json")).unwrap();
    assert_eq!(benchmark["run_summary"]["with_skill"]["pass_rate"]["mean"], json!(1.0));
    let grading = context.read("measured/pi/workspace/eval-0/with_skill/run-1/grading.json");
    assert!(grading.contains("evidence"), "{grading}");
    // The same again starts nothing, and compares with itself.
    let starts = context.read("starts").lines().count();
    assert_eq!(starts, 32);
    let again = context.succeed_json(&with(&[
        "--out",
        "measured",
        "--against",
        "measured",
        "--fail-on-drop",
        "--json",
    ]));
    assert_eq!((&again["agents"], context.read("starts").lines().count()), (&found["agents"], starts));
}

#[test]
fn a_skill_that_was_never_loaded_has_no_verdict() {
    let context = lab();
    context.write("never-loads", "");
    let found = context.succeed_json(&with(&["--json"]));
    let agent = &found["agents"][0];
    assert_eq!(agent["arms"][1]["activations"], json!({"loaded": 0, "runs": 16}));
    assert_eq!(agent["differences"][0]["verdict"], "not_tested");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_started() {
    let context = lab();
    let dry = context.succeed(&with(&["--dry-run"]));
    assert!(dry.contains("32"), "{dry}");
    let fails = |more: &[&str], code: i32| {
        let outcome = context.run(&with(more));
        assert_eq!(outcome.code, Some(code), "{more:?}: {}", outcome.stderr);
    };
    fails(&["--previous", "no-such-revision"], code::USAGE);
    context.write("empty/SKILL.md", "---\nname: empty\ndescription: x\n---\n# A\n");
    let outcome = context.run(&["eval", "empty", "--agent", "pi"]);
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    let outcome = context.run(&["eval", "my-skill", "--agent", "clod"]);
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    assert!(!context.path("starts").exists());
}
