//! How a program's end is taken: limits of its account, turns that are used up, and what else it prints.

use super::{
    CLAUDE, CODEX, COPILOT, Fake, GEMINI, GEMINI_STREAM, OPENCODE, PI, QWEN, ask, check, check_parts,
    printing, question,
};
use skill_llm::agent::AgentKind;
use skill_llm::{AgentFile, AgentProject, ApiKey, CallCtx, ErrorClass, FinishReason};

/// The class of a failure that Claude Code reports with this status of the provider.
#[track_caller]
fn check_class(said: &str, status: u16, expect: ErrorClass) {
    let output = format!(
        r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"{said}"}}"#
    );
    for end in ["", "\nexit 1"] {
        let fake = Fake::new(&format!("{}{end}", printing(&output)));
        let error = ask(fake.config(AgentKind::Claude), &question(), &CallCtx::default()).unwrap_err();
        assert_eq!(error.class(), expect, "{said}: {error}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(error.is_retryable(), matches!(expect, ErrorClass::RateLimited | ErrorClass::ServerError));
    }
}

#[test]
fn limits_of_an_account_are_no_moments_of_load() {
    for said in [
        "You have reached your session limit \u{b7} resets 4pm (UTC)",
        "Your weekly limit is used up \u{2219} it resets Friday 9am",
        "You've hit your limit \u{b7} resets 5am (Asia/Tokyo)",
        "7-day limit reached \u{2219} resets Mon 7am",
        "5-hour limit reached",
        "You are out of extra usage \u{b7} resets 6pm",
        "usage limit reached|1764140400",
        "You have exhausted your daily quota on this model.",
        "Your quota will reset after 3h20m.",
    ] {
        check_class(said, 429, ErrorClass::QuotaExhausted);
    }
    for said in [
        "Rate limit reached; the limit resets in 2 s",
        "Number of requests per minute: limit 50 resets",
        "busy",
    ] {
        check_class(said, 429, ErrorClass::RateLimited);
    }
    check_class("nothing known", 529, ErrorClass::ServerError);
    check_class("nothing known", 401, ErrorClass::Authentication);
    check_class("nothing known", 402, ErrorClass::QuotaExhausted);
}

#[test]
fn used_up_turns_are_a_result() {
    let claude = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":3,"usage":{"input_tokens":10,"output_tokens":3}}"#;
    check(AgentKind::Claude, claude, r#"Other("max_turns") "" 10/0/3/0"#);
    let budget = claude.replace("max_turns", "max_budget_usd");
    check(AgentKind::Claude, &budget, r#"Other("max_budget") "" 10/0/3/0"#);
    let gemini = r#"{"error": {"type": "FatalTurnLimitedError", "message": "no turns left", "code": 53}}"#;
    check(AgentKind::Gemini, gemini, r#"Other("max_turns") "" 0/0/0/0"#);
    for (kind, script) in [
        (AgentKind::Claude, format!("{}\nexit 1", printing(claude))),
        (AgentKind::Gemini, "exit 53".to_owned()),
    ] {
        let reply = ask(Fake::new(&script).config(kind), &question(), &CallCtx::default()).unwrap();
        assert_eq!(reply.finish.used_up(), Some("turns"), "{kind:?}");
    }
}

/// How a known program's run came out is in its stream; exit codes say otherwise in both directions.
#[test]
fn the_stream_decides_and_not_the_exit_code() {
    let of = |kind: AgentKind, output: &str, code: u8| {
        let fake = Fake::new(&format!("{}\nexit {code}", printing(output)));
        ask(fake.config(kind), &question(), &CallCtx::default())
    };
    for (kind, output) in [
        (AgentKind::Claude, CLAUDE),
        (AgentKind::Codex, CODEX),
        (AgentKind::Gemini, GEMINI_STREAM),
        (AgentKind::OpenCode, OPENCODE),
        (AgentKind::Copilot, COPILOT),
        (AgentKind::Pi, PI),
        (AgentKind::Qwen, QWEN),
    ] {
        assert_eq!(of(kind, output, 1).unwrap().text, "Because.", "{kind:?}");
        let cut = output.rsplit_once('\n').map_or("", |(before, _)| before);
        assert!(of(kind, cut, 0).is_err(), "{kind:?}: a truncated stream is an error");
    }
    let pi = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"429: too many requests"}}
{"type":"agent_settled"}"#;
    assert_eq!(of(AgentKind::Pi, pi, 0).unwrap_err().class(), ErrorClass::RateLimited);
    let limit = pi.replace("429: too many requests", "You've hit your usage limit. Try again in 2 days.");
    assert_eq!(of(AgentKind::Pi, &limit, 0).unwrap_err().class(), ErrorClass::QuotaExhausted);
    let opencode = r#"{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"weekly usage limit reached","statusCode":429}}}
{"type":"step_finish","sessionID":"s","part":{"reason":"error"}}"#;
    assert_eq!(of(AgentKind::OpenCode, opencode, 1).unwrap_err().class(), ErrorClass::QuotaExhausted);
    let copilot = r#"{"type":"session.error","data":{"message":"402 You have no quota","statusCode":402}}
{"type":"result","sessionId":"s","exitCode":1}"#;
    assert_eq!(of(AgentKind::Copilot, copilot, 1).unwrap_err().class(), ErrorClass::QuotaExhausted);
    let qwen = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"error":{"message":"[API Error: 401 invalid key]"}}"#;
    assert_eq!(of(AgentKind::Qwen, qwen, 1).unwrap_err().class(), ErrorClass::Authentication);
    // A refusal is a reply that says so.
    let refusal = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","rawStopReason":"content_filter","errorMessage":"refused"}}
{"type":"agent_settled"}"#;
    let claude = CLAUDE.replace("\"is_error\":false", "\"is_error\":true,\"stop_reason\":\"refusal\"");
    for (kind, output) in [(AgentKind::Pi, refusal), (AgentKind::Claude, claude.as_str())] {
        assert_eq!(of(kind, output, 0).unwrap().finish, FinishReason::ContentFilter, "{kind:?}");
    }
}

#[test]
fn what_else_is_printed_is_passed_over() {
    let claude = r#"Stop "Because." 1104/1000/9/0"#;
    for output in [
        format!("Now using node v22\n{CLAUDE}"),
        format!("[hook] {{ready}}\n\n[{{\"type\":\"system\"}},{CLAUDE}]\nbye"),
        format!("{{\"type\":\"system\"}}\n{{\"type\":\"assistant\"}}\n{CLAUDE}"),
        format!("\u{1b}]0;title\u{7}{CLAUDE}"),
        format!("\u{feff}{CLAUDE}"),
        format!("{CLAUDE}\n{{\"type\":\"system\",\"subtype\":\"hook_response\"}}"),
    ] {
        check(AgentKind::Claude, &output, claude);
    }
    let lone = CLAUDE.replace("Because.", "a\\ud83d");
    check(AgentKind::Claude, &lone, "Stop \"a\u{fffd}\" 1104/1000/9/0");
    let codex = format!("node v22\n[not JSON]\n{CODEX}");
    check(AgentKind::Codex, &codex, r#"Stop "Because." 24763/24448/122/0"#);
    let gemini = format!("{{hook}}\n{GEMINI}\n{{done}}");
    check(AgentKind::Gemini, &gemini, r#"Stop "Because." 112/40/21/13"#);
    check_parts(AgentKind::Claude, "Now using node v22", &["InvalidReply: ".to_owned()]);
}

/// A call with these files of a project.
fn with_files(files: &[(&str, &[u8])]) -> CallCtx {
    let file = |bytes: &[u8]| AgentFile { bytes: bytes.into(), is_executable: false };
    let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), file(bytes))).collect();
    CallCtx::default().with(AgentProject { files })
}

#[test]
fn a_secret_in_a_session_file_is_in_no_tool_call() {
    const KEY: &str = "sk-of-the-run-0123";
    let events = format!(
        r#"{{"type":"session.start","data":{{"sessionId":"s"}}}}
{{"type":"tool.execution_start","data":{{"toolCallId":"1","toolName":"bash","arguments":{{"command":"echo {KEY}"}}}}}}"#
    );
    let script = format!(
        "mkdir -p \"$COPILOT_HOME/session-state/s\"; cat > \"$COPILOT_HOME/session-state/s/events.jsonl\" <<'END-OF-EVENTS'\n\
         {events}\nEND-OF-EVENTS\n{}",
        printing(COPILOT)
    );
    let fake = Fake::new(&script);
    let config = fake.config(AgentKind::Copilot);
    config.secrets.add(&ApiKey::new(KEY).unwrap());
    let work = ask(config, &question(), &with_files(&[])).unwrap().agent_work().unwrap();
    assert_eq!(work.tools.len(), 1);
    assert_eq!(work.tools[0].arguments["command"], "echo [key]");
}

/// Whatever its size, a file that is as it was is not a change; one that cannot be read ends no run.
#[test]
fn a_large_file_is_unchanged_and_one_that_cannot_be_read_is_not_kept() {
    let large = vec![7_u8; 5 << 20];
    let fake =
        Fake::new(&format!("echo x > locked; chmod 000 locked; echo y >> other; {}", printing(CLAUDE)));
    let files: [(&str, &[u8]); 2] = [("large.bin", large.as_slice()), ("other", large.as_slice())];
    let work = ask(fake.config(AgentKind::Claude), &question(), &with_files(&files)).unwrap();
    let work = work.agent_work().unwrap();
    assert!(!work.changed.contains_key("large.bin") && !work.not_kept.contains("large.bin"));
    assert!(work.not_kept.contains("other") && work.removed.is_empty());
    // Root reads every file.
    assert!(work.not_kept.contains("locked") || work.changed.contains_key("locked"));
}

#[test]
fn files_that_configure_an_agent_are_refused_by_name() {
    for path in [".claude/settings.json", "sub/.codex/config.toml", ".gemini/settings.json", "opencode.json"]
    {
        let fake = Fake::new(&printing(CLAUDE));
        let error =
            ask(fake.config(AgentKind::Claude), &question(), &with_files(&[(path, &b"{}"[..])])).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Configuration, "{error}");
        assert!(error.to_string().contains(path), "{error}");
        assert!(!fake.path("stdin").exists());
    }
}
