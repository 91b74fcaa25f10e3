//! Programs that cannot be started, or that are not what they should be from the start.

use crate::context::*;
use skill_envs::exec::{ExecConfig, ExecProgram};
use skill_envs::{Env as _, EnvError, Split};
use skill_llm::ApiKey;

/// Makes a configuration worse.
type Change = fn(&mut ExecConfig);

async fn check_start(trick: &str, change: impl Fn(&mut ExecConfig), expect: &[&str]) {
    let mut config = config("step", trick);
    change(&mut config);
    let error = start_error(config).await;
    let text = error.to_string();
    assert!(!error.is_retryable(), "{trick}: {error:?}");
    for expected in expect {
        assert!(text.contains(expected), "{trick}: {text:?} does not hold {expected:?}");
    }
}

fn as_it_is(_: &mut ExecConfig) {}

#[tokio::test]
async fn a_program_that_is_not_what_it_should_be_is_refused_at_its_start() {
    let table: &[(&str, &str)] = &[
        (
            "version",
            "line 1 of its stdout says that it speaks version 2 of the protocol, and this is version 1",
        ),
        ("bad_hello", "line 1 of its stdout is not an answer to `hello` (`mode`: unknown variant `dance`"),
        ("nameless", "the answer to `hello` says that its `name` is blank"),
        ("parallel_zero", "`capabilities.parallel` is 0; expected 1 to 10000"),
        ("no_items", "it has no `items`, and the configuration names no `data` either"),
        ("same_items", "two items have the id `good`; ids are unique over all splits"),
        ("two_lines", r#"the `id` "one\ntwo" of an item holds a line break or another control character"#),
        ("no_train", "the split `train` has no items"),
    ];
    for (trick, expect) in table {
        check_start(trick, as_it_is, &[expect]).await;
    }
}

#[tokio::test]
async fn a_program_that_always_dies_is_given_up() {
    let few = |config: &mut ExecConfig| config.limits.restarts = 5;
    let expect = [
        "the program has died 2 times in a row without finishing anything; the last time: `",
        "ended with the exit code 4, instead of an answer, after line 0 of its stdout",
        "its stderr ends with:\n    no port is free",
    ];
    check_start("dies_at_hello", few, &expect).await;
    let late = |config: &mut ExecConfig| {
        config.deadlines.start_seconds = 0.1;
        config.limits.restarts = 0;
        config.command = vec!["sleep".to_owned(), "1000".to_owned()];
    };
    let expect =
        ["the program has died once", "`sleep 1000` (process 1): gave no answer to `hello` within 0.1 s"];
    check_start("none", late, &expect).await;
}

/// A key that a program was given may be in what it says as it dies.
#[cfg(unix)]
#[tokio::test]
async fn what_it_was_passed_is_not_shown() {
    let told = |config: &mut ExecConfig| {
        let script = "echo key=$CARGO_PKG_DESCRIPTION >&2; exit 4";
        config.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        config.pass_env.push("CARGO_PKG_DESCRIPTION".to_owned());
        config.limits.restarts = 0;
    };
    check_start("none", told, &["its stderr ends with:\n    key=[key]"]).await;
    let found = |config: &mut ExecConfig| {
        config.secrets.add(&ApiKey::new("sk-of-the-run-0123").unwrap());
        let script = "echo key=sk-of-the-run-0123 >&2; exit 4";
        config.command = ["sh", "-c", script].map(str::to_owned).to_vec();
        config.limits.restarts = 0;
    };
    check_start("none", found, &["its stderr ends with:\n    key=[key]"]).await;
}

/// The limit holds over rollouts too: anyone who retries does not start processes for ever.
#[tokio::test]
async fn a_program_that_dies_in_every_rollout_is_given_up() {
    let mut config = config("rollout", "dies");
    config.limits.restarts = 2;
    let env = env(config).await;
    for _ in 0..3 {
        let error = rollout(&env, "bad").await.unwrap_err();
        assert!(matches!(error, EnvError::Broken { .. }), "{error}");
    }
    let error = rollout(&env, "bad").await.unwrap_err();
    assert!(matches!(error, EnvError::Program { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("item bad: ") && text.contains("died 3 times"), "{text}");
}

/// A success in between starts the count anew.
#[tokio::test]
async fn a_program_that_dies_now_and_then_goes_on() {
    let mut config = config("rollout", "dies");
    config.limits.restarts = 1;
    let env = env(config).await;
    for _ in 0..3 {
        rollout(&env, "bad").await.unwrap_err();
        rollout(&env, "good").await.unwrap();
    }
}

#[tokio::test]
async fn a_program_that_dies_once_at_its_start_is_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = config("rollout", "dies_once");
    config.directory = Some(directory.path().to_path_buf());
    rollout(&env(config).await, "good").await.unwrap();
    assert!(directory.path().join("died").exists());
}

#[tokio::test]
async fn a_later_process_has_to_say_the_same_as_the_first() {
    let mut config = config("rollout", "changes");
    config.process_per_rollout = true;
    let error = rollout(&env(config).await, "good").await.unwrap_err();
    assert!(error.to_string().contains("its version differs"), "{error}");
}

#[tokio::test]
async fn a_configuration_that_cannot_work_is_refused() {
    let table: &[(Change, &str)] = &[
        (|config| config.command.clear(), "`command` names no program"),
        (|config| config.command = vec!["  ".to_owned()], "`command` names no program"),
        (|config| config.command = vec!["./no-such-program".to_owned()], "cannot be started: No such file"),
        (
            |config| config.directory = Some("/no/such/directory".into()),
            "cannot be started in the directory /no/such/directory: No such file",
        ),
        (|config| config.processes = 0, "`processes` is 0"),
        (|config| config.limits.line_bytes = 0, "`limits.line_bytes` is 0"),
        (|config| config.deadlines.step_seconds = -1.0, "`deadlines.step_seconds` is -1"),
        (|config| config.deadlines.reset_seconds = f64::NAN, "`deadlines.reset_seconds` is NaN"),
        (
            |config| config.pass_env.push("NO_SUCH_VARIABLE".to_owned()),
            "names NO_SUCH_VARIABLE, which is not set",
        ),
        (|config| config.pass_env.push("A=B".to_owned()), "\"A=B\" cannot be the name"),
        (|config| config.data = Some("no-such-data.jsonl".into()), "cannot read no-such-data.jsonl"),
    ];
    for (change, expect) in table {
        let mut config = config("step", "none");
        change(&mut config);
        let error = start_error(config).await;
        assert!(!error.is_retryable(), "{error:?}");
        assert!(skill_llm::error::with_causes(&error).contains(expect), "{error}: does not hold {expect}");
    }
}

#[tokio::test]
async fn items_may_come_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let items: String =
        (0..10).map(|n| format!("{{\"id\": {n}, \"task_type\": \"t\", \"x\": 1}}\n")).collect();
    let path = directory.path().join("items.jsonl");
    std::fs::write(&path, &items).unwrap();
    let mut config = config("rollout", "no_items");
    config.data = Some(path.clone());
    let program = ExecProgram::start(config.clone()).await.unwrap();
    let env = program.env().unwrap();
    assert_eq!(Split::ALL.map(|split| env.items(split).len()), [4, 3, 3]);
    assert_eq!(env.items(Split::Val)[0].task_type, "t");
    assert_eq!(env.items(Split::Val)[0].data["x"], 1);

    for (content, expect) in [
        ("{\"id\": 1}\n{\"id\": \"1\"}\n", "line 2: the id `1` is taken by "),
        ("{\"id\": 1}\n{\"x\": 1}\n", "line 2: has no `id`"),
        ("{\"id\": 1}\n{\"id\": 2}\n", "leave the split `test` empty"),
    ] {
        std::fs::write(&path, content).unwrap();
        let error = start_error(config.clone()).await;
        assert!(error.to_string().contains(expect), "{error}");
    }
}

#[test]
fn a_configuration_names_what_it_does_not_know() {
    let text = r#"{"command": ["x"], "deadline": 7}"#;
    let error = serde_json::from_str::<ExecConfig>(text).unwrap_err().to_string();
    assert!(error.starts_with("unknown field `deadline`, ") && error.contains("`command`"), "{error}");
    let read: ExecConfig = serde_json::from_str(r#"{"command": ["x", "y"]}"#).unwrap();
    assert_eq!(read, ExecConfig::new(["x", "y"]));
}
