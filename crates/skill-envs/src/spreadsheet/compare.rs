//! Whether two cells count as equal.

use super::python_float::{parse, round_2};
use super::xlsx::{Cell, DAY, Value};
use crate::choices::Compare;
use std::borrow::Cow;
use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// A value that the official comparison fails on, which counts as wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a whole number is too large for the official comparison")]
pub struct Raised;

impl Compare {
    /// Whether a cell counts as the right one.
    ///
    /// # Errors
    ///
    /// [`Raised`], by the official rule alone.
    pub fn is_equal(self, gold: &Cell, got: &Cell) -> Result<bool, Raised> {
        match self {
            Self::Official => Ok(official(&gold.value)?.is_equal(&official(&got.value)?)),
            Self::Strict => Ok(strict(gold, got)),
        }
    }
}

/// A value as the official comparison transforms it.
#[derive(Debug, PartialEq)]
enum Transformed<'a> {
    Nothing,
    Number(f64),
    Text(Cow<'a, str>),
    Date(i64),
    Duration(i64),
}

impl Transformed<'_> {
    fn is_equal(&self, other: &Self) -> bool {
        let is_empty = |value: &Self| match value {
            Self::Nothing => true,
            Self::Text(text) => text.is_empty(),
            _ => false,
        };
        (is_empty(self) && is_empty(other)) || self == other
    }
}

fn official(value: &Value) -> Result<Transformed<'_>, Raised> {
    Ok(match value {
        Value::Empty => Transformed::Nothing,
        Value::Bool(value) => Transformed::Number(f64::from(u8::from(*value))),
        Value::Float(number) => Transformed::Number(round_2(*number)),
        Value::Whole(digits) => match digits.parse::<f64>() {
            Ok(number) if number.is_finite() => Transformed::Number(round_2(number)),
            Ok(_) | Err(_) => return Err(Raised),
        },
        Value::Text(text) => match parse(text) {
            Some(number) => Transformed::Number(round_2(number)),
            None => Transformed::Text(Cow::Borrowed(text)),
        },
        // The day alone counts, to the nearest, and noon to the even one; parts of a second are dropped before.
        Value::DateTime(days, micros) => {
            let seconds = micros / 1_000_000;
            Transformed::Number((*days as f64 + seconds as f64 / 86_400.0).round_ties_even())
        }
        // The text of the time without its last three characters: the seconds, or three digits of their fraction.
        Value::Time(micros) => {
            let mut text = Value::Time(*micros).to_string();
            text.truncate(text.len().saturating_sub(3));
            Transformed::Text(Cow::Owned(text))
        }
        Value::Date(days) => Transformed::Date(*days),
        Value::Duration(micros) => Transformed::Duration(*micros),
    })
}

/// Numbers that differ by less are the same number, computed in another order.
const SAME: f64 = 1e-6;
/// Numbers that differ by less are the same, rounded to two digits..
const ROUNDED: f64 = 0.005;
/// ..where that is a small part of them.
const SMALL_PART: f64 = 0.05;
/// Half a second in days.
const HALF_SECOND: f64 = 500_000.0 / DAY as f64;

fn strict(gold: &Cell, got: &Cell) -> bool {
    use Value::{Bool, Date, DateTime, Duration, Empty, Float, Text, Time, Whole};
    match (&gold.value, &got.value) {
        (Empty, Empty) => true,
        (Empty, Text(text)) | (Text(text), Empty) => text.is_empty(),
        (Bool(one), Bool(other)) => one == other,
        (Text(one), Text(other)) if gold.number.is_none() && got.number.is_none() => {
            same_text(one) == same_text(other)
        }
        (Whole(one), Whole(other)) if one == other => true,
        // Beyond the range of floating-point numbers, which all larger ones would be the same.
        (Whole(_), Whole(_)) if gold.number.is_some_and(f64::is_infinite) => false,
        (DateTime(..) | Date(_) | Time(_) | Duration(_), _)
        | (_, DateTime(..) | Date(_) | Time(_) | Duration(_)) => {
            is_near(gold.number, got.number, |one, other| {
                // Sums of days differ in their last digits.
                (one - other).abs() < HALF_SECOND + 1e-9
            })
        }
        (Text(text), Float(_) | Whole(_)) if gold.number.is_none() => is_number_of(text)
            .is_some_and(|number| same_number(number, got.number.unwrap_or(f64::NAN), false)),
        (Float(_) | Whole(_), Text(text)) if got.number.is_none() => {
            let is_percent = gold.is_percent;
            is_number_of(text)
                .is_some_and(|number| same_number(gold.number.unwrap_or(f64::NAN), number, is_percent))
        }
        (Float(_) | Whole(_) | Text(_), Float(_) | Whole(_) | Text(_)) => {
            is_near(gold.number, got.number, |one, other| same_number(one, other, gold.is_percent))
        }
        (Empty | Bool(_), _) | (_, Empty | Bool(_)) => false,
    }
}

fn is_near(one: Option<f64>, other: Option<f64>, is_near: impl Fn(f64, f64) -> bool) -> bool {
    one.zip(other).is_some_and(|(one, other)| is_near(one, other))
}

fn same_number(one: f64, other: f64, is_percent: bool) -> bool {
    if one.is_nan() && other.is_nan() {
        return true;
    }
    if one.is_infinite() || other.is_infinite() {
        return one == other;
    }
    let scale = if is_percent { 100.0 } else { 1.0 };
    let (one, other) = (one * scale, other * scale);
    let (difference, larger) = ((one - other).abs(), one.abs().max(other.abs()));
    difference <= SAME.max(SAME * larger) || (difference <= ROUNDED + 1e-12 && ROUNDED <= SMALL_PART * larger)
}

/// The number of a text that is a plain decimal number.
fn is_number_of(text: &str) -> Option<f64> {
    let plain = text.trim_matches([' ', '\t', '\n', '\r', '\u{a0}']);
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let is_plain = unsigned.bytes().any(|byte| byte.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'));
    if is_plain { plain.parse().ok() } else { None }
}

/// A text in one form of Unicode, without the escapes of control characters in files.
fn same_text(text: &str) -> Cow<'_, str> {
    let decoded = if text.contains("_x") { unescaped(text) } else { Cow::Borrowed(text) };
    if is_nfc(&decoded) { decoded } else { Cow::Owned(decoded.nfc().collect()) }
}

/// `_x000D_` as the character that it stands for.
fn unescaped(text: &str) -> Cow<'_, str> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("_x") {
        plain.push_str(before);
        let code = behind.get(..4).filter(|_| behind.get(4..5) == Some("_"));
        let char = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        match char {
            Some(char) => {
                plain.push(char);
                rest = behind.get(5..).unwrap_or_default();
            }
            None => {
                plain.push_str("_x");
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}
