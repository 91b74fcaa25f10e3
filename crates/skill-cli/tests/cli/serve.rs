//! `skillrl serve` and `skillrl stop`, as programs beside the one that trains.

use crate::context::{TestContext, assert_same_files, code};
use crate::server::{self, Server};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Far longer than it takes to read a run; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with its test.
struct Serving(Child);

impl Serving {
    /// Starts it; returns its URL too.
    fn start(context: &TestContext, args: &[&str]) -> (Self, String) {
        let all: Vec<&str> = [&["serve"], args].concat();
        let mut child = context.command(&all).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        (Self(child), url.trim_end().to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        self.0.wait().unwrap();
    }
}

/// The answer to a request for a path of the server.
fn get(url: &str, path: &str) -> String {
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(host.replace("0.0.0.0", "127.0.0.1")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks for the list until it holds a run: runs are read when the server listens already.
#[track_caller]
fn wait_for(url: &str, run: &str) {
    let began = Instant::now();
    while !get(url, "/").contains(&format!("data-run=\"{run}\"")) {
        assert!(began.elapsed() < PATIENCE, "{run} is not listed: {}", get(url, "/"));
    }
}

#[test]
fn runs_are_served_where_nobody_says_otherwise() {
    let context = TestContext::with_finished_demo();
    // Without `runs` it is the directory in which it is started.
    let (serving, url) = Serving::start(&context, &["--listen", "127.0.0.1:0"]);
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with('/'), "{url}");
    wait_for(&url, "demo&#x2f;run");
    assert!(get(&url, "/run/demo/run").contains("Score by step"));
    drop(serving);
    std::fs::create_dir(context.path("runs")).unwrap();
    std::fs::rename(context.path("demo/run"), context.path("runs/mine")).unwrap();
    let (_serving, url) = Serving::start(&context, &["--listen", "127.0.0.1:0"]);
    wait_for(&url, "mine");
}

#[test]
fn other_machines_need_the_token_that_is_printed() {
    let context = TestContext::new();
    let (_serving, url) = Serving::start(&context, &["--listen", "0.0.0.0:0"]);
    let (_, token) = url.split_once("/?token=").unwrap();
    assert_eq!(token.len(), 48);
    assert!(get(&url, "/").starts_with("HTTP/1.1 401 "));
    assert!(get(&url, &format!("/?token={token}")).starts_with("HTTP/1.1 303 "));
}

/// As many connections as there may be, none of which ever sends a whole request.
#[test]
fn half_open_connections_lock_nobody_out() {
    let context = TestContext::new();
    let (_serving, url) = Serving::start(&context, &["--listen", "127.0.0.1:0"]);
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let open = |_| {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: ").unwrap();
        stream
    };
    let half_open: Vec<TcpStream> = (0..512).map(open).collect();
    assert!(get(&url, "/").starts_with("HTTP/1.1 200 "));
    // The oldest had to go.
    let mut rest = [0; 1];
    half_open[0].set_read_timeout(Some(PATIENCE)).unwrap();
    let read = (&half_open[0]).read(&mut rest);
    assert!(!read.is_ok_and(|n_bytes| n_bytes > 0));
}

#[test]
fn a_server_that_cannot_begin_says_why() {
    let context = TestContext::new();
    let check = |args: &[&str], expect: &str| {
        let outcome = context.run(&[&["serve"], args].concat());
        outcome.assert_code(code::USAGE);
        assert!(outcome.stderr.contains(expect) && outcome.stderr.contains("hint: "), "{}", outcome.stderr);
    };
    check(&["missing"], "cannot read the directory missing");
    check(&["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1");
    let outcome = context.run(&["serve", "--token-env", "SKILLRL_TEST_NOT_THERE"]);
    outcome.assert_code(code::USAGE);
    assert!(outcome.stderr.contains("SKILLRL_TEST_NOT_THERE holds no token"), "{}", outcome.stderr);
}

#[test]
fn a_run_that_is_asked_to_stop_goes_on_to_the_same_files() {
    let server = Server::start();
    let context = Arc::new(TestContext::with_task(&server.model("target"), &server.model("optimizer")));
    let args = |dir: &'static str| ["train", "task/skillrl.toml", "--set", "run.workers=1", "--set", dir];
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&args("run.dir=undisturbed"));
    // The first call of step 1 is the third.
    let asking = Arc::clone(&context);
    server.answer_with(move |call, request| {
        if call == 3 {
            let said = asking.succeed(&["stop", "stopped"]);
            assert!(said.starts_with("stopped stops when the step under way is done"), "{said}");
            assert!(
                asking.succeed(&["status", "stopped"]).contains("\n  asked  to stop when the step under way")
            );
            asking.succeed(&["stop", "stopped", "--withdraw"]);
            assert!(!asking.succeed(&["status", "stopped"]).contains("asked"));
            assert!(!asking.path("stopped/stop_after_step").exists());
            asking.succeed(&["stop", "stopped"]);
        }
        server::healthy(request)
    });
    let outcome = context.run(&args("run.dir=stopped"));
    outcome.assert_code(code::STOPPED);
    assert!(outcome.stderr.contains("stopped after step 1 of 2"), "{}", outcome.stderr);
    assert!(!context.path("stopped/stop_after_step").exists());
    let refused = context.run(&["stop", "stopped"]);
    refused.assert_code(code::USAGE);
    assert!(refused.stderr.contains("no process works on the run in stopped"), "{}", refused.stderr);
    context.run(&["stop", "task"]).assert_code(code::RUN_DIR);
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&args("run.dir=stopped"));
    assert_same_files(&context.untimed_files("stopped"), &context.untimed_files("undisturbed"));
}
