//! Cells that hold the source text of a Python value, as pandas and NumPy write lists and dictionaries to CSV.
//!
//! It reads what Python's `ast.literal_eval` reads of lists, tuples, dictionaries, texts, numbers and constants, and
//! arrays as NumPy shows them; nothing else of the language. A cell that is no such value is a text.

use serde_json::{Map, Value};
use skill_core::python_json;
use std::iter::Peekable;
use std::str::Chars;

/// How deep lists may be nested.
const MAX_DEPTH: usize = 32;

/// The list or object that a cell holds: JSON, or the source text of a Python value. `None` for any other text.
///
/// Texts side by side are elements of their own, as NumPy shows arrays: `['a' 'b']`. In the source of a program Python
/// would join them, but no program shows a list in that way.
pub(super) fn structured(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['[', '{', '(']) && !text.starts_with("array(") {
        return None;
    }
    if let Ok(value @ (Value::Array(_) | Value::Object(_))) = python_json::read(text) {
        return Some(value);
    }
    let mut parser = Parser { rest: text.chars().peekable(), adjacent: Adjacent::Apart };
    match parser.whole()? {
        list @ (Literal::List(_) | Literal::Dictionary(_)) => Some(list.into_value()),
        Literal::Text(_) | Literal::Word(_) => None,
    }
}

/// The strings of a Python list, or the one of a Python string: without white space around them and without blank ones.
///
/// `None` for any other text. A number in a list keeps the digits that it is written with, where Python would write
/// `1.50` as `1.5`.
pub(super) fn python_strings(text: &str) -> Option<Vec<String>> {
    let mut parser = Parser { rest: text.trim().chars().peekable(), adjacent: Adjacent::Joined };
    let is_tuple_or_dictionary = text.trim().starts_with(['(', '{', 'a']);
    let items = match parser.whole()? {
        _ if is_tuple_or_dictionary => return None,
        Literal::List(items) => items,
        text @ Literal::Text(_) => vec![text],
        Literal::Word(_) | Literal::Dictionary(_) => return None,
    };
    let texts = items.into_iter().map(|item| match item {
        Literal::Text(text) | Literal::Word(text) => Some(text.trim().to_owned()),
        Literal::List(_) | Literal::Dictionary(_) => None,
    });
    let texts: Vec<String> = texts.collect::<Option<_>>()?;
    Some(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

/// A value in the source text of Python.
enum Literal {
    Text(String),
    /// A number or a constant.
    Word(String),
    List(Vec<Literal>),
    Dictionary(Vec<(String, Literal)>),
}

impl Literal {
    fn into_value(self) -> Value {
        match self {
            Self::Text(text) => Value::String(text),
            Self::Word(word) => match word.as_str() {
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                "None" | "nan" => Value::Null,
                number => python_json::read(number).unwrap_or_else(|_| Value::from(number)),
            },
            Self::List(items) => items.into_iter().map(Self::into_value).collect(),
            Self::Dictionary(members) => {
                let members = members.into_iter().map(|(name, value)| (name, value.into_value()));
                Value::Object(Map::from_iter(members))
            }
        }
    }
}

/// What strings side by side are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Adjacent {
    /// One string, as in the source of a program.
    Joined,
    /// Elements, as NumPy shows them.
    Apart,
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    adjacent: Adjacent,
}

impl Parser<'_> {
    fn whole(&mut self) -> Option<Literal> {
        let value = self.value(0)?;
        skip_space(&mut self.rest);
        self.rest.next().is_none().then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        if depth > MAX_DEPTH {
            return None;
        }
        skip_space(&mut self.rest);
        match self.rest.peek()? {
            '[' => self.list(']', depth),
            '(' => self.list(')', depth),
            '{' => self.dictionary(depth),
            'a' => self.array(depth),
            next if next.is_ascii_digit() || "+-.TFNn".contains(*next) => {
                word(&mut self.rest).map(Literal::Word)
            }
            _ if self.adjacent == Adjacent::Joined => strings(&mut self.rest).map(Literal::Text),
            _ => string(&mut self.rest).map(Literal::Text),
        }
    }

    fn list(&mut self, end: char, depth: usize) -> Option<Literal> {
        self.rest.next();
        let mut items = Vec::new();
        loop {
            skip_space(&mut self.rest);
            if self.rest.next_if_eq(&end).is_some() {
                return Some(Literal::List(items));
            }
            items.push(self.value(depth + 1)?);
            let has_space = skip_space(&mut self.rest);
            let next = *self.rest.peek()?;
            if next == ',' {
                self.rest.next();
            } else if next != end && !(self.adjacent == Adjacent::Apart && (has_space || next == '\'')) {
                return None;
            }
        }
    }

    fn dictionary(&mut self, depth: usize) -> Option<Literal> {
        self.rest.next();
        let mut members = Vec::new();
        loop {
            skip_space(&mut self.rest);
            if self.rest.next_if_eq(&'}').is_some() {
                return Some(Literal::Dictionary(members));
            }
            let (Literal::Text(name) | Literal::Word(name)) = self.value(depth + 1)? else { return None };
            skip_space(&mut self.rest);
            self.rest.next_if_eq(&':')?;
            members.push((name, self.value(depth + 1)?));
            skip_space(&mut self.rest);
            if self.rest.next_if_eq(&',').is_none() && self.rest.peek() != Some(&'}') {
                return None;
            }
        }
    }

    /// `array([...], dtype=object)`, as NumPy's arrays are shown within other values.
    fn array(&mut self, depth: usize) -> Option<Literal> {
        for expected in "array(".chars() {
            self.rest.next_if_eq(&expected)?;
        }
        let items = self.value(depth + 1)?;
        skip_space(&mut self.rest);
        if self.rest.next_if_eq(&',').is_some() {
            while self.rest.next_if(|next| *next != ')').is_some() {}
        }
        self.rest.next_if_eq(&')')?;
        Some(items)
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
    (is_number || matches!(word.as_str(), "True" | "False" | "None" | "nan")).then_some(word)
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

/// Passes over white space; true if there was any.
fn skip_space(rest: &mut Peekable<Chars<'_>>) -> bool {
    let mut has_space = false;
    while rest.next_if(|next| matches!(next, ' ' | '\t' | '\n' | '\r' | '\u{c}')).is_some() {
        has_space = true;
    }
    has_space
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            "[TRUE]",
            "['a'; 'b']",
            "r",
            "u''x",
        ] {
            assert_eq!(python_strings(text), None, "{text}");
        }
    }

    #[track_caller]
    fn check(text: &str, expect: Value) {
        assert_eq!(structured(text), Some(expect), "{text}");
    }

    #[test]
    fn values_are_read_as_pandas_and_numpy_show_them() {
        check("['A. Miller', \"O'Brien\"]", json!(["A. Miller", "O'Brien"]));
        check(r#"["a", "b"]"#, json!(["a", "b"]));
        check("['a' 'b'\n 'c']", json!(["a", "b", "c"]));
        check("['a' \"it's\"]", json!(["a", "it's"]));
        check("('a', 'b')", json!(["a", "b"]));
        check("array(['a', 'b'], dtype=object)", json!(["a", "b"]));
        check("[1, 2.50, True, None, nan, -3]", json!([1, 2.5, true, null, null, -3]));
        check("[1 2]", json!([1, 2]));
        check("{'text': array(['x', 'y'], dtype=object), 'label': ['A', 'B']}", {
            json!({"text": ["x", "y"], "label": ["A", "B"]})
        });
        check("{'a': {'b': [['c']]}, 1: ()}", json!({"a": {"b": [["c"]]}, "1": []}));
        check("[]", json!([]));
        let deep = format!("{}{}", "['a', ".repeat(100), "]".repeat(100));
        for text in
            ["a list", "['a'", "['a'; 'b']", "{'a'}", "{'a': }", "'a'", "12", "(a, b)", "array", &deep]
        {
            assert_eq!(structured(text), None, "{text}");
        }
    }
}
