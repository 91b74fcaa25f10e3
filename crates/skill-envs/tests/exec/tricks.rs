//! Programs that do something wrong: what is said about it, that the process is gone, and that the next rollout works.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::context::*;
use skill_envs::EnvError;
use skill_envs::exec::ExecConfig;

/// What becomes of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has broken, and another try may help.
    Killed,
    /// It has broken the protocol in a way that another process would too, or said so itself; it can go on.
    Kept,
}

/// A rollout of a good item, the trick, and a good item again.
async fn check(trick: &str, change: impl Fn(&mut ExecConfig), fate: Fate, expect: &[&str]) {
    let mut config = config("rollout", trick);
    change(&mut config);
    let env = env(config).await;
    let process = process_of(&rollout(&env, "good").await.unwrap());
    let error = rollout(&env, "bad").await.unwrap_err();
    let text = error.to_string();
    for expected in expect {
        assert!(text.contains(expected), "{trick}: {text:?} does not hold {expected:?}");
    }
    assert!(!(text.contains("is not an answer") && text.contains("instead of an answer")), "{trick}: {text}");
    assert!(text.len() < 5_000, "{trick}: {} bytes", text.len());
    assert!(!text.contains('\u{1b}'), "{trick}: {text:?}");
    if fate == Fate::Killed {
        assert!(error.is_retryable(), "{trick}: {error:?}");
        assert!(!is_running(process), "{trick}: the process is still there");
    }
    let next = rollout(&env, "good").await.unwrap();
    assert_eq!((next.id.as_str(), next.hard), ("good", 1.0), "{trick}");
    assert_eq!(process_of(&next) == process, fate == Fate::Kept, "{trick}");
}

fn as_it_is(_: &mut ExecConfig) {}

fn soon(config: &mut ExecConfig) {
    config.deadlines.rollout_seconds = 0.2;
}

fn short_lines(config: &mut ExecConfig) {
    config.limits.line_bytes = 100_000;
}

#[tokio::test]
async fn a_process_that_dies_is_an_error_and_no_score() {
    let dies = [
        "exec-program rollout dies` (process 1): ended with the exit code 3, instead of an answer, after line 2 of its",
        "\n  its stderr ends with:\n    the first line\n    segmentation fault, or so",
    ];
    check("dies", as_it_is, Fate::Killed, &dies).await;
    let in_line = ["ended with the exit code 0, in the middle of line 3 of its stdout: `{\"id\": 2, \"obs`"];
    check("dies_in_line", as_it_is, Fate::Killed, &in_line).await;
}

#[tokio::test]
async fn what_is_no_answer_names_its_line() {
    let table: &[(&str, &[&str])] = &[
        ("wrong_id", &["line 3 of its stdout answers the request 102, but the request is 2: `{\"id\":102,"]),
        ("no_id", &["line 3 of its stdout has no `id`: `{\"id\":null,"]),
        (
            "garbage",
            &["line 3 of its stdout is not an answer (expected value at column 1): `loading the model ...`"],
        ),
        ("binary", &["line 3 of its stdout is not an answer", "`\u{fffd}\u{fffd}\\u{0}\\u{1b}[31m`"]),
        ("blank", &["line 3 of its stdout is not an answer (EOF while parsing a value at column 0): ``"]),
        ("number", &["line 3 of its stdout is not an answer", "`17`"]),
        ("floods", &["line 3 of its stdout has no `id`: `{\"log\":\"still here\"}`"]),
    ];
    for (trick, expect) in table {
        check(trick, as_it_is, Fate::Killed, expect).await;
    }
    let huge = ["line 3 of its stdout is longer than the limit (`limits.line_bytes`): `xxxx", "xx…`"];
    check("huge_line", short_lines, Fate::Killed, &huge).await;
}

#[tokio::test]
async fn an_answer_that_says_nothing_sensible_is_refused_for_good() {
    let table: &[(&str, &str)] = &[
        ("misspelled", "item bad: `"),
        (
            "misspelled",
            "line 3 of its stdout is not an answer to `rollout` (`admissable`: unknown field `admissable`, expected one of",
        ),
        ("missing", "the answer to `rollout` says that there is no `hard`; expected a number from 0 to 1"),
        ("seven", "the answer to `rollout` says that `hard` is 7; expected 0 to 1"),
        ("refuses", "`rollout` failed: no such item"),
        (
            "reports_oddly",
            "(`error` is a number; expected a text or an object with `message`): `{\"id\":2,\"error\":7}`",
        ),
    ];
    for (trick, expect) in table {
        check(trick, as_it_is, Fate::Kept, &[expect]).await;
        let env = env(config("rollout", trick)).await;
        let error = rollout(&env, "bad").await.unwrap_err();
        assert!(matches!(error, EnvError::Program { .. }) && !error.is_retryable(), "{trick}: {error:?}");
    }
    let env = env(config("rollout", "reports")).await;
    let error = rollout(&env, "bad").await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("game server is down"), "{error}");
}

#[tokio::test]
async fn a_process_that_does_not_answer_is_killed_at_the_deadline() {
    let silent = ["gave no answer to `rollout` within 0.2 s and was killed"];
    check("silent", soon, Fate::Killed, &silent).await;
    #[cfg(unix)]
    {
        check("closes_stdout", as_it_is, Fate::Killed, &["closed its stdout, went on, and was killed"]).await;
        let env = env({
            let mut config = config("rollout", "silent_with_child");
            soon(&mut config);
            config
        });
        let error = rollout(&env.await, "bad").await.unwrap_err().to_string();
        let child = error.rsplit("child ").next().unwrap().trim().parse().unwrap();
        assert_ne!(child, 0, "{error}");
        assert_gone(child);
    }
    let complains = [silent[0], "\n    a warning that is printed again and again\n"];
    check("complains", soon, Fate::Killed, &complains).await;
}

/// Whatever it has started ends with it, also what would survive the end of its process group.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_process_that_ends_by_itself_leaves_nothing_running() {
    let env = env(config("rollout", "leaves_daemon")).await;
    let error = rollout(&env, "bad").await.unwrap_err().to_string();
    assert!(error.contains("exit code 3"), "{error}");
    let daemon = error.rsplit("child ").next().unwrap().trim().parse().unwrap();
    assert_ne!(daemon, 0, "{error}");
    assert_gone(daemon);
}

/// The second answer comes when nobody asks any more, or into the next rollout: then that one is broken, and no answer
/// is taken for another's.
#[tokio::test]
async fn a_line_too_many_ends_the_process_and_is_nobodys_answer() {
    let env = env(config("rollout", "twice")).await;
    for _ in 0..3 {
        match rollout(&env, "bad").await {
            Ok(result) => assert_eq!(result.id.as_str(), "bad"),
            Err(error) => assert!(error.to_string().contains("of its stdout answers the request"), "{error}"),
        }
    }
}

#[tokio::test]
async fn an_episode_that_dies_is_an_error_and_the_next_one_is_not_touched() {
    let table: &[(&str, &str)] = &[
        ("dies", "item bad: `"),
        ("dies", "ended with the exit code 3"),
        ("garbage", "line 3 of its stdout is not an answer"),
        ("wrong_id", "line 3 of its stdout answers the request 102, but the request is 2"),
        ("missing", "line 3 of its stdout is not an answer to `step` (missing field `observation`"),
        ("silent", "gave no answer to `step` within 0.2 s and was killed"),
        ("reports", "`step` failed: the game server is down"),
    ];
    for (trick, expect) in table {
        let mut config = config("step", trick);
        config.deadlines.step_seconds = 0.2;
        let world = world(config).await;
        let mut bad = episode(&world, "bad");
        bad.reset().await.unwrap();
        let error = bad.step("right").await.unwrap_err().to_string();
        assert!(error.contains(expect), "{trick}: {error}");
        // The episode itself can be begun again, by another process.
        assert!(bad.reset().await.unwrap().text.starts_with("You are at 0."), "{trick}");
        drop(bad);
        let mut good = episode(&world, "good");
        good.reset().await.unwrap();
        assert!(good.step("right").await.unwrap().text.starts_with("You are at 1."), "{trick}");
    }
}
