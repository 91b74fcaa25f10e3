//! Texts that Python's `float()` takes, and `round` to two digits.

use crate::digits::ascii_digit;
use skill_core::text::is_python_space;

/// The number that Python's `float()` makes of a text; `None` where it raises.
pub(super) fn parse(text: &str) -> Option<f64> {
    let text: String =
        text.trim_matches(is_python_space).chars().map(|char| ascii_digit(char).unwrap_or(char)).collect();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => return Some(sign * f64::INFINITY),
        "nan" => return Some(f64::NAN),
        _ => {}
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |text: &str| {
        !text.is_empty()
            && !text.starts_with('_')
            && !text.ends_with('_')
            && !text.contains("__")
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_mantissa = match fraction {
        None => is_digits(whole),
        Some("") => is_digits(whole),
        Some(fraction) => is_digits(fraction) && (whole.is_empty() || is_digits(whole)),
    };
    let is_exponent =
        exponent.is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    if !is_mantissa || !is_exponent {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// `round(number, 2)`: the nearest decimal of the exact value, ties to even.
pub(super) fn round_2(number: f64) -> f64 {
    if !number.is_finite() {
        return number;
    }
    format!("{number:.2}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbers_where_python_says_so() {
        for (text, expect) in [
            (" 12\n", Some(12.0)),
            ("\u{a0}12", Some(12.0)),
            ("5.", Some(5.0)),
            (".5", Some(0.5)),
            ("1_000", Some(1000.0)),
            ("-1e-3", Some(-0.001)),
            ("１２", Some(12.0)),
            ("١٢", Some(12.0)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e400", Some(f64::INFINITY)),
            ("1__0", None),
            ("_1", None),
            ("1_.5", None),
            ("", None),
            (".", None),
            ("- 5", None),
            ("0x10", None),
            ("1e", None),
            ("infin", None),
            ("+-5", None),
        ] {
            assert_eq!(parse(text), expect, "{text:?}");
        }
        assert!(parse("NaN").is_some_and(f64::is_nan));
    }

    #[test]
    fn ties_are_those_of_the_binary_value() {
        for (number, expect) in
            [(0.125, 0.12), (0.375, 0.38), (1.005, 1.0), (2.675, 2.67), (-0.125, -0.12), (1e300, 1e300)]
        {
            assert_eq!(round_2(number).to_bits(), f64::to_bits(expect), "{number}");
        }
    }
}
