//! Texts as CPython writes them, where the pages and addresses of the shop show such texts.

use skill_core::text::is_python_space;
use std::fmt::Write as _;

/// `repr` of a float: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn float_repr(value: f64) -> String {
    let shortest = format!("{value:?}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return shortest;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

/// `str.strip`: without white space at both ends, the separators of ASCII included.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_python_space)
}

/// `json.dumps` of a string: ASCII alone.
pub(super) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(character),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
    out
}

/// `json.dumps` of a dictionary of strings, in the given order.
pub(super) fn json_dict<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<_> =
        pairs.map(|(name, value)| format!("{}: {}", json_string(name), json_string(value))).collect();
    format!("{{{}}}", members.join(", "))
}

/// `repr` of a string.
pub(super) fn string_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if other == quote => {
                out.push('\\');
                out.push(other);
            }
            other if is_printable(other) => out.push(other),
            other => {
                let code = u32::from(other);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
    out
}

/// `repr` of a dictionary of strings, in the given order.
pub(super) fn dict_repr<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<_> =
        pairs.map(|(name, value)| format!("{}: {}", string_repr(name), string_repr(value))).collect();
    format!("{{{}}}", members.join(", "))
}

/// `str.isprintable` of one character; of what is not assigned only the private areas and the noncharacters count.
fn is_printable(character: char) -> bool {
    let format_or_space = matches!(
        character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
            | '\u{e0001}'..='\u{e007f}' | '\u{f0000}'..='\u{10ffff}'
    );
    let space = character != ' ' && character.is_whitespace();
    !(character.is_control() || format_or_space || space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_float(value: f64, expect: &str) {
        assert_eq!(float_repr(value), expect);
    }

    #[test]
    fn floats_read_as_in_python() {
        check_float(100.0, "100.0");
        check_float(9.6, "9.6");
        check_float(1e17, "1e+17");
        check_float(1e16, "1e+16");
        check_float(9_999_999_999_999_998.0, "9999999999999998.0");
        check_float(1e-5, "1e-05");
        check_float(1e-4, "0.0001");
        check_float(1.0 / 3.0, "0.3333333333333333");
        check_float(2.5e-120, "2.5e-120");
    }

    #[track_caller]
    fn check_string(text: &str, repr: &str, json: &str) {
        assert_eq!(string_repr(text), repr);
        assert_eq!(json_string(text), json);
    }

    #[test]
    fn strings_read_as_in_python() {
        check_string("a", "'a'", r#""a""#);
        check_string("it's", r#""it's""#, r#""it's""#);
        check_string("18\" it's", r#"'18" it\'s'"#, r#""18\" it's""#);
        check_string("weiß", "'weiß'", r#""wei\u00df""#);
        check_string("a\u{a0}b\n", r"'a\xa0b\n'", r#""a\u00a0b\n""#);
        check_string("\u{200b}😀\u{7f}", r"'\u200b😀\x7f'", r#""\u200b\ud83d\ude00\u007f""#);
        check_string("\\", r"'\\'", r#""\\""#);
    }
}
