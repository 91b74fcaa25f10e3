//! `kill -9` in the middle of a run, then the same command: nothing that was answered and kept is asked again.
#![cfg(unix)]

use crate::context::{KEY_VARIABLE, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{self, Server};
use parking_lot::Mutex;
use serde_json::Value;
use skillrl::llm::JournalReader;
use skillrl::llm::journal::CallFilter;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use wiremock::ResponseTemplate;

const SIGKILL: i32 = 9;

/// Calls in flight.
const WORKERS: &str = "run.workers=2";

/// Far longer than starting a program takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often each request was seen or is kept, by model and messages.
type Counts = BTreeMap<String, usize>;

fn request_of(model: &Value, messages: &Value) -> String {
    let texts = messages.as_array().unwrap().iter().map(|message| {
        let text = message.get("content").or_else(|| message.get("text")).unwrap();
        format!("{}: {text}", message["role"])
    });
    std::iter::once(model.to_string()).chain(texts).collect::<Vec<_>>().join("\n")
}

/// Answers well and notes each request with this key; the one of this number kills who asks.
///
/// Each process has a key of its own: what one has sent before it was killed may be read when the next one asks.
fn answer(
    seen: &Arc<Mutex<Counts>>,
    key: &str,
    killed_call: Option<usize>,
    pid: Receiver<u32>,
) -> impl Fn(usize, &wiremock::Request) -> ResponseTemplate + Send + 'static {
    let (seen, key) = (Arc::clone(seen), format!("Bearer {key}"));
    move |_, request| {
        if request.headers["authorization"] != key {
            return server::healthy(request);
        }
        let body = server::body(request);
        let mut seen = seen.lock();
        *seen.entry(request_of(&body["model"], &body["messages"])).or_default() += 1;
        if Some(seen.values().sum()) == killed_call {
            let pid = pid.recv_timeout(PATIENCE).unwrap();
            let sent = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
            assert!(sent.success());
        }
        server::healthy(request)
    }
}

fn kept(journal: &Path) -> Counts {
    let mut counts = Counts::new();
    // A process that dies before its first reply may leave a journal without tables.
    let Ok(reader) = JournalReader::open(journal) else { return counts };
    for row in reader.calls(&CallFilter::default()).unwrap() {
        let call = reader.call(row.id).unwrap().unwrap();
        *counts.entry(request_of(&call["model"]["name"], &call["messages"])).or_default() += 1;
    }
    counts
}

#[test]
fn a_killed_run_goes_on_and_asks_nothing_again_that_was_kept() {
    let server = Server::start();
    let context = server.task_with(&format!(", api_key_env = \"{KEY_VARIABLE}\""));
    let command = |dir: &str, key: &str| {
        let run_dir = format!("run.dir={dir}");
        let mut command =
            context.command(&["train", "task/skillrl.toml", "--set", WORKERS, "--set", &run_dir]);
        command.env(KEY_VARIABLE, key).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let never = || mpsc::channel().1;

    let expect = Arc::new(Mutex::new(Counts::new()));
    server.answer_with(answer(&expect, "undisturbed", None, never()));
    assert_eq!(command("undisturbed", "undisturbed").status().unwrap().code(), Some(code::SUCCESS));
    let (n_calls, files) = (server.n_calls(), context.untimed_files("undisturbed"));
    let expect = expect.lock().clone();
    let all_kept = kept(&context.path("undisturbed/journal.sqlite"));
    assert!(all_kept == expect, "server and journal count alike");

    let mut n_kept = 0;
    for killed_call in 1..=n_calls {
        let dir = format!("killed-at-{killed_call}");
        let (first, second) = (format!("{dir}-first"), format!("{dir}-second"));
        let seen = Arc::new(Mutex::new(Counts::new()));
        let (pid_in, pid): (Sender<u32>, Receiver<u32>) = mpsc::channel();
        server.answer_with(answer(&seen, &first, Some(killed_call), pid));
        let mut child = command(&dir, &first).spawn().unwrap();
        pid_in.send(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL), "{dir}");
        let kept = kept(&context.path(&dir).join("journal.sqlite"));
        n_kept += kept.values().sum::<usize>();

        let seen_again = Arc::new(Mutex::new(Counts::new()));
        server.answer_with(answer(&seen_again, &second, None, never()));
        assert_eq!(command(&dir, &second).status().unwrap().code(), Some(code::SUCCESS), "{dir}");
        for (request, n_again) in seen_again.lock().iter() {
            let n_left = expect[request] - kept.get(request).copied().unwrap_or_default();
            assert!(*n_again <= n_left, "{dir}: asked {n_again} times, {n_left} are not kept: {request}");
        }
        assert_same_files(&context.untimed_files(&dir), &files);
    }
    assert!(n_kept > 0, "something was kept");
}

#[test]
fn a_killed_run_is_said_to_be_interrupted_and_not_to_work_or_to_stop_for_an_earlier_reason() {
    let server = Server::start();
    let context = server.task_with(&format!(", api_key_env = \"{KEY_VARIABLE}\""));
    let command = |key: &str| {
        let mut command = context.command(&["train", "task/skillrl.toml", "--set", "run.workers=1"]);
        command.env(KEY_VARIABLE, key).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    // The baseline takes two calls.
    server.answer_with(|call, request| match call {
        3 => ResponseTemplate::new(401).set_body_string("no such key"),
        _ => server::healthy(request),
    });
    assert_eq!(command("wrong").status().unwrap().code(), Some(code::PROVIDER_REFUSED));
    let refused = context.succeed(&["status", "task/run"]);
    assert!(refused.starts_with("task/run: stopped, 0/2 steps\n"), "{refused}");
    assert!(refused.contains("  why    stopped at step 1 / rollout"), "{refused}");
    context.succeed(&["report", "task/run", "--output", "refused.html"]);
    let page = context.read("refused.html");
    assert!(page.contains("0 steps, stopped") && page.contains("(HTTP 401)"), "{page}");

    let (pid_in, pid): (Sender<u32>, Receiver<u32>) = mpsc::channel();
    server.answer_with(answer(&Arc::default(), "right", Some(3), pid));
    let mut child = command("right").spawn().unwrap();
    let process = child.id();
    pid_in.send(process).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(SIGKILL));
    let status = context.succeed(&["status", "task/run"]);
    assert!(status.starts_with("task/run: interrupted, 0/2 steps\n"), "{status}");
    assert_names(&status, &[&format!("why its process (pid {process}) died"), "next the command"]);
    for gone in ["  now ", "  left ", "401"] {
        assert!(!status.contains(gone), "{gone}: {status}");
    }
    let json = context.succeed_json(&["status", "task/run", "--json"]);
    assert_eq!((&json["phase"], &json["live"]), (&Value::from("interrupted"), &Value::Null));
    context.succeed(&["report", "task/run", "--output", "killed.html"]);
    let page = context.read("killed.html");
    assert!(page.contains("0 steps, interrupted") && page.contains("its process (pid "), "{page}");
    assert!(!page.contains("in progress"), "{page}");
}
