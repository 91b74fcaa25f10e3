//! Small samples of every format: what is a load, and what only looks like one.

use serde_json::{Value, json};
use skill_agents::{
    ReadOptions, agent,
    home::{Moved, session_files},
    read_case, sessions_of,
};
use std::collections::BTreeSet;
use std::path::Path;

/// Reads one run of an agent.
fn read(name: &str, stream: &[Value]) -> Value {
    let lines: Vec<String> = stream.iter().map(Value::to_string).collect();
    read_lines(name, &lines.join("\n"))
}

fn read_lines(name: &str, stream: &str) -> Value {
    let row = agent(name).unwrap().unwrap();
    let found = read_case(row, &[stream.to_owned()], &[], &ReadOptions::default());
    serde_json::to_value(found).unwrap()
}

fn write(home: &Path, path: &str, records: &[Value]) {
    let lines: Vec<String> = records.iter().map(Value::to_string).collect();
    write_text(home, path, &lines.join("\n"));
}

fn write_text(home: &Path, path: &str, text: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read_home(name: &str, streams: &[String], home: &Path) -> Value {
    let row = agent(name).unwrap().unwrap();
    let files = session_files(row, home, &Moved::default(), &sessions_of(row, streams), None).unwrap();
    serde_json::to_value(read_case(row, streams, &files, &ReadOptions::default())).unwrap()
}

/// The loads of each agent's own kind, and one of each that failed.
#[track_caller]
fn check(name: &str, stream: &[Value], loads: Value, failed: Value) {
    let found = read(name, stream);
    assert_eq!((&found["loads"], &found["loads_that_failed"]), (&loads, &failed), "{name}");
    assert_eq!(found["failed"], Value::Null, "{name}");
}

fn tool(skill: &str, turn: u64) -> Value {
    json!({"skill": skill, "how": "tool", "run": 1, "turn": turn})
}

fn claude_call(id: &str, name: &str, input: Value) -> Value {
    let content = json!([{"type": "tool_use", "id": id, "name": name, "input": input}]);
    json!({"type": "assistant", "message": {"id": format!("m-{id}"), "model": "m", "content": content}})
}

fn claude_result(id: &str, is_error: bool, text: &str) -> Value {
    let result = json!({"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": text});
    json!({"type": "user", "message": {"content": [result]}})
}

fn claude_end() -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false})
}

#[test]
fn claude_loads_by_tool_and_by_file() {
    let stream = [
        claude_call("1", "Skill", json!({"skill": "a"})),
        claude_result("1", false, "Launching skill: a"),
        claude_call("2", "Skill", json!({"skill": "b"})),
        claude_result("2", true, "Unknown skill: b"),
        claude_call("3", "Read", json!({"file_path": "/p/.claude/skills/c/SKILL.md"})),
        claude_result("3", false, "1\t---\n2\tname: c\n3\t---\n4\t# C"),
        claude_call("4", "Bash", json!({"command": "ls .claude/skills/d/SKILL.md"})),
        claude_result("4", false, ".claude/skills/d/SKILL.md"),
        claude_end(),
    ];
    let file = json!({"skill": "c", "how": "file", "run": 1, "turn": 3});
    let listed = json!({"skill": "d", "how": "shell", "run": 1, "turn": 4});
    check("claude-code", &stream, json!([tool("a", 1), file]), json!([tool("b", 2), listed]));
}

#[test]
fn a_call_of_a_sub_agent_is_a_load() {
    let mut call = claude_call("2", "Skill", json!({"skill": "a"}));
    call["parent_tool_use_id"] = json!("1");
    let mut result = claude_result("2", false, "Launching skill: a");
    result["parent_tool_use_id"] = json!("1");
    let stream = [claude_call("1", "Agent", json!({"prompt": "do"})), call, result, claude_end()];
    let load =
        json!({"skill": "a", "how": "tool", "run": 1, "turn": 1, "subagent": true, "subagent_turn": 1});
    check("claude-code", &stream, json!([load]), json!([]));
}

#[test]
fn a_call_without_a_result_is_no_load() {
    let stream = [claude_call("1", "Skill", json!({"skill": "a"})), claude_end()];
    check("claude-code", &stream, json!([]), json!([tool("a", 1)]));
}

#[test]
fn codex_loads_by_commands_that_succeeded() {
    let item = |state: &str, id: &str, skill: &str, code: Value, output: &str| {
        let command = format!("/bin/bash -lc 'cat .agents/skills/{skill}/SKILL.md'");
        json!({"type": format!("item.{state}"), "item": {"id": id, "type": "command_execution",
            "command": command, "aggregated_output": output, "exit_code": code}})
    };
    let stream = [
        json!({"type": "thread.started", "thread_id": "t"}),
        json!({"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "I look."}}),
        item("started", "item_1", "a", Value::Null, ""),
        item("completed", "item_1", "a", json!(0), "---\nname: a\n---\n# A"),
        item("started", "item_2", "b", Value::Null, ""),
        item("completed", "item_2", "b", json!(1), "cat: no such file"),
        json!({"type": "turn.completed", "usage": {"input_tokens": 3}}),
    ];
    let shell = |skill: &str, turn: u64| json!({"skill": skill, "how": "shell", "run": 1, "turn": turn});
    check("codex", &stream, json!([shell("a", 1)]), json!([shell("b", 2)]));
}

#[test]
fn a_program_loads_what_it_prints_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let record = |kind: &str, payload: Value| json!({"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload});
    let call = |id: &str, skill: &str| {
        let program = format!("const r = await tools.exec_command({{\"cmd\": \"cat {skill}/SKILL.md\"}});");
        record(
            "response_item",
            json!({"type": "custom_tool_call", "call_id": id, "name": "exec", "input": program}),
        )
    };
    let ran = |skill: &str| {
        let item = json!({"type": "CommandExecution", "command": ["bash", "-lc", format!("cat {skill}/SKILL.md")],
            "exit_code": 0, "aggregated_output": "---\nname: x\n---\nWrite amounts with two decimals.\n"});
        record("event_msg", json!({"type": "item_completed", "item": item}))
    };
    let result = |id: &str, text: &str| {
        record("response_item", json!({"type": "custom_tool_call_output", "call_id": id, "output": text}))
    };
    let records = [
        record("session_meta", json!({"id": "t"})),
        call("1", "a"),
        ran("a"),
        result("1", "Script completed\nOutput:\nWrite amounts with two decimals.\n"),
        call("2", "b"),
        ran("b"),
        result("2", "Script completed\nOutput:\nread it\n"),
    ];
    write(home.path(), ".codex/sessions/2026/01/01/rollout-t.jsonl", &records);
    let found = read_home("codex", &[], home.path());
    let program = |skill: &str, turn: u64| json!({"skill": skill, "how": "program", "run": 1, "turn": turn});
    assert_eq!(found["loads"], json!([program("a", 1)]));
    assert_eq!(found["loads_that_failed"], json!([program("b", 2)]));
}

#[test]
fn gemini_loads_by_its_tool() {
    let call = |id: &str, skill: &str| json!({"type": "tool_use", "tool_id": id, "tool_name": "activate_skill", "parameters": {"name": skill}});
    let result = |id: &str, status: &str| json!({"type": "tool_result", "tool_id": id, "status": status});
    let stream = [
        json!({"type": "init", "session_id": "s", "model": "m"}),
        call("1", "a"),
        result("1", "success"),
        call("2", "b"),
        result("2", "error"),
        json!({"type": "message", "role": "assistant", "content": "Done."}),
        json!({"type": "result", "status": "success", "stats": {"input_tokens": 5, "output_tokens": 2}}),
    ];
    check("gemini-cli", &stream, json!([tool("a", 1)]), json!([tool("b", 2)]));
    let found = read("gemini-cli", &stream);
    assert_eq!((&found["usage"]["input"], &found["usage"]["output"]), (&json!(5), &json!(2)));
    assert_eq!(found["replies"], 3);
}

#[test]
fn opencode_loads_by_its_tool() {
    let call = |id: &str, skill: &str, status: &str| {
        let state = json!({"status": status, "input": {"name": skill}, "output": "x", "error": "no"});
        json!({"type": "tool_use", "sessionID": "s", "part": {"tool": "skill", "callID": id, "state": state}})
    };
    let step = |id: &str| json!({"type": "step_start", "sessionID": "s", "part": {"messageID": id}});
    let stream = [
        step("m1"),
        call("1", "a", "completed"),
        step("m2"),
        call("2", "b", "error"),
        json!({"type": "step_finish", "sessionID": "s", "part": {"reason": "stop"}}),
    ];
    check("opencode", &stream, json!([tool("a", 1)]), json!([tool("b", 2)]));
}

#[test]
fn copilot_loads_by_its_tool_and_lists_in_its_stream() {
    let start = |id: &str, skill: &str| json!({"type": "tool.execution_start", "data": {"toolCallId": id, "toolName": "skill", "arguments": {"skill": skill}}});
    let done = |id: &str, success: bool| json!({"type": "tool.execution_complete", "data": {"toolCallId": id, "success": success, "result": {"content": "x"}}});
    let message = |id: &str| json!({"type": "assistant.message", "data": {"messageId": id, "content": ""}});
    let skills = json!([
        {"name": "a", "description": "Does a.", "enabled": true, "path": "/p/.github/skills/a/SKILL.md"},
        {"name": "c", "description": "Does c.", "enabled": false, "path": "/p/.github/skills/c/SKILL.md"},
    ]);
    let stream = [
        json!({"type": "session.skills_loaded", "data": {"skills": skills}}),
        message("1"),
        start("1", "a"),
        done("1", true),
        message("2"),
        start("2", "b"),
        done("2", false),
        json!({"type": "result", "sessionId": "s", "exitCode": 0}),
    ];
    check("copilot-cli", &stream, json!([tool("a", 1)]), json!([tool("b", 2)]));
    assert_eq!(read("copilot-cli", &stream)["skills_offered"], json!(["a"]));
}

#[test]
fn pi_loads_by_reading() {
    let assistant = |id: &str, skill: &str| {
        let call = json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": format!(".pi/skills/{skill}/SKILL.md")}});
        json!({"type": "message_end", "message": {"role": "assistant", "responseId": id, "stopReason": "toolUse", "content": [call]}})
    };
    let result = |id: &str, is_error: bool| json!({"type": "message_end", "message": {"role": "toolResult", "toolCallId": id, "isError": is_error, "content": [{"type": "text", "text": "# A"}]}});
    let person = json!({"type": "message_end", "message": {"role": "user", "content": [{"type": "text", "text": "<skill name=\"z\" location=\"/p\">\n# Z\n</skill>\n\ngo"}]}});
    let stream = [
        person,
        assistant("1", "a"),
        result("1", false),
        assistant("2", "b"),
        result("2", true),
        json!({"type": "agent_settled"}),
    ];
    let file = |skill: &str, turn: u64| json!({"skill": skill, "how": "file", "run": 1, "turn": turn});
    let called = json!({"skill": "z", "how": "person", "run": 1, "turn": 0});
    check("pi", &stream, json!([called, file("a", 1)]), json!([file("b", 2)]));
    assert_eq!(read("pi", &stream)["prompts"], json!([{"run": 1, "text": "/skill:z go"}]));
}

#[test]
fn qwen_loads_by_its_tool() {
    let call = |id: &str, skill: &str| json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": id, "name": "skill", "input": {"skill": skill}}]}});
    let stream = [
        json!({"type": "system", "subtype": "init", "session_id": "s"}),
        call("1", "a"),
        claude_result("1", false, "Does a."),
        call("2", "b"),
        claude_result("2", true, "not found"),
        json!({"type": "result", "subtype": "success", "is_error": false}),
    ];
    check("qwen-code", &stream, json!([tool("a", 1)]), json!([tool("b", 2)]));
}

#[test]
fn banners_torn_lines_and_unknown_records_are_passed_over() {
    let call = claude_call("1", "Skill", json!({"skill": "a"}));
    let stream = format!(
        "Update available!\n{call}\n{{\"type\": \"brand-new\", \"x\": 1}}\n{}\n{}\n{{\"type\": \"assis",
        claude_result("1", false, "Launching skill: a"),
        claude_end()
    );
    let found = read_lines("claude-code", &stream);
    assert_eq!(found["loads"], json!([tool("a", 1)]));
    assert_eq!(found["lines_passed_over"], 2);
}

#[test]
fn failures_are_named_and_success_in_the_end_is_none() {
    #[track_caller]
    fn fails(name: &str, stream: &[Value], why: &str, status: Value) {
        let found = read(name, stream);
        let row = &found["failed"][0];
        assert_eq!((&row["why"], &row["status"]), (&json!(why), &status), "{name}: {found}");
    }
    let result = json!({"type": "result", "is_error": true, "subtype": "success", "api_error_status": 401});
    fails("claude-code", &[result], "model server answered 401", json!(401));
    let refusal = json!({"type": "result", "is_error": true, "subtype": "success", "stop_reason": "refusal"});
    fails("claude-code", &[refusal], "model refused", Value::Null);
    let failed =
        json!({"type": "turn.failed", "error": {"message": "exceeded retry limit, last status: 429"}});
    fails("codex", &[failed], "model server answered 429", json!(429));
    fails("codex", &[json!({"type": "turn.completed"})], "the model did not reply", Value::Null);
    fails("claude-code", &[], "the program printed no records", Value::Null);
    let cut = [claude_call("1", "Read", json!({}))];
    fails("claude-code", &cut, "the stream has no end", Value::Null);
    // Reaching the turn limit is none.
    let limit = json!({"type": "result", "is_error": true, "subtype": "error_max_turns"});
    assert_eq!(read("claude-code", &[limit])["failed"], Value::Null);
    // A retry that succeeded is none.
    let end = |reason: &str, text: &str| json!({"type": "message_end", "message": {"role": "assistant", "responseId": text, "stopReason": reason, "errorMessage": "503", "content": [{"type": "text", "text": text}]}});
    let stream = [end("error", ""), end("stop", "Done."), json!({"type": "agent_settled"})];
    assert_eq!(read("pi", &stream)["failed"], Value::Null);
}

#[test]
fn a_resumed_session_counts_turns_over_all_runs() {
    let run = |id: &str, skill: &str| {
        let lines = [
            json!({"type": "system", "subtype": "init", "session_id": "s"}),
            claude_call(id, "Skill", json!({"skill": skill})),
            claude_result(id, false, "Launching skill"),
            claude_end(),
        ];
        lines.map(|line| line.to_string()).join("\n")
    };
    let row = agent("claude-code").unwrap().unwrap();
    let streams = [run("1", "a"), run("2", "a")];
    let found = read_case(row, &streams, &[], &ReadOptions::default());
    let found = serde_json::to_value(found).unwrap();
    let again = json!({"skill": "a", "how": "tool", "run": 2, "turn": 2, "again": true});
    assert_eq!(found["loads"], json!([tool("a", 1), again]));
}

#[test]
fn a_home_shows_listings_and_what_people_called() {
    let home = tempfile::tempdir().unwrap();
    let user = |uuid: &str, more: Value| {
        let mut record =
            json!({"type": "user", "uuid": uuid, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record
    };
    let listing = json!({"type": "attachment", "uuid": "0", "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z",
        "attachment": {"type": "skill_listing", "content": "- a: Does a.\n- b\n- loop: Loops."}});
    let records = [
        listing,
        user(
            "1",
            json!({"message": {"content": "<command-message>a</command-message>\n<command-name>/a</command-name>\n<command-args>now</command-args>"}}),
        ),
        user(
            "2",
            json!({"isMeta": true, "message": {"content": [{"type": "text", "text": "Base directory for this skill: /p/.claude/skills/a\n\n# A"}]}}),
        ),
    ];
    write(home.path(), ".claude/projects/-p/s.jsonl", &records);
    write(
        home.path(),
        ".claude/projects/-q/other.jsonl",
        &[json!({"type": "user", "sessionId": "other", "uuid": "9",
        "message": {"content": "not of this run"}})],
    );
    let stream = json!({"type": "system", "subtype": "init", "session_id": "s"}).to_string();
    let found = read_home("claude-code", &[format!("{stream}\n{}", claude_end())], home.path());
    assert_eq!(found["skills_offered"], json!(["a", "b"]));
    assert_eq!(found["skills_offered_without_description"], json!(["b"]));
    assert_eq!(found["skills_offered_by_the_agent_itself"], json!(["loop"]));
    assert_eq!(found["loads"], json!([{"skill": "a", "how": "person", "run": 1, "turn": 0}]));
    assert_eq!(found["trigger"]["a"]["outcome"], "called by the person");
    assert_eq!(found["trigger"]["b"]["outcome"], "offered without description");
    assert_eq!(found["prompts"], json!([{"run": 1, "text": "/a now"}]));
    assert_eq!(found["not_visible"], json!([]));
}

#[test]
fn a_home_that_is_not_there_is_an_error() {
    let row = agent("pi").unwrap().unwrap();
    assert!(
        session_files(row, Path::new("/no/such/home"), &Moved::default(), &BTreeSet::new(), None).is_err()
    );
}

/// Commands of calls that run at once are theirs, and no program's.
#[test]
fn codex_calls_at_once_are_no_programs() {
    let home = tempfile::tempdir().unwrap();
    let item = |payload: Value| json!({"type": "response_item", "payload": payload});
    let call = |id: &str, cmd: &str| {
        let arguments = json!({ "cmd": cmd }).to_string();
        item(json!({"type": "function_call", "name": "exec_command", "call_id": id, "arguments": arguments}))
    };
    let ran = |cmd: &str, output: &str| {
        let item = json!({"type": "CommandExecution", "command": [cmd], "exit_code": 0, "aggregated_output": output});
        json!({"type": "event_msg", "payload": {"type": "item_completed", "item": item}})
    };
    let result = |id: &str, text: &str| {
        let output = format!("Chunk ID: 1\nProcess exited with code 0\nOutput:\n{text}");
        item(json!({"type": "function_call_output", "call_id": id, "output": output}))
    };
    let (body, read) = ("---\nname: a\n---\n# Do it now", "cat /p/.agents/skills/a/SKILL.md");
    let usage = json!({"type": "token_usage_record", "payload": {}});
    let records = [
        json!({"type": "session_meta", "payload": {"id": "s"}}),
        call("1", read),
        call("2", "cat order"),
        usage.clone(),
        ran("cat order", "17"),
        ran(read, body),
        result("1", body),
        result("2", "17"),
        usage,
    ];
    write(home.path(), ".codex/sessions/2026/01/01/rollout-s.jsonl", &records);
    let stream = [
        json!({"type": "thread.started", "thread_id": "s"}).to_string(),
        json!({"type": "turn.completed"}).to_string(),
    ];
    let found = read_home("codex", &[stream.join("\n")], home.path());
    assert_eq!(found["loads"], json!([{"skill": "a", "how": "shell", "run": 1, "turn": 1}]));
    assert_eq!((&found["loads_that_failed"], &found["replies"]), (&json!([]), &json!(2)));
}

#[test]
fn a_refusal_is_a_reply() {
    let codex = [json!({"type": "thread.started", "thread_id": "s"}), json!({"type": "turn.completed"})];
    let message = json!({"role": "assistant", "stopReason": "error", "rawStopReason": "content_filter"});
    let pi = [json!({"type": "message_end", "message": message}), json!({"type": "agent_settled"})];
    for (name, stream) in [("codex", codex), ("pi", pi)] {
        let found = read(name, &stream);
        assert_eq!((&found["replies"], &found["failed"][0]["run"]), (&json!(1), &json!(1)), "{name}");
    }
}

/// A skill that front matter hides is in no listing, though the agent knows it.
#[test]
fn a_skill_that_is_hidden_is_not_offered() {
    let empty = json!({"type": "message_end", "message": {"role": "system", "sections": {"preamble": "x"}}});
    let row = agent("pi").unwrap().unwrap();
    let options = ReadOptions { skills: vec!["a".to_owned()], ..ReadOptions::default() };
    let found = read_case(row, &[format!("{empty}\n{}", json!({"type": "agent_settled"}))], &[], &options);
    assert_eq!(found.trigger["a"].outcome.as_str(), "not offered");
    assert_eq!(found.skills_offered, Some(Vec::new()));

    let home = tempfile::tempdir().unwrap();
    let known = ["a", "b"].map(|name| json!({"name": name, "description": "Does it.", "enabled": true}));
    let listing =
        "<available_skills>\n<name>b</name>\n<description>Does it.</description>\n</available_skills>";
    let records = [
        json!({"type": "session.start", "data": {"sessionId": "s"}, "id": "1"}),
        json!({"type": "system.message", "data": {"content": listing}, "id": "2"}),
        json!({"type": "assistant.message", "data": {"messageId": "m", "content": "Done."}, "id": "3"}),
    ];
    write(home.path(), ".copilot/session-state/s/events.jsonl", &records);
    let stream = [
        json!({"type": "session.skills_loaded", "data": {"skills": known}}),
        json!({"type": "result", "sessionId": "s"}),
    ];
    let stream = stream.map(|record| record.to_string()).join("\n");
    let found = read_home("copilot-cli", &[stream], home.path());
    assert_eq!(found["skills_offered"], json!(["b"]));
    assert_eq!(found["skills_offered_without_description"], json!([]));
}

/// `-p "/name"` reaches the model of Gemini CLI as it is.
#[test]
fn a_prompt_that_names_a_skill_and_loads_nothing_is_an_attempt() {
    let stream = [
        json!({"type": "message", "role": "user", "content": "/a now"}),
        json!({"type": "message", "role": "assistant", "content": "What is that?"}),
        json!({"type": "result", "status": "success"}),
    ];
    let row = agent("gemini-cli").unwrap().unwrap();
    let options = ReadOptions { skills: vec!["a".to_owned()], ..ReadOptions::default() };
    let lines: Vec<String> = stream.iter().map(Value::to_string).collect();
    let found = serde_json::to_value(read_case(row, &[lines.join("\n")], &[], &options)).unwrap();
    assert_eq!(found["loads_that_failed"], json!([{"skill": "a", "how": "person", "run": 1, "turn": 0}]));
}

/// The end of a sub-agent in the background is told between two replies.
#[test]
fn a_notice_of_qwen_ends_a_reply() {
    let said =
        |text: &str| json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}});
    let stream = [
        said("It is running."),
        json!({"type": "user", "parent_tool_use_id": null, "message": {"content": [{"type": "text", "text": "It is done."}]}}),
        said("Done."),
        json!({"type": "result", "subtype": "success", "is_error": false}),
    ];
    assert_eq!(read("qwen-code", &stream)["replies"], 2);
}

/// A fork of OpenCode's has the history of its parent under new ids.
#[test]
fn a_fork_in_a_database_does_not_repeat_its_parent() {
    let home = tempfile::tempdir().unwrap();
    let mut sql = "CREATE TABLE session(id TEXT, parent_id TEXT, version TEXT);\n\
        CREATE TABLE message(id TEXT, session_id TEXT, time_created INTEGER, data TEXT);\n\
        CREATE TABLE part(id TEXT, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);\n\
        INSERT INTO session VALUES('one', NULL, '1'), ('two', NULL, '1');\n"
        .to_owned();
    let mut add = |id: &str, session: &str, time: u64, role: &str, part: Value| {
        let message = json!({ "role": role });
        sql.push_str(&format!(
            "INSERT INTO message VALUES('m{id}', '{session}', {time}, '{message}');\n\
             INSERT INTO part VALUES('p{id}', 'm{id}', '{session}', {id}, '{part}');\n"
        ));
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let load = json!({"type": "tool", "tool": "skill", "callID": "c",
        "state": {"status": "completed", "input": {"name": "a"}, "output": "x"}});
    for (idx, session) in [(0, "one"), (10, "two")] {
        add(&(idx + 1).to_string(), session, 1, "user", text("Write it."));
        add(&(idx + 2).to_string(), session, 2, "assistant", load.clone());
    }
    add("13", "two", 3, "user", text("And now?"));
    write_text(home.path(), ".local/share/opencode/opencode.sql", &sql);
    let streams =
        ["one", "two"].map(|id| json!({"type": "step_start", "sessionID": id, "part": {}}).to_string());
    let found = read_home("opencode", &streams, home.path());
    assert_eq!(found["loads"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["prompts"], json!([{"run": 1, "text": "Write it."}, {"run": 2, "text": "And now?"}]));
}
