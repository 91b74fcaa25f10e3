//! `skillrl demo`, and the same run from the demo's files.

use crate::context::{TestContext, assert_same_files};
use crate::said::assert_names;
use std::path::Path;

#[test]
fn the_demo_tells_the_same_story_every_time() {
    let context = TestContext::new();
    let text = context.succeed(&["demo"]);
    assert_eq!(text, context.succeed(&["demo"]));
    insta::assert_snapshot!("demo", text);
}

#[test]
fn the_demo_shows_what_it_promises() {
    let context = TestContext::new();
    let text = context.succeed(&["demo", "--dir", "kept"]);
    let n_steps =
        |ending: &str| text.lines().filter(|line| line.starts_with("step ") && line.contains(ending)).count();
    assert!(n_steps("  accepted") >= 1, "{text}");
    assert!(n_steps("  rejected") >= 1, "{text}");
    assert!(n_steps("  no change") >= 1, "{text}");
    assert!(text.contains("SIMULATED"), "{text}");

    let summary = context.json("kept/run/summary.json");
    let score = |name: &str| summary[name].as_f64().unwrap();
    assert!(score("test_hard") > score("baseline_test_hard"), "{summary}");
    let told = format!(
        "{:.1} % of the answers right before, {:.1} % after",
        score("baseline_test_hard") * 100.0,
        score("test_hard") * 100.0
    );
    assert!(text.contains(&told), "{told}\n{text}");

    // The two lines to change are told as they are in the file, and what replaces them is valid.
    let config = context.read("kept/skillrl.toml");
    let (_, lines) = text.split_once("these two lines of kept/skillrl.toml:\n\n").unwrap();
    let of_sign = |sign: &str| lines.lines().filter_map(|line| line.strip_prefix(sign)).collect::<Vec<_>>();
    let (simulated, real) = (of_sign("- "), of_sign("+ "));
    assert_eq!((simulated.len(), real.len()), (2, 2), "{lines}");
    for (simulated, real) in simulated.into_iter().zip(real) {
        assert!(config.lines().any(|line| line == simulated), "{simulated}");
        context.replace("kept/skillrl.toml", simulated, real);
    }
    let shown = context.succeed(&["config", "show", "kept/skillrl.toml"]);
    assert_eq!(shown.matches("kind = \"openai\"").count(), 2, "{shown}");
}

#[test]
fn training_on_the_files_of_the_demo_gives_the_demo() {
    let context = TestContext::with_demo();
    context.succeed(&["demo", "--dir", "told"]);
    let expect = context.untimed_files("told/run");
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    assert_eq!(context.read("demo/run/best_skill.md"), context.read("told/run/best_skill.md"));
    assert_same_files(&context.untimed_files("demo/run"), &expect);

    for workers in ["1", "1000"] {
        let (workers, dir) = (format!("run.workers={workers}"), format!("workers-{workers}"));
        let run_dir = format!("run.dir={dir}");
        context.succeed(&["train", "demo/skillrl.toml", "--quiet", "--set", &workers, "--set", &run_dir]);
        assert_same_files(&context.untimed_files(&dir), &expect);
    }
}

#[test]
fn a_finished_run_is_left_as_it_is() {
    let context = TestContext::with_demo();
    let first = context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    let files = context.untimed_files("demo/run");
    let journal = context.files("demo/run").remove(Path::new("journal.sqlite"));
    let second = context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    assert_eq!(first, second);
    assert_same_files(&context.untimed_files("demo/run"), &files);
    assert!(journal.is_some() && context.files("demo/run").remove(Path::new("journal.sqlite")) == journal);
}

#[test]
fn init_keeps_what_is_there_unless_it_is_forced() {
    let context = TestContext::with_demo();
    context.write("demo/skillrl.toml", "mine");
    let refused = context.run(&["init", "--demo", "demo"]);
    refused.assert_code(crate::context::code::USAGE);
    assert_names(&refused.stderr, &["error: demo/skillrl.toml ", "--force"]);
    assert_eq!(context.read("demo/skillrl.toml"), "mine");
    context.succeed(&["init", "--demo", "demo", "--force"]);
    assert_ne!(context.read("demo/skillrl.toml"), "mine");
}
