//! Texts that Python's `float()` takes, and `round` to two digits.

/// The zeros of the scripts with decimal digits, in Unicode 14.
const ZEROS: &[u32] = &[
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
    0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0,
    0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50,
    0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140,
    0x1e2f0, 0x1e950, 0x1fbf0,
];

/// The number that Python's `float()` makes of a text; `None` where it raises.
pub(super) fn parse(text: &str) -> Option<f64> {
    let is_space = |char: char| char.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&char);
    let text: String = text.trim_matches(is_space).chars().map(ascii_digit).collect();
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

fn ascii_digit(char: char) -> char {
    if char.is_ascii() {
        return char;
    }
    let code = u32::from(char);
    let zero = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&code));
    zero.and_then(|zero| char::from_digit(code - zero, 10)).unwrap_or(char)
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
