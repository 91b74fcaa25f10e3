//! Skills side by side, as a unified diff.

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};
use skillrl::reports::whole_lines;
use std::fmt::Write as _;

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;

/// The difference between two skills; empty if there is none. Colour is taken away again where it does not belong.
pub(crate) fn skill_diff(before: &str, after: &str, names: (&str, &str)) -> String {
    // A last line without an end is the same line with one.
    let [before, after] = [before, after].map(whole_lines);
    if before == after {
        return String::new();
    }
    let diff = TextDiff::from_lines(&before, &after);
    let mut text = format!("--- {}\n+++ {}\n", names.0, names.1);
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        let _ = writeln!(text, "{}", hunk.header());
        for change in hunk.iter_changes() {
            let style = match change.tag() {
                ChangeTag::Delete => Style::new().fg_color(Some(AnsiColor::Red.into())),
                ChangeTag::Insert => Style::new().fg_color(Some(AnsiColor::Green.into())),
                ChangeTag::Equal => Style::new(),
            };
            let line = change.value().trim_end_matches(['\n', '\r']);
            let _ = writeln!(text, "{style}{}{line}{style:#}", change.tag());
        }
    }
    text
}
