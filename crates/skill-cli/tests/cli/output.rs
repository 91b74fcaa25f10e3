//! Output that has nowhere to go: a reader that has seen enough, and a disk that is full.

use crate::context::{Outcome, TestContext, code};
use crate::said::assert_names;
use std::path::Path;

/// Commands that print, of which each may be in front of `head -1`.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["train", "--help"],
    &["train", "demo/skillrl.toml"],
    &["train", "demo/skillrl.toml", "--json"],
    &["eval", "demo/skillrl.toml"],
    &["doctor", "demo/skillrl.toml", "--offline"],
    &["try", "val-01", "demo/skillrl.toml"],
    &["estimate", "demo/skillrl.toml"],
    &["estimate", "demo/skillrl.toml", "--json"],
    &["init", "other.toml"],
    &["demo"],
    &["config", "show", "demo/skillrl.toml"],
    &["config", "schema"],
    &["journal", "list", "demo/run"],
    &["journal", "list", "demo/run", "--json"],
    &["journal", "show", "demo/run", "1"],
    &["journal", "stats", "demo/run"],
    &["journal", "export", "demo/run"],
    &["journal", "prune", "demo/run", "--all", "--dry-run"],
    &["replay", "demo/run"],
    &["report", "demo/run"],
    &["report", "demo/run", "--json"],
    &["blame", "demo/run"],
    &["blame", "demo/run", "--json"],
    &["status", "."],
    &["status", "demo/run", "--json"],
    &["show", "demo/run"],
    &["show", "demo/run", "--json"],
    &["show", "demo/run", "--step", "2"],
    &["show", "demo/run", "--item", "val-01"],
    &["diff", "demo/run"],
    &["compare", "demo/run", "demo/run"],
    &["inspect", "demo/run/best_skill.md"],
    &["inspect", "demo/run"],
    &["env", "check", "demo/skillrl.toml"],
    &["export", "demo/run", "--to", "package", "--description", "Answers. Use it for questions."],
    &["lint", "demo/run/best_skill.md"],
    &["completions", "zsh"],
    &["man", "man"],
    &["config", "prompts", "prompts"],
];

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let context = TestContext::with_finished_demo();
    for args in PRINTING {
        // Anyone who would read has gone before the first byte.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let outcome = Outcome::of(context.command(args).stdout(writer).output().unwrap());
        assert_eq!(outcome.code, Some(code::SUCCESS), "{args:?}: {}", outcome.stderr);
        for word in ["panicked", "error:", "Broken pipe"] {
            assert!(!outcome.stderr.contains(word), "{args:?}: {}", outcome.stderr);
        }
    }
}

/// The program with a limit on how large a file may become: to it, the disk is full then.
#[cfg(unix)]
fn run_on_full_disk(context: &TestContext, max_kb: u32, args: &[&str]) -> Outcome {
    // Without the trap the system ends the program, instead of telling it.
    let n_blocks = 2 * max_kb;
    context.run_within(&format!("trap '' XFSZ && ulimit -f {n_blocks}"), args)
}

#[cfg(unix)]
#[test]
fn a_report_that_the_disk_does_not_take_leaves_the_old_one() {
    let context = TestContext::with_finished_demo();
    let before = context.files("demo/run");
    // The one is a file of the run.
    for (args, code) in [
        (&["report", "demo/run"][..], code::RUN_DIR),
        (&["report", "demo/run", "--output", "new.html"], code::OTHER),
    ] {
        run_on_full_disk(&context, 4, args)
            .fails(code, &["error: cannot write ", ".html: ", "hint: ", "free space"]);
    }
    assert!(!context.path("new.html").exists());
    // Neither a changed file nor half of one.
    let after = context.files("demo/run");
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert_eq!(before, after);
}

#[cfg(unix)]
#[test]
fn what_the_disk_does_not_take_is_not_replaced() {
    let context = TestContext::with_finished_demo();
    let large = "x".repeat(100);
    let is_half = |path: &Path| path.to_string_lossy().contains(".writing-");
    let export = ["journal", "export", "demo/run", "--force", "--out", "calls.jsonl"];
    // What SQLite writes to read a journal needs more than a configuration does.
    for (args, old, max_kb) in
        [(&["init", "--full", "--force", "own.toml"][..], "own.toml", 4), (&export, "calls.jsonl", 64)]
    {
        std::fs::write(context.path(old), &large).unwrap();
        let outcome = run_on_full_disk(&context, max_kb, args);
        assert_ne!(outcome.code, Some(code::SUCCESS), "{args:?}");
        assert!(outcome.stderr.contains("error: cannot write "), "{args:?}: {}", outcome.stderr);
        let half: Vec<_> = context.files(".").into_keys().filter(|path| is_half(path)).collect();
        assert!(half.is_empty(), "{args:?}: {half:?}");
        assert_eq!(std::fs::read_to_string(context.path(old)).unwrap(), large, "{args:?}");
    }
}

#[test]
fn a_run_whose_report_cannot_be_written_is_finished_all_the_same() {
    let context = TestContext::with_finished_demo();
    context.remove("demo/run/report.html");
    context.write("demo/run/report.html/in-the-way", "a directory of this name\n");
    let outcome = context.run(&["train", "demo/skillrl.toml", "--set", "train.epochs=4"]);
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stdout.contains("best skill"), "{}", outcome.stdout);
    assert_names(&outcome.stderr, &["report"]);
    assert!(context.path("demo/run/summary.json").is_file());
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt as _;
    let context = TestContext::with_finished_demo();
    context
        .run(&["report", "demo/run", "--output", "/dev/full"])
        .fails(code::OTHER, &["/dev/full", "No space left"]);
    assert!(std::fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}
