//! Number formats of Excel that change what a number means to a reader.
//!
//! A cell that shows `7.5%` holds 0.075, and one that shows `00123` holds 123. All other formats (currency, decimals,
//! thousands) leave the number what it is, and their numbers stay numbers.

use std::iter::Peekable;
use std::str::Chars;

/// Excel keeps this many digits of a number.
const N_DIGITS: usize = 15;

/// A part of a number format.
#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A digit that is written even where it is a leading or trailing zero.
    Zero,
    /// A digit that is not (`#`, `?`).
    Digit,
    Point,
    Percent,
    /// Digits are grouped by thousands.
    Group,
    /// A character as it is.
    Literal(char),
}

/// The number as the sheet shows it, where its format is a percentage or writes leading zeros; `None` for other formats.
///
/// A percentage keeps all its digits, and has at least as many decimals as its format.
pub(super) fn shown(number: f64, format: &str) -> Option<String> {
    let (section, is_negative_one) = section(format, number);
    let tokens = tokens(section)?;
    let sign = if number < 0.0 { "-" } else { "" };
    let number = number.abs();
    let (whole, decimals) = match tokens.iter().position(|token| *token == Token::Point) {
        Some(point) => (tokens.get(..point)?, tokens.get(point..)?),
        None => (tokens.as_slice(), &[][..]),
    };
    let n_zeros = |tokens: &[Token]| tokens.iter().filter(|token| **token == Token::Zero).count();
    if tokens.contains(&Token::Percent) {
        return Some(format!("{sign}{}%", decimal(number, 2, n_zeros(decimals))));
    }
    // `0` alone, and `#,##0`, write no zero in front of other digits.
    if n_zeros(whole) < 2 || tokens.contains(&Token::Group) {
        return None;
    }
    // The section for negative numbers has its own sign.
    let sign = if is_negative_one { "" } else { sign };
    let digits = format!("{number:.*}", n_zeros(decimals));
    let (digits, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{}{point}{fraction}", filled(whole, digits)))
}

/// The section of a format for a number, and whether it is that of negative ones: there are up to four of them.
fn section(format: &str, number: f64) -> (&str, bool) {
    let mut sections = Vec::new();
    let (mut start, mut is_quoted, mut is_escaped) = (0, false, false);
    for (at, char) in format.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if !is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => {
                sections.push(format.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    sections.push(format.get(start..).unwrap_or_default());
    let wanted = if number < 0.0 { 1 } else { 2 * usize::from(number == 0.0) };
    match sections.get(wanted) {
        Some(section) => (section, wanted == 1),
        None => (sections.first().copied().unwrap_or_default(), false),
    }
}

/// The parts of a section; `None` for one that is no plain row of digits, such as a date or a fraction.
fn tokens(section: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = section.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '0' => tokens.push(Token::Zero),
            '#' | '?' => tokens.push(Token::Digit),
            '.' => tokens.push(Token::Point),
            '%' => tokens.push(Token::Percent),
            ',' => tokens.push(Token::Group),
            '\\' => tokens.extend(rest.next().map(Token::Literal)),
            '"' => quoted(&mut rest, &mut tokens),
            // The width of a character, and a character that fills the cell.
            '_' | '*' => drop(rest.next()),
            '[' => bracket(&mut rest)?,
            '-' | '+' | '(' | ')' | ' ' | ':' | '$' => tokens.push(Token::Literal(char)),
            _ => return None,
        }
    }
    Some(tokens)
}

fn quoted(rest: &mut Peekable<Chars<'_>>, tokens: &mut Vec<Token>) {
    tokens.extend(rest.by_ref().take_while(|char| *char != '"').map(Token::Literal));
}

/// A color or a language, which change nothing; conditions and elapsed times are not read.
fn bracket(rest: &mut Peekable<Chars<'_>>) -> Option<()> {
    let inner: String = rest.by_ref().take_while(|char| *char != ']').collect();
    let is_word = inner.len() > 2 && inner.chars().all(|char| char.is_ascii_alphanumeric());
    (is_word || inner.starts_with('$')).then_some(())
}

/// Digits from the right into the places of a format, with its literals; more digits than places go in front.
fn filled(places: &[Token], digits: &str) -> String {
    let mut digits = digits.chars().rev().peekable();
    let mut written: Vec<char> = Vec::new();
    let first = places.iter().position(|token| matches!(token, Token::Zero | Token::Digit));
    for (index, place) in places.iter().enumerate().rev() {
        match place {
            Token::Zero => written.push(digits.next().unwrap_or('0')),
            Token::Digit => written.extend(digits.next()),
            Token::Literal(char) => written.push(*char),
            Token::Point | Token::Percent | Token::Group => {}
        }
        if Some(index) == first {
            written.extend(digits.by_ref());
        }
    }
    written.iter().rev().collect()
}

/// A number that is not negative, `shift` places to the left of its point, with at least so many decimals.
fn decimal(number: f64, shift: i32, min_decimals: usize) -> String {
    let scientific = format!("{number:.*e}", N_DIGITS - 1);
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_end_matches('0');
    let shift = if digits.is_empty() { 0 } else { shift };
    let n_whole = exponent.parse::<i32>().unwrap_or(0) + shift + 1;
    let n_leading = usize::try_from(-n_whole).unwrap_or(0);
    let n_whole = usize::try_from(n_whole).unwrap_or(0);
    let whole: String = digits.chars().chain(std::iter::repeat('0')).take(n_whole).collect();
    let mut fraction = "0".repeat(if digits.is_empty() { 0 } else { n_leading });
    fraction.push_str(digits.get(n_whole..).unwrap_or_default());
    while fraction.len() < min_decimals {
        fraction.push('0');
    }
    let whole = if whole.is_empty() { "0" } else { whole.as_str() };
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(number: f64, format: &str, expect: Option<&str>) {
        assert_eq!(shown(number, format).as_deref(), expect, "{number} as {format}");
    }

    #[test]
    fn percentages_keep_their_digits() {
        check(0.075, "0.0%", Some("7.5%"));
        check(0.075, "0%", Some("7.5%"));
        check(0.075, "0.00%", Some("7.50%"));
        check(0.07, "0%", Some("7%"));
        check(-0.07, "0%;[Red]-0%", Some("-7%"));
        check(1.0, "0%", Some("100%"));
        check(12.5, "#,##0%", Some("1250%"));
        check(0.0, "0%", Some("0%"));
        check(0.0, "0.0%", Some("0.0%"));
        check(0.0001, "0.00%", Some("0.01%"));
        check(0.000_012_3, "0%", Some("0.00123%"));
        check(0.1 + 0.2, "0%", Some("30%"));
        check(1.0 / 3.0, "0%", Some("33.3333333333333%"));
        check(0.5, "0\\ %", Some("50%"));
        check(0.5, "0 \"%\"", None);
    }

    #[test]
    fn leading_zeros_are_kept() {
        check(123.0, "00000", Some("00123"));
        check(123_456.0, "00000", Some("123456"));
        check(0.0, "00000", Some("00000"));
        check(-7.0, "000", Some("-007"));
        check(-7.0, "000;(000)", Some("(007)"));
        check(0.0, "000;-000;\"none\"", None);
        check(123_456_789.0, "000\\-00\\-0000", Some("123-45-6789"));
        check(123_456_789.0, "00000\\-0000", Some("12345-6789"));
        check(6_789.0, "000\"-\"00\"-\"0000", Some("000-00-6789"));
        check(7.5, "00.0", Some("07.5"));
        check(7.0, "\"A\"000", Some("A007"));
        check(7.0, "[$-409]0000", Some("0007"));
    }

    #[test]
    fn other_formats_leave_a_number_what_it_is() {
        for format in [
            "General",
            "0",
            "0.00",
            "#,##0",
            "#,##0.00",
            "$0.00",
            "0.00E+00",
            "# ?/?",
            "@",
            "",
            "yyyy-mm-dd",
            "[h]:mm:ss",
            "[<=9999999]000\\-0000;000",
            "_(* #,##0_);_(* (#,##0);_(* \"-\"_);_(@_)",
            "00,000",
        ] {
            check(1234.5, format, None);
        }
    }
}
