//! Programs as scorers of the `tasks` environment: what they are passed, how they fail, and that none outlives its call.
#![cfg(unix)]

use super::fixed::Fixed;
use super::tasks_rollout::{env_of, run};
use serde_json::json;
use skill_core::SkillDoc;
use skill_envs::tasks::{CommandConfig, ScorerConfig, TasksEnv};
use skill_envs::{Env, EnvError, RolloutCtx, Split};
use skill_llm::{ApiKey, CallCtx, LlmError, Secrets};
use std::path::PathBuf;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// An environment whose answers this program scores.
fn scored_by(command: &[&str], change: impl FnOnce(&mut CommandConfig)) -> TasksEnv {
    let mut command = CommandConfig {
        command: command.iter().map(ToString::to_string).collect(),
        dir: PathBuf::new(),
        pass_env: Vec::new(),
        timeout: MINUTE,
        sandbox: false,
        secrets: Secrets::default(),
    };
    change(&mut command);
    env_of(&json!({"question": "Q?", "answer": "Paris"}), |config| {
        config.settings.scorer = ScorerConfig::Command(command);
    })
}

/// An environment whose answers this program of the shell scores.
fn program(script: &str) -> TasksEnv {
    scored_by(&["sh", "-c", script], |_| {})
}

#[tokio::test]
async fn a_program_scores() {
    let script = "grep -q '\"answer\":\"Paris\",\"reply\"' && echo '{\"hard\": 1}' || echo '{\"hard\": 0, \"soft\": 0.25, \"reason\": \"not Paris\"}'";
    let result = run(&program(script), &Fixed::saying(&["Paris"])).await.unwrap();
    assert_eq!((result.hard, result.soft, result.fail_reason.as_str()), (1.0, 1.0, ""));
    let result = run(&program(script), &Fixed::saying(&["Lyon"])).await.unwrap();
    assert_eq!((result.hard, result.soft, result.fail_reason.as_str()), (0.0, 0.25, "not Paris"));
    assert_eq!(result.extras["scorer_reason"], "not Paris");
    // One that does not read its input, and one that leaves something behind that keeps its output open.
    let result = run(&program("echo '{\"hard\": true}'"), &Fixed::saying(&["x"])).await.unwrap();
    assert_eq!(result.hard, 1.0);
    let result = run(&program("sleep 1000 & echo '{\"hard\": 1}'"), &Fixed::saying(&["x"])).await.unwrap();
    assert_eq!(result.hard, 1.0);
}

#[tokio::test]
async fn a_program_that_fails_is_an_error_and_no_score() {
    for (script, expect) in [
        ("echo oops >&2; exit 1", "ended with exit status: 1; its standard error ends with: oops"),
        ("kill -9 $$", "ended with signal: 9"),
        ("echo good", "printed \"good\", which is not a JSON object like"),
        ("true", "printed \"\", which is not a JSON object like"),
        ("echo '{\"soft\": 1}'", "which has no `hard`"),
        ("echo '{\"hard\": 2}'", "printed 2 as `hard`; expected a number from 0 to 1"),
        ("echo '{\"hard\": \"1\"}'", "printed \"1\" as `hard`; expected a number from 0 to 1"),
        ("echo '{\"hard\": 1, \"reason\": 3}'", "printed 3 as `reason`; expected a text"),
        ("echo '[1]'", "which has no `hard`"),
        ("yes", "printed more than 1048576 bytes"),
    ] {
        let error = run(&program(script), &Fixed::saying(&["x"])).await.unwrap_err();
        assert!(matches!(error, EnvError::Broken { .. }), "{script}: {error}");
        assert!(error.to_string().contains(expect), "{script}: {error}");
    }
    let missing = scored_by(&["no-such-program-6d1f"], |_| {});
    let error = run(&missing, &Fixed::saying(&["x"])).await.unwrap_err();
    assert!(
        matches!(&error, EnvError::Broken { message, .. } if message.contains("`no-such-program-6d1f`")),
        "{error:?}"
    );
}

/// In the sandbox it has its answer and its directory, and nothing of this machine.
#[cfg(all(target_os = "linux", feature = "sandbox"))]
#[tokio::test]
#[ignore = "needs bwrap: cargo xtask check sandbox"]
async fn a_program_scores_in_the_sandbox() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = "[ -e /root ] && exit 9; [ -e /home ] && exit 9; touch x 2>/dev/null && exit 9\n\
                  grep -q '\"answer\":\"Paris\",\"reply\"' && echo '{\"hard\": 1}' || echo '{\"hard\": 0, \"soft\": 0.5}'";
    std::fs::write(dir.path().join("score.sh"), script).unwrap();
    let scored = |command: &[&str]| {
        scored_by(command, |config| {
            config.dir = dir.path().to_owned();
            config.timeout = Duration::from_secs(2);
            config.sandbox = true;
        })
    };
    for (answer, hard, soft) in [("Paris", 1.0, 1.0), ("Lyon", 0.0, 0.5)] {
        let result = run(&scored(&["sh", "score.sh"]), &Fixed::saying(&[answer])).await.unwrap();
        assert_eq!((result.hard, result.soft), (hard, soft));
    }
    for (command, expect) in
        [(["sh", "none.sh"], "exited with code"), (["sleep", "60"], "did not end in time")]
    {
        let error = run(&scored(&command), &Fixed::saying(&["Paris"])).await.unwrap_err();
        assert!(matches!(error, EnvError::Broken { .. }), "{error}");
        assert!(error.to_string().contains(expect), "{error}");
    }
}

/// What it scores may be code of a model that it runs: no key reaches it that is not named.
#[tokio::test]
async fn a_program_sees_the_variables_that_are_named_and_no_others() {
    // Variables that every test has stand for keys.
    let script = "echo \"{\\\"hard\\\": 0, \\\"reason\\\": \\\"$CARGO_PKG_NAME, $CARGO_PKG_VERSION_MAJOR, ${PATH:+a path}\\\"}\"";
    let env = |pass_env: &[&str]| {
        scored_by(&["sh", "-c", script], |config| {
            config.pass_env = pass_env.iter().map(|&name| name.to_owned()).collect();
        })
    };
    for (pass_env, expect) in [
        (&[][..], ", , a path"),
        (&["CARGO_PKG_VERSION_MAJOR"], concat!(", ", env!("CARGO_PKG_VERSION_MAJOR"), ", a path")),
        // What is long enough to be a key is not shown.
        (
            &["CARGO_PKG_NAME", "CARGO_PKG_VERSION_MAJOR"],
            concat!("[key], ", env!("CARGO_PKG_VERSION_MAJOR"), ", a path"),
        ),
    ] {
        let result = run(&env(pass_env), &Fixed::saying(&["x"])).await.unwrap();
        assert_eq!(result.fail_reason, expect);
    }
}

#[tokio::test]
async fn a_secret_of_the_run_is_in_nothing_that_a_scorer_says() {
    const KEY: &str = "sk-of-the-run-0123";
    let env = |script: &str| {
        scored_by(&["sh", "-c", script], |config| config.secrets.add(&ApiKey::new(KEY).unwrap()))
    };
    let script = format!("echo '{{\"hard\": 0, \"reason\": \"found {KEY}\"}}'");
    let result = run(&env(&script), &Fixed::saying(&["x"])).await.unwrap();
    assert_eq!(result.fail_reason, "found [key]");
    let error = run(&env("K=sk-of-the-run; echo $K-0123; echo $K-0123 >&2; exit 3"), &Fixed::saying(&["x"]))
        .await
        .unwrap_err();
    assert!(!format!("{error:?}").contains(KEY), "{error:?}");
}

#[tokio::test]
async fn what_a_program_was_passed_is_not_shown() {
    for (script, expect) in [
        ("echo key=$CARGO_PKG_NAME >&2; exit 3", "; its standard error ends with: key=[key]"),
        ("echo key=$CARGO_PKG_NAME", "printed \"key=[key]\", which is not a JSON object"),
        // What is kept of the end begins in the middle of it.
        ("printf '%s%4090s' $CARGO_PKG_NAME . >&2; exit 3", "; its standard error ends with: [key] "),
    ] {
        let env =
            scored_by(&["sh", "-c", script], |config| config.pass_env = vec!["CARGO_PKG_NAME".to_owned()]);
        let error = run(&env, &Fixed::saying(&["x"])).await.unwrap_err();
        assert!(error.to_string().contains(expect), "{error}");
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_killed_with_all_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
    let env = scored_by(&["sh", "-c", &script], |config| config.timeout = Duration::from_millis(500));
    let error = run(&env, &Fixed::saying(&["x"])).await.unwrap_err();
    let EnvError::Broken { message, .. } = error else { panic!("{error:?}") };
    assert!(message.contains("`command_timeout_s`") && message.contains("0.5 s"), "{message}");
    let pid: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    // A killed process is gone, or waits until the process that inherits it looks.
    let is_gone =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    for _ in 0..1000 {
        if is_gone() {
            return;
        }
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
    assert!(is_gone(), "{pid} is still there");
}

#[tokio::test]
async fn a_program_is_given_up_when_the_run_is() {
    let env = program("sleep 1000");
    let call = CallCtx::default();
    let cancel = call.cancel.clone();
    let item = env.items(Split::Train).first().unwrap();
    let target = Fixed::saying(&["x"]);
    let (skill, ctx) = (SkillDoc::default(), RolloutCtx::new(call));
    let rollout = env.rollout(item, &skill, &target, &ctx);
    let (error, ()) = tokio::join!(rollout, async { cancel.cancel() });
    assert!(matches!(error, Err(EnvError::Model(LlmError::Cancelled))));
}

#[test]
fn a_changed_program_is_another_environment() {
    let dir = tempfile::tempdir().unwrap();
    let settings = |text: &str| {
        std::fs::write(dir.path().join("score.sh"), text).unwrap();
        scored_by(&["sh", "score.sh"], |config| config.dir = dir.path().to_owned()).settings()
    };
    assert_ne!(settings("a"), settings("b"));
    assert_eq!(settings("a"), settings("a"));
}
