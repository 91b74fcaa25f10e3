//! The commands that look at runs, given a run that trains a bank.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;
use serde_json::Value;
use skillrl_bench::runs::{BankRunSize, RunSize, make_bank_run, make_run};

const SIZE: BankRunSize = BankRunSize { n_rounds: 3, n_selection: 12, n_test: 16, is_finished: true };

fn with_run(size: BankRunSize) -> TestContext {
    let context = TestContext::new();
    make_bank_run(&context.path("run"), &size).unwrap();
    context
}

#[test]
fn a_report_is_a_page_or_data_and_changes_nothing() {
    let context = with_run(SIZE);
    let files = context.untimed_files("run");
    assert_eq!(context.succeed(&["report", "run", "--output", "page.html"]), "page.html\n");
    let page = context.read("page.html");
    let report = context.succeed_json(&["report", "run", "--json"]);
    assert_eq!((&report["counts"]["active"], &report["tried"]["all"]), (&3.into(), &6.into()));
    let percent = |score: &Value| format!("{:.1} %", score.as_f64().unwrap() * 100.0);
    let test = &report["test"];
    let scores = format!("{} → {}", percent(&test["before"]["hard"]), percent(&test["after"]["hard"]));
    assert!(page.contains(&scores), "{scores}");
    assert_same_files(&files, &context.untimed_files("run"));
    context.succeed(&["report", "run"]);
    assert_eq!(context.read("run/report.html"), page);
}

#[test]
fn show_leads_to_rounds_items_and_the_bank() {
    let context = with_run(SIZE);
    let text = context.succeed(&["show", "run"]);
    let bank = context.succeed(&["bank", "show", "run/bank"]);
    assert!(text.ends_with(&bank), "{text}");
    assert_names(&text, &["finished", "round 2: weak bridge", "on 16 test items", "95 % interval"]);
    assert_eq!(context.succeed_json(&["show", "run", "--json"])["rounds"].as_array().unwrap().len(), 3);

    let text = context.succeed(&["show", "run", "--step", "1"]);
    assert_names(&text, &["round 1, trial 3", "admitted, ", "2 of 8 training rollouts", "left out: "]);
    let record = context.succeed_json(&["show", "run", "--step", "1", "--json"]);
    assert_eq!(record, context.json("run/rounds/round_0001/record.json"));
    context.run(&["show", "run", "--step", "3"]).fails(code::USAGE, &["round 3", "0 to 2"]);

    let text = context.succeed(&["show", "run", "--item", "val-00003"]);
    assert_names(&text, &["validation split", "without", "round 2", "gen_001", "Look at part 0"]);
    let failed = context.json("run/test_eval_best/results.json");
    let failed = failed.as_array().unwrap().iter().find(|result| result["hard"] == 0).unwrap();
    let text = context.succeed(&["show", "run", "--item", failed["id"].as_str().unwrap()]);
    assert_names(&text, &["test split with the bank", "[assistant]"]);
    context.run(&["show", "run", "--item", "nothing"]).assert_code(code::USAGE);
}

#[test]
fn blame_of_a_run_is_that_of_its_bank() {
    let context = with_run(SIZE);
    for more in [&[][..], &["--json"]] {
        let of_run = context.succeed(&[&["blame", "run"], more].concat());
        assert_eq!(of_run, context.succeed(&[&["bank", "blame", "run/bank"], more].concat()));
    }
    context.run(&["blame", "run", "--step", "1"]).assert_code(code::USAGE);
}

#[test]
fn diff_compares_the_bank_at_two_moments_and_versions_of_skills() {
    let context = with_run(SIZE);
    let n_added = |args: &[&str]| {
        let text = context.succeed(&[&["diff", "run"], args].concat());
        text.lines().filter(|line| line.starts_with("added ")).count()
    };
    // Each round proposes two skills.
    assert_eq!(n_added(&[]), 6);
    assert_eq!(n_added(&["0", "round-0"]), 2);
    assert_eq!(n_added(&["round-0", "round-2"]), 4);
    assert_eq!(n_added(&["round-1"]), 2);
    let versions = ["gen_001", "gen_002"];
    let of_run = context.succeed(&[&["diff", "run"], &versions[..]].concat());
    assert_eq!(of_run, context.succeed(&[&["bank", "diff", "run/bank"], &versions[..]].concat()));
    for args in [["round-3", "best"], ["round-x", "best"], ["gen_001", "best"], ["gen_099", "gen_001"]] {
        context.run(&[&["diff", "run"], &args[..]].concat()).assert_code(code::USAGE);
    }
    // A run that began with a bank keeps no copy of that.
    let mut config = context.json("run/config.json");
    config["config"]["bank"] = serde_json::json!({ "initial": "first" });
    config.as_object_mut().unwrap().remove("checksum");
    context.write("run/config.json", &config.to_string());
    context.run(&["diff", "run"]).fails(code::USAGE, &["bank diff first run/bank"]);
}

#[test]
fn a_bank_is_compared_with_a_document() {
    let context = with_run(SIZE);
    let size = RunSize { n_steps: 4, batch: 1, n_selection: 12, n_test: 16, ..RunSize::RUN_OF_10_000_STEPS };
    make_run(&context.path("document"), &size).unwrap();
    let text = context.succeed(&["compare", "run", "document", "--html", "both.html"]);
    assert_names(
        &text,
        &["3 rounds", "3 of 6 trials", "a bank of 3 skills", "on 16 items of both", "95 % interval"],
    );
    let compared = context.succeed_json(&["compare", "document", "run", "--json"]);
    let trains: Vec<&Value> = (0..2).map(|side| &compared["runs"][side]["trains"]).collect();
    assert_eq!(trains, ["document", "bank"]);
    assert!(context.read("both.html").contains("a bank of 3 skills"));
}

#[test]
fn a_run_in_progress_is_shown_as_far_as_it_is() {
    let context = with_run(BankRunSize { n_rounds: 0, is_finished: false, ..SIZE });
    let report = context.succeed_json(&["report", "run", "--json"]);
    assert_eq!((&report["trials"][0]["phase"], &report["selection"]), (&"open".into(), &Value::Null));
    context.succeed(&["report", "run"]);
    context.succeed(&["show", "run"]);
    context.succeed(&["diff", "run"]);
    context.succeed(&["compare", "run", "run"]);
    context.run(&["show", "run", "--step", "0"]).assert_code(code::USAGE);
}
