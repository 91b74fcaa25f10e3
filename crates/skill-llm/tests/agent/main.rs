//! Programs as models, played by small programs that print what the real ones are documented to print.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod killed;
mod outcomes;
#[path = "../support/said.rs"]
mod said;

use said::Said;
use serde_json::json;
use skill_core::carried::CarriedFile;
use skill_core::{SkillDoc, SkillPackage};
use skill_llm::agent::{AgentConfig, AgentKind, AgentModel, Sandbox, SkillAs};
use skill_llm::{
    AgentFile, AgentProject, CallCtx, CallPlace, ChatModel as _, ChatReply, ChatRequest, ContentPart, Effort,
    ErrorClass, ImageSource, LlmError, Message, ResponseSchema, Role, Sampling, ToolSpec,
};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A program in POSIX sh that plays one of the known ones.
struct Fake {
    dir: tempfile::TempDir,
}

impl Fake {
    /// The script finds the directory of the test in `$LAB`.
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent");
        let script = format!("#!/bin/sh\nLAB='{}'\n{script}\n", dir.path().display());
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self, kind: AgentKind) -> AgentConfig {
        let mut config = AgentConfig::new(kind, "model-1");
        // By way of the shell, since a file that was just written may still be open for writing elsewhere.
        config.command = Some(vec!["/bin/sh".to_owned(), self.path("agent").display().to_string()]);
        config.timeout = Duration::from_secs(60);
        config
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Keeps what the program was given, then prints this.
fn printing(output: &str) -> String {
    format!(
        "printf '%s\\n' \"$@\" > \"$LAB/arguments\"; cat > \"$LAB/stdin\"; pwd > \"$LAB/directory\"; env > \"$LAB/environment\"\n\
         find . -name .git -prune -o -type f -print | sort > \"$LAB/files\"; cat .claude/skills/*/SKILL.md .agents/skills/*/SKILL.md > \"$LAB/skill\" 2>/dev/null\n\
         cat <<'END-OF-OUTPUT'\n{output}\nEND-OF-OUTPUT"
    )
}

const CLAUDE: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":2200,"num_turns":1,"result":"Because.","session_id":"s","total_cost_usd":0.003,"usage":{"input_tokens":4,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":9,"service_tier":"standard"},"permission_denials":[]}"#;
const CODEX: &str = r#"{"type":"thread.started","thread_id":"0199a213"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"reasoning","text":"**Thinking**"}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I look."}}
{"type":"item.completed","item":{"id":"item_2","type":"command_execution","command":"ls","aggregated_output":"","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"Because."}}
{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}"#;
const GEMINI: &str = r#"Loaded cached credentials.
{"session_id": "s", "response": "Because.", "stats": {"models": {
  "gemini-pro": {"api": {"totalRequests": 1}, "tokens": {"prompt": 100, "candidates": 7, "total": 120, "cached": 40, "thoughts": 13, "tool": 0}},
  "gemini-flash": {"tokens": {"prompt": 10, "candidates": 1, "total": 11, "cached": 0, "thoughts": 0, "tool": 2}}},
  "tools": {"totalCalls": 0}}}"#;
const GEMINI_STREAM: &str = r#"{"type":"init","session_id":"s","model":"gemini-pro"}
{"type":"message","role":"user","content":"Why?"}
{"type":"message","role":"assistant","content":"I look.","delta":true}
{"type":"tool_use","tool_name":"read_file","tool_id":"1","parameters":{}}
{"type":"tool_result","tool_id":"1","status":"success","output":"x"}
{"type":"message","role":"assistant","content":"Beca","delta":true}
{"type":"message","role":"assistant","content":"use.","delta":true}
{"type":"result","status":"success","stats":{"total_tokens":120,"input_tokens":100,"output_tokens":7,"cached":40}}"#;
const OPENCODE: &str = r#"{"type":"step_start","sessionID":"s","part":{"messageID":"1"}}
{"type":"text","sessionID":"s","part":{"messageID":"1","text":"Because."}}
{"type":"step_finish","sessionID":"s","part":{"reason":"stop","tokens":{"input":90,"output":7,"reasoning":3,"cache":{"read":10,"write":0}},"cost":0}}"#;
const COPILOT: &str = r#"{"type":"assistant.message","data":{"messageId":"1","content":"Because."}}
{"type":"result","sessionId":"s","exitCode":0,"usage":{"premiumRequests":1}}"#;
const PI: &str = r#"{"type":"session","id":"s"}
{"type":"message_end","message":{"role":"assistant","stopReason":"stop","responseId":"1","content":[{"type":"text","text":"Because."}],"usage":{"input":90,"output":10,"cacheRead":10,"cacheWrite":0,"reasoning":3}}}
{"type":"agent_settled"}"#;
const QWEN: &str = r#"{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"text","text":"Because."}]}}
{"type":"result","subtype":"success","is_error":false,"result":"Because.","usage":{"input_tokens":100,"output_tokens":10,"cache_read_input_tokens":10}}"#;

fn question() -> ChatRequest {
    ChatRequest::new(vec![Message::system("Be brief."), Message::user("Why?")])
}

fn ask(config: AgentConfig, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
    let model = AgentModel::new(config).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(model.chat(request, call))
}

fn shown(outcome: Result<ChatReply, LlmError>) -> String {
    match outcome {
        Ok(ChatReply { text, usage, finish, .. }) => {
            format!(
                "{finish:?} {text:?} {}/{}/{}/{}",
                usage.input, usage.cached, usage.output, usage.reasoning
            )
        }
        Err(error) => format!("{:?}: {error}", error.class()),
    }
}

#[track_caller]
fn check(kind: AgentKind, output: &str, expect: &str) {
    let fake = Fake::new(&printing(output));
    let shown = shown(ask(fake.config(kind), &question(), &CallCtx::default()));
    let program = "/bin/sh";
    assert_eq!(shown.replace(program, "PROGRAM"), expect);
}

/// What an output comes to, by parts that the message has.
#[track_caller]
fn check_parts(kind: AgentKind, output: &str, parts: &[String]) {
    let fake = Fake::new(&printing(output));
    let shown = shown(ask(fake.config(kind), &question(), &CallCtx::default()));
    assert!(parts.iter().all(|part| shown.contains(part)) && shown.contains("`/bin/sh`"), "{shown}");
}

#[test]
fn replies_and_tokens_of_the_known_programs() {
    check(AgentKind::Claude, CLAUDE, r#"Stop "Because." 1104/1000/9/0"#);
    check(
        AgentKind::Claude,
        &format!("[{{\"type\":\"system\"}},{CLAUDE}]"),
        r#"Stop "Because." 1104/1000/9/0"#,
    );
    check(AgentKind::Codex, CODEX, r#"Stop "Because." 24763/24448/122/0"#);
    check(AgentKind::Gemini, GEMINI, r#"Stop "Because." 112/40/21/13"#);
    check(AgentKind::Gemini, GEMINI_STREAM, r#"Stop "Because." 100/40/20/0"#);
    check(AgentKind::OpenCode, OPENCODE, r#"Stop "Because." 100/10/10/3"#);
    check(AgentKind::Copilot, COPILOT, r#"Stop "Because." 0/0/0/0"#);
    check(AgentKind::Pi, PI, r#"Stop "Because." 100/10/10/3"#);
    check(AgentKind::Qwen, QWEN, r#"Stop "Because." 100/10/10/0"#);
    check(AgentKind::Command, "  Because.\n", r#"Stop "Because." 0/0/0/0"#);
}

/// Copilot CLI reports tokens in its session files alone.
#[test]
fn tokens_of_session_files_count_where_the_stream_has_none() {
    let events = r#"{"type":"session.start","data":{"sessionId":"s"}}
{"type":"session.usage_record","data":{"usage":{"inputTokens":80,"cacheReadTokens":20,"cacheWriteTokens":0,"outputTokens":9}}}"#;
    let script = format!(
        "mkdir -p \"$COPILOT_HOME/session-state/s\"; cat > \"$COPILOT_HOME/session-state/s/events.jsonl\" <<'END-OF-EVENTS'\n\
         {events}\nEND-OF-EVENTS\n{}",
        printing(COPILOT)
    );
    let fake = Fake::new(&script);
    let found = shown(ask(fake.config(AgentKind::Copilot), &question(), &CallCtx::default()));
    assert_eq!(found, r#"Stop "Because." 100/20/9/0"#);
}

/// The home of each is that of the user, or a fresh one without the user's skills.
#[test]
fn the_users_own_skills_are_kept_out() {
    for kind in AgentKind::ALL.into_iter().filter(|kind| *kind != AgentKind::Command) {
        let fake = Fake::new(&printing("x"));
        ask(fake.config(kind).tap_text(), &question(), &CallCtx::default()).unwrap();
        let environment = fake.read("environment");
        let variable = |name: &str| {
            let start = format!("{name}=");
            environment.lines().find_map(|line| line.strip_prefix(&start)).map(Path::new).map(Path::to_owned)
        };
        let (home, directory) = (variable("HOME").unwrap(), PathBuf::from(fake.read("directory").trim()));
        let is_fresh = home.parent() == directory.parent() && home.parent().is_some();
        match kind {
            AgentKind::Claude | AgentKind::Pi => assert_eq!(Some(home), std::env::home_dir(), "{kind:?}"),
            _ => assert!(is_fresh && !home.exists(), "{kind:?}: {environment}"),
        }
    }
}

#[test]
fn outputs_without_a_reply() {
    let mut said = Said::default();
    let mut check = |kind: AgentKind, output: &str| {
        let fake = Fake::new(&printing(output));
        let shown = shown(ask(fake.config(kind), &question(), &CallCtx::default()));
        said.add(&shown, &["InvalidReply: ", "`/bin/sh`"]);
    };
    check(AgentKind::Command, "");
    check(AgentKind::Claude, r#"{"type":"system"}"#);
    check(AgentKind::Claude, "[]");
    check(AgentKind::Codex, "{\"type\":\"turn.started\"}\nnoise");
    check(AgentKind::Gemini, r#"{"stats": {}}"#);
    insta::assert_snapshot!(said.text());
}

#[test]
fn failures_that_a_program_reports() {
    let claude = |result: &str| {
        format!(r#"{{"type":"result","subtype":"success","is_error":true,"result":"{result}"}}"#)
    };
    let reports = |class: &str, said: &str| vec![format!("{class}: "), said.to_owned()];
    let check_claude =
        |said: &str, class: &str| check_parts(AgentKind::Claude, &claude(said), &reports(class, said));
    check_claude("Invalid API key · Please run /login", "Authentication");
    check_claude("Credit balance is too low", "QuotaExhausted");
    check_claude("Claude AI usage limit reached|1760000000", "QuotaExhausted");
    check_claude("API Error: 429 rate_limit_error", "RateLimited");
    check_claude("API Error: 529 Overloaded", "ServerError");
    check_claude("Prompt is too long", "ContextTooLong");
    check_parts(
        AgentKind::Claude,
        r#"{"type":"result","subtype":"error_during_execution","is_error":true}"#,
        &reports("ServerError", "error_during_execution"),
    );
    let codex = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"stream error: 401 Unauthorized\"}}";
    check_parts(AgentKind::Codex, codex, &reports("Authentication", "stream error: 401 Unauthorized"));
    let recovered = format!("{{\"type\":\"error\",\"message\":\"Reconnecting... 1/5\"}}\n{CODEX}");
    check(AgentKind::Codex, &recovered, r#"Stop "Because." 24763/24448/122/0"#);
    let gemini = r#"{"error": {"type": "ApiError", "message": "RESOURCE_EXHAUSTED", "code": 429}}"#;
    check_parts(AgentKind::Gemini, gemini, &reports("RateLimited", "RESOURCE_EXHAUSTED"));
}

#[test]
fn an_exit_code_is_an_error_and_no_reply() {
    #[track_caller]
    fn check(kind: AgentKind, script: &str, names: &[&str]) {
        let fake = Fake::new(script);
        let shown = shown(ask(fake.config(kind), &question(), &CallCtx::default()));
        assert!(names.iter().all(|name| shown.contains(name)) && shown.contains("`/bin/sh`"), "{shown}");
    }
    check(
        AgentKind::Command,
        "echo Because.; echo 'a word\nof warning' >&2; exit 3",
        &["ServerError: ", "exit code 3", "a word of warning"],
    );
    check(
        AgentKind::Claude,
        "echo '{\"type\": \"result\", \"is_error\": true, \"result\": \"Credit balance is too low\"}'; exit 1",
        &["QuotaExhausted: ", "exit code 1", "Credit balance is too low"],
    );
    check(AgentKind::Gemini, "exit 41", &["Authentication: ", "exit code 41"]);
    check(AgentKind::Command, "no-such-program-anywhere 2>/dev/null", &["Configuration: ", "exit code 127"]);
    let mut config = AgentConfig::new(AgentKind::Codex, "m");
    config.command = Some(vec!["/no/such/program".to_owned()]);
    let error = ask(config, &question(), &CallCtx::default()).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Configuration);
    assert!(matches!(&error, LlmError::Program { program, .. } if program == "/no/such/program"), "{error}");
    assert!(error.hint().contains("`command`") && !error.is_retryable());
}

/// A text without the name of the call's directory.
fn without_directory(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.find("/project/") {
        Some(at) => format!("PROJECT{}", word.get(at + "/project".len()..).unwrap_or_default()),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The arguments of a call, less the shell and the script.
fn arguments(kind: AgentKind, change: impl FnOnce(&mut AgentConfig), request: &ChatRequest) -> String {
    let fake = Fake::new(&printing("x"));
    let mut config = fake.config(kind);
    config.output = Some(skill_llm::agent::OutputFormat::Text);
    change(&mut config);
    ask(config, request, &CallCtx::default()).unwrap();
    assert!(!fake.read("arguments").contains("Why?"), "the prompt is no argument");
    fake.read("arguments").trim().replace('\n', " ")
}

#[test]
fn arguments_of_the_known_programs() {
    let schema = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let with_schema =
        ChatRequest { response_schema: Some(ResponseSchema::new("patch", schema)), ..question() };
    let shown: Vec<String> = [Sandbox::ReadOnly, Sandbox::Workspace, Sandbox::Off]
        .into_iter()
        .flat_map(|sandbox| {
            AgentKind::ALL.map(|kind| {
                let words = arguments(
                    kind,
                    |config| {
                        config.sandbox = sandbox;
                        config.arguments = vec!["--own".to_owned()];
                        let is_told =
                            !matches!(kind, AgentKind::Gemini | AgentKind::Qwen | AgentKind::Command);
                        config.effort = is_told.then_some(Effort::Low);
                    },
                    &with_schema,
                );
                format!("{} {sandbox:?}: {}", kind.as_str(), without_directory(&words))
            })
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
    let placed = arguments(
        AgentKind::Command,
        |config| config.command.as_mut().unwrap().push("--model={model}".to_owned()),
        &question(),
    );
    assert_eq!(placed, "--model=model-1");
}

#[test]
fn the_prompt_comes_on_the_standard_input() {
    #[track_caller]
    fn prompt(request: &ChatRequest) -> String {
        let fake = Fake::new(&printing("x"));
        ask(fake.config(AgentKind::Command), request, &CallCtx::default()).unwrap();
        fake.read("stdin")
    }
    assert_eq!(prompt(&question()), "Be brief.\n\nWhy?");
    let conversation = ChatRequest::new(vec![
        Message::system("Be brief."),
        Message::user("Why?"),
        Message::assistant("Because."),
        Message::text_message(Role::Tool, "a cat"),
        Message::user("Really?"),
    ]);
    insta::assert_snapshot!(prompt(&conversation));
    // An argument of this length is refused by the system.
    let long = ChatRequest::new(vec![Message::user("x".repeat(4_000_000))]);
    assert_eq!(prompt(&long).len(), 4_000_000);
    // A program that does not read its input may answer all the same.
    let fake = Fake::new("echo x");
    assert_eq!(ask(fake.config(AgentKind::Command), &long, &CallCtx::default()).unwrap().text, "x");
}

#[test]
fn images_are_files_of_the_working_directory() {
    let fake = Fake::new(&printing("x"));
    let message = Message::new(
        Role::User,
        vec![
            ContentPart::Text("What is it?".into()),
            ContentPart::Image(ImageSource::from_bytes("image/png", b"\x89PNG")),
            ContentPart::Image(ImageSource::Url("https://pictures.example/1.png".to_owned())),
        ],
    );
    ask(fake.config(AgentKind::Claude).tap_text(), &ChatRequest::new(vec![message]), &CallCtx::default())
        .unwrap();
    insta::assert_snapshot!(fake.read("stdin"), @r"
    What is it?
    [image: the file image-1.png]
    [image: https://pictures.example/1.png]
    ");
    assert_eq!(fake.read("files"), "./image-1.png\n");
}

trait TapText {
    fn tap_text(self) -> Self;
}

impl TapText for AgentConfig {
    fn tap_text(mut self) -> Self {
        self.output = Some(skill_llm::agent::OutputFormat::Text);
        self
    }
}

#[test]
fn the_skill_is_a_package_where_that_is_wanted() {
    let skill = "# Skill\n\nLook twice.";
    let request = ChatRequest::new(vec![
        Message::system(format!("{skill}\n\nAnswer in one word.")),
        Message::user("Why?"),
    ]);
    let call = with_skill(&SkillDoc::new(format!("{skill}\n")));
    let run = |kind, skill_as| {
        let fake = Fake::new(&printing("x"));
        let mut config = fake.config(kind).tap_text();
        config.skill_as = skill_as;
        ask(config, &request, &call).unwrap();
        fake
    };
    let claude = run(AgentKind::Claude, SkillAs::Package);
    let stdin = claude.read("stdin");
    assert!(stdin.starts_with("Answer") && !stdin.contains("SKILL.md"), "{stdin}");
    let hinted = run(AgentKind::Claude, SkillAs::PackageWithHint);
    insta::assert_snapshot!("package_prompt", hinted.read("stdin"));
    assert_eq!(hinted.read("skill"), claude.read("skill"));
    insta::assert_snapshot!("package_skill", claude.read("skill"));
    assert_eq!(claude.read("files"), "./.claude/skills/substitute-for-unnamed-skill/SKILL.md\n");
    assert_eq!(
        run(AgentKind::Codex, SkillAs::Package).read("files"),
        "./.agents/skills/substitute-for-unnamed-skill/SKILL.md\n"
    );
    let gemini = run(AgentKind::Gemini, SkillAs::Package).read("files");
    assert_eq!(gemini, "./.gemini/settings.json\n./.gemini/skills/substitute-for-unnamed-skill/SKILL.md\n");
    let as_prompt = run(AgentKind::Claude, SkillAs::Prompt);
    assert_eq!(as_prompt.read("files"), "");
    assert!(as_prompt.read("stdin").starts_with(skill));
}

fn with_skill(skill: &SkillDoc) -> CallCtx {
    CallCtx::default().with(skill.agent_view()).with(skill.clone())
}

/// Asks a program that gets its skill as a package; the files that it found, and its `SKILL.md`.
fn packaged(skill: &SkillDoc, system: &str) -> Result<(String, String), LlmError> {
    let hinted = packaged_as(SkillAs::PackageWithHint, skill, system);
    let plain = packaged_as(SkillAs::Package, skill, system);
    assert_eq!(plain.as_ref().ok(), hinted.as_ref().ok());
    plain
}

fn packaged_as(skill_as: SkillAs, skill: &SkillDoc, system: &str) -> Result<(String, String), LlmError> {
    let fake = Fake::new(&printing("x"));
    let mut config = fake.config(AgentKind::Claude).tap_text();
    config.skill_as = skill_as;
    let request = ChatRequest::new(vec![Message::system(system), Message::user("Why?")]);
    ask(config, &request, &with_skill(skill))?;
    assert!(!fake.read("stdin").contains(skill.agent_view().trim()) || skill.is_blank());
    Ok((fake.read("files"), fake.read("skill")))
}

const WITH_FRONT_MATTER: &str = "---\nname: mine\ndescription: x\n---\n\n# Skill\n\nLook twice.\n";

#[test]
fn a_package_is_delivered_as_it_is() {
    let mut package = SkillPackage { main: WITH_FRONT_MATTER.to_owned(), ..SkillPackage::default() };
    package.references.insert("references/dates.md".to_owned(), "# Dates\n\nIn full.\n".to_owned());
    package.carry("scripts/check.sh", CarriedFile::new(b"echo ok\n".to_vec(), true));
    package.carry("evals/evals.json", CarriedFile::new(b"{}".to_vec(), false));
    let folder = package.document().unwrap();
    let alone = SkillDoc::new(WITH_FRONT_MATTER);
    let of = |name: &str| format!("./.claude/skills/mine/{name}\n");
    let all = [of("SKILL.md"), of("references/dates.md"), of("scripts/check.sh")].concat();
    for (skill, expect) in [(&alone, of("SKILL.md")), (&folder, all)] {
        let shown = skill.agent_view();
        let (files, written) = packaged(skill, &format!("{}\n\nBe brief.", shown.trim())).unwrap();
        assert_eq!((files, written), (expect, WITH_FRONT_MATTER.to_owned()));
    }
    // Another description is another task for the agent, though it is no part of the prompt.
    let other = SkillDoc::new(WITH_FRONT_MATTER.replace("description: x", "description: Other words"));
    assert_eq!(other.agent_view(), alone.agent_view());
    let (_, written) = packaged(&other, &format!("{}\n\nBe brief.", other.agent_view().trim())).unwrap();
    assert!(written.contains("description: Other words"), "{written}");
}

#[test]
fn only_what_a_skill_lacks_is_substituted() {
    for (main, name, description) in [
        ("---\nname: mine\n---\n# A\n", "mine", true),
        ("---\ndescription: Does a.\n---\n# A\n", "substitute-for-unnamed-skill", false),
        ("---\nname: ../up\ndescription: Does a.\n---\n# A\n", "substitute-for-unnamed-skill", false),
    ] {
        let skill = SkillDoc::new(main);
        let (files, written) =
            packaged(&skill, &format!("{}\n\nBe brief.", skill.agent_view().trim())).unwrap();
        assert_eq!(files, format!("./.claude/skills/{name}/SKILL.md\n"), "{main}");
        assert_eq!(written.contains("Instructions for the tasks"), description, "{written}");
    }
}

/// The agent would load the skill by a name that is not its own, and only in a prompt is front matter not read.
#[test]
fn front_matter_that_cannot_be_read_is_an_error_and_not_replaced() {
    for main in ["---\nname: [mine\n---\n# A\n", "---\n- mine\n---\n# A\n"] {
        let skill = SkillDoc::new(main);
        let system = format!("{}\n\nBe brief.", skill.agent_view().trim());
        for skill_as in [SkillAs::Package, SkillAs::PackageWithHint] {
            let refused = packaged_as(skill_as, &skill, &system);
            assert!(matches!(&refused, Err(LlmError::Configuration { .. })), "{main}: {refused:?}");
        }
        let fake = Fake::new(&printing("x"));
        let mut config = fake.config(AgentKind::Claude).tap_text();
        config.skill_as = SkillAs::Prompt;
        let request = ChatRequest::new(vec![Message::system(&system), Message::user("Why?")]);
        ask(config, &request, &with_skill(&skill)).unwrap();
    }
}

const LOADS_MINE: &str = r#"{"type":"system","subtype":"init","session_id":"s","claude_code_version":"2.1.332","model":"m"}
{"type":"assistant","message":{"id":"1","model":"m","content":[{"type":"tool_use","id":"c","name":"Skill","input":{"skill":"mine"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"Launching skill: mine"}]}}
{"type":"assistant","message":{"id":"2","model":"m","content":[{"type":"text","text":"Done."}]}}
{"type":"result","subtype":"success","is_error":false,"result":"Done.","usage":{"input_tokens":4,"output_tokens":9}}"#;

#[test]
fn a_reply_says_whether_the_skill_was_loaded_and_which_files_changed() {
    let change =
        "echo two > kept.txt; rm gone.txt; mkdir new; echo three > new/file.txt; echo x > .claude/note";
    for (stream, activated) in [(LOADS_MINE, true), (CLAUDE, false)] {
        let fake = Fake::new(&format!("{change}; {}", printing(stream)));
        let mut config = fake.config(AgentKind::Claude);
        config.skill_as = SkillAs::Package;
        let file = |text: &str| AgentFile { bytes: text.as_bytes().into(), is_executable: false };
        let files = [("kept.txt", "one"), ("gone.txt", "x"), ("same/as.txt", "before")];
        let files = files.map(|(path, text)| (path.to_owned(), file(text)));
        let project = AgentProject { files: files.into() };
        let call = with_skill(&SkillDoc::new(WITH_FRONT_MATTER)).with(project.clone());
        // A task with files of its own has a prompt without a skill.
        let reply = ask(config, &question(), &call).unwrap();
        let work = reply.agent_work().unwrap();
        assert_eq!(work.is_activated(), Some(activated));
        assert_eq!(work.changed.keys().collect::<Vec<_>>(), ["kept.txt", "new/file.txt"]);
        assert_eq!(work.removed.iter().collect::<Vec<_>>(), ["gone.txt"]);
        assert_eq!(work.after(&project)["new/file.txt"].as_ref(), b"three\n");
        assert_eq!(work.tools.len(), usize::from(activated));
    }
}

#[test]
fn a_prompt_without_the_skill_is_an_error_where_a_package_is_wanted() {
    for skill in ["another text", WITH_FRONT_MATTER] {
        let error = packaged(&SkillDoc::new(skill), "Be brief.").unwrap_err();
        assert_eq!(error.class(), ErrorClass::Configuration, "{error}");
        assert!(!error.is_retryable());
    }
    // A system message that was the skill alone leaves nothing behind.
    let fake = Fake::new(&printing("x"));
    let mut config = fake.config(AgentKind::Claude).tap_text();
    config.skill_as = SkillAs::Package;
    let alone = ChatRequest::new(vec![Message::system("# Skill"), Message::user("Why?")]);
    ask(config, &alone, &with_skill(&SkillDoc::new("# Skill\n"))).unwrap();
    assert_eq!(fake.read("stdin"), "Why?");
    // An empty skill is not a package, and neither is a call without a skill.
    assert_eq!(packaged(&SkillDoc::new("  "), "Be brief.").unwrap().0, "");
    let fake = Fake::new(&printing("x"));
    let mut config = fake.config(AgentKind::Claude).tap_text();
    config.skill_as = SkillAs::Package;
    ask(config, &question(), &CallCtx::default()).unwrap();
    assert_eq!(fake.read("files"), "");
}

#[test]
fn each_call_has_a_fresh_directory_that_is_gone_afterwards() {
    let fake = Fake::new(&format!("touch left-behind; {}", printing("x")));
    let mut directories = Vec::new();
    for _ in 0..2 {
        ask(fake.config(AgentKind::Command), &question(), &CallCtx::default()).unwrap();
        assert_eq!(fake.read("files"), "./left-behind\n");
        let directory = fake.read("directory").trim().to_owned();
        assert!(!Path::new(&directory).exists(), "{directory}");
        directories.push(directory);
    }
    assert_ne!(directories[0], directories[1]);
}

#[test]
fn a_program_sees_the_variables_that_are_named_and_no_others() {
    // Set by cargo for every test, and not among what every program gets.
    let (named, unnamed) = ("CARGO_MANIFEST_DIR", "CARGO_PKG_NAME");
    let fake = Fake::new(&printing("x"));
    let mut config = fake.config(AgentKind::Command);
    config.pass_env = vec![named.to_owned(), "NO_SUCH_VARIABLE_OF_TESTS".to_owned(), "A=B".to_owned()];
    ask(config, &question(), &CallCtx::default()).unwrap();
    let environment = fake.read("environment");
    assert!(environment.contains(&format!("{named}=")) && environment.contains("PATH="), "{environment}");
    assert!(!environment.contains(&format!("{unnamed}=")), "{environment}");
}

#[test]
fn the_value_of_a_named_variable_is_nowhere_to_be_seen() {
    // A value that every test has stands for a key.
    let secret = env!("CARGO_MANIFEST_DIR");
    let script = "echo \"it is $CARGO_MANIFEST_DIR\"; echo \"no: $CARGO_MANIFEST_DIR\" >&2";
    for (script, is_error) in [(script.to_owned(), false), (format!("{script}; exit 1"), true)] {
        let fake = Fake::new(&script);
        let mut config = fake.config(AgentKind::Command);
        config.pass_env = vec!["CARGO_MANIFEST_DIR".to_owned()];
        config.trace_dir = Some(fake.path("traces"));
        let debug = format!("{:?}", AgentModel::new(config.clone()).unwrap());
        let outcome = ask(config, &question(), &CallCtx::default());
        assert_eq!(outcome.is_err(), is_error);
        let traces = fake.read("traces/call-1.stdout.txt") + &fake.read("traces/call-1.stderr.txt");
        for shown in [format!("{outcome:?}"), debug, traces] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
}

#[test]
fn a_secret_of_the_run_is_in_nothing_that_a_program_prints() {
    const KEY: &str = "sk-of-the-run-0123";
    for ending in ["", "; exit 1"] {
        let fake = Fake::new(&format!("echo found {KEY}; echo no {KEY} >&2{ending}"));
        let mut config = fake.config(AgentKind::Command);
        config.secrets.add(&skill_llm::ApiKey::new(KEY).unwrap());
        config.trace_dir = Some(fake.path("traces"));
        let outcome = ask(config, &question(), &CallCtx::default());
        let traces = fake.read("traces/call-1.stdout.txt") + &fake.read("traces/call-1.stderr.txt");
        for shown in [format!("{outcome:?}"), traces] {
            assert!(!shown.contains(KEY) && shown.contains("[key]"), "{shown}");
        }
    }
}

#[test]
fn traces_are_kept_by_place() {
    let fake = Fake::new(&printing(CODEX));
    let mut config = fake.config(AgentKind::Codex);
    config.trace_dir = Some(fake.path("run/traces"));
    let call = CallCtx::new(CallPlace::new("step 3").child("rollout").child("a/../b"));
    for _ in 0..2 {
        ask(config.clone(), &question(), &call).unwrap();
    }
    assert_eq!(fake.read("run/traces/step-3-rollout-a-b-1.stdout.txt").trim(), CODEX);
    assert_eq!(fake.read("run/traces/step-3-rollout-a-b-2.stdout.txt").trim(), CODEX);
    assert_eq!(std::fs::read_dir(fake.path("run/traces")).unwrap().count(), 2);
}

#[test]
fn what_cannot_be_passed_on_is_an_error() {
    #[track_caller]
    fn refused(config: AgentConfig, expect: &str) {
        let error = AgentModel::new(config).unwrap_err();
        assert!(
            matches!(error, LlmError::Configuration { .. }) && error.to_string().contains(expect),
            "{error}"
        );
    }
    refused(AgentConfig::new(AgentKind::Claude, " "), "the name of the model");
    refused(AgentConfig::new(AgentKind::Command, "m"), "needs a `command`");
    let mut config = AgentConfig::new(AgentKind::Gemini, "m");
    config.effort = Some(Effort::Low);
    refused(config, "`reasoning_effort`");
    let mut config = AgentConfig::new(AgentKind::Claude, "m");
    config.command = Some(vec![String::new()]);
    refused(config, "names no program");
    let tool = ToolSpec { name: "look".to_owned(), description: String::new(), parameters: json!({}) };
    let fake = Fake::new(&printing("x"));
    let request = ChatRequest { tools: vec![tool], ..question() };
    let error = ask(fake.config(AgentKind::Command), &request, &CallCtx::default()).unwrap_err();
    assert!(error.to_string().contains("has its own"), "{error}");
    assert!(!fake.path("stdin").exists(), "nothing was started");
    // Sampling is nothing that a program takes, and no reason to refuse what every stage asks for.
    let sampling = Sampling { max_tokens: Some(5), ..Sampling::default() };
    let request = ChatRequest { sampling, ..question() };
    ask(fake.config(AgentKind::Command), &request, &CallCtx::default()).unwrap();
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_that_is_printed_makes_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let fake = Fake::new("cat \"$LAB/output\"");
        std::fs::write(fake.path("output"), &bytes).unwrap();
        for kind in AgentKind::ALL {
            drop(ask(fake.config(kind), &question(), &CallCtx::default()));
        }
    }
}
