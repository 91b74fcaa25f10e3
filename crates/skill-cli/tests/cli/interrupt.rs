//! Ctrl-C: the run stops when the calls under way are answered, or at once if it is pressed twice, and goes on
//! later.
#![cfg(unix)]

use crate::context::{Outcome, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{Server, healthy, outage_after};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use wiremock::{Request, ResponseTemplate};

/// The call during which the person presses: the first of step 2, after 2 of the baseline and 5 of step 1.
const INTERRUPTED_CALL: usize = 8;

/// Far longer than a step takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a command and holds back call `at_call`; meanwhile interrupts the command once for each expected line, and
/// waits for a line that begins with it.
///
/// Nothing depends on time: the call is answered only when the program has said what it is going to do.
pub(crate) fn interrupt(
    server: &Server,
    mut command: Command,
    at_call: usize,
    signal: &'static str,
    expected_lines: &'static [&'static str],
    answer: impl Fn(usize, &Request) -> ResponseTemplate + Send + 'static,
) -> Outcome {
    let (lines_in, lines) = mpsc::channel::<String>();
    let (pid_in, pid) = mpsc::channel::<u32>();
    server.answer_with(move |call, request| {
        if call == at_call {
            let pid = pid.recv_timeout(PATIENCE).unwrap().to_string();
            for expect in expected_lines {
                assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
                while !lines.recv_timeout(PATIENCE).unwrap().starts_with(expect) {}
            }
        }
        answer(call, request)
    });
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    pid_in.send(child.id()).unwrap();
    let mut stderr = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        stderr.extend([&line, "\n"]);
        // The server listens only until it has seen what it waits for.
        lines_in.send(line).unwrap_or_default();
    }
    Outcome { code: child.wait().unwrap().code(), stdout: String::new(), stderr }
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_files() {
    let (server, context) = Server::start_with_task();
    let train = |dir: &str| {
        let run_dir = format!("run.dir={dir}");
        context.command(&["train", "task/skillrl.toml", "--set", "run.workers=1", "--set", &run_dir])
    };
    let run = |dir: &str| {
        server.answer_with(|_, request| healthy(request));
        Outcome::of(train(dir).output().unwrap()).assert_code(code::SUCCESS);
        context.untimed_files(dir)
    };
    let expect = run("undisturbed");

    const ONCE: &str = "stopping when the calls under way are answered; press Ctrl-C again to stop at once";
    const TWICE: &str = "stopping at once";
    let cases: [(&str, &'static str, &'static [&'static str]); 4] = [
        ("once", "-INT", &[ONCE]),
        ("twice", "-INT", &[ONCE, TWICE]),
        ("terminated", "-TERM", &[ONCE]),
        ("closed", "-HUP", &[ONCE]),
    ];
    for (dir, signal, lines) in cases {
        let answer = |_, request: &Request| healthy(request);
        let outcome = interrupt(&server, train(dir), INTERRUPTED_CALL, signal, lines, answer);
        outcome.assert_code(code::STOPPED);
        let is_said = |line: &&str| outcome.stderr.lines().any(|said| said == *line);
        assert!(lines.iter().all(is_said), "{dir}: {}", outcome.stderr);
        let state = context.json(&format!("{dir}/runtime_state.json"));
        assert_eq!(state["last_completed_step"], 1, "{dir}");
        assert!(!context.path(dir).join("summary.json").exists(), "{dir}");
        assert_same_files(&run(dir), &expect);
    }
}

/// What waits for its next attempt has nothing under way, and may wait for minutes.
#[test]
fn a_call_that_waits_to_be_sent_again_does_not_hold_up_the_stop() {
    let (server, context) = Server::start_with_task();
    let settings = ["--set", "run.workers=1", "--set", "retry.max_attempts=3"];
    let train = context.command(&[&["train", "task/skillrl.toml"][..], &settings].concat());
    let outage = outage_after(INTERRUPTED_CALL - 1);
    interrupt(&server, train, INTERRUPTED_CALL, "-INT", &["stopping when"], outage)
        .assert_code(code::STOPPED);
    assert_eq!(server.n_calls(), INTERRUPTED_CALL, "nothing was sent again");
}

/// A provider that goes on failing is told of while the run waits for it, and is in the run's log and its status.
#[test]
fn a_provider_that_asks_for_a_long_wait_is_told_of_at_once() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|call, request| match call {
        1..INTERRUPTED_CALL => healthy(request),
        _ => ResponseTemplate::new(429).insert_header("retry-after", "300").set_body_string("slow down"),
    });
    let settings = ["--set", "run.workers=1", "--set", "retry.max_attempts=3"];
    let mut command = context.command(&[&["train", "task/skillrl.toml"][..], &settings].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = None;
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.contains("being retried") {
            let status = context.succeed(&["status", "task/run"]);
            assert!(status.contains("; 1 retrying: ") && status.contains("slow down"), "{status}");
            assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
            told = Some(line);
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(code::STOPPED));
    let told = told.unwrap();
    // A stated wait gives its attempt back.
    assert_names(&told, &["warning: 1 call ", "attempt 2 of 4 in "]);
    let message = told.strip_prefix("warning: ").unwrap().split(';').next().unwrap();
    assert!(context.read("task/run/events.jsonl").contains(message), "{message}");
}
