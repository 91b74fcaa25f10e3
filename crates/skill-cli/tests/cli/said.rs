//! What commands said, for one snapshot of an area: a message that is reworded changes its own text and that file alone.

use crate::context::Outcome;
use regex::Regex;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// What differs between two runs or two systems, and what is shown instead.
static CHANGING: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    [
        (r"127\.0\.0\.1:\d+", "[address]"),
        (r"\b[0-9a-f]{16,64}\b", "[hash]"),
        (r"[^:(]*\(os error \d+\)", " [system]"),
        (r"\b(train|val|test)-\d+\b", "$1-N"),
        (r"(prompt `[^`]+`: line )\d+", "${1}N"),
    ]
    .map(|(pattern, shown)| (Regex::new(pattern).unwrap(), shown))
});

/// A text without what differs between two runs or two systems.
pub(crate) fn steady(text: &str) -> String {
    CHANGING
        .iter()
        .fold(text.to_owned(), |text, (pattern, shown)| pattern.replace_all(&text, *shown).into_owned())
}

/// The messages of an area, one after the other, each with the exit code that it came with.
#[derive(Default)]
pub(crate) struct Said {
    text: String,
}

impl Said {
    /// Adds what a command wrote to standard error, from the error on.
    pub(crate) fn add(&mut self, what: &str, outcome: &Outcome) {
        let code = outcome.code.map_or("a signal".to_owned(), |code| code.to_string());
        let error = outcome.stderr.find("error: ").and_then(|at| outcome.stderr.get(at..));
        let text = steady(error.unwrap_or_default());
        writeln!(self.text, "## {what}: {code}\n{}\n", text.trim_end()).unwrap();
    }

    /// Everything, for the snapshot.
    pub(crate) fn text(&self) -> &str {
        self.text.trim_end()
    }
}

/// What a program said where not all of these names and numbers are part of it.
#[track_caller]
pub(crate) fn assert_names(text: &str, names: &[&str]) {
    // Long messages are wrapped.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in names {
        assert!(flat.contains(name), "{name:?} is not named in\n{text}");
    }
}
