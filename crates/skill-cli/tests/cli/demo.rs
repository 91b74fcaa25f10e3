//! `skillrl demo`, and the same run from the demo's files.

use crate::context::{TestContext, assert_same_files, code};
use crate::demo_worlds::check_demo;
use std::path::Path;

#[test]
fn the_demo_tells_the_same_story_every_time() {
    let context = TestContext::new();
    let text = context.succeed(&["demo"]);
    assert_eq!(text, TestContext::new().succeed(&["demo"]));
    // What an earlier demo left is kept.
    assert_eq!(text.replace("demo/", "demo-2/"), context.succeed(&["demo"]));
    assert!(context.path("demo/run/report.html").is_file());
    insta::assert_snapshot!("demo", text);
}

#[test]
fn the_demo_shows_what_it_promises() {
    let text = check_demo("notes", "of the answers right", 0.5);
    assert!(text.lines().any(|line| line.starts_with("step ") && line.contains("  no change")), "{text}");
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
    context.run(&["init", "--demo", "demo"]).fails(code::USAGE, &["error: demo/skillrl.toml ", "--force"]);
    assert_eq!(context.read("demo/skillrl.toml"), "mine");
    context.succeed(&["init", "--demo", "demo", "--force"]);
    assert_ne!(context.read("demo/skillrl.toml"), "mine");
}
