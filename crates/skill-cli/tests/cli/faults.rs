//! Faults of a server: none of them becomes a score, and each ends or passes as it should.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{self, Server, model_at};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wiremock::{Request, ResponseTemplate};

/// Items of the selection split: enough that an outage of one evaluation is many items.
const N_VAL: usize = 32;

/// A successful status with nothing in it, as overloaded gateways send it.
fn nothing() -> ResponseTemplate {
    ResponseTemplate::new(200).set_body_json(json!({
        "choices": [{"message": {"role": "assistant", "content": null}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 0}
    }))
}

/// The task of the other tests, with more items to select on.
fn context(server: &Server) -> TestContext {
    let context = server.task();
    context.write_items("val", N_VAL);
    context
}

fn train(context: &TestContext, n_attempts: usize) -> crate::context::Outcome {
    let attempts = format!("retry.max_attempts={n_attempts}");
    let settings = ["--set", &attempts, "--set", "retry.first_delay_s=0.01", "--set", "run.workers=32"];
    context.run(&[["train", "task/skillrl.toml"].as_slice(), &settings].concat())
}

fn accepted(context: &TestContext) -> serde_json::Value {
    context.json("task/run/summary.json")["total_accepts"].clone()
}

/// Whether a request measures the candidate on the selection split.
fn is_evaluation(request: &Request) -> bool {
    let body = server::body(request);
    let text = body["messages"].to_string();
    !server::is_optimizer(&body) && text.contains(server::GOOD_RULE) && text.contains("valword")
}

#[test]
fn an_outage_behind_http_200_is_outlasted_and_scores_nothing() {
    let server = Server::start();
    let undisturbed = context(&server);
    train(&undisturbed, 8).assert_code(code::SUCCESS);
    assert_eq!(accepted(&undisturbed), 1);

    let disturbed = context(&server);
    let n_empty = AtomicUsize::new(0);
    server.answer_with(move |_, request| {
        match is_evaluation(request) && n_empty.fetch_add(1, Ordering::Relaxed) < N_VAL {
            true => nothing(),
            false => server::healthy(request),
        }
    });
    train(&disturbed, 8).assert_code(code::SUCCESS);
    assert_same_files(&disturbed.untimed_files("task/run"), &undisturbed.untimed_files("task/run"));
}

#[test]
fn a_longer_outage_behind_http_200_stops_the_run_and_the_same_command_continues() {
    let server = Server::start();
    let undisturbed = context(&server);
    train(&undisturbed, 2).assert_code(code::SUCCESS);
    // In the baseline, in the rollouts, in the evaluation of the candidate, and in what the optimizer says.
    let outages: [fn(&Request) -> bool; 4] = [
        |_| true,
        |request| server::body(request)["messages"].to_string().contains("trainword"),
        is_evaluation,
        |request| server::is_optimizer(&server::body(request)),
    ];
    for (outage_idx, is_out) in outages.into_iter().enumerate() {
        let disturbed = context(&server);
        server.answer_with(move |_, request| match is_out(request) {
            true => nothing(),
            false => server::healthy(request),
        });
        for _ in 0..2 {
            train(&disturbed, 2).fails(code::OUTAGE, &["`content`"]);
        }
        server.answer_with(|_, request| server::healthy(request));
        train(&disturbed, 2).assert_code(code::SUCCESS);
        assert_eq!(accepted(&disturbed), 1, "{outage_idx}");
        assert_same_files(&disturbed.untimed_files("task/run"), &undisturbed.untimed_files("task/run"));
    }
}

#[test]
fn a_single_item_without_content_is_no_score_either() {
    let server = Server::start();
    let context = context(&server);
    server.answer_with(|_, request| {
        match server::body(request)["messages"].to_string().contains("valword7.") {
            true => nothing(),
            false => server::healthy(request),
        }
    });
    train(&context, 2).fails(code::OUTAGE, &["val-7"]);
}

#[test]
fn without_any_server_a_run_fails_fast_and_says_where_it_looked() {
    let address = server::closed_address();
    let context = TestContext::with_task(&model_at(&address, "target"), &model_at(&address, "optimizer"));
    // The attempts of the default policy would take more than half a minute.
    let outcome = context.run(&["train", "task/skillrl.toml", "--set", "retry.max_attempts=8"]);
    outcome.assert_code(code::OUTAGE);
    let error = outcome.stderr.split_once("error: ").map_or("", |(_, error)| error);
    let cause = format!("cannot reach {address}/v1");
    assert_names(error, &[&cause, "gave up after 3 attempts", "`base_url`"]);
}

#[test]
fn rate_limits_with_a_stated_wait_end_no_run() {
    let (server, context) = Server::start_with_task();
    // More limits for the first call than it has attempts.
    let n_limited = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_limited);
    server.answer_with(move |_, request| match counted.fetch_add(1, Ordering::Relaxed) {
        0..10 => ResponseTemplate::new(429).insert_header("retry-after-ms", "1"),
        _ => server::healthy(request),
    });
    let settings =
        ["--set", "retry.max_attempts=4", "--set", "retry.first_delay_s=0.001", "--set", "run.workers=1"];
    context.run(&[["train", "task/skillrl.toml"].as_slice(), &settings].concat()).assert_code(code::SUCCESS);
    assert!(n_limited.load(Ordering::Relaxed) > 10);
}

/// One line says that the judge is asked again, and then comes the error; nothing of a log is between them.
#[test]
fn a_judge_that_answers_in_the_wrong_form_is_said_once() {
    let (server, context) = Server::start_with_task();
    context.replace(
        "task/skillrl.toml",
        "[env]\nkind = \"qa\"\n",
        "[env]\nkind = \"tasks\"\nanswer_field = \"answers\"\nscorer = \"rubric\"\nrubric = \"It is polite.\"\njudge = \"optimizer\"\n",
    );
    server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
        true => server::reply("I like it.", "stop"),
        false => server::healthy(request),
    });
    let stopped = context.run(&["train", "task/skillrl.toml"]);
    stopped.assert_code(code::OUTAGE);
    let count = |text: &str| stopped.stderr.matches(text).count();
    assert_eq!(count("warning: the judge"), 1, "{}", stopped.stderr);
    assert_names(&stopped.stderr, &["from 0 to 10", "3 replies", "`skillrl try`"]);
    for of_a_log in ["WARN", "skill_envs", "skill_pipeline"] {
        assert_eq!(count(of_a_log), 0, "{}", stopped.stderr);
    }
}

/// The journal keeps the unreadable replies of a judge, and the same command still asks it again.
#[test]
fn a_judge_that_was_disturbed_is_asked_again_by_the_same_command() {
    let (server, context) = Server::start_with_task();
    context.replace(
        "task/skillrl.toml",
        "[env]\nkind = \"qa\"\n",
        "[models.judge]\nkind = \"openai\"\nmodel = \"judge\"\nbase_url = \"ADDRESS/v1\"\n\n[env]\nkind = \"tasks\"\nanswer_field = \"answers\"\nscorer = \"rubric\"\nrubric = \"It is one word.\"\n",
    );
    context.replace("task/skillrl.toml", "ADDRESS", &server.address());
    let is_judge = |request: &Request| server::body(request)["model"] == "judge";
    // Only for answers to tasks of this split.
    let disturbed = |split: &'static str| {
        move |_: usize, request: &Request| match is_judge(request) {
            true if request.body.windows(split.len()).any(|words| words == split.as_bytes()) => {
                server::reply("I like it.", "stop")
            }
            true => judged(request),
            false => server::healthy(request),
        }
    };
    let train = ["train", "task/skillrl.toml", "--quiet"];
    let eval = ["eval", "task/skillrl.toml", "--split", "val", "--out", "measured", "--quiet"];
    for (args, split) in [(&train[..], "trainword"), (&eval, "valword")] {
        server.answer_with(disturbed(split));
        context.run(args).fails(code::OUTAGE, &["from 0 to 10", "start the same command again"]);
        // It asks on, though all that it has asked for is in the journal.
        context.run(args).assert_code(code::OUTAGE);
        server.answer_with(disturbed("no such word"));
        context.run(args).assert_code(code::SUCCESS);
        assert!(server.n_calls() > 0);
    }
    let replayed = ["replay", "task/run", "--config", "task/skillrl.toml", "--into", "again", "--quiet"];
    server.answer_with(|_, _| ResponseTemplate::new(500));
    context.succeed(&replayed);
    assert_same_files(&context.untimed_files("task/run"), &context.untimed_files("again"));
    let again = context.run(&eval);
    again.assert_code(code::SUCCESS);
    assert_eq!(server.n_calls(), 0, "{}", again.stderr);
}

/// All points for an answer of one word.
fn judged(request: &Request) -> ResponseTemplate {
    let points = if request.body.windows(8).any(|text| text == b"Good day") { 2 } else { 10 };
    server::reply(&json!({"reason": "It is counted.", "points": points}).to_string(), "stop")
}
