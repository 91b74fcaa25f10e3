//! `skillrl journal`: lists, shows, exports, prunes and sums up, also while a run is in progress.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::{Said, assert_names};
use crate::server::Server;
use serde_json::{Value, json};
use skillrl::llm::journal::{Journal, JournalOptions};
use skillrl::pipeline::event::NoEvents;
use skillrl::pipeline::run_dir::RunDir;
use skillrl::pipeline::run_dir::live::{LiveEvents, Pulse};
use skillrl::pipeline::{Event, EventSink as _};
use std::path::Path;
use std::sync::Arc;
use wiremock::ResponseTemplate;

const RUN: &str = "demo/run";

fn with_run() -> TestContext {
    TestContext::with_finished_demo()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn listed(context: &TestContext, args: &[&str]) -> Vec<Value> {
    lines(&context.succeed(&[&["journal", "list", RUN, "--json"], args].concat()))
}

#[test]
fn calls_are_listed_the_last_ones_by_default() {
    let context = with_run();
    let n_calls = listed(&context, &["--last", "100000"]).len();
    let outcome = context.run(&["journal", "list", RUN]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &[&format!("the last 50 of {n_calls}"), "--last N"]);
    let rows: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(rows.len(), 51);
    assert_eq!(
        rows[0].split_whitespace().collect::<Vec<_>>(),
        ["id", "place", "model", "outcome", "in", "out", "sent", "waited", "took"]
    );
    assert!(rows[50].trim_start().starts_with(&format!("{n_calls}  test_best / ")), "{}", rows[50]);
    assert_eq!(listed(&context, &[]).last().unwrap()["id"], n_calls);
}

#[test]
fn a_list_is_filtered() {
    let context = with_run();
    let places = |args: &[&str]| -> Vec<String> {
        let all = [args, &["--last", "1000"]].concat();
        listed(&context, &all).iter().map(|call| call["place"].as_str().unwrap().to_owned()).collect()
    };
    let step_1 = places(&["--place", "step 1"]);
    assert!(step_1.len() > 50 && step_1.iter().all(|place| place.starts_with("step 1 / ")), "{step_1:?}");
    assert_eq!(places(&["--place", "step 1", "--model", "simulated-target"]).len(), 50);
    assert_eq!(places(&["--place", "step"]).len(), 0);
    assert_eq!(places(&["--outcome", "failed"]).len(), 0);
    assert_eq!(places(&["--outcome", "reply"]).len(), places(&[]).len());

    let outcome = context.run(&["journal", "list", RUN, "--outcome", "timeout"]);
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stdout.is_empty() && outcome.stderr.starts_with("no call "), "{}", outcome.stderr);
}

#[test]
fn what_cannot_be_found_is_said_with_a_hint() {
    let context = with_run();
    context.write("damaged/journal.sqlite", "[run]\n");
    let mut said = Said::default();
    for (args, expect_code, names) in [
        (&["list", RUN, "--outcome", "tiemout"][..], code::USAGE, &["`tiemout`", "rate_limited"][..]),
        (&["show", RUN, "0"], code::USAGE, &["number 0", "`skillrl journal list demo/run`"]),
        (&["prune", RUN], code::USAGE, &["--place", "--all"]),
        (&["stats", "nowhere"], code::RUN_DIR, &["nowhere"]),
        (&["list", "demo"], code::RUN_DIR, &["demo/journal.sqlite"]),
        (&["stats", "damaged/journal.sqlite"], code::RUN_DIR, &["damaged/journal.sqlite", "--new-journal"]),
    ] {
        let outcome = context.run(&[&["journal"], args].concat()).refused(expect_code, names);
        said.add(&args.join(" "), &outcome);
    }
    insta::assert_snapshot!("journal_refusals", said.text());
}

#[test]
fn a_call_is_shown_with_everything() {
    let context = with_run();
    let call = listed(&context, &["--place", "step 1 / reflect / failure 1"])[0].clone();
    let id = call["id"].to_string();
    let whole = context.succeed_json(&["journal", "show", RUN, &id, "--json"]);
    assert_eq!((&whole["call"], &whole["place"]), (&call["id"], &call["place"]));
    let text = context.succeed(&["journal", "show", RUN, &id]);
    let reply = whole["reply"].as_str().unwrap().trim_end();
    for part in ["── system ──\n", "── user ──\n", "── attempts ──\n", &format!("── reply ──\n{reply}\n")]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "colour is for terminals");
}

#[test]
fn an_export_is_json_lines() {
    let context = with_run();
    let all = lines(&context.succeed(&["journal", "export", RUN]));
    let n_calls = all.iter().filter(|line| line.get("call").is_some()).count();
    let n_results = all.iter().filter(|line| line.get("result").is_some()).count();
    assert_eq!((n_calls, n_calls + n_results), (listed(&context, &["--last", "1000"]).len(), all.len()));

    let args =
        ["journal", "export", "demo/run/journal.sqlite", "--place", "baseline", "--out", "calls.jsonl"];
    assert_eq!(context.succeed(&args), "");
    assert_eq!(lines(&context.read("calls.jsonl")).len(), 40);
    context.run(&args).fails(code::USAGE, &["error: calls.jsonl ", "--force"]);
    let forced = context.run(&[args.as_slice(), &["--force"]].concat());
    forced.assert_code(code::SUCCESS);
    assert_eq!(forced.stderr, "wrote 40 lines to calls.jsonl\n");
}

#[test]
fn a_dry_run_of_pruning_changes_nothing_and_says_what_would_go() {
    let context = with_run();
    let journal = || context.files(RUN)[Path::new("journal.sqlite")].clone();
    let before = journal();
    let text = context.succeed(&["journal", "prune", RUN, "--place", "baseline", "--dry-run"]);
    assert_names(&text, &["would take out", "demo/run/journal.sqlite: 40 calls, 40 finished rollouts, "]);
    assert!(journal() == before);
}

#[test]
fn pruned_calls_are_gone_and_the_run_makes_them_again() {
    let context = with_run();
    let expect = context.untimed_files(RUN);
    let outcome = context.run(&["journal", "prune", RUN, "--place", "step 12"]);
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stdout.starts_with("took out: "), "{}", outcome.stdout);
    assert_names(&outcome.stderr, &["billed again"]);
    assert_eq!(listed(&context, &["--place", "step 12"]).len(), 0);
    assert_ne!(listed(&context, &["--place", "step 11"]).len(), 0);

    // Without its state the run starts over; what is still in the journal is not asked again.
    let last_id = listed(&context, &["--last", "1"])[0]["id"].as_u64().unwrap();
    for file in ["runtime_state.json", "history.json", "history.jsonl", "summary.json"] {
        context.remove(&format!("{RUN}/{file}"));
    }
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    assert_same_files(&context.untimed_files(RUN), &expect);
    let calls = listed(&context, &["--last", "1000"]);
    let is_new = |call: &&Value| call["id"].as_u64().unwrap() > last_id;
    let n_in_step_12 = listed(&context, &["--place", "step 12"]).len();
    assert!(n_in_step_12 > 0);
    assert!(calls.iter().filter(is_new).all(|call| call["place"].as_str().unwrap().starts_with("step 12")));

    context.run(&["journal", "prune", RUN, "--all"]).assert_code(code::SUCCESS);
    let outcome = context.run(&["journal", "list", RUN]);
    assert!(outcome.stdout.is_empty() && outcome.stderr.contains("no call"), "{}", outcome.stderr);
}

#[test]
fn a_run_in_progress_can_be_looked_at_and_not_pruned() {
    let context = with_run();
    let held = RunDir::open(&context.path(RUN)).unwrap();
    let live = LiveEvents::new(Arc::new(NoEvents), Arc::new(Pulse::default));
    live.emit(&Event::RunStarted {
        dir: context.path(RUN),
        env: "qa".to_owned(),
        n_items: [1; 3],
        total_steps: 1,
        finished_steps: 0,
        workers: 1,
        config_dir: None,
    });
    let journal = Journal::open(&held.journal_path(), JournalOptions::default()).unwrap();
    for args in [
        ["journal", "list", RUN].as_slice(),
        &["journal", "show", RUN, "1"],
        &["journal", "export", RUN],
        &["journal", "stats", RUN],
        &["journal", "prune", RUN, "--all", "--dry-run"],
    ] {
        assert_ne!(context.succeed(args), "");
    }
    for run in [RUN, "demo/run/journal.sqlite"] {
        let refused = context.run(&["journal", "prune", run, "--all"]);
        refused.assert_code(code::RUN_DIR);
        let process = format!("(pid {}, for ", std::process::id());
        assert_names(
            &refused.stderr,
            &["error: another process ", &process, " demo/run ", "`skillrl stop RUN`"],
        );
    }
    drop(live);
    // One that does not train does not say what it is.
    let refused = context.run(&["journal", "prune", RUN, "--all"]);
    assert_names(&refused.stderr, &["error: another process is ", " demo/run "]);
    drop((journal, held));
    context.succeed(&["journal", "prune", RUN, "--all"]);
}

#[test]
fn a_journal_that_lies_alone_is_pruned_without_a_lock() {
    let context = with_run();
    std::fs::rename(context.path("demo/run/journal.sqlite"), context.path("alone.sqlite")).unwrap();
    let text = context.succeed(&["journal", "prune", "alone.sqlite", "--outcome", "failed"]);
    assert!(text.contains(": 0 calls, 0 finished rollouts, 0 messages"), "{text}");
    let text = context.succeed(&["journal", "prune", "alone.sqlite", "--model", "simulated-optimizer"]);
    assert!(text.starts_with("took out: 48 calls, "), "{text}");
    assert!(!context.path("run.lock").exists());
}

#[test]
fn stats_are_those_of_the_run() {
    // One call at a time: of several, some may be answered after a candidate is lost, and the summary has none of them.
    let context = TestContext::with_demo();
    context.succeed(&["train", "demo/skillrl.toml", "--quiet", "--set", "run.workers=1"]);
    let text = context.succeed(&["journal", "stats", RUN]);
    assert!(!text.contains("money"), "simulated models cost nothing:\n{text}");
    let stats = context.succeed_json(&["journal", "stats", RUN, "--json"]);
    let summary = context.json("demo/run/summary.json");
    let used = summary["token_summary"].as_object().unwrap();
    let rows = stats["by_stage_and_model"].as_array().unwrap();
    assert_eq!(rows.len(), used.len());
    for row in rows {
        let stage = &used[row["stage"].as_str().unwrap()];
        assert_eq!((&row["replies"], &row["requests"]), (&stage["calls"], &stage["calls"]), "{row}");
        let tokens = (&row["usage"]["input"], &row["usage"]["output"]);
        assert_eq!(tokens, (&stage["prompt_tokens"], &stage["completion_tokens"]), "{row}");
    }
}

#[test]
fn stats_have_money_where_prices_are_configured() {
    let server = Server::start();
    let context = server.task_with(", price_input = 100.0, price_output = 100.0");
    let said = context.succeed(&["train", "task/skillrl.toml", "--quiet"]);
    let (_, paid) = said.split_once(" reply tokens, ").unwrap();
    let paid = paid.lines().next().unwrap();
    let text = context.succeed(&["journal", "stats", "task/run"]);
    assert!(text.contains(&format!("cost      {paid}")), "{paid}\n{text}");
    std::fs::copy(context.path("task/run/journal.sqlite"), context.path("alone.sqlite")).unwrap();
    assert!(!context.succeed(&["journal", "stats", "alone.sqlite"]).contains("cost"));
}

#[test]
fn the_reasoning_of_a_reply_is_shown() {
    let server = Server::start();
    server.answer_with(|_, _| {
        let message =
            json!({"role": "assistant", "content": "word", "reasoning_content": "Which word is it?"});
        ResponseTemplate::new(200)
            .set_body_json(json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
    });
    let context = server.task();
    context.succeed(&["eval", "task/skillrl.toml", "--split", "val", "--out", "measured", "--quiet"]);
    let text = context.succeed(&["journal", "show", "measured", "1"]);
    assert!(text.contains("── reasoning ──\nWhich word is it?\n"), "{text}");
    let call = context.succeed_json(&["journal", "show", "measured", "1", "--json"]);
    assert_eq!((&call["reasoning"], &call["reply"]), (&json!("Which word is it?"), &json!("word")));
    let results = context.json("measured/results.json");
    assert_eq!(results[0]["trajectory"]["messages"][2]["reasoning"], "Which word is it?", "{results}");
}
