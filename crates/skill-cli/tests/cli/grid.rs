//! `skillrl train --grid` and `--seeds`: a run for each combination, and one table.

use crate::context::{Outcome, TestContext, code};

fn grid(context: &TestContext, more: &[&str]) -> Outcome {
    context.run(&[&["train", "demo/skillrl.toml", "--quiet", "--set", "train.epochs=1"][..], more].concat())
}

#[test]
fn each_combination_is_a_run_and_a_row() {
    let context = TestContext::with_demo();
    let options =
        ["--grid", "train.batch_size=20,40", "--seeds", "2", "--out", "runs", "--set", "budget.calls=8000"];
    let dry = grid(&context, &[&options[..], &["--dry-run"]].concat());
    dry.assert_code(code::SUCCESS);
    let dirs = ["20,run.seed=42", "20,run.seed=43", "40,run.seed=42", "40,run.seed=43"]
        .map(|name| format!("runs/train.batch_size={name}"));
    for dir in &dirs {
        assert!(dry.stdout.contains(&format!("{dir}: ")), "{}", dry.stdout);
    }
    assert!(dry.stdout.contains("all 4 runs: "), "{}", dry.stdout);
    assert!(!context.path("runs").exists());
    let outcome = grid(&context, &options);
    outcome.assert_code(code::SUCCESS);
    for (dir, [size, seed]) in dirs.iter().zip([[20, 42], [20, 43], [40, 42], [40, 43]]) {
        let config = &context.json(&format!("{dir}/config.json"))["config"];
        assert_eq!((&config["train"]["batch_size"], &config["run"]["seed"]), (&size.into(), &seed.into()));
        assert!(context.path(&format!("{dir}/summary.json")).exists());
    }
    // A row for each group and each run, and the same command sends nothing more.
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("train.batch_size=")).count();
    assert_eq!(rows(&outcome.stdout), 4, "{}", outcome.stdout);
    let calls = |dir: &String| context.json(&format!("{dir}/summary.json"))["token_summary"].clone();
    let before = dirs.each_ref().map(calls);
    grid(&context, &options).assert_code(code::SUCCESS);
    assert_eq!(dirs.each_ref().map(calls), before);
}

#[test]
fn a_run_that_fails_does_not_stop_the_others() {
    let context = TestContext::with_demo();
    // The first run has no room for a step beside its baseline.
    let options = ["--grid", "budget.calls=50,5000", "--out", "runs", "--yes"];
    let outcome = grid(&context, &options);
    outcome.assert_code(code::BUDGET);
    assert!(outcome.stderr.contains("1 of 2 runs"), "{}", outcome.stderr);
    assert!(context.path("runs/budget.calls=5000/summary.json").exists());
}

#[test]
fn a_grid_that_cannot_be_meant_is_refused_before_anything_is_made() {
    let context = TestContext::with_demo();
    let many: String = (1..=1001).map(|n| format!("{}{n}", if n == 1 { "" } else { "," })).collect();
    for (options, named) in [
        (&["--grid", "train.batch_size"][..], "KEY=A,B"),
        (&["--grid", "train.batch_size="], "KEY=A,B"),
        (&["--grid", "train.batchsize=1,2"], "batch_size"),
        (&["--grid", "train.batch_size=20,none"], "batch_size"),
        (&["--grid", "train.batch_size=20,20"], "twice"),
        (&["--grid", "run.seed=1,2", "--seeds", "2"], "run.seed"),
        (&["--grid", "run.dir=a,b"], "--out"),
        (&["--grid", &format!("train.batch_size={many}")], "1000"),
        (&["--seeds", "3", "--set", "budget.calls=2"], "budget.calls"),
        (&["--seeds", "0"], "--seeds"),
        // The last run lacks its file.
        (&["--grid", "skill.initial=demo/initial_skill.md,none.md"], "none.md"),
    ] {
        let outcome = grid(&context, &[&["--out", "runs"][..], options].concat());
        outcome.assert_code(code::USAGE);
        assert!(outcome.stderr.contains(named), "{options:?}: {}", outcome.stderr);
        assert!(!context.path("runs").exists(), "{options:?}");
    }
    // The directory is a run already.
    let context = TestContext::with_finished_demo();
    grid(&context, &["--seeds", "2"]).fails(code::USAGE, &["demo/run", "--out"]);
}
