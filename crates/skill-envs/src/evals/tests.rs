//! Case files and whole rollouts, with an agent that is a function.

use super::{
    Case, CaseFormat, CaseSet, Check, EvalsConfig, EvalsEnv, SandboxChoice, checks_of, is_over_time,
};
use crate::env::{Env as _, RolloutCtx};
use crate::error::EnvError;
use crate::item::Split;
use async_trait::async_trait;
use serde_json::json;
use skill_core::SkillDoc;
use skill_core::Usage;
use skill_llm::{
    AgentProject, AgentWork, CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, LlmError, ModelId,
};
use std::path::Path;
use std::sync::Arc;

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[track_caller]
fn is_of(name: &str, text: &str, format: CaseFormat, n_cases: usize) {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[(name, text)]);
    let set = CaseSet::read(&dir.path().join(name)).unwrap();
    assert_eq!((set.format, set.cases.len()), (format, n_cases), "{text}");
}

#[test]
fn case_files_of_all_forms_are_read() {
    let of_schemas = r#"{"skill_name": "pdf", "unknown": [1, null], "evals": [{"id": 1, "prompt": "Do", "expected_output": "x", "files": [], "expectations": ["It is done"], "later": {"a": 1}}]}"#;
    is_of("evals.json", of_schemas, CaseFormat::Expectations, 1);
    let of_text = r#"{"skill_name": "pdf", "evals": [{"id": "a", "prompt": "Do", "assertions": [{"id": "x", "type": "llm_judge", "rubric": "Good?", "samples": 3}]}]}"#;
    is_of("evals.json", of_text, CaseFormat::Assertions, 1);
    let lines = "{\"id\": \"a\", \"prompt\": \"Do\", \"checks\": [\"Done\"], \"note\": 1}\n{\"prompt\": \"Do more\", \"checks\": [{\"type\": \"diff\", \"max_files\": 1}]}\n";
    is_of("evals.jsonl", lines, CaseFormat::Lines, 2);
}

#[test]
fn case_folders_of_claude_are_read() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[
            ("a/prompt.md", "---\nmax_turns: 5\n---\nAdd up the numbers.\n"),
            ("a/graders/total.md", "---\ntype: regex\ntarget: last_message\n---\n42\n"),
            ("a/graders/polite.md", "---\ntype: llm\n---\nThe reply is polite.\n"),
            ("a/graders/fires.md", "---\ntype: tool_used\ntool: Skill\n---\nIt fires.\n"),
            ("a/graders/reads.md", "---\ntype: tool_used\ntool: Read\narm: with-only\nweight: 2\n---\n"),
            ("a/fixture/numbers.txt", "40\n2\n"),
            (
                "b/case.yaml",
                "name: second\nexecution:\n  prompt: Write a.md\ngraders:\n  - type: file_exists\n    path: a.md\n",
            ),
            ("not-a-case/x.txt", ""),
        ],
    );
    let set = CaseSet::read(dir.path()).unwrap();
    assert_eq!(set.format, CaseFormat::Plugin);
    let [first, second] = set.cases.as_slice() else { panic!("{:?}", set.cases) };
    assert_eq!((first.prompt.as_str(), second.id.as_str()), ("Add up the numbers.", "second"));
    assert_eq!(first.checks.len(), 4);
    // In the order of their names: fires, polite, reads, total.
    assert_eq!(first.shown_only.iter().copied().collect::<Vec<_>>(), [2]);
    assert_eq!(first.files.keys().collect::<Vec<_>>(), ["numbers.txt"]);
    assert_eq!(second.checks[0].text(), "a.md is made");
}

#[test]
fn what_is_wrong_with_cases_is_named_with_its_place() {
    let case = |more: &str| format!("{{\"evals\": [{{\"id\": 1, \"prompt\": \"Do\"{more}}}]}}");
    let two = r#"{"evals": [{"prompt": "a", "expectations": ["x"]}, {"prompt": "b", "assertions": ["x"]}]}"#;
    for (text, what) in [
        (case(""), "no checks"),
        (case(r#", "expectations": []"#), "no checks"),
        (case(r#", "expectations": ["x"], "assertions": ["y"]"#), "both"),
        (two.to_owned(), "two dialects"),
        (case(r#", "expectations": ["x"], "files": ["gone.csv"]"#), "gone.csv"),
        (case(r#", "expectations": ["x"], "files": ["../../etc/passwd"]"#), "../../etc/passwd"),
        (case(r#", "expectations": [{"type": "baseline"}]"#), "baseline"),
        (case(r#", "expectations": ["x"], "turns": []"#), "several turns"),
        (case(r#", "expectations": ["x"], "codebase": "app""#), "`codebase`"),
        (case(r#", "expectations": ["x"], "reviewed": "no""#), "`reviewed`"),
        (case(r#", "expectations": ["x"], "split": 1"#), "`split`"),
        (case(r#", "expectations": ["x"], "expected_output": ["y"]"#), "`expected_output`"),
        (r#"{"evals": [{"id": true, "prompt": "a", "checks": ["x"]}]}"#.to_owned(), "`id`"),
        (r#"{"evals": []}"#.to_owned(), "no cases"),
        (r#"{"evals": [{"prompt": " "}]}"#.to_owned(), "`prompt`"),
        (r#"{"cases": []}"#.to_owned(), "`evals`"),
        (r#"{"evals": [{"id": 1, "prompt": "a", "checks": ["x"]}, {"id": 1, "prompt": "b", "checks": ["x"]}]}"#.to_owned(), "another case"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("evals.json", &text)]);
        let error = CaseSet::read(&dir.path().join("evals.json")).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("evals.json"), "{text}: {error}");
    }
}

/// A grader that is not read would leave a case that passes too often.
#[test]
fn nothing_of_a_case_folder_is_passed_over() {
    const CASE: &str = "prompt: Do\nchecks: []\n";
    for (more, names) in [
        ("graders: {type: file_exists, path: a.md}\n", ["case.yaml", "`graders`"]),
        ("graders: Is it done?\n", ["case.yaml", "`graders`"]),
        ("name: [a]\n", ["case.yaml", "`name`"]),
        ("split: 1\n", ["case.yaml", "`split`"]),
        ("expected_output: {a: 1}\n", ["case.yaml", "`expected_output`"]),
        ("execution: now\n", ["case.yaml", "`execution`"]),
        ("execution: {prompt: 1}\n", ["case.yaml", "`prompt`"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[("a/case.yaml", &format!("{CASE}{more}")), ("a/graders/x.md", "It is done.")]);
        let error = CaseSet::read(dir.path()).unwrap_err().to_string();
        assert!(names.iter().all(|name| error.contains(name)), "{more}: {error}");
    }
    // Graders that cannot be read: the folder is none, or leads nowhere.
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("a/case.yaml", "prompt: Do\ngraders: [{type: diff, max_files: 1}]\n")]);
    assert_eq!(CaseSet::read(dir.path()).unwrap().cases[0].checks.len(), 1);
    write(dir.path(), &[("a/graders", "It is done.")]);
    assert!(matches!(CaseSet::read(dir.path()), Err(EnvError::ReadData { .. })));
    #[cfg(unix)]
    {
        let skill = tempfile::tempdir().unwrap();
        let evals = skill.path().join("evals");
        assert_eq!(CaseSet::usual_place(skill.path()), None);
        std::os::unix::fs::symlink(&evals, &evals).unwrap();
        assert_eq!(CaseSet::usual_place(skill.path()), Some(evals));
    }
}

/// Writes what its skill says into `total.txt`, and without one nothing.
struct Worker(ModelId);

#[async_trait]
impl ChatModel for Worker {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        assert!(!request.messages[0].text().contains("# Adding"), "the prompt contains the skill");
        assert!(call.get::<AgentProject>().unwrap().files.contains_key("numbers.txt"));
        let skill = call.get::<SkillDoc>().filter(|skill| !skill.is_blank());
        let mut work = AgentWork { skill: skill.map(|_| "adding".to_owned()), ..AgentWork::default() };
        if skill.is_some() {
            work.loaded.push("adding".to_owned());
            work.keep("total.txt".to_owned(), b"42\n");
        }
        Ok(ChatReply::text("Done.", Usage::default()).with_agent_work(&work))
    }
}

/// Cases in `evals.json` of this folder.
fn config(dir: &Path) -> EvalsConfig {
    EvalsConfig {
        cases: dir.join("evals.json"),
        exclude: Vec::new(),
        is_for_measuring: true,
        is_graded: false,
        prompt: None,
        sandbox: SandboxChoice::Auto,
        needs_guard: false,
    }
}

/// A model that is not an agent: its replies say nothing of files.
struct Talker(ModelId);

#[async_trait]
impl ChatModel for Talker {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        Ok(ChatReply::text("Done.", Usage::default()))
    }
}

#[tokio::test]
async fn a_model_that_is_not_an_agent_is_an_error_and_no_score() {
    let dir = tempfile::tempdir().unwrap();
    let cases = r#"{"evals": [{"prompt": "Do.", "checks": [{"type": "diff", "max_files": 1}]}]}"#;
    write(dir.path(), &[("evals.json", cases)]);
    let env = EvalsEnv::load(&config(dir.path()), None).unwrap();
    let target = Talker(ModelId::new("test", "talker"));
    let (item, ctx) = (&env.items(Split::Val)[0], RolloutCtx::new(CallCtx::default()));
    let error = env.rollout(item, &SkillDoc::default(), &target, &ctx).await.unwrap_err();
    assert!(matches!(error, EnvError::Configuration { .. }), "{error}");
}

/// Checks that guard are a second score, and decide nothing about whether a run passes.
#[tokio::test]
async fn checks_that_guard_are_a_second_score() {
    let dir = tempfile::tempdir().unwrap();
    let cases = r#"[{"id": "sum", "prompt": "Add up.", "files": ["numbers.txt"], "checks": [
        {"type": "file", "path": "total.txt", "exists": true},
        {"type": "file", "path": "numbers.txt", "contains": "40", "guard": true},
        {"type": "diff", "max_files": 0, "max_lines": 9, "guard": true}]}]"#;
    write(dir.path(), &[("evals.json", cases), ("numbers.txt", "40\n2\n")]);
    let env = EvalsEnv::load(&EvalsConfig { needs_guard: true, ..config(dir.path()) }, None).unwrap();
    let target = Worker(ModelId::new("test", "worker"));
    for (skill, passed, guard) in
        [("---\nname: adding\ndescription: x\n---\n# Adding\n", true, 0.5), ("", false, 1.0)]
    {
        let (item, ctx) = (&env.items(Split::Val)[0], RolloutCtx::new(CallCtx::default()));
        let result = env.rollout(item, &SkillDoc::new(skill), &target, &ctx).await.unwrap();
        assert_eq!((result.is_success(), result.guard()), (passed, Some(guard)), "{}", result.fail_reason);
        assert_eq!(result.soft, f64::from(u8::from(passed)));
    }
    // A gate with a guard needs such checks, and a case needs others.
    let alone = |more: &str| {
        format!(r#"[{{"prompt": "Do.", "checks": [{{"type": "diff", "max_files": 1{more}}}]}}]"#)
    };
    for (cases, needs_guard) in
        [(alone(""), true), (alone(r#", "guard": true"#), false), (alone(r#", "guard": 1"#), false)]
    {
        write(dir.path(), &[("evals.json", &cases)]);
        let config = EvalsConfig { needs_guard, ..config(dir.path()) };
        assert!(EvalsEnv::load(&config, None).is_err(), "{cases}");
    }
}

/// An agent that needs more than its time.
struct Late(ModelId);

#[async_trait]
impl ChatModel for Late {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        let work = AgentWork { milliseconds: 600_000, ..AgentWork::default() };
        let reply = ChatReply::new("", Usage::default(), FinishReason::time_used_up());
        Ok(reply.with_agent_work(&work))
    }
}

#[tokio::test]
async fn a_run_over_its_time_limit_fails_its_checks_and_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let cases =
        r#"[{"prompt": "Do.", "checks": [{"type": "diff", "max_files": 1}, {"type": "skill_invoked"}]}]"#;
    write(dir.path(), &[("evals.json", cases)]);
    let env = EvalsEnv::load(&config(dir.path()), None).unwrap();
    let target = Late(ModelId::new("test", "late"));
    let (item, ctx) = (&env.items(Split::Val)[0], RolloutCtx::new(CallCtx::default()));
    let result = env.rollout(item, &SkillDoc::default(), &target, &ctx).await.unwrap();
    assert!(is_over_time(&result) && !result.is_success() && result.fail_reason.contains("600 s"));
    let rows: Vec<_> = checks_of(&result).iter().map(|row| (row.passed, row.is_shown_only)).collect();
    assert_eq!(rows, [(false, false), (false, true)]);
}

/// Neither training nor measurement uses drafts.
#[test]
fn no_draft_is_used_before_a_person_has_reviewed_it() {
    let dir = tempfile::tempdir().unwrap();
    let case = |id: usize, reviewed: bool| json!({"id": id, "prompt": "Do.", "reviewed": reviewed, "checks": [{"type": "diff", "max_files": 1}]});
    let both = json!([case(1, true), case(2, false)]).to_string();
    write(dir.path(), &[("evals.json", &both)]);
    assert_eq!(CaseSet::read(&dir.path().join("evals.json")).unwrap().drafts(), ["2"]);
    for is_for_measuring in [true, false] {
        let config = EvalsConfig { is_for_measuring, ..config(dir.path()) };
        let env = EvalsEnv::load(&config, None).unwrap();
        let ids: Vec<_> = Split::ALL.iter().flat_map(|split| env.items(*split)).collect();
        assert_eq!(ids.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["1"]);
    }
    write(dir.path(), &[("evals.json", &json!([case(2, false)]).to_string())]);
    let error = EvalsEnv::load(&config(dir.path()), None).err().unwrap();
    assert!(matches!(error, EnvError::BadData { .. }), "{error}");
}

#[test]
fn cases_without_a_split_are_split_among_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let case = |id: usize| {
        let mut case = json!({"id": id, "prompt": "Do.", "checks": [{"type": "diff", "max_files": 1}]});
        if id < 2 {
            case["split"] = json!("test");
        }
        case.to_string()
    };
    let cases = (0..7).map(case).collect::<Vec<_>>().join(",");
    write(dir.path(), &[("evals.json", &format!("[{cases}]"))]);
    let config = EvalsConfig { is_for_measuring: false, ..config(dir.path()) };
    let env = EvalsEnv::load(&config, None).unwrap();
    assert_eq!(Split::ALL.map(|split| env.items(split).len()), [3, 2, 2]);
}

#[test]
fn a_project_that_configures_an_agent_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let cases = r#"[{"prompt": "Do.", "files": ["app"], "checks": [{"type": "diff", "max_files": 1}]}]"#;
    write(dir.path(), &[("evals.json", cases), ("app/.claude/settings.json", "{}")]);
    let error = EvalsEnv::load(&config(dir.path()), None).err().unwrap().to_string();
    assert!(error.contains("app/.claude/settings.json"), "{error}");
}

#[tokio::test]
async fn a_run_passes_if_all_checks_do_and_checks_have_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let cases = r#"{"evals": [{"id": "sum", "prompt": "Add up.", "files": ["files/numbers.txt"], "checks": [
        {"type": "file", "path": "total.txt", "equals": "42"},
        {"type": "file", "path": "numbers.txt", "contains": "40"},
        {"type": "diff", "max_files": 1},
        {"type": "skill_invoked"}]}]}"#;
    write(dir.path(), &[("evals.json", cases), ("files/numbers.txt", "40\n2\n"), ("files/.git/HEAD", "x")]);
    let config = config(dir.path());
    let env = EvalsEnv::load(&config, None).unwrap();
    let item = env.items(Split::Val)[0].clone();
    let target: Arc<dyn ChatModel> = Arc::new(Worker(ModelId::new("test", "worker")));
    for (skill, passed) in [("---\nname: adding\ndescription: x\n---\n# Adding\n", true), ("", false)] {
        let source = SkillDoc::new(skill);
        let ctx = RolloutCtx::new(CallCtx::default());
        let result = env.rollout(&item, &source, target.as_ref(), &ctx).await.unwrap();
        assert_eq!(result.is_success(), passed, "{}", result.fail_reason);
        let rows = checks_of(&result);
        assert_eq!(rows.iter().map(|row| row.passed).collect::<Vec<_>>(), [passed, true, true, passed]);
        assert!(rows.iter().all(|row| !row.evidence.is_empty()) && rows[3].is_shown_only);
        assert_eq!(result.soft, if passed { 1.0 } else { 2.0 / 3.0 });
    }
    // Expectations need a grader.
    write(
        dir.path(),
        &[("evals.json", r#"{"evals": [{"prompt": "Look.", "expectations": ["It looked"]}]}"#)],
    );
    let error = EvalsEnv::load(&config, None).err().unwrap().to_string();
    assert!(error.contains("judge"), "{error}");
}

/// Whatever form cases have, what is written in any form is read as the same cases.
#[test]
fn cases_are_written_back_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let write = |path: std::path::PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(place("files/in/a.txt"), "1\n");
    let evals = json!({"skill_name": "adding", "version": 2, "evals": [
        {"id": 7, "prompt": "Add: \"1\" # not a comment\n- and more", "expected_output": "3: three", "files": ["files/in"],
         "expectations": ["The sum: it is right", "yes"], "split": "val", "reviewed": false, "tags": ["x"], "name": "Totals"},
        {"id": "b/c", "prompt": "---\nno front matter", "checks": [
            {"type": "file", "path": "out.txt", "contains": "3", "guard": true}, {"type": "regex", "pattern": "^\\d+$", "weight": 2},
            {"type": "command", "command": "python3 check.py", "files": {"check.py": "print(1)\n"}, "timeout_s": 1.5}]}]});
    write(place("evals.json"), &evals.to_string());
    let read = |name: &str| CaseSet::read(&place(name)).unwrap();
    // What decides a case: ids, prompts, checks, splits, and the files of projects with their bytes.
    let essence = |set: &CaseSet| {
        let of = |case: &Case| {
            let files = case.files.iter().map(|(name, path)| (name.clone(), std::fs::read(path).unwrap()));
            let checks: Vec<_> = case.checks.iter().map(Check::settings).collect();
            let marks = (case.guards.clone(), case.shown_only.clone(), case.split, case.is_reviewed);
            let texts = (case.id.clone(), case.prompt.clone(), case.expected.clone());
            (texts, checks, marks, files.collect::<Vec<_>>())
        };
        set.cases.iter().map(of).collect::<Vec<_>>()
    };
    let first = read("evals.json");
    let mut names = vec!["evals.json".to_owned()];
    for (number, (format, name)) in [
        (CaseFormat::Plugin, "folders"),
        (CaseFormat::Lines, "lines.jsonl"),
        (CaseFormat::Expectations, "evals.json"),
        (CaseFormat::Plugin, "folders"),
        (CaseFormat::Expectations, "evals.json"),
    ]
    .into_iter()
    .enumerate()
    {
        let from = read(names.last().unwrap());
        let folder = match format {
            CaseFormat::Plugin => format!("{number}/{name}"),
            _ => number.to_string(),
        };
        for (file, bytes) in from.files_as(format, name).unwrap() {
            write(place(&folder).join(&file), std::str::from_utf8(&bytes).unwrap());
        }
        names.push(format!("{number}/{name}"));
        assert_eq!(essence(&read(names.last().unwrap())), essence(&first), "{names:?}");
    }
    // In its own form every field stays.
    let written = first.files_as(CaseFormat::Expectations, "e.json").unwrap();
    let written: serde_json::Value = serde_json::from_slice(&written["e.json"]).unwrap();
    let mut expected = evals;
    expected["evals"][0]["files"] = json!(["files/in/a.txt"]);
    assert_eq!(written, expected);
}

/// Files of two cases that differ under one name have no place in one file.
#[test]
fn projects_that_cannot_lie_beside_each_other_are_refused_for_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for (case, text) in [("a", "1"), ("b", "2")] {
        let folder = dir.path().join(case);
        std::fs::create_dir_all(folder.join("fixture")).unwrap();
        std::fs::write(folder.join("fixture/in.txt"), text).unwrap();
        std::fs::write(folder.join("case.yaml"), "prompt: Add.\ngraders: [{type: llm, rubric: right}]\n")
            .unwrap();
    }
    let set = CaseSet::read(dir.path()).unwrap();
    let error = set.files_as(CaseFormat::Lines, "x.jsonl").unwrap_err();
    assert!(matches!(&error, EnvError::BadCase { message, .. } if message.contains("in.txt")), "{error}");
    assert_eq!(set.files_as(CaseFormat::Plugin, "x").unwrap().len(), 4);
}
