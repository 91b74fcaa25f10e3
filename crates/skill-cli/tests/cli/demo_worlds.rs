//! `skillrl demo` in a household and in a shop, and small runs from the same files.

use crate::context::{TestContext, assert_same_files, code, set};
use std::path::Path;

/// A tenth of the demo: enough for an accepted step.
const SMALL: [&str; 5] =
    ["env.max_train=6", "env.max_val=6", "env.max_test=4", "train.epochs=1", "train.batch_size=6"];

/// The whole demo: the score goes up, steps are accepted and rejected, and what it promises holds; returns its text.
#[track_caller]
pub(crate) fn check_demo(world: &str, measured: &str, gain: f64) -> String {
    let context = TestContext::new();
    let text = context.succeed(&["demo", "--world", world, "--dir", "kept"]);
    for (ending, what) in [("  accepted", "accepted"), ("  rejected", "rejected")] {
        let is_so = |line: &&str| line.starts_with("step ") && line.contains(ending);
        assert!(text.lines().any(|line| is_so(&line)), "no step was {what}: {text}");
    }
    assert!(text.contains("SIMULATED"), "{text}");
    let summary = context.json("kept/run/summary.json");
    let score = |name: &str| summary[name].as_f64().unwrap();
    let (before, after) = (score("baseline_test_hard"), score("test_hard"));
    assert!(before <= 0.3 && after >= before + gain, "{before} {after}");
    let told = format!("{:.1} % {measured} before, {:.1} % after", before * 100.0, after * 100.0);
    assert!(text.contains(&told), "{told}\n{text}");

    // The two lines to change are told as they are in the file, and what replaces them is valid.
    let config = context.read("kept/skillrl.toml");
    let (_, lines) = text.split_once("these two lines of kept/skillrl.toml:\n\n").unwrap();
    let (lines, verdict) = lines.split_once("\n\n").unwrap();
    assert!(verdict.contains("next: ") && verdict.ends_with("report: kept/run/report.html\n"), "{verdict}");
    assert!(context.path("kept/run/report.html").is_file());
    let of_sign = |sign: &str| lines.lines().filter_map(|line| line.strip_prefix(sign)).collect::<Vec<_>>();
    let (simulated, real) = (of_sign("- "), of_sign("+ "));
    assert_eq!((simulated.len(), real.len()), (2, 2), "{lines}");
    for (simulated, real) in simulated.into_iter().zip(real) {
        assert!(config.lines().any(|line| line == simulated), "{simulated}");
        context.replace("kept/skillrl.toml", simulated, real);
    }
    let shown = context.succeed(&["config", "show", "kept/skillrl.toml"]);
    assert_eq!(shown.matches("kind = \"openai\"").count(), 2, "{shown}");
    text
}

#[test]
fn the_demo_in_a_household() {
    check_demo("alfworld", "of the games won", 0.5);
}

#[test]
fn the_demo_in_a_shop() {
    check_demo("webshop", "of the purchases perfect", 0.3);
}

/// The same files come of one worker and of many, of a run that stopped at its cap and went on, and of its journal.
#[track_caller]
fn check_small_run(world: &str) {
    let context = TestContext::new();
    context.succeed(&["init", "--demo", "demo", "--world", world]);
    let train = |settings: &[&str]| {
        context.run(&[&["train", "demo/skillrl.toml", "--quiet"][..], &set(&SMALL), &set(settings)].concat())
    };
    train(&["run.workers=1"]).assert_code(code::SUCCESS);
    let expect = context.untimed_files("demo/run");
    train(&["run.dir=again", "run.workers=30", "budget.calls=40"]).assert_code(code::BUDGET);
    train(&["run.dir=again", "run.workers=30"]).assert_code(code::SUCCESS);
    assert_same_files(&context.untimed_files("again"), &expect);
    let replayed = context.succeed(&["replay", "demo/run"]);
    assert!(replayed.contains("identical"), "{replayed}");
}

#[test]
fn a_household_is_the_same_each_time() {
    check_small_run("alfworld");
}

#[test]
fn a_shop_is_the_same_each_time() {
    check_small_run("webshop");
}

#[test]
fn the_examples_are_the_demos() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let context = TestContext::new();
    for world in ["alfworld", "webshop"] {
        context.succeed(&["init", "--demo", world, "--world", world]);
        for file in ["skillrl.toml", "initial_skill.md"] {
            let example = std::fs::read_to_string(examples.join(world).join(file)).unwrap();
            assert_eq!(example, context.read(&format!("{world}/{file}")), "{world}/{file}");
        }
    }
    context.run(&["demo", "--world", "moon"]).assert_code(code::USAGE);
    context.run(&["init", "--world", "webshop"]).assert_code(code::USAGE);
}

#[test]
fn a_demo_without_a_bank_is_refused_before_anything_is_written() {
    let context = TestContext::new();
    let outcome = context.run(&["demo", "--bank", "--world", "notes"]);
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    assert!(!context.path("demo").exists());
}
