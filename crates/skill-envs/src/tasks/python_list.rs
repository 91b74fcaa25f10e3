//! Answers as DocVQA's tables have them: a cell that is the source text of a Python list of strings.
//!
//! It reads what Python's `ast.literal_eval` reads of that, and nothing else of the language. A cell that is not such
//! a list is an answer as it is.

use std::iter::Peekable;
use std::str::Chars;

/// The strings of a Python list, or the one of a Python string: without white space around them and without blank ones.
///
/// `None` for any other text. A number in a list keeps the digits that it is written with, where Python would write
/// `1.50` as `1.5`.
pub(super) fn python_strings(text: &str) -> Option<Vec<String>> {
    let mut rest = text.trim().chars().peekable();
    let items = if rest.next_if_eq(&'[').is_some() { list(&mut rest)? } else { vec![strings(&mut rest)?] };
    skip_space(&mut rest);
    if rest.next().is_some() {
        return None;
    }
    Some(items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

/// What comes after the opening bracket, with the closing one.
fn list(rest: &mut Peekable<Chars<'_>>) -> Option<Vec<String>> {
    let mut items = Vec::new();
    loop {
        skip_space(rest);
        if rest.next_if_eq(&']').is_some() {
            return Some(items);
        }
        let is_word = rest.peek().is_some_and(|next| next.is_ascii_digit() || "+-.TFN".contains(*next));
        items.push(if is_word { word(rest)? } else { strings(rest)? });
        skip_space(rest);
        match rest.next()? {
            ',' => {}
            ']' => return Some(items),
            _ => return None,
        }
    }
}

/// A number or a constant.
fn word(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut word = String::new();
    while let Some(next) = rest.next_if(|next| next.is_ascii_alphanumeric() || "+-._".contains(*next)) {
        word.push(next);
    }
    let digits = word.trim_start_matches(['+', '-']);
    let is_padded =
        digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_number = word.parse::<f64>().is_ok_and(f64::is_finite) && !is_padded;
    (is_number || matches!(word.as_str(), "True" | "False" | "None")).then_some(word)
}

/// One string, or several in a row, which Python joins.
fn strings(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = string(rest)?;
    loop {
        skip_space(rest);
        if !rest.peek().is_some_and(|next| "'\"uUrR".contains(*next)) {
            return Some(text);
        }
        text.push_str(&string(rest)?);
    }
}

/// A string with its prefix and its quotes, one or three.
fn string(rest: &mut Peekable<Chars<'_>>) -> Option<String> {
    let is_raw = match rest.next_if(|next| "uUrR".contains(*next)) {
        Some(prefix) => matches!(prefix, 'r' | 'R'),
        None => false,
    };
    let quote = rest.next_if(|next| matches!(next, '\'' | '"'))?;
    let mut text = String::new();
    let is_long = match rest.next_if_eq(&quote) {
        Some(_) if rest.next_if_eq(&quote).is_some() => true,
        Some(_) => return Some(text),
        None => false,
    };
    loop {
        match rest.next()? {
            '\\' if is_raw => {
                text.push('\\');
                text.push(rest.next()?);
            }
            '\\' => escape(rest, &mut text)?,
            '\n' if !is_long => return None,
            next if next == quote && !is_long => return Some(text),
            next if next == quote => {
                if rest.next_if_eq(&quote).is_none() {
                    text.push(quote);
                } else if rest.next_if_eq(&quote).is_some() {
                    return Some(text);
                } else {
                    text.extend([quote, quote]);
                }
            }
            next => text.push(next),
        }
    }
}

/// What comes after a backslash; one that escapes nothing stays.
fn escape(rest: &mut Peekable<Chars<'_>>, text: &mut String) -> Option<()> {
    let escaped = match rest.next()? {
        '\n' => return Some(()),
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        same @ ('\\' | '\'' | '"') => same,
        'x' => code(rest, 2)?,
        'u' => code(rest, 4)?,
        'U' => code(rest, 8)?,
        // A name of Unicode's.
        'N' => return None,
        first if first.is_digit(8) => {
            let mut number = first.to_digit(8)?;
            for _ in 0..2 {
                let Some(next) = rest.next_if(|next| next.is_digit(8)) else { break };
                number = number * 8 + next.to_digit(8)?;
            }
            char::from_u32(number)?
        }
        other => {
            text.push('\\');
            other
        }
    };
    text.push(escaped);
    Some(())
}

/// The character of this many hexadecimal digits.
fn code(rest: &mut Peekable<Chars<'_>>, n_digits: usize) -> Option<char> {
    let mut number = 0_u32;
    for _ in 0..n_digits {
        number = number.checked_mul(16)?.checked_add(rest.next()?.to_digit(16)?)?;
    }
    char::from_u32(number)
}

fn skip_space(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|next| matches!(next, ' ' | '\t' | '\n' | '\r' | '\u{c}')).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Cells with what SkillOpt 0.2.0 makes of them, recorded by running it.
    const RECORDED: &str = include_str!("../../tests/data/skillopt/docvqa.json");

    /// Cells that are read otherwise here, and stay one answer.
    const DIFFERENT: [(&str, &str); 2] = [
        ("[['a'], 'b']", "a list in a list is shown as Python source there"),
        ("['\\N{BULLET}']", "names of Unicode's are not known here"),
    ];

    #[test]
    fn cells_are_read_as_skillopt_reads_them() {
        let recorded: Value = serde_json::from_str(RECORDED).unwrap();
        let mut n_lists = 0;
        for case in recorded["cases"].as_array().unwrap() {
            let (cell, expect) = (case["cell"].as_str().unwrap(), &case["answers"]);
            let found = python_strings(cell);
            if DIFFERENT.iter().any(|(different, _)| *different == cell) {
                assert_eq!(found, None, "{cell}");
                continue;
            }
            n_lists += usize::from(found.is_some());
            let found = found.unwrap_or_else(|| vec![cell.to_owned()]);
            assert_eq!(Value::from(found), *expect, "{cell}");
        }
        assert!(n_lists > 15, "{n_lists}");
    }

    #[test]
    fn other_texts_are_no_lists() {
        for text in [
            "",
            "[",
            "]",
            "['",
            "[,]",
            "['a',,'b']",
            "('a', 'b')",
            "{'a': 1}",
            "0.10",
            "1,000",
            "[b'a']",
            "[f'a']",
            "['\\ud800']",
            "['\\x4']",
            "[nan]",
            "[TRUE]",
            "['a'; 'b']",
            "r",
            "u''x",
        ] {
            assert_eq!(python_strings(text), None, "{text}");
        }
    }
}
