//! Backslashes of LaTeX that a model did not double: JSON reads `\b`, `\f`, `\n`, `\r` and `\t` as control characters.

use serde_json::Value;

/// Commands that begin with `n`, `r` or `t` and of which what follows the letter is no word, so that a line break or a tab
/// in front of it has no other meaning.
#[rustfmt::skip]
const COMMANDS: &[&str] = &[
    "nRightarrow", "nabla", "natural", "ncong", "nearrow", "neq", "newcommand", "newline", "nexists", "ngeq", "ngtr",
    "nleftarrow", "nleq", "nless", "nmid", "nolimits", "nonumber", "normalfont", "normalsize", "not", "notag", "notin",
    "nparallel", "nprec", "npreceq", "nrightarrow", "nsim", "nsubset", "nsubseteq", "nsucc", "nsupseteq", "nwarrow",
    "raisebox", "rangle", "rbrace", "rbrack", "rceil", "ref", "renewcommand", "rfloor", "rgroup", "rhd", "rho", "right",
    "rightarrow", "rightharpoonup", "rightleftharpoons", "rightrightarrows", "rightsquigarrow", "rlap", "rm", "rmoustache",
    "root", "rtimes", "rule", "rvert", "rVert", "tbinom", "tfrac", "textbackslash", "textbf", "textit", "textrm", "textsc",
    "textsf", "texttt", "textwidth", "therefore", "theta", "thickapprox", "thicksim", "thinspace", "tilde", "times",
    "triangle", "triangledown", "triangleleft", "triangleright", "twoheadrightarrow",
];

/// Commands of which the rest can be a word or a name: they count in front of their argument, and in a text with other
/// LaTeX where a line would hardly end.
const DOUBTFUL: &[&str] =
    &["ne", "neg", "ni", "node", "nu", "num", "tag", "tan", "tanh", "tau", "text", "tiny", "to", "top"];

/// Puts back the backslashes in all strings of a value; says whether there were any.
pub(super) fn restore(value: &mut Value) -> bool {
    match value {
        Value::String(text) => match restored(text) {
            Some(restored) => {
                *text = restored;
                true
            }
            None => false,
        },
        // Recursion ends where the parser's does.
        Value::Array(values) => values.iter_mut().fold(false, |any, value| restore(value) | any),
        Value::Object(members) => members.values_mut().fold(false, |any, value| restore(value) | any),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The text with its backslashes; `None` if none is missing.
fn restored(text: &str) -> Option<String> {
    if !text.bytes().any(|byte| letter_of(byte).is_some()) {
        return None;
    }
    let has_latex = has_latex(text);
    let mut restored = String::with_capacity(text.len() + 8);
    let mut copied_to = 0;
    for (at, byte) in text.bytes().enumerate() {
        let Some(letter) = letter_of(byte) else { continue };
        let behind = text.get(at + 1..).unwrap_or_default();
        let before = text.get(..at).unwrap_or_default();
        if !is_command(letter, before, behind, has_latex) {
            continue;
        }
        restored.push_str(text.get(copied_to..at).unwrap_or_default());
        restored.extend(['\\', letter]);
        copied_to = at + 1;
    }
    if copied_to == 0 {
        return None;
    }
    restored.push_str(text.get(copied_to..).unwrap_or_default());
    Some(restored)
}

/// The letter that stands for a control character behind a backslash.
fn letter_of(byte: u8) -> Option<char> {
    match byte {
        0x08 => Some('b'),
        0x0c => Some('f'),
        b'\n' => Some('n'),
        b'\r' => Some('r'),
        b'\t' => Some('t'),
        _ => None,
    }
}

/// True if this letter and the text behind it begin with a command.
fn is_command(letter: char, before: &str, behind: &str, has_latex: bool) -> bool {
    if matches!(letter, 'b' | 'f') {
        // Neither has a use in front of a letter.
        return behind.starts_with(|next: char| next.is_ascii_alphabetic());
    }
    let length = behind.find(|next: char| !next.is_ascii_alphabetic()).unwrap_or(behind.len());
    let (rest, next) = behind.split_at(length);
    if rest.is_empty() {
        return false;
    }
    let is_one_of = |names: &[&str]| names.iter().any(|name| name.strip_prefix(letter) == Some(rest));
    // A line may begin with `e.g.`, and seldom ends in a blank or in the middle of a formula.
    let is_in_line = has_latex
        && before.ends_with([' ', '$', '(', '{', '[', '}', '^', '_', '=', '+', '-', ',', '|', '<', '>'])
        && !next.starts_with(['.', ')', ':']);
    is_one_of(COMMANDS) || is_one_of(DOUBTFUL) && (next.starts_with('{') || is_in_line)
}

/// True for a text that holds a command of LaTeX: one with its backslash, or with a control character that has no other
/// meaning in its place.
fn has_latex(text: &str) -> bool {
    let pairs = text.as_bytes().windows(2);
    let has_command = pairs.into_iter().any(|pair| {
        let [first, second] = pair else { return false };
        matches!(first, b'\\' | 0x08 | 0x0c) && second.is_ascii_alphabetic()
    });
    has_command
        || text.bytes().enumerate().any(|(at, byte)| {
            let behind = text.get(at + 1..).unwrap_or_default();
            letter_of(byte).is_some_and(|letter| is_command(letter, "", behind, false))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What a reader of JSON makes of this text between quotes, and what is right.
    #[track_caller]
    fn check(written: &str, expect: &str) {
        let mut value: Value = serde_json::from_str(&format!("\"{written}\"")).unwrap();
        let was = value.clone();
        assert_eq!(restore(&mut value), value != was);
        assert_eq!(value, json!(expect), "{written}");
    }

    #[test]
    fn commands_get_their_backslash_back() {
        check(r"\boxed{} and \frac{a}{b}", r"\boxed{} and \frac{a}{b}");
        check(r"\text{a/b}, \times, \neq, \rho", r"\text{a/b}, \times, \neq, \rho");
        check(r"\\alpha \nu \to \tan", r"\alpha \nu \to \tan");
        check(
            r"\begin{cases} x \ne 1 \end{cases}".replace(r"\end", r"\\end").as_str(),
            r"\begin{cases} x \ne 1 \end{cases}",
        );
        check(
            r"\theta \nabla \notin \right) \rangle \tau",
            "\\theta \\nabla \\notin \\right) \\rangle \\tau",
        );
        check(r"match \bword", r"match \bword");
    }

    #[test]
    fn line_breaks_and_tabs_stay() {
        for text in [
            "a\nb",
            "- one\n- two",
            "a\n\tif x:\n\t\treturn",
            "one\nequation",
            "\ntheta",
            "a\tan item",
            "x\nu",
            "\to",
            "use \\frac:\ne.g. here",
            "\\alpha\n\to one",
        ] {
            let mut value = json!(text);
            assert!(!restore(&mut value), "{text:?}");
        }
        // What stands alone before no letter is not known.
        let mut value = json!("a\u{8} 1\u{c}");
        assert!(!restore(&mut value));
    }
}
