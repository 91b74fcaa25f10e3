//! JSON as Python's `json` writes it.
//!
//! Python writes more than JSON has: `NaN` and infinities, escapes of half a character, and integers of any size. Data
//! sets, banks and replies of servers come from there. [`read`] and [`plain`] take such texts where a program wrote
//! them; what a model wrote is the business of [`crate::json`].

use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// A text that is not JSON, or not of the expected shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct JsonFault {
    /// What the parser says, without the place.
    pub message: String,
    /// The line, from 1.
    pub line: usize,
    /// The character of the line, from 1.
    pub column: usize,
    /// The text ends before its value does.
    pub is_cut: bool,
}

/// Reads one value, as Python's `json` reads it but for these:
///
/// - `NaN`, infinities and numbers beyond a double are `null`, a missing value;
/// - an integer of more than 64 bits is a text of its digits, all of which it keeps;
/// - an escape of half a character is U+FFFD.
///
/// ```
/// use serde_json::{Value, json};
///
/// let value: Value = skill_core::python_json::read(r#"[NaN, "\ud83d", 123456789012345678901]"#)?;
/// assert_eq!(value, json!([null, "\u{fffd}", "123456789012345678901"]));
/// # Ok::<(), skill_core::python_json::JsonFault>(())
/// ```
///
/// # Errors
///
/// A text that is not JSON besides, or whose value is not a `T`; the place is that in `text`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonFault> {
    let changed = Changes::of(text);
    serde_json::from_str(&changed.applied(text)).map_err(|error| changed.fault(text, &error))
}

/// The same text in JSON alone; see [`read`] for what changes.
pub fn plain(text: &str) -> Cow<'_, str> {
    Changes::of(text).applied(text)
}

/// A part of the text that JSON does not have, and what takes its place.
#[derive(Debug)]
struct Change {
    start: usize,
    end: usize,
    written: Written,
}

#[derive(Debug, Clone, Copy)]
enum Written {
    Null,
    /// The same in quotes.
    Quoted,
    /// The escape of U+FFFD.
    Replacement,
}

impl Change {
    /// How many bytes the new text has more.
    fn growth(&self) -> isize {
        match self.written {
            Written::Null => 4 - isize::try_from(self.end - self.start).unwrap_or_default(),
            Written::Quoted => 2,
            Written::Replacement => 0,
        }
    }
}

/// The changes of a text, in order.
struct Changes(Vec<Change>);

impl Changes {
    fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut changes = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            let rest = bytes.get(at..).unwrap_or_default();
            at += match byte {
                b'"' => string(rest, at, &mut changes),
                b'N' | b'I' | b'-' | b'0'..=b'9' => {
                    let length = word_length(rest);
                    let word = text.get(at..at + length).unwrap_or_default();
                    if let Some(written) = foreign(word) {
                        changes.push(Change { start: at, end: at + length, written });
                    }
                    length
                }
                b'a'..=b'z' | b'A'..=b'Z' => word_length(rest),
                _ => 1,
            };
        }
        Self(changes)
    }

    fn applied<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut plain = String::with_capacity(text.len() + 2 * self.0.len());
        let mut at = 0;
        for change in &self.0 {
            plain.push_str(text.get(at..change.start).unwrap_or_default());
            match change.written {
                Written::Null => plain.push_str("null"),
                Written::Quoted => {
                    let digits = text.get(change.start..change.end).unwrap_or_default();
                    plain.extend(["\"", digits, "\""]);
                }
                Written::Replacement => plain.push_str("\\ufffd"),
            }
            at = change.end;
        }
        plain.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(plain)
    }

    /// The fault at its place in the text before the changes.
    fn fault(&self, text: &str, error: &serde_json::Error) -> JsonFault {
        let said = error.to_string();
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = said.strip_suffix(&position).unwrap_or(&said).to_owned();
        // No change has a line break in it.
        let before = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len);
        let line_start: usize = before.sum();
        let mut grown = 0;
        for change in self.0.iter().filter(|change| change.start >= line_start) {
            let start = (change.start - line_start).saturating_add_signed(grown);
            if start >= error.column() {
                break;
            }
            grown += change.growth();
        }
        let n_bytes = error.column().saturating_add_signed(-grown);
        let line = text.get(line_start..).unwrap_or_default();
        let column = line.get(..n_bytes).map_or(n_bytes, |head| head.chars().count());
        JsonFault { message, line: error.line(), column, is_cut: error.is_eof() }
    }
}

/// The bytes of a number or a bare word.
fn word_length(rest: &[u8]) -> usize {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
    rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())
}

/// What takes the place of a word that JSON, or a reader of JSON, does not have.
fn foreign(word: &str) -> Option<Written> {
    if matches!(word, "NaN" | "Infinity" | "-Infinity") {
        return Some(Written::Null);
    }
    // Shorter numbers are in range, and nearly all are shorter.
    const N_SAFE_DIGITS: usize = 18;
    let digits = word.strip_prefix('-').unwrap_or(word);
    let has_exponent = digits.contains(['e', 'E']);
    if digits.len() <= N_SAFE_DIGITS && !has_exponent {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let is_kept = digits.starts_with('0') || word.parse::<i64>().is_ok() || word.parse::<u64>().is_ok();
        return (!is_kept).then_some(Written::Quoted);
    }
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
    (is_number && word.parse::<f64>().is_ok_and(f64::is_infinite)).then_some(Written::Null)
}

/// The bytes of a string that starts here, at this offset of the text; notes its halves of characters.
fn string(rest: &[u8], offset: usize, changes: &mut Vec<Change>) -> usize {
    const ESCAPE: usize = r"\uXXXX".len();
    let mut at = 1;
    while let Some(byte) = rest.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => match unit(rest, at) {
                Some(0xd800..0xdc00) if matches!(unit(rest, at + ESCAPE), Some(0xdc00..0xe000)) => {
                    at += 2 * ESCAPE;
                }
                Some(0xd800..0xe000) => {
                    let start = offset + at;
                    changes.push(Change { start, end: start + ESCAPE, written: Written::Replacement });
                    at += ESCAPE;
                }
                Some(_) | None => at += 2,
            },
            _ => at += 1,
        }
    }
    rest.len()
}

/// The UTF-16 unit of an escape `\uXXXX` that starts here.
fn unit(rest: &[u8], at: usize) -> Option<u16> {
    let [b'\\', b'u', digits @ ..] = rest.get(at..)? else { return None };
    let digits = digits.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(text: &str, expect: Value) {
        assert_eq!(read::<Value>(text), Ok(expect), "{text}");
    }

    #[test]
    fn what_python_adds_to_json_is_read() {
        check(r#"{"a": NaN, "b": [Infinity,-Infinity]}"#, json!({"a": null, "b": [null, null]}));
        check("NaN", json!(null));
        check(r#"["NaN", "-Infinity", "a\"NaN", "1e999"]"#, json!(["NaN", "-Infinity", "a\"NaN", "1e999"]));
        check("[1e999, -1e999, 1e308, 1e-999]", json!([null, null, 1e308, 0.0]));
        check(r#"["\ud83d", "\ud83d\ude00", "\ude00x", "\ud83d\ud83d\ude00"]"#, {
            json!(["\u{fffd}", "\u{1f600}", "\u{fffd}x", "\u{fffd}\u{1f600}"])
        });
        check(r#"["\\ud83d", "\\\ud83d"]"#, json!(["\\ud83d", "\\\u{fffd}"]));
        check(r#"{"\ud83d": 1}"#, json!({"\u{fffd}": 1}));
        let (most, least) = (u64::MAX, i64::MIN);
        check(&format!("[{most}, {least}]"), json!([most, least]));
        check("[18446744073709551616, -9223372036854775809]", {
            json!(["18446744073709551616", "-9223372036854775809"])
        });
        check("[12345678901234567890.5, 1.0]", json!([12345678901234567890.5, 1.0]));
    }

    #[track_caller]
    fn check_fault(text: &str, line: usize, column: usize, is_cut: bool) {
        let fault = read::<Value>(text).unwrap_err();
        assert_eq!((fault.line, fault.column, fault.is_cut), (line, column, is_cut), "{text}: {fault}");
    }

    #[test]
    fn a_fault_is_named_with_its_place_in_the_file() {
        check_fault("[1,", 1, 3, true);
        check_fault("[1, nan]", 1, 6, false);
        check_fault("[NaN, nan]", 1, 8, false);
        check_fault("[NaN,\n-Infinity, 123456789012345678901, x]", 2, 35, false);
        check_fault("[NaN, x, NaN]", 1, 7, false);
        check_fault("[\"\u{e9}\", x]", 1, 7, false);
        for text in ["[NaNs]", "[-NaN]", "[+Infinity]", "[\"\\ud8\"]", "[01234567890123456789]", "[1x]", "N"]
        {
            assert!(read::<Value>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn json_is_left_as_it_is(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(plain(&text), text.as_str());
        }

        #[test]
        fn no_text_panics(text in r#"(["\\u\-NaIdDc189.{},: \n\u{e9}]|\\u|NaN|-Infinity|\[|\]|1e999){0,40}"#) {
            let _ = read::<Value>(&text);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }
}
