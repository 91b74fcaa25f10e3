//! `skillrl train`: what is said while it works, and how it goes on after an outage.

use crate::context::{TestContext, assert_same_files, code, without_tokens};
use crate::said::assert_names;
use crate::server::{self, Server};
use serde_json::Value;

#[test]
fn json_is_one_event_a_line_and_nothing_else() {
    let context = TestContext::with_demo();
    let outcome = context.run(&["train", "demo/skillrl.toml", "--json"]);
    outcome.assert_code(code::SUCCESS);
    let events: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|event| event.is_object() && event["event"].is_string()));
    assert_eq!(events.first().unwrap()["event"], "run_started");
    let last = events.last().unwrap();
    assert_eq!(last["event"], "run_finished");
    assert_eq!(last["summary"], context.json("demo/run/summary.json"));
    let n_steps = events.iter().filter(|event| event["event"] == "step_finished").count();
    assert_eq!(n_steps, 12);
    assert!(outcome.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", outcome.stderr);
}

#[test]
fn without_a_terminal_progress_is_plain_lines() {
    let context = TestContext::with_demo();
    let outcome = context.run(&["train", "demo/skillrl.toml"]);
    outcome.assert_code(code::SUCCESS);
    assert!(!outcome.stderr.contains(['\u{1b}', '\r']), "{:?}", outcome.stderr);
    insta::assert_snapshot!("train_stderr", outcome.stderr);
    insta::assert_snapshot!("train_stdout", without_tokens(&outcome.stdout));
}

#[test]
fn quiet_says_warnings_and_the_result() {
    let context = TestContext::with_demo();
    let outcome = context.run(&["train", "demo/skillrl.toml", "--quiet"]);
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("best skill: demo/run/best_skill.md\n\nBetter: "), "{}", outcome.stdout);
}

#[test]
fn an_outage_in_any_stage_is_made_good_by_the_same_command() {
    let (server, context) = Server::start_with_task();
    let train = |dir: &str| {
        let dir = format!("run.dir={dir}");
        context.run(&["train", "task/skillrl.toml", "--set", &dir, "--set", "run.workers=1"])
    };
    server.answer_with(|_, request| server::healthy(request));
    train("undisturbed").assert_code(code::SUCCESS);
    let n_calls = server.n_calls();
    let expect = context.untimed_files("undisturbed");
    assert_eq!(context.json("undisturbed/summary.json")["test_hard"], 1.0, "the task can be learned");

    // In the baseline, the batch, the analysis, the evaluation, the next step, and the very last call.
    for healthy_calls in [0, 1, 3, 4, 6, 7, n_calls - 1] {
        let dir = format!("outage-{healthy_calls}");
        server.answer_with(server::outage_after(healthy_calls));
        let stopped = train(&dir);
        stopped.assert_code(code::OUTAGE);
        assert!(stopped.stderr.contains("failed (HTTP 503): overloaded\n"), "{}", stopped.stderr);
        assert!(!context.path(&dir).join("summary.json").exists());
        server.answer_with(|_, request| server::healthy(request));
        train(&dir).assert_code(code::SUCCESS);
        assert_same_files(&context.untimed_files(&dir), &expect);
    }
}

#[test]
fn a_run_survives_a_provider_that_fails_now_and_then() {
    let (server, context) = Server::start_with_task();
    let train = |dir: &str, more: &[&str]| {
        let run_dir = format!("run.dir={dir}");
        context.run(&[&["train", "task/skillrl.toml", "--set", &run_dir], more].concat())
    };
    server.answer_with(|_, request| server::healthy(request));
    train("undisturbed", &[]).assert_code(code::SUCCESS);
    let (n_calls, expect) = (server.n_calls(), context.untimed_files("undisturbed"));
    // Every other request is turned away.
    server.answer_with(|call, request| match call % 6 {
        1 => wiremock::ResponseTemplate::new(429).insert_header("retry-after-ms", "1"),
        3 => wiremock::ResponseTemplate::new(503),
        5 => wiremock::ResponseTemplate::new(200).set_body_string("<html>"),
        _ => server::healthy(request),
    });
    let patient = ["--set", "retry.max_attempts=9", "--set", "retry.first_delay_s=0.001"];
    train("rough", &patient).assert_code(code::SUCCESS);
    assert_same_files(&context.untimed_files("rough"), &expect);
    assert!(server.n_calls() > n_calls + n_calls / 2, "{} of {n_calls}", server.n_calls());
}

#[test]
fn a_cap_stops_the_run_and_a_higher_one_lets_it_go_on() {
    let (server, context) = Server::start_with_task();
    let train = |dir: &str, cap: &str| {
        let (run_dir, cap) = (format!("run.dir={dir}"), format!("budget.{cap}"));
        context.run(&["train", "task/skillrl.toml", "--set", &run_dir, "--set", &cap])
    };
    train("undisturbed", "calls=1000").assert_code(code::SUCCESS);
    let (n_calls, expect) = (server.n_calls(), context.untimed_files("undisturbed"));
    // Each reply is counted as 15 tokens.
    for (caps, message) in [
        (
            ["calls=5", "calls=9", "calls=1000"],
            "the run's cap on calls is reached (5 of 5), before the first of 2 steps was finished\n",
        ),
        (["tokens=75", "tokens=150", "tokens=100000"], "the run's cap on tokens is reached ("),
    ] {
        let dir = caps[0].replace('=', "-");
        server.answer_with(|_, request| server::healthy(request));
        for cap in &caps[..2] {
            let stopped = train(&dir, cap).fails(code::BUDGET, &["`[budget]`"]);
            if *cap == caps[0] {
                assert!(stopped.stderr.contains(message), "{}", stopped.stderr);
            }
        }
        train(&dir, caps[2]).assert_code(code::SUCCESS);
        assert_eq!(server.n_calls(), n_calls, "{dir}: what was paid for is kept");
        assert_same_files(&context.untimed_files(&dir), &expect);
    }
}

#[test]
fn a_run_goes_on_where_it_stopped() {
    let (server, context) = Server::start_with_task();
    server.answer_with(server::outage_after(7));
    context.run(&["train", "task/skillrl.toml"]).assert_code(code::OUTAGE);
    server.answer_with(|_, request| server::healthy(request));
    let outcome = context.run(&["train", "task/skillrl.toml"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(outcome.stderr.lines().next().unwrap(), &["2 steps, concurrency 8, ", "after step 1"]);
    assert!(!outcome.stderr.contains("step 1/2"), "{}", outcome.stderr);
}

#[test]
fn config_show_says_where_each_value_comes_from() {
    let context = TestContext::with_demo();
    let shown = context.succeed(&["config", "show", "demo/skillrl.toml", "--set", "train.batch_size=8"]);
    // A new setting with a default changes nothing here.
    let others: Vec<&str> = shown.lines().filter(|line| !line.ends_with("# default")).collect();
    assert!(others.len() < shown.lines().count());
    insta::assert_snapshot!("config_show", others.join("\n"));
}
