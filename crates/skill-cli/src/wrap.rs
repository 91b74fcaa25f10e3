//! Sentences for people: on a terminal a line that is too long is broken between its words, and not within one.

use console::{Term, measure_text_width};
use std::io::IsTerminal as _;

/// What goes on of a line stands so much further to the right than its beginning.
const HANGING: usize = 2;

/// The columns that standard error has; `None` where it is not a terminal.
pub(crate) fn stderr_width() -> Option<usize> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    Term::stderr().size_checked().map(|(_, columns)| usize::from(columns))
}

/// The text with its long lines broken; a word that is wider than the terminal stays whole.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some(line) => {
                wrap_line(&mut shown, line, width);
                shown.push('\n');
            }
            None => wrap_line(&mut shown, line, width),
        }
    }
    shown
}

fn wrap_line(shown: &mut String, line: &str, width: usize) {
    if measure_text_width(line) <= width {
        shown.push_str(line);
        return;
    }
    let words = line.trim_start_matches(' ');
    // What is indented to be under something far to the right has no room there.
    let lead = Some(line.len() - words.len()).filter(|lead| *lead <= width / 3).unwrap_or(HANGING);
    shown.push_str(&" ".repeat(lead));
    let (mut used, mut n_spaces, mut is_first) = (lead, 0, true);
    for word in words.split(' ') {
        if word.is_empty() {
            // Columns stand several spaces apart.
            n_spaces += 1;
            continue;
        }
        let n_columns = measure_text_width(word);
        if is_first {
            (used, is_first) = (used + n_columns, false);
        } else if used + 1 + n_spaces + n_columns <= width {
            shown.push_str(&" ".repeat(1 + n_spaces));
            used += 1 + n_spaces + n_columns;
        } else {
            shown.push('\n');
            shown.push_str(&" ".repeat(lead + HANGING));
            used = lead + HANGING + n_columns;
        }
        shown.push_str(word);
        n_spaces = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: usize, expect: &str) {
        assert_eq!(wrapped(text, Some(width)), expect);
        assert_eq!(wrapped(text, None), text);
    }

    #[test]
    fn long_lines_are_broken_between_words_and_go_on_further_to_the_right() {
        check("", 20, "");
        check("short\n\n  shorter  still\n", 20, "short\n\n  shorter  still\n");
        check("one two three four five", 12, "one two\n  three four\n  five");
        check(
            "  why    it was stopped by a cap\nnext\n",
            20,
            "  why    it was\n    stopped by a cap\nnext\n",
        );
        check("ok       data   qa: 2 train, 1 val\n", 20, "ok       data   qa:\n  2 train, 1 val\n");
        check("               do: take more items\n", 20, "  do: take more\n    items\n");
        check("see a/path/that/is/long/enough now", 12, "see\n  a/path/that/is/long/enough\n  now");
        check("日本 日本 日本", 10, "日本 日本\n  日本");
    }
}
