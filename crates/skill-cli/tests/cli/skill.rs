//! `skillrl skill`: skills in coding agents.

use crate::context::{TestContext, code};
#[cfg(unix)]
use crate::fake_pi;
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
    let loads = ["skill", "loads", "--agent", "claude", "run.jsonl", "--skill", "other", "--json"];
    let found = context.succeed_json(&loads);
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

/// What `pi.sh` does: it reads the skill if the query has a word of its description in it.
#[cfg(unix)]
const AGENT: &str = r##"last=$(cat)
case "$*" in
  *--version*) echo "${SAYS_VERSION:-1.5.2}"; exit 0 ;;
esac
case "$MODE" in
  banner) echo "A new version is available!" ;;
  dies) printf '{"type": "session", "id": "s"}\n{"type": "mess'; echo "killed-by-memory" >&2; exit 137 ;;
  hangs) sleep 600 ;;
  leaves)
    sleep 3000 >/dev/null 2>&1 </dev/null & echo $! >> "$PI_LEFT"
    setsid env -i /bin/sh -c 'echo $$ >> "$0"; exec sleep 3000' "$PI_LEFT" >/dev/null 2>&1 </dev/null &
    (setsid env -i /bin/sh -c '(exec sleep 3000) & echo $! >> "$0"' "$PI_LEFT" >/dev/null 2>&1 </dev/null &)
    while [ "$(wc -l < "$PI_LEFT")" -lt 3 ]; do sleep 0.01; done
    if [ -n "$PI_STAYS" ]; then sleep 3000; fi ;;
  changed) echo '{"kind": "session"}'; echo '{"kind": "text", "text": "Done."}'; echo '{"type": "agent_settled"}'; exit 0 ;;
esac
begins
case "$*" in
  *"--skill "*) ;;
  *)
    line '{"type": "message_end", "message": {"role": "assistant", "responseId": "r", "stopReason": "stop", "content": [{"type": "text", "text": "<description>Formats invoices.</description>"}]}}'
    ends
    exit 0 ;;
esac
if [ -n "$FAIL_WITH" ]; then
  case "$FAIL_WITH" in
    401) why="401: invalid key" ;;
    402) why="You have hit your ChatGPT usage limit. Try again in 53 min." ;;
    *) why="429: too many requests" ;;
  esac
  line '{"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": "'"$why"'"}}'
  ends
  exit 0
fi
folder=.pi/skills/my-skill
description=$(sed -n 's/^description: //p' $folder/SKILL.md | tr -d '"')
line '{"type": "message_end", "message": {"role": "system", "sections": {"skills": "<name>my-skill</name><description>'"$description"'</description>"}}}'
case "$description $last" in
  *invoices*invoice*)
    loads $folder ;;
esac
says Done.
ends
"##;

#[cfg(unix)]
fn with_agent(description: &str) -> TestContext {
    let context = TestContext::new();
    fake_pi::install(&context, AGENT);
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
    let found = context.succeed_json(&with(&["--json"]));
    assert_eq!((&found["planned"], &found["counted"]), (&json!(40), &json!(40)));
    let skill = &found["skills"]["my-skill"];
    assert_eq!((&skill["recall"]["rate"], &skill["false_positives"]["rate"]), (&json!(1.0), &json!(0.0)));
    assert_eq!((&skill["recall"]["runs"], &found["cost"]), (&json!(30), &json!(20.0)));
    let starts = context.read("my-skill-triggers-pi/starts.jsonl");
    assert_eq!(starts.lines().count(), 40);
    let shown = context.succeed_json(&["show", "my-skill-triggers-pi", "--json"]);
    assert_eq!(
        (&shown["triggers"], &shown["starts"], &shown["training"]),
        (&found, &json!(40), &Value::Null)
    );
    let again = context.succeed_json(&with(&["--json", "--replay"]));
    assert_eq!(again, found);
    let report = context.read("my-skill-triggers-pi/triggers.json");
    for (file, text, code) in [
        ("triggers.json", report.replace("15", "16"), code::DAMAGED),
        ("triggers.json", report, code::SUCCESS),
    ] {
        context.write(&format!("my-skill-triggers-pi/{file}"), &text);
        let checked = context.run(&["check", "my-skill-triggers-pi"]);
        assert_eq!(checked.code, Some(code), "{}", checked.stdout);
    }
    assert_eq!(context.read("my-skill-triggers-pi/starts.jsonl"), starts);
    let other = context.run(&with(&["--model", "other"]));
    assert_eq!(other.code, Some(code::OTHER_RUN), "{}", other.stderr);
    assert!(other.stderr.contains("model"));
}

/// Prices take the place of the half dollar that the agent reports for a run.
#[cfg(unix)]
#[test]
fn a_budget_counts_by_prices_where_they_are_named() {
    let context = with_agent("Formats invoices.");
    let capped =
        context.run(&with(&["--budget", "0.35", "--price", "1000,0", "--concurrency", "1", "--json"]));
    assert_eq!(capped.code, Some(code::BUDGET), "{}", capped.stderr);
    let found: Value = serde_json::from_str(&capped.stdout).unwrap();
    assert_eq!(found["counted"], 3);
    assert!((found["cost"].as_f64().unwrap() - 0.3).abs() < 1e-9, "{found}");
    let wrong = context.run(&with(&["--budget", "0"]));
    assert_eq!(wrong.code, Some(code::USAGE), "{}", wrong.stderr);
}

#[cfg(unix)]
#[test]
fn an_agent_that_is_not_there_or_not_signed_in_is_told() {
    let context = with_agent("Formats invoices.");
    let missing = context.run(&["skill", "triggers", "my-skill", "--agent", "pi", "--program", "./none"]);
    assert_eq!(missing.code, Some(code::USAGE), "{}", missing.stderr);
    assert!(missing.stderr.contains("npm install"), "{}", missing.stderr);
    for (status, expected) in
        [("401", code::PROVIDER_REFUSED), ("402", code::PROVIDER_REFUSED), ("429", code::OUTAGE)]
    {
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
    let found = context.succeed_json(&arguments);
    let trained = &found["skills"][0];
    assert_eq!(trained["best"]["description"], "Formats invoices.", "{found}");
    assert_eq!(trained["steps"][0]["fate"], "accepted");
    assert!(context.read("my-skill-triggers-pi/best/my-skill/SKILL.md").contains("Formats invoices."));
    assert!(context.read("my-skill/SKILL.md").contains("Does things."));
    // The directory opens as that of any run, and comes to the same result without a start.
    let directory = "my-skill-triggers-pi";
    let starts = context.read(&format!("{directory}/starts.jsonl"));
    let replayed: Vec<&str> = arguments.into_iter().chain(["--replay"]).collect();
    assert_eq!(context.succeed_json(&replayed), found);
    assert_eq!(context.read(&format!("{directory}/starts.jsonl")), starts);
    for command in ["show", "report", "status"] {
        let shown = context.succeed_json(&[command, directory, "--json"]);
        assert_eq!(shown["training"], found, "{command}");
        assert_eq!(
            shown["triggers"]["skills"]["my-skill"]["recall"]["rate"], 0.0,
            "of the first description"
        );
    }
    let text = context.succeed(&["show", directory]);
    assert!(text.contains("Formats invoices.") && text.contains("accepted"), "{text}");
    context.succeed(&["report", directory]);
    let page = context.read(&format!("{directory}/report.html"));
    assert!(page.contains("Formats invoices.") && page.contains("</html>"));
    assert!(!page.contains("data-left-out"), "a section of the page is left out");
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

/// The exit code, what was said, and the report, of one query that is asked once under a mode of the program.
#[cfg(unix)]
fn in_mode(mode: &str, more: &[&str]) -> (Option<i32>, String, Value) {
    let context = with_agent("Formats invoices.");
    context.write("one.jsonl", r#"{"query": "write invoice 1", "should": true}"#);
    let fixed = ["skill", "triggers", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--runs", "1"];
    let mut words: Vec<&str> = fixed.to_vec();
    words.extend(["--queries", "one.jsonl", "--json", "--pass-env", "MODE", "--pass-env", "SAYS_VERSION"]);
    words.extend(more);
    let version = if mode == "untried" { "9.9.9" } else { "1.5.2" };
    let outcome = context.command(&words).env("MODE", mode).env("SAYS_VERSION", version).output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    let report = serde_json::from_slice(&outcome.stdout).unwrap_or_default();
    (outcome.status.code(), said, report)
}

#[cfg(unix)]
#[test]
fn a_program_that_dies_hangs_or_changes_its_stream_measures_nothing_and_says_so() {
    for (mode, more) in [("dies", &[][..]), ("changed", &[]), ("hangs", &["--timeout", "1"])] {
        let (code, said, report) = in_mode(mode, more);
        assert_eq!(code, Some(code::OUTAGE), "{mode}: {said}");
        assert_eq!(report["counted"], 0, "{mode}: {report}");
        assert_eq!(report["skills"]["my-skill"]["recall"], Value::Null, "{mode}: {report}");
        assert_eq!(report["queries"][0]["outcomes"], json!({"failed": 1}), "{mode}");
    }
    let (_, said, report) = in_mode("dies", &[]);
    assert_eq!(report["failed"][0]["message"], "killed-by-memory");
    assert!(said.contains("killed-by-memory"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_banner_is_passed_over_and_an_untried_version_is_a_warning() {
    for (mode, is_warned) in [("banner", false), ("untried", true)] {
        let (code, said, report) = in_mode(mode, &[]);
        assert_eq!(code, Some(0), "{mode}: {said}");
        assert_eq!(report["queries"][0]["outcomes"], json!({"triggered": 1}), "{mode}");
        assert_eq!(said.contains("9.9.9"), is_warned, "{said}");
        // One query, and it is a positive one: that is told before the first run.
        assert_eq!(report["skills"]["my-skill"]["false_positives"], Value::Null);
        assert_eq!(said.matches("warning: ").count(), 1 + usize::from(is_warned), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn opencode_without_ripgrep_is_refused_before_it_is_started() {
    let context = with_agent("Formats invoices.");
    let words = ["skill", "triggers", "my-skill", "--agent", "opencode", "--program", "./pi.sh"];
    let outcome = context.command(&words).env("PATH", context.path("nothing")).output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr).into_owned();
    assert_eq!(outcome.status.code(), Some(code::USAGE), "{said}");
    assert!(said.contains("\"rg\""), "{said}");
    assert!(!context.path("my-skill-triggers-opencode").exists());
}

#[cfg(unix)]
#[test]
fn what_agents_would_see_otherwise_is_told_by_check() {
    let context = TestContext::new();
    let long = "x".repeat(1100);
    context.write("skills/one/SKILL.md", "---\nname: other\ndescription: Does one.\n---\n# A\n");
    context.write("skills/long/SKILL.md", &format!("---\nname: long\ndescription: {long}\n---\n# A\n"));
    context.write("home/.claude/skills/one/SKILL.md", "---\nname: one\ndescription: Mine.\n---\n# A\n");
    let outcome = context
        .command(&["skill", "check", "skills", "--json"])
        .env("HOME", context.path("home"))
        .output()
        .unwrap();
    let seen: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let row = |agent: &str| {
        let rows = seen["agents"].as_array().unwrap();
        rows.iter().find(|row| row["agent"] == agent).unwrap().clone()
    };
    let claude = row("claude-code");
    assert_eq!(claude["listed"][1]["name"], "one", "Claude Code lists the folder");
    assert_eq!(row("codex")["listed"][1]["name"], "other");
    // The folder's name is another, and the user has a skill of this name.
    assert_eq!(claude["notes"].as_array().unwrap().len(), 2, "{claude}");
    assert_eq!(row("codex")["notes"].as_array().unwrap().len(), 1);
    assert_eq!(row("codex")["listed"][0]["shown"], json!({"cut": 1024}));
    assert_eq!(row("copilot-cli")["listed"][0]["shown"], "too_long");
    assert_eq!(row("gemini-cli")["listed"][0]["shown"], "whole");
}

/// One row for each skill, agents only where they differ; the window of the model decides what is listed.
#[test]
fn a_skill_has_one_row_and_the_model_decides_what_is_listed() {
    let context = TestContext::new();
    for idx in 0..12 {
        let (name, description) = (format!("skill-{idx:02}"), "Does it. Use it when asked. ".repeat(20));
        let main = format!("---\nname: {name}\ndescription: {description}\n---\n# A\n\nDo it.\n");
        context.write(&format!("project/.claude/skills/{name}/SKILL.md"), &main);
        // The same skill where another agent looks.
        context.write(&format!("project/.agents/skills/{name}/SKILL.md"), &main);
    }
    let rows = |words: &[&str]| {
        let text = context.succeed(&[&["skill", "check"], words].concat());
        let of_skills = text.lines().filter(|line| line.starts_with("skill-") && !line.contains("SKILL.md"));
        (of_skills.count(), text.matches("Claude Code (context ").count(), text)
    };
    for (words, n_differing) in [
        (["project", "--model", "sonnet"], 0),
        (["project", "--model", "claude-haiku-4-5"], 9),
        (["project", "--context", "200000"], 9),
        (["project/.claude", "--model", "haiku"], 9),
    ] {
        let (n_rows, n_found, text) = rows(&words);
        assert_eq!((n_rows, n_found), (12, n_differing), "{words:?}: {text}");
    }
    let unknown = context.run(&["skill", "check", "project", "--model", "my-model"]);
    assert_eq!(unknown.code, Some(code::USAGE), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("--context"), "{}", unknown.stderr);
    // A plugin that this program has written.
    context.succeed(&["export", "project", "--plugin", "--out", "plugin"]);
    assert_eq!(rows(&["plugin"]).0, 12);
    assert_eq!(context.run(&["skill", "check", "plugin/.claude-plugin"]).code, Some(code::USAGE));
}

/// Each agent finds the skills of its own places: skills of one name in those of different agents are no clash.
#[test]
fn a_skill_of_one_name_in_places_of_different_agents_is_no_clash() {
    let context = TestContext::new();
    for place in [".claude", ".agents"] {
        let main = format!("---\nname: pdf\ndescription: Fills forms, for {place}.\n---\n# A\n\nDo it.\n");
        context.write(&format!("project/{place}/skills/pdf/SKILL.md"), &main);
    }
    let found = context.run(&["skill", "check", "project", "--json"]);
    let seen: Value = serde_json::from_str(&found.stdout).unwrap();
    let of = |name: &str| {
        let rows = seen["agents"].as_array().unwrap();
        let row = rows.iter().find(|row| row["agent"] == name).unwrap();
        (row["listed"].as_array().unwrap().len(), row["notes"].as_array().unwrap().len())
    };
    // OpenCode reads both places.
    assert_eq!([of("claude-code"), of("codex"), of("opencode")], [(1, 0), (1, 0), (2, 1)]);
    assert_eq!(found.code, Some(code::LINT));
    context.succeed(&["skill", "check", "project", "--agent", "codex", "--model", "gpt-5.5"]);
    let text = context.succeed(&["skill", "check", "project", "--agent", "codex"]);
    assert!(text.contains(".agents/skills/pdf: ") && !text.contains(".claude"), "{text}");
}

/// A coding agent may be named where a model is.
#[test]
fn a_coding_agent_is_known_where_a_model_is_named() {
    let context = TestContext::new();
    let rows: String = (0..60).map(|idx| format!("what is {idx},{idx}\n")).collect();
    context.write("rows.csv", &format!("question,answer\n{rows}"));
    let target = |model: &str| {
        // Whether the program is there is not what is looked at.
        let outcome = context.run(&["train", "rows.csv", "--model", model, "--dry-run"]);
        let shown = outcome.stdout + &outcome.stderr;
        let settings = shown.lines().filter_map(|line| line.trim().strip_prefix("models.target."));
        settings.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(target("claude-code"), ["kind = agent", "agent = claude", "model = default"]);
    assert_eq!(target("codex/gpt-5.5"), ["kind = agent", "agent = codex", "model = gpt-5.5"]);
    // A provider of the same name.
    assert_eq!(target("gemini/gemini-2.5-pro"), ["provider = gemini", "model = gemini-2.5-pro"]);
}

/// What an agent will not see as it is written is told before anything is started.
#[cfg(unix)]
#[test]
fn descriptions_over_the_budget_and_skills_of_the_user_are_told_before_a_run() {
    let context = TestContext::new();
    let long = "x".repeat(1100);
    context.write("long/SKILL.md", &format!("---\nname: long\ndescription: {long}\n---\n# A\n"));
    context.write("home/.claude/skills/long/SKILL.md", "---\nname: long\ndescription: Mine.\n---\n# A\n");
    context.write(
        "long-queries.jsonl",
        "{\"query\": \"a\", \"should\": true}\n{\"query\": \"b\", \"should\": false, \"near_miss\": true}\n",
    );
    let said = |words: &[&str]| {
        let outcome = context.command(words).env("HOME", context.path("home")).output().unwrap();
        let text =
            String::from_utf8_lossy(&outcome.stdout).into_owned() + &String::from_utf8_lossy(&outcome.stderr);
        (outcome.status.code(), text)
    };
    let checked = said(&["skill", "check", "long", "--agent", "codex"]).1;
    assert!(checked.contains("warning: ") && checked.contains("1024"), "{checked}");
    assert!(!said(&["skill", "check", "long", "--agent", "gemini-cli"]).1.contains("warning: "));
    for (agent, word) in
        [("codex", "1024"), ("copilot-cli", "\"long\""), ("claude-code", "home/.claude/skills/long")]
    {
        let (code, text) = said(&["skill", "triggers", "long", "--agent", agent, "--program", "./none"]);
        assert_eq!(code, Some(code::USAGE), "{text}");
        assert!(text.matches("warning: ").count() == 1 && text.contains(word), "{agent}: {text}");
    }
    assert!(!context.path("long-triggers-codex").exists(), "nothing was started");
}

/// Prints what Gemini CLI prints, which does not give its model the skill tool without `--yolo`.
#[cfg(unix)]
const GEMINI: &str = r#"#!/bin/sh
case "$*" in *--version*) echo 0.61.0; exit 0 ;; esac
cat > query
case "$*" in
  *--yolo*) result='"status": "success", "output": "<activated_skill name=\"my-skill\">"' ;;
  *) result='"status": "error", "output": "Tool \"activate_skill\" not found."' ;;
esac
cat <<END
{"type": "init", "session_id": "s", "model": "m"}
{"type": "tool_use", "tool_name": "activate_skill", "tool_id": "1", "parameters": {"name": "my-skill"}}
{"type": "tool_result", "tool_id": "1", $result}
{"type": "message", "role": "assistant", "content": "Done."}
{"type": "result", "status": "success", "stats": {}}
END
"#;

#[cfg(unix)]
#[test]
fn gemini_is_started_so_that_its_model_has_the_skill_tool() {
    let context = with_agent("Formats invoices.");
    context.write("one.jsonl", r#"{"query": "write invoice 1", "should": true}"#);
    for (name, script, expect) in [
        ("with", GEMINI.to_owned(), "triggered"),
        // The same program behind a wrapper that takes the flag away.
        ("without", GEMINI.replace("*--yolo*)", "*--none*)"), "attempted, not loaded"),
    ] {
        fake_pi::write_program(&context, "gemini.sh", &script);
        let fixed = ["skill", "triggers", "my-skill", "--agent", "gemini-cli", "--program", "./gemini.sh"];
        let more = ["--runs", "1", "--queries", "one.jsonl", "--json", "--dir", name];
        let words: Vec<&str> = fixed.into_iter().chain(more).collect();
        let found = context.succeed_json(&words);
        assert_eq!(found["queries"][0]["outcomes"], json!({ expect: 1 }), "{found}");
        assert_eq!(found["warnings"].as_array().unwrap().len(), usize::from(name == "without"), "{found}");
    }
}

#[cfg(unix)]
#[test]
fn several_skills_are_trained_in_turn_or_those_that_are_named() {
    let context = with_agent("Does things.");
    context.write(
        "both/my-skill/SKILL.md",
        "---\nname: my-skill\ndescription: Does things.\n---\n# A\n\nDo it.\n",
    );
    context.write("both/other/SKILL.md", "---\nname: other\ndescription: Does more.\n---\n# B\n\nDo it.\n");
    let lines: Vec<String> = (0..15)
        .map(|idx| json!({"query": format!("write invoice {idx}"), "should": "my-skill"}).to_string())
        .chain((0..5).map(|idx| json!({"query": format!("weather {idx}"), "should": false}).to_string()))
        .collect();
    context.write("both-queries.jsonl", &lines.join("\n"));
    let fixed =
        ["train", "both", "--agent", "pi", "--program", "./pi.sh", "--runs", "1", "--json", "--steps", "1"];
    let with =
        |more: &[&'static str]| -> Vec<&str> { fixed.into_iter().chain(more.iter().copied()).collect() };
    let named = context.run(&with(&["--skill", "third"]));
    assert_eq!(named.code, Some(code::USAGE), "{}", named.stderr);
    let found = context.succeed_json(&with(&["--skill", "my-skill"]));
    assert_eq!(found["skills"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["skills"][0]["best"]["description"], "Formats invoices.");
    // Without a name each is trained, and one has too few queries of its own to accept anything.
    context.write("both-queries.jsonl", &lines[..15].join("\n"));
    let few = context.run(&with(&["--dir", "few"]));
    assert_eq!(few.code, Some(code::USAGE), "{}", few.stderr);
    assert!(few.stderr.contains("other"), "{}", few.stderr);
}

/// A killed measurement continues: every run is started once, but for the one that was under way.
#[cfg(unix)]
#[test]
fn a_killed_measurement_continues_where_it_was() {
    use std::io::{BufRead as _, BufReader};
    let context = with_agent("Formats invoices.");
    let whole = context.succeed_json(&with(&["--json", "--dir", "whole"]));
    let mut child = context
        .command(&with(&["--dir", "killed", "--concurrency", "1"]))
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let n_runs = lines.map_while(Result::ok).filter(|line| line.contains(" of 40: ")).take(3).count();
    assert_eq!(n_runs, 3);
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = context.succeed_json(&["show", "killed", "--json"]);
    let n_counted = shown["triggers"]["counted"].as_u64().unwrap();
    assert!((3..40).contains(&n_counted) && shown["triggers"]["planned"] == 40, "{shown}");
    let resumed = context.succeed_json(&with(&["--json", "--dir", "killed"]));
    assert_eq!(resumed["skills"], whole["skills"]);
    assert_eq!(resumed["queries"], whole["queries"]);
    let n_starts = context.read("killed/starts.jsonl").lines().count();
    assert!((40..=41).contains(&n_starts), "{n_starts}");
}

/// What an agent starts may leave its session and clear its environment; the supervisor of the agent finds it all the same.
#[cfg(target_os = "linux")]
#[test]
fn no_program_outlives_its_run_however_it_ends() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Far longer than it takes; only a failed test waits so long.
    const PATIENCE: Duration = Duration::from_secs(30);
    let context = with_agent("Formats invoices.");
    let is_alive = |pid: &str| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("sleep")
    };
    for signal in [None, Some("-INT"), Some("-TERM"), Some("-HUP"), Some("-KILL")] {
        let name = signal.unwrap_or("-end");
        let (dir, left) = (format!("runs{name}"), context.path(&format!("left{name}")));
        let more = ["--dir", &dir, "--calls", "1", "--concurrency", "1", "--pass-env", "MODE"];
        let mut command = context.command(&with(&more));
        command.env("MODE", "leaves").env("PI_LEFT", &left).stdout(Stdio::null()).stderr(Stdio::null());
        if signal.is_some() {
            command.env("PI_STAYS", "1");
        }
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        let pids = || -> Vec<String> {
            std::fs::read_to_string(&left).unwrap_or_default().lines().map(str::to_owned).collect()
        };
        while pids().len() < 3 {
            assert!(
                begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(),
                "{name}: {:?}",
                pids()
            );
            std::thread::yield_now();
        }
        while let Some(signal) = signal
            && child.try_wait().unwrap().is_none()
        {
            assert!(begun.elapsed() < 2 * PATIENCE, "{name} does not end it");
            // It may have ended by itself in between.
            let _ =
                Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status();
            std::thread::yield_now();
        }
        child.wait().unwrap();
        let ended = Instant::now();
        while let Some(pid) = pids().iter().find(|pid| is_alive(pid)) {
            assert!(ended.elapsed() < PATIENCE, "{name}: process {pid} is alive");
            std::thread::yield_now();
        }
    }
}
