//! A terminal of 40 columns.

use crate::context::{TestContext, code, set};
use crate::said::assert_names;
use crate::terminal::on_terminal;

const COLUMNS: u16 = 40;

/// Commands whose tables have to fit.
const TABLES: &[&[&str]] = &[
    &["status", "."],
    &["journal", "list", "demo/run"],
    &["journal", "stats", "demo/run"],
    &["compare", "demo/run", "again/run"],
    &["blame", "demo/run"],
];

/// Commands whose sentences are broken between words; what a skill says is shown as it stands.
const SENTENCES: &[&[&str]] = &[
    &["status", "demo/run"],
    &["show", "demo/run"],
    &["doctor", "demo/skillrl.toml", "--offline"],
    &["train", "demo/skillrl.toml"],
    &["compare", "demo/run", "short"],
    &["estimate", "demo/skillrl.toml"],
    &["journal", "stats", "demo/run"],
    &["doctor", "--measure", "demo/skillrl.toml", "--quiet"],
    &["eval", "demo/skillrl.toml", "--quiet"],
    &["lint", "demo/run"],
];

/// Commands that print texts of a run, or something for a program: a terminal breaks their lines itself.
const OTHERS: &[&[&str]] = &[
    &["show", "demo/run", "--step", "2"],
    &["show", "demo/run", "--item", "val-01"],
    &["diff", "demo/run"],
    &["inspect", "demo/run/best_skill.md"],
    &["inspect", "demo/run/journal.sqlite"],
    &["journal", "show", "demo/run", "1"],
    &["config", "show", "demo/skillrl.toml"],
    &["env", "check", "demo/skillrl.toml"],
    &["lint", "demo/run/best_skill.md"],
    &["try", "val-01", "demo/skillrl.toml"],
    &["report", "demo/run"],
    &["completions", "bash"],
    &["--help"],
    &["train", "--help"],
];

#[test]
fn tables_fit_and_nothing_fails_on_a_narrow_terminal() {
    let context = TestContext::with_finished_demo();
    context.copy_dir("demo", "again");
    for args in TABLES {
        let screen = on_terminal(&context, args, COLUMNS, "");
        assert_eq!(screen.code, Some(code::SUCCESS), "{args:?}: {}", screen.text);
        // What is above the tables are sentences, some with a word in front.
        let is_table =
            |line: &&str| line.contains("  ") && !line.starts_with("tokens ") && !line.contains(", ");
        for line in screen.text.lines().filter(is_table) {
            assert!(line.chars().count() <= usize::from(COLUMNS), "{args:?}: {line:?}\n{}", screen.text);
        }
    }
    for args in OTHERS {
        let screen = on_terminal(&context, args, COLUMNS, "");
        assert_eq!(screen.code, Some(code::SUCCESS), "{args:?}: {}", screen.text);
        assert!(!screen.text.contains("panicked"), "{args:?}: {}", screen.text);
        assert!(!screen.text.trim().is_empty(), "{args:?}");
    }
}

#[test]
fn sentences_are_broken_between_words_and_names_of_settings_are_whole() {
    let context = TestContext::with_finished_demo();
    let settings =
        ["run.dir=short", "train.epochs=1", "train.max_skill_tokens=9000", "train.min_edit_budget=1"];
    context.succeed(&[&["train", "demo/skillrl.toml", "--quiet"][..], &set(&settings)].concat());
    for args in SENTENCES {
        let (whole, screen) = (context.run(args).stdout, on_terminal(&context, args, COLUMNS, ""));
        assert_eq!(screen.code, Some(code::SUCCESS), "{args:?}: {}", screen.text);
        for line in screen.text.lines() {
            let is_word = line.trim().split(' ').count() == 1;
            let fits = line.chars().count() <= usize::from(COLUMNS);
            assert!(fits || is_word, "{args:?}: {line:?}\n{}", screen.text);
        }
        // Nothing is broken, or lost, that was whole.
        let is_sentence = |line: &&str| line.contains(". ") || line.contains(": ");
        for word in whole.lines().filter(is_sentence).flat_map(str::split_whitespace) {
            assert!(screen.text.contains(word), "{args:?} lacks {word}\n{}", screen.text);
        }
    }
    let compared = on_terminal(&context, &["compare", "demo/run", "short"], COLUMNS, "").text;
    assert_names(&compared, &["train.epochs", "train.max_skill_tokens", "train.min_edit_budget"]);
}
