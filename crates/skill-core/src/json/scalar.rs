//! Numbers and bare words.

use super::repair::{Repair, Repairs};
use super::source::Source;
use super::tape::Node;
use serde_json::{Number, Value};

/// Whether a word is a literal of JSON, Python or JavaScript.
pub(super) fn is_literal(word: &str) -> bool {
    literal(word).is_some()
}

/// The node of a literal and the repair that reading it takes, if any.
fn literal(word: &str) -> Option<(Node, Option<Repair>)> {
    let exact = match word {
        "true" => Some(Node::Bool(true)),
        "false" => Some(Node::Bool(false)),
        "null" => Some(Node::Null),
        _ => None,
    };
    if let Some(node) = exact {
        return Some((node, None));
    }
    let foreign = |node| Some((node, Some(Repair::ForeignLiteral)));
    match word {
        "True" | "TRUE" => foreign(Node::Bool(true)),
        "False" | "FALSE" => foreign(Node::Bool(false)),
        "None" | "Null" | "NULL" | "nil" | "undefined" => foreign(Node::Null),
        "NaN" | "nan" | "Infinity" | "inf" => Some((Node::Null, Some(Repair::NotANumber))),
        _ => None,
    }
}

/// What stood where a scalar was looked for.
#[derive(Debug)]
pub(super) enum Scalar {
    /// A value that ends before this position.
    Value(Node, usize),
    /// A single word where a string was meant, which ends before this position.
    Word(usize),
    /// The text ends within the scalar, so that its end is not known.
    Cut,
    /// Nothing that is a scalar.
    Nothing,
}

/// Reads a bare word: a literal, or a single word where a string was meant.
pub(super) fn word(source: Source<'_>, at: usize, repairs: &mut Repairs) -> Scalar {
    let end = source.word_end(at);
    if end == at {
        return Scalar::Nothing;
    }
    if end == source.len() {
        return Scalar::Cut;
    }
    let word = source.slice(at, end);
    if let Some((node, repair)) = literal(word) {
        if let Some(repair) = repair {
            repairs.note(repair);
        }
        return Scalar::Value(node, end);
    }
    if matches!(source.byte(source.blank_end(end)), Some(b',' | b'}' | b']')) {
        repairs.note(Repair::UnquotedText);
        return Scalar::Word(end);
    }
    Scalar::Nothing
}

/// Reads a number, in JSON's form or with a sign, point or zeros that JSON does not have.
pub(super) fn number(source: Source<'_>, at: usize, repairs: &mut Repairs) -> Scalar {
    if let Some((integer, end)) = small_integer(source, at) {
        return Scalar::Value(Node::Number(integer.into()), end);
    }
    let rest = source.bytes_from(at);
    let is_part =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E' | b'_');
    let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
    let end = at + length;
    let token = source.slice(at, end);
    if end == source.len() {
        return Scalar::Cut;
    }
    if let Ok(Value::Number(number)) = serde_json::from_str::<Value>(token) {
        return Scalar::Value(Node::Number(number), end);
    }
    if matches!(token, "-" | "+") {
        let word_end = source.word_end(end);
        if word_end < source.len()
            && matches!(source.slice(end, word_end), "Infinity" | "inf" | "NaN" | "nan")
        {
            repairs.note(Repair::NotANumber);
            return Scalar::Value(Node::Null, word_end);
        }
        return if word_end == source.len() { Scalar::Cut } else { Scalar::Nothing };
    }
    // Rust reads what JSON does not: a leading plus, leading zeros, a point at either end.
    let plain: String = token.chars().filter(|&char| char != '_').collect();
    let Ok(float) = plain.parse::<f64>() else { return Scalar::Nothing };
    if !float.is_finite() {
        repairs.note(Repair::NotANumber);
        return Scalar::Value(Node::Null, end);
    }
    repairs.note(Repair::NumberForm);
    let digits = plain.strip_prefix('+').unwrap_or(&plain);
    let number = digits.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(float));
    Scalar::Value(number.map_or(Node::Null, Node::Number), end)
}

/// The most common numbers, without a detour: up to 18 digits, no leading zero, and something behind them that
/// belongs to no number. With the position after it.
fn small_integer(source: Source<'_>, at: usize) -> Option<(u64, usize)> {
    let rest = source.bytes_from(at);
    let mut sum = 0;
    for (length, &byte) in rest.iter().enumerate().take(19) {
        match byte {
            b'0'..=b'9' if length < 18 => sum = sum * 10 + u64::from(byte - b'0'),
            b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E' | b'_' => return None,
            _ if length == 0 || (length > 1 && rest.first() == Some(&b'0')) => return None,
            _ => return Some((sum, at + length)),
        }
    }
    None
}
