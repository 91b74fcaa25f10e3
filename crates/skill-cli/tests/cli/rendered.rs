//! The reports and the pages of `serve` of what comes with the program: every bundled command, demo and example, of
//! reduced size, also where a run stopped. `cargo xtask check demos` makes them at full size.

use crate::context::{TestContext, code, set};
use crate::serve::{Serving, get, wait_for};

/// What stands where a section of a page was left out.
const LEFT_OUT: &str = "data-left-out";

/// Small worlds of both kinds.
const SMALL: [&str; 4] = ["env.max_train=12", "env.max_val=4", "env.max_test=4", "env.max_turns=20"];

/// Banks in more rounds than are validated, with one short trial each: the default interval of validations is longer.
const ROUNDS: [&str; 3] = ["evolution.rounds=2", "evolution.max_trials=1", "evolution.max_trial_rollouts=16"];

/// The command that trains a bank in a small world, with these settings.
fn bank_training<'a>(world: &'a str, settings: &[&'a str]) -> Vec<&'a str> {
    let train = ["train", "--env", world, "--mock", "--quiet", "--set", "train.mode=bank"];
    [&train[..], &set(&SMALL), &set(&ROUNDS), &set(settings)].concat()
}

/// Each run has a whole report, written by the run or by `report`, and a page in `serve`.
#[track_caller]
fn assert_rendered(context: &TestContext, runs: &[&str]) {
    let (_serving, url) = Serving::start(context, &["serve", ".", "--listen", "127.0.0.1:0"]);
    for run in runs {
        context.succeed(&["report", run, "--output", "page.html"]);
        let page = context.read("page.html");
        assert!(page.contains("</html>") && !page.contains(LEFT_OUT), "{run}");
        wait_for(&url, &run.replace('/', "&#x2f;"));
        let page = get(&url, &format!("/run/{run}"));
        assert!(page.contains("<h1>") && !page.contains(LEFT_OUT), "{run}: {page}");
        assert!(!page.contains("cannot be shown") && !page.contains("cannot be rendered"), "{run}");
    }
}

#[test]
fn banks_of_the_bundled_worlds_have_reports_and_pages() {
    let context = TestContext::new();
    for world in ["alfworld", "webshop"] {
        context.succeed(&bank_training(world, &[]));
        let page = context.read(&format!("runs/{world}-mock/report.html"));
        // The first and the last round are validated.
        assert_eq!(page.matches("<td class=\"faint\">not measured</td>").count(), 1, "{world}");
        assert!(!page.contains(LEFT_OUT), "{world}");
    }
    // A validation split that lacks most types.
    context.succeed(&bank_training("alfworld", &["run.dir=lacking", "env.max_val=2"]));
    assert_rendered(&context, &["runs/alfworld-mock", "runs/webshop-mock", "lacking"]);
}

#[test]
fn a_bank_that_stopped_anywhere_has_a_report_and_a_page() {
    let context = TestContext::new();
    let mut runs = Vec::new();
    // In the baseline, while episodes are collected, while skills are distilled or tried, and later.
    for calls in ["1", "60", "300", "460", "700"] {
        let run = format!("stopped-{calls}");
        let (dir, cap) = (format!("run.dir={run}"), format!("budget.calls={calls}"));
        let outcome = context.run(&bank_training("alfworld", &[&dir, &cap]));
        assert!([Some(code::BUDGET), Some(code::SUCCESS)].contains(&outcome.code), "{}", outcome.stderr);
        runs.push(run);
    }
    assert_rendered(&context, &runs.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn documents_of_the_demos_and_examples_have_reports_and_pages() {
    let context = TestContext::new();
    let few = ["--set", "env.max_train=6", "--set", "env.max_val=4", "--set", "env.max_test=2"];
    let epoch = ["--set", "train.epochs=1", "--set", "train.batch_size=6"];
    for world in ["alfworld", "webshop"] {
        context.succeed(&[&["demo", "--world", world, "--dir", world][..], &few, &epoch].concat());
    }
    context.succeed(&["demo", "--dir", "notes", "--set", "train.epochs=1"]);
    let files = ["skillrl.toml", "tickets.csv", "skill.md", "target.json", "optimizer.json"];
    context.copy_example("own-data", "own-data", &files);
    context.succeed(&["train", "own-data/skillrl.toml", "--quiet"]);
    let mut runs = vec!["alfworld/run", "webshop/run", "notes/run", "own-data/run"];
    if cfg!(unix) {
        let files = ["skillrl.toml", "safe.sh", "target.json", "optimizer.json"];
        context.copy_example("exec-shell", "exec-shell", &files);
        context.succeed(&["train", "exec-shell/skillrl.toml", "--quiet"]);
        runs.push("exec-shell/run");
    }
    for (calls, run) in [("3", "capped-3"), ("40", "capped-40")] {
        let (dir, cap) = (format!("run.dir={run}"), format!("budget.calls={calls}"));
        let train = ["train", "own-data/skillrl.toml", "--quiet", "--set", &dir, "--set", &cap];
        let outcome = context.run(&train);
        assert!([Some(code::BUDGET), Some(code::SUCCESS)].contains(&outcome.code), "{}", outcome.stderr);
    }
    assert_rendered(&context, &runs);
}
