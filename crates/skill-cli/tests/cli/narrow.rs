//! A terminal of 40 columns.

use crate::context::{TestContext, code};
use crate::terminal::on_terminal;

const COLUMNS: u16 = 40;

/// Commands whose tables have to fit.
const TABLES: &[&[&str]] = &[
    &["status", "."],
    &["journal", "list", "demo/run"],
    &["journal", "stats", "demo/run"],
    &["compare", "demo/run", "again/run"],
];

/// Commands that print sentences, texts of a run, or something for a program: a terminal breaks their lines itself.
const OTHERS: &[&[&str]] = &[
    &["estimate", "demo/skillrl.toml"],
    &["status", "demo/run"],
    &["show", "demo/run"],
    &["show", "demo/run", "--step", "2"],
    &["show", "demo/run", "--item", "val-01"],
    &["diff", "demo/run"],
    &["blame", "demo/run"],
    &["inspect", "demo/run/best_skill.md"],
    &["inspect", "demo/run/journal.sqlite"],
    &["journal", "show", "demo/run", "1"],
    &["doctor", "demo/skillrl.toml", "--offline"],
    &["config", "show", "demo/skillrl.toml"],
    &["env", "check", "demo/skillrl.toml"],
    &["lint", "demo/run/best_skill.md"],
    &["train", "demo/skillrl.toml"],
    &["try", "val-01", "demo/skillrl.toml"],
    &["report", "demo/run"],
    &["completions", "bash"],
    &["--help"],
    &["train", "--help"],
];

#[test]
fn tables_fit_and_nothing_fails_on_a_narrow_terminal() {
    let context = TestContext::with_finished_demo();
    for (path, bytes) in context.files("demo") {
        let path = context.path("again").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    for args in TABLES {
        let screen = on_terminal(&context, args, COLUMNS, "");
        assert_eq!(screen.code, Some(code::SUCCESS), "{args:?}: {}", screen.text);
        // What stands above the tables are sentences, some with a word in front.
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
