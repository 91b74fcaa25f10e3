//! Ctrl-C: the run stops when the calls under way are answered, or at once if it is pressed twice, and goes on
//! later.
#![cfg(unix)]

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{self, Server};
use parking_lot::Mutex;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use wiremock::ResponseTemplate;

/// The call during which the person presses: the first of step 2, after 2 of the baseline and 5 of step 1.
const INTERRUPTED_CALL: usize = 8;

/// Far longer than a step takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts the run and interrupts it while the server holds a call back, once for each line that is waited for.
///
/// Nothing depends on time: the call is answered only when the program has said what it is going to do.
fn interrupt(
    server: &Server,
    context: &TestContext,
    dir: &str,
    signal: &'static str,
    expected_lines: &'static [&'static str],
) -> i32 {
    let (lines_in, lines): (Sender<String>, Receiver<String>) = mpsc::channel();
    let (pid_in, pid): (Sender<u32>, Receiver<u32>) = mpsc::channel();
    let receivers = Arc::new(Mutex::new((pid, lines)));
    server.answer_with(move |call, request| {
        if call == INTERRUPTED_CALL {
            let receivers = receivers.lock();
            let pid = receivers.0.recv_timeout(PATIENCE).unwrap();
            for expect in expected_lines {
                let sent = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
                assert!(sent.success());
                while receivers.1.recv_timeout(PATIENCE).unwrap() != *expect {}
            }
        }
        server::healthy(request)
    });
    let run_dir = format!("run.dir={dir}");
    let mut command =
        context.command(&["train", "task/skillrl.toml", "--set", "run.workers=1", "--set", &run_dir]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    pid_in.send(child.id()).unwrap();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        // The server listens only until it has seen what it waits for.
        lines_in.send(line.unwrap()).unwrap_or_default();
    }
    child.wait().unwrap().code().expect("the program ends by itself")
}

#[test]
fn an_interrupted_run_goes_on_to_the_same_files() {
    let server = Server::start();
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
    let run = |dir: &str| {
        server.answer_with(|_, request| server::healthy(request));
        let run_dir = format!("run.dir={dir}");
        context.succeed(&["train", "task/skillrl.toml", "--set", "run.workers=1", "--set", &run_dir]);
        context.untimed_files(dir)
    };
    let expect = run("undisturbed");

    const ONCE: &str = "stopping when the calls under way are answered; press Ctrl-C again to stop at once";
    const TWICE: &str = "stopping at once";
    let cases: [(&str, &'static str, &'static [&'static str]); 3] =
        [("once", "-INT", &[ONCE]), ("twice", "-INT", &[ONCE, TWICE]), ("terminated", "-TERM", &[ONCE])];
    for (dir, signal, lines) in cases {
        assert_eq!(interrupt(&server, &context, dir, signal, lines), code::STOPPED, "{dir}");
        let state = context.json(&format!("{dir}/runtime_state.json"));
        assert_eq!(state["last_completed_step"], 1, "{dir}");
        assert!(!context.path(dir).join("summary.json").exists(), "{dir}");
        assert_same_files(&run(dir), &expect);
    }
}

/// What waits for its next attempt has nothing under way, and may wait for minutes.
#[test]
fn a_call_that_waits_to_be_sent_again_does_not_hold_up_the_stop() {
    let server = Server::start();
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
    let (pid_in, pid): (Sender<u32>, Receiver<u32>) = mpsc::channel();
    let (line_in, line): (Sender<String>, Receiver<String>) = mpsc::channel();
    let receivers = Arc::new(Mutex::new((pid, line)));
    server.answer_with(move |call, request| {
        if call < INTERRUPTED_CALL {
            return server::healthy(request);
        }
        if call == INTERRUPTED_CALL {
            let receivers = receivers.lock();
            let pid = receivers.0.recv_timeout(PATIENCE).unwrap();
            assert!(Command::new("kill").args(["-INT", &pid.to_string()]).status().unwrap().success());
            while !receivers.1.recv_timeout(PATIENCE).unwrap().starts_with("stopping when") {}
        }
        ResponseTemplate::new(503).set_body_string("overloaded")
    });
    let settings = ["--set", "run.workers=1", "--set", "retry.max_attempts=3"];
    let mut command = context.command(&[&["train", "task/skillrl.toml"][..], &settings].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    pid_in.send(child.id()).unwrap();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        line_in.send(line.unwrap()).unwrap_or_default();
    }
    assert_eq!(child.wait().unwrap().code(), Some(code::STOPPED));
    assert_eq!(server.n_calls(), INTERRUPTED_CALL, "nothing was sent again");
}

/// A provider that goes on failing is told of while the run waits for it, and is in the run's log and its status.
#[test]
fn a_provider_that_asks_for_a_long_wait_is_told_of_at_once() {
    let server = Server::start();
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
    server.answer_with(|call, request| match call {
        1..INTERRUPTED_CALL => server::healthy(request),
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
