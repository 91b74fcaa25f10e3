//! `skillrl serve` and `skillrl stop`, as programs beside the one that trains.

use crate::context::{TestContext, assert_same_files, code};
use crate::server::{self, Server};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Far longer than it takes to read a run; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with its test.
pub(crate) struct Serving(pub(crate) Child);

impl Serving {
    /// Starts it by this command; returns its URL too.
    pub(crate) fn start(context: &TestContext, args: &[&str]) -> (Self, String) {
        let mut child = context.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
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
pub(crate) fn get(url: &str, path: &str) -> String {
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(host.replace("0.0.0.0", "127.0.0.1")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Asks for the list until it holds a run: runs are read when the server listens already.
#[track_caller]
pub(crate) fn wait_for(url: &str, run: &str) {
    let began = Instant::now();
    while !get(url, "/").contains(&format!("data-run=\"{run}\"")) {
        assert!(began.elapsed() < PATIENCE, "{run} is not listed: {}", get(url, "/"));
    }
}

/// Requests, tokens and money in the row of a run.
fn spent_in_list(list: &str, run: &str) -> [String; 3] {
    let row = list.split(&format!("data-run=\"{}\"", run.replace('/', "&#x2f;"))).nth(1).unwrap();
    let row = row.split("</tr>").next().unwrap();
    let cells: Vec<&str> = row.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1).collect();
    let text = |cell: usize| cells[cell].split('<').next().unwrap().replace(['\u{a0}', ','], "");
    // Behind name, state, steps, two scores and decisions.
    [6, 7, 8].map(text)
}

#[test]
fn a_run_has_spent_the_same_wherever_it_is_shown_and_a_replay_nothing() {
    let server = Server::start();
    let context = server.task_with(", price_input = 100.0, price_output = 100.0");
    let train = |more: &[&str]| {
        context.run(
            &[["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1"].as_slice(), more].concat(),
        )
    };
    // The calls of `noise` are in the journal of the run, not in its results.
    context.write("task/other.md", "# Repeating\n\n- Be brief.\n");
    context.succeed(&["doctor", "--measure", "task/skillrl.toml", "--quiet", "--skill", "task/other.md"]);
    train(&[]).assert_code(code::SUCCESS);
    let n_sent = server.n_calls();
    context.succeed(&["replay", "task/run", "--into", "task/again", "--quiet"]);
    train(&["--set", "run.dir=task/stopped", "--set", "budget.calls=3"]).assert_code(code::BUDGET);
    assert_eq!(server.n_calls(), n_sent + 3, "a replay sends nothing");

    let (_serving, url) = Serving::start(&context, &["serve", "task", "--listen", "127.0.0.1:0"]);
    for run in ["run", "again", "stopped"] {
        wait_for(&url, run);
    }
    let both = ["compare", "task/run", "task/again"];
    let compared = context.succeed_json(&[&both[..], &["--json", "--html", "both.html"]].concat());
    assert_eq!(
        (&compared["runs"][0]["is_replay"], &compared["runs"][1]["is_replay"]),
        (&false.into(), &true.into())
    );
    assert!(
        !context.succeed(&both).contains("no prices") && !context.read("both.html").contains("no prices")
    );
    let (list, metrics) = (get(&url, "/"), get(&url, "/metrics"));
    for (run, n_calls) in [("run", n_sent), ("again", 0), ("stopped", 3)] {
        let path = format!("task/{run}");
        let status = context.succeed_json(&["status", &path, "--json"]);
        let report = context.succeed_json(&["report", &path, "--json"]);
        let sent = &report["sent"];
        assert_eq!((&status["calls"], &sent["requests"]), (&n_calls.into(), &n_calls.into()), "{run}");
        assert_eq!((&status["tokens"], &status["money"]), (&sent["tokens"], &sent["money"]), "{run}");
        let listed = spent_in_list(&list, run);
        assert_eq!(listed[..2], [n_calls.to_string(), sent["tokens"].to_string()], "{run}");
        let line = |name: &str| {
            let start = format!("{name}{{run=\"{run}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
        };
        assert_eq!(line("skillrl_run_spent_requests_total"), Some(n_calls.to_string()));
        let is_replay = run == "again";
        assert_eq!((&status["is_replay"], &sent["is_replay"]), (&is_replay.into(), &is_replay.into()));
        match sent["money"].as_f64() {
            Some(money) => {
                assert!(!is_replay && money > 0.0, "{run}");
                let shown: f64 = listed[2].trim_start_matches('$').parse().unwrap();
                assert!((shown - money).abs() < 0.006, "{listed:?} {money}");
                assert_eq!(line("skillrl_run_money_total"), Some(money.to_string()));
            }
            None => {
                assert!(is_replay, "{run}");
                assert_eq!((listed[2].as_str(), line("skillrl_run_money_total")), ("–", None));
            }
        }
    }
    // The stages add up to the money of their table, which is less than what `noise` has paid for too.
    let report = context.succeed_json(&["report", "task/run", "--json"]);
    let stages = report["stages"].as_array().unwrap();
    let sum: f64 = stages.iter().map(|stage| stage["money"].as_f64().unwrap()).sum();
    let total = report["total"]["money"].as_f64().unwrap();
    assert!((sum - total).abs() < 1e-9 && total > 0.0, "{sum} {total}");
    assert!(total < report["sent"]["money"].as_f64().unwrap(), "{report}");
    let replayed = context.succeed_json(&["report", "task/again", "--json"]);
    assert_eq!((&replayed["total"]["money"], &replayed["stages"][0]["money"]), (&Value::Null, &Value::Null));
    assert_eq!(replayed["total"]["calls"], report["total"]["calls"]);
}

#[test]
fn runs_are_served_where_nobody_says_otherwise() {
    let context = TestContext::with_finished_demo();
    // Without `runs` it is the directory in which it is started.
    let (serving, url) = Serving::start(&context, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with('/'), "{url}");
    wait_for(&url, "demo&#x2f;run");
    assert!(get(&url, "/run/demo/run").contains("Score by step"));
    drop(serving);
    std::fs::create_dir(context.path("runs")).unwrap();
    std::fs::rename(context.path("demo/run"), context.path("runs/mine")).unwrap();
    let (_serving, url) = Serving::start(&context, &["serve", "--listen", "127.0.0.1:0"]);
    wait_for(&url, "mine");
}

#[test]
fn other_machines_need_the_token_that_is_printed() {
    let context = TestContext::new();
    let (_serving, url) = Serving::start(&context, &["serve", "--listen", "0.0.0.0:0"]);
    let (_, token) = url.split_once("/?token=").unwrap();
    assert_eq!(token.len(), 48);
    assert!(get(&url, "/").starts_with("HTTP/1.1 401 "));
    assert!(get(&url, &format!("/?token={token}")).starts_with("HTTP/1.1 303 "));
}

/// As many connections as there may be, none of which ever sends a whole request.
#[test]
fn half_open_connections_lock_nobody_out() {
    let context = TestContext::new();
    let (_serving, url) = Serving::start(&context, &["serve", "--listen", "127.0.0.1:0"]);
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
        context.run(&[&["serve"], args].concat()).fails(code::USAGE, &[expect, "hint: "]);
    };
    check(&["missing"], "directory missing");
    check(&["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1");
    context
        .run(&["serve", "--token-env", "SKILLRL_TEST_NOT_THERE"])
        .fails(code::USAGE, &["SKILLRL_TEST_NOT_THERE holds no token"]);
}

#[test]
fn a_run_that_is_asked_to_stop_goes_on_to_the_same_files() {
    let server = Server::start();
    let context = Arc::new(server.task());
    let args = |dir: &'static str| ["train", "task/skillrl.toml", "--set", "run.workers=1", "--set", dir];
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&args("run.dir=undisturbed"));
    // The first call of step 1 is the third.
    let asking = Arc::clone(&context);
    server.answer_with(move |call, request| {
        if call == 3 {
            let said = asking.succeed(&["stop", "stopped"]);
            assert!(said.starts_with("stopped stops "), "{said}");
            assert!(asking.succeed(&["status", "stopped"]).contains("\n  asked  to stop "));
            asking.succeed(&["stop", "stopped", "--withdraw"]);
            assert!(!asking.succeed(&["status", "stopped"]).contains("asked"));
            assert!(!asking.path("stopped/stop_after_step").exists());
            asking.succeed(&["stop", "stopped"]);
        }
        server::healthy(request)
    });
    context.run(&args("run.dir=stopped")).fails(code::STOPPED, &["stopped after step 1 of 2"]);
    assert!(!context.path("stopped/stop_after_step").exists());
    context.run(&["stop", "stopped"]).fails(code::USAGE, &["no process", "stopped"]);
    context.run(&["stop", "task"]).assert_code(code::RUN_DIR);
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&args("run.dir=stopped"));
    assert_same_files(&context.untimed_files("stopped"), &context.untimed_files("undisturbed"));
}
