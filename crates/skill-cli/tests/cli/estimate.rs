//! `skillrl estimate`: what was estimated is what a run takes.

use crate::context::{KEY_VARIABLE, TestContext, code, set};
use crate::said::assert_names;
use crate::server::Server;
use serde_json::Value;

const CONFIG: &str = "demo/skillrl.toml";

pub(crate) fn estimated(context: &TestContext, args: &[&str]) -> Value {
    context.succeed_json(&[&["estimate", CONFIG, "--json"], args].concat())
}

/// Checks that each stage of a finished run took what was estimated, and that all stages were.
#[track_caller]
pub(crate) fn check(estimate: &Value, summary: &Value) {
    let used = summary["token_summary"].as_object().unwrap();
    let stages = estimate["stages"].as_array().unwrap();
    let mut totals = [0; 3];
    for (name, taken) in used {
        let stage = stages.iter().find(|stage| stage["stage"] == *name).expect(name);
        let quantities =
            [("calls", "calls"), ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")];
        for ((quantity, taken_as), total) in quantities.into_iter().zip(&mut totals) {
            let number = taken[taken_as].as_u64().unwrap();
            *total += number;
            assert_lies_in(number, &stage[quantity], &format!("{name}: {quantity}"));
        }
    }
    for (quantity, total) in ["calls", "input_tokens", "output_tokens"].into_iter().zip(totals) {
        assert_lies_in(total, &estimate["total"][quantity], quantity);
    }
}

#[track_caller]
fn assert_lies_in(number: u64, span: &Value, what: &str) {
    let [low, high] = ["low", "high"].map(|end| span[end].as_u64().unwrap());
    assert!((low..=high).contains(&number), "{what}: {number} is not in {low} to {high}");
}

#[test]
fn the_demo_takes_what_was_estimated() {
    let context = TestContext::with_finished_demo();
    check(&estimated(&context, &[]), &context.json("demo/run/summary.json"));

    let outcome = context.run(&["estimate", CONFIG]);
    outcome.assert_code(code::SUCCESS);
    insta::assert_snapshot!("estimate", outcome.stdout);
    assert_names(&outcome.stderr, &["note: ", "demo/run", "journal"]);
}

#[test]
fn a_longer_run_of_other_settings_takes_what_was_estimated() {
    let context = TestContext::with_demo();
    let longer =
        set(&["train.epochs=6", "train.batch_size=7", "train.minibatch_size=2", "train.merge_batch_size=2"]);
    let estimate = estimated(&context, &longer);
    assert_eq!(estimate["steps"], 36);
    context.succeed(&[&["train", CONFIG, "--quiet"], longer.as_slice()].concat());
    check(&estimate, &context.json("demo/run/summary.json"));
    let without_test = estimated(&context, &["--set", "eval.test=false"]);
    assert_eq!(without_test["stages"].as_array().unwrap().len(), 8);
}

#[test]
fn an_estimate_needs_no_key_sends_nothing_and_knows_the_prices() {
    let server = Server::start();
    let more = format!(", api_key_env = \"{KEY_VARIABLE}\", price_input = 2.0, price_output = 10.0");
    let context = server.task_with(&more);
    let outcome = context.run(&["estimate", "task/skillrl.toml"]);
    outcome.assert_code(code::SUCCESS);
    assert_eq!((outcome.stderr.as_str(), server.n_calls()), ("", 0));
    insta::assert_snapshot!("estimate_with_prices", outcome.stdout);

    let total = context.succeed_json(&["estimate", "task/skillrl.toml", "--json"])["total"].take();
    for (end, name) in ["low", "high"].into_iter().enumerate() {
        let tokens = |quantity: &str| total[quantity][name].as_f64().unwrap();
        let expect = (tokens("input_tokens") * 2.0 + tokens("output_tokens") * 10.0) / 1e6;
        assert!((total["cost"][end].as_f64().unwrap() - expect).abs() < 1e-9, "{total}");
    }
}

#[test]
fn a_model_that_may_cost_money_needs_a_price() {
    let (_server, context) = Server::start_with_task();
    let outcome = context.run(&["estimate", "task/skillrl.toml"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stdout, &["`price_input`", "`price_output`"]);
}

#[test]
fn what_cannot_be_estimated_is_said_with_a_hint() {
    let context = TestContext::with_demo();
    context
        .run(&["estimate", CONFIG, "--set", "train.epochs=1000000"])
        .fails(code::USAGE, &["4,000,000 steps", "`train.epochs`", "`train.batch_size`"]);
    context.run(&["estimate", "nowhere.toml"]).assert_code(code::USAGE);
    context.write("demo/data/val.jsonl", "");
    context.run(&["estimate", CONFIG]).assert_code(code::DATA);
}
