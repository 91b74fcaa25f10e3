//! Whether what a page shows is what a command printed.

use regex::Regex;
use std::sync::LazyLock;

/// What differs from run to run or from machine to machine, and what stands for it.
static VOLATILE: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "DATE"),
        (r"\b\d+(\.\d+)? ?(ms|µs|s|min|h)\b", "TIME"),
        (r"\b\d+(\.\d+)? ?(kB|KiB|MB|MiB|GB)\b", "SIZE"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
        (r"\btoken=\w+", "token=TOKEN"),
        // Work that was given up is among what was sent, and how much of it depends on the machine.
        (r"spent +[\d,]+ calls, [\d,]+ tokens", "spent SENT"),
        (r#""calls":\d+,"tokens":\d+"#, "SENT"),
        (r"[ \t]+", " "),
    ]
    .map(|(pattern, stands_for)| (Regex::new(pattern).unwrap(), stands_for))
    .to_vec()
});

/// Whether the lines are these; `…` stands for any lines where it is a line, and for any text within one.
pub(crate) fn agrees(shown: &[String], printed: &str) -> bool {
    let shown: Vec<String> = shown.iter().map(|line| without_volatile(line)).collect();
    let printed: Vec<String> = printed.lines().map(without_volatile).collect();
    lines_agree(trimmed(&shown), trimmed(&printed))
}

fn without_volatile(line: &str) -> String {
    let text = line.trim_end().to_owned();
    VOLATILE
        .iter()
        .fold(text, |text, (pattern, stands_for)| pattern.replace_all(&text, *stands_for).into_owned())
}

/// Without blank lines at the end.
fn trimmed(lines: &[String]) -> &[String] {
    let n = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |idx| idx + 1);
    &lines[..n]
}

fn lines_agree(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line.trim() == "…" => {
            (0..=printed.len()).any(|skipped| lines_agree(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| text_agrees(line, first) && lines_agree(rest, others)),
    }
}

fn text_agrees(shown: &str, printed: &str) -> bool {
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

#[test]
fn what_is_shown_is_compared() {
    #[track_caller]
    fn check(shown: &str, printed: &str, expect: bool) {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        assert_eq!(agrees(&shown, printed), expect, "{shown:?} {printed:?}");
    }
    check("a\nb", "a\nb\n", true);
    check("a", "a\nb\n", false);
    check("a\nb", "a\n", false);
    check("a\n…\nd", "a\nb\nc\nd\n", true);
    check("a\n…\nd", "a\nd", true);
    check("a\n…\ne", "a\nb\nd", false);
    check("…", "", true);
    check("used … calls", "used 12 calls", true);
    check("used … calls", "used 12 tokens", false);
    check("x …", "x y z", true);
    check("… x … y", "a x b y", true);
    check("ab…b", "ab", false);
    check("took 3 s", "took 4.2 s", true);
    check("took 3 steps", "took 4 steps", false);
    check("a  b", "a      b", true);
    check("at 127.0.0.1:1", "at 127.0.0.1:45678", true);
    check("score 0.25", "score 0.35", false);
}
