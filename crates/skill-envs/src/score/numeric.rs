//! Numbers with tolerance, units and percent.

use super::Score;
use serde::{Deserialize, Serialize};

/// Results of conversions are compared with this relative slack, so that rounding in binary never decides.
const SLACK: f64 = 1e-9;

/// Units that can be converted: name, dimension, factor to the dimension's base.
const UNITS: &[(&[&str], &str, f64)] = &[
    (&["%", "percent", "pct"], "share", 0.01),
    (&["mm", "millimeter", "millimeters", "millimetre", "millimetres"], "length", 0.001),
    (&["cm", "centimeter", "centimeters", "centimetre", "centimetres"], "length", 0.01),
    (&["m", "meter", "meters", "metre", "metres"], "length", 1.0),
    (&["km", "kilometer", "kilometers", "kilometre", "kilometres"], "length", 1000.0),
    (&["in", "inch", "inches"], "length", 0.0254),
    (&["ft", "foot", "feet"], "length", 0.3048),
    (&["mi", "mile", "miles"], "length", 1609.344),
    (&["mg", "milligram", "milligrams"], "mass", 0.000_001),
    (&["g", "gram", "grams"], "mass", 0.001),
    (&["kg", "kilogram", "kilograms"], "mass", 1.0),
    (&["t", "ton", "tons", "tonne", "tonnes"], "mass", 1000.0),
    (&["lb", "lbs", "pound", "pounds"], "mass", 0.453_592_37),
    (&["ms", "millisecond", "milliseconds"], "time", 0.001),
    (&["s", "sec", "second", "seconds"], "time", 1.0),
    (&["min", "minute", "minutes"], "time", 60.0),
    (&["h", "hr", "hour", "hours"], "time", 3600.0),
    (&["day", "days"], "time", 86_400.0),
    (&["ml", "milliliter", "milliliters", "millilitre", "millilitres"], "volume", 0.001),
    (&["l", "liter", "liters", "litre", "litres"], "volume", 1.0),
    (&["$", "usd", "dollar", "dollars"], "usd", 1.0),
    (&["€", "eur", "euro", "euros"], "eur", 1.0),
    (&["£", "gbp"], "gbp", 1.0),
    (&["¥", "jpy", "yen"], "jpy", 1.0),
];

/// Words that multiply the number before them.
const MAGNITUDES: &[(&[&str], f64)] = &[
    (&["thousand", "thousands"], 1e3),
    (&["million", "millions", "mn"], 1e6),
    (&["billion", "billions", "bn"], 1e9),
    (&["trillion", "trillions"], 1e12),
];

skill_core::named_enum! {
    /// What becomes of units.
    #[derive(Default)]
    pub enum UnitRule {
        /// Where both have one they are converted or must be the same; where one of them has none, it has the other's.
        #[default]
        Optional = "optional",
        /// As with `optional`, but an answer without the reference's unit is wrong.
        Required = "required",
        /// Units are not looked at.
        Ignored = "ignored",
    }
}

skill_core::named_enum! {
    /// What a percent sign means.
    #[derive(Default)]
    pub enum PercentRule {
        /// It is a unit like others: `12%` and `12` are the same where units are optional, `12%` and `0.12` are not.
        #[default]
        Unit = "unit",
        /// A hundredth as well: `12%` is `0.12` too.
        Fraction = "fraction",
    }
}

/// How numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct NumericOptions {
    /// The greatest difference that is still right.
    pub tolerance: f64,
    /// The greatest difference that is still right, as a share of the reference.
    pub relative_tolerance: f64,
    /// What becomes of units.
    pub units: UnitRule,
    /// What a percent sign means.
    pub percent: PercentRule,
}

/// A number with its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The number, multiplied by its magnitude word.
    pub value: f64,
    /// The unit in lower case; empty if there is none.
    pub unit: String,
}

/// Compares the number of an answer with those of the references.
///
/// With the answer `p` and the reference `r` in one unit, `hard` is 1 if
/// `|p - r| <= max(tolerance, relative_tolerance * |r|)`; otherwise `soft` is `max(0, 1 - |p - r| / |r|)`, and 0
/// where `r` is 0 or the units differ. `None` is an answer without a number.
/// See [`parse_quantity`] for what counts as the number of a text.
///
/// ```
/// use skill_envs::score::{NumericOptions, numeric};
///
/// let options = NumericOptions { relative_tolerance: 0.01, ..NumericOptions::default() };
/// assert_eq!(numeric("about 1,005 m", &["1 km"], &options).unwrap().hard, 1.0);
/// assert_eq!(numeric("I do not know", &["1 km"], &options), None);
/// ```
pub fn numeric(prediction: &str, answers: &[impl AsRef<str>], options: &NumericOptions) -> Option<Score> {
    let prediction = parse_quantity(prediction)?;
    let mut best = Score::default();
    for answer in answers.iter().filter_map(|answer| parse_quantity(answer.as_ref())) {
        for (ours, reference) in pairs(&prediction, &answer, options) {
            let difference = (ours - reference).abs();
            let allowed = options.tolerance.max(options.relative_tolerance * reference.abs());
            if difference <= allowed + SLACK * reference.abs() {
                return Some(Score::RIGHT);
            }
            if reference != 0.0 {
                best.soft = best.soft.max(1.0 - difference / reference.abs());
            }
        }
    }
    Some(best)
}

/// The pairs of numbers that may be compared, in one unit each.
fn pairs(prediction: &Quantity, answer: &Quantity, options: &NumericOptions) -> Vec<(f64, f64)> {
    let mut pairs = Vec::new();
    let plain = (prediction.value, answer.value);
    match (options.units, prediction.unit.is_empty(), answer.unit.is_empty()) {
        (UnitRule::Ignored, _, _) | (_, true, true) => pairs.push(plain),
        (UnitRule::Optional, true, false) | (UnitRule::Optional | UnitRule::Required, false, true) => {
            pairs.push(plain);
        }
        (UnitRule::Required, true, false) => {}
        (UnitRule::Optional | UnitRule::Required, false, false) => {
            match (unit(&prediction.unit), unit(&answer.unit)) {
                (Some((left, left_factor)), Some((right, right_factor))) if left == right => {
                    pairs.push((prediction.value * left_factor, answer.value * right_factor));
                }
                _ if prediction.unit == answer.unit => pairs.push(plain),
                _ => {}
            }
        }
    }
    if options.percent == PercentRule::Fraction && is_percent(prediction) != is_percent(answer) {
        let fraction = |quantity: &Quantity| {
            let factor = if is_percent(quantity) { 0.01 } else { 1.0 };
            (is_percent(quantity) || quantity.unit.is_empty()).then_some(quantity.value * factor)
        };
        pairs.extend(fraction(prediction).zip(fraction(answer)));
    }
    pairs
}

fn is_percent(quantity: &Quantity) -> bool {
    unit(&quantity.unit).is_some_and(|(dimension, _)| dimension == "share")
}

fn unit(name: &str) -> Option<(&'static str, f64)> {
    let found = UNITS.iter().find(|(names, _, _)| names.contains(&name));
    found.map(|(_, dimension, factor)| (*dimension, *factor))
}

/// The number that a text gives: the whole text, if it is a number with a unit; else the last number in it.
///
/// Understood are signs, thousands grouped by commas or narrow spaces, decimals, exponents, the words *thousand* to
/// *trillion*, a currency before the number, and a unit behind it. In running text a unit counts only if it is one
/// that can be converted.
pub fn parse_quantity(text: &str) -> Option<Quantity> {
    let characters: Vec<char> = text.trim().chars().collect();
    let mut last = None;
    let mut start = 0;
    while start < characters.len() {
        match number_at(&characters, start) {
            Some((value, end)) => {
                last = Some((value, start, end));
                start = end;
            }
            None => start += 1,
        }
    }
    let (value, start, end) = last?;
    let head: String = characters.iter().take(start).collect();
    let tail: String = characters.iter().skip(end).collect();
    let (value, tail) = with_magnitude(value, &tail);
    let head = head.trim_end();
    let currency = head
        .chars()
        .next_back()
        .filter(|letter| "$€£¥".contains(*letter))
        .map(String::from)
        .unwrap_or_default();
    // `-$5`: the sign comes before the currency.
    let before = head.strip_suffix(&currency).unwrap_or(head);
    let is_negated = !currency.is_empty() && before.ends_with(['-', '−']);
    let before = if is_negated { before.trim_end_matches(['-', '−']) } else { before };
    let value = if is_negated { -value } else { value };
    let rest = tail.trim().trim_end_matches(['.', '!']).trim();
    let unit_name = if !currency.is_empty() {
        currency
    } else if before.trim().is_empty() && rest.split_whitespace().count() <= 1 {
        rest.to_lowercase()
    } else {
        let word = rest.split(|letter: char| letter.is_whitespace() || ",;.)".contains(letter)).next();
        word.map(str::to_lowercase).filter(|word| unit(word).is_some()).unwrap_or_default()
    };
    Some(Quantity { value, unit: unit_name })
}

/// The number that starts here, and where it ends; a digit inside a word is none.
fn number_at(characters: &[char], start: usize) -> Option<(f64, usize)> {
    let at = |index: usize| characters.get(index).copied();
    let is_digit = |index: usize| at(index).is_some_and(|letter| letter.is_ascii_digit());
    let before = start.checked_sub(1).and_then(at);
    if before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_') {
        return None;
    }
    let mut digits = String::new();
    let mut end = start;
    match at(start) {
        // In `3-5` the hyphen is none of the 5's.
        Some('-' | '−') if is_digit(start + 1) || (at(start + 1) == Some('.') && is_digit(start + 2)) => {
            digits.push('-');
            end += 1;
        }
        Some('+') if is_digit(start + 1) => end += 1,
        _ => {}
    }
    let first_digit = end;
    while is_digit(end) {
        digits.extend(at(end));
        end += 1;
        let is_group = matches!(at(end), Some(',' | '\u{a0}' | '\u{202f}'))
            && (1..=3).all(|offset| is_digit(end + offset))
            && !is_digit(end + 4)
            && end - first_digit >= 1;
        if is_group {
            end += 1;
        }
    }
    let has_whole = end > first_digit;
    if at(end) == Some('.') && is_digit(end + 1) {
        digits.push('.');
        end += 1;
        while is_digit(end) {
            digits.extend(at(end));
            end += 1;
        }
    } else if !has_whole {
        return None;
    }
    if matches!(at(end), Some('e' | 'E')) {
        let sign = usize::from(matches!(at(end + 1), Some('-' | '+')));
        if is_digit(end + 1 + sign) {
            digits.push('e');
            digits.extend(at(end + 1).filter(|letter| *letter == '-'));
            end += 1 + sign;
            while is_digit(end) {
                digits.extend(at(end));
                end += 1;
            }
        }
    }
    digits.parse().ok().filter(|value: &f64| value.is_finite()).map(|value| (value, end))
}

fn with_magnitude(value: f64, tail: &str) -> (f64, &str) {
    let trimmed = tail.trim_start();
    let word_end = trimmed.find(|letter: char| !letter.is_alphabetic()).unwrap_or(trimmed.len());
    let (word, rest) = trimmed.split_at(word_end);
    let word = word.to_lowercase();
    match MAGNITUDES.iter().find(|(names, _)| names.contains(&word.as_str())) {
        Some((_, factor)) => (value * factor, rest),
        None => (value, tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_quantity(text: &str, value: f64, unit: &str) {
        assert_eq!(parse_quantity(text), Some(Quantity { value, unit: unit.to_owned() }), "{text:?}");
    }

    #[test]
    fn numbers_in_texts() {
        check_quantity("42", 42.0, "");
        check_quantity(" -3.5 ", -3.5, "");
        check_quantity("−3.5", -3.5, "");
        check_quantity("+7", 7.0, "");
        check_quantity(".5", 0.5, "");
        check_quantity("-.5", -0.5, "");
        check_quantity("1,234,567.8", 1_234_567.8, "");
        check_quantity("1\u{202f}234", 1234.0, "");
        check_quantity("1,2", 2.0, "");
        check_quantity("6.02e23", 6.02e23, "");
        check_quantity("1E-3 kg", 0.001, "kg");
        check_quantity("$1.5 million", 1_500_000.0, "$");
        check_quantity("-$5", -5.0, "$");
        check_quantity("12%", 12.0, "%");
        check_quantity("12 percent", 12.0, "percent");
        check_quantity("5 km.", 5.0, "km");
        check_quantity("7 widgets", 7.0, "widgets");
        check_quantity("The answer is 42.", 42.0, "");
        check_quantity("First 3, then 5 apples", 5.0, "");
        check_quantity("It weighs 5 kg, I think", 5.0, "kg");
        check_quantity("between 3-5", 5.0, "");
        check_quantity("3 billion people", 3e9, "people");
        for text in ["", "none", "b2b", "x_1", "e5", "-", "."] {
            assert_eq!(parse_quantity(text), None, "{text:?}");
        }
    }

    #[track_caller]
    fn check(prediction: &str, answer: &str, options: NumericOptions, hard: f64, soft: f64) {
        let score = numeric(prediction, &[answer], &options).unwrap();
        assert_eq!(score.hard, hard, "{prediction:?} {answer:?} {score:?}");
        assert!((score.soft - soft).abs() < 1e-9, "{prediction:?} {answer:?} {score:?}");
    }

    #[test]
    fn tolerances() {
        let plain = NumericOptions::default();
        check("42", "42.0", plain, 1.0, 1.0);
        check("0.1", "0.10", plain, 1.0, 1.0);
        check("40", "50", plain, 0.0, 0.8);
        check("500", "50", plain, 0.0, 0.0);
        check("1", "0", plain, 0.0, 0.0);
        let absolute = NumericOptions { tolerance: 0.5, ..plain };
        check("42.5", "42", absolute, 1.0, 1.0);
        check("42.6", "42", absolute, 0.0, 1.0 - 0.6 / 42.0);
        let relative = NumericOptions { relative_tolerance: 0.01, ..plain };
        check("101", "100", relative, 1.0, 1.0);
        check("-99", "-100", relative, 1.0, 1.0);
        check("102", "100", relative, 0.0, 0.98);
    }

    #[test]
    fn units() {
        let optional = NumericOptions::default();
        check("1.5 km", "1500 m", optional, 1.0, 1.0);
        check("90 minutes", "1.5 h", optional, 1.0, 1.0);
        check("5", "5 kg", optional, 1.0, 1.0);
        check("5 kg", "5", optional, 1.0, 1.0);
        check("5 km", "5 kg", optional, 0.0, 0.0);
        check("5 widgets", "5 widgets", optional, 1.0, 1.0);
        check("5 widgets", "5 gadgets", optional, 0.0, 0.0);
        check("€5", "$5", optional, 0.0, 0.0);
        let required = NumericOptions { units: UnitRule::Required, ..optional };
        check("5", "5 kg", required, 0.0, 0.0);
        check("5000 g", "5 kg", required, 1.0, 1.0);
        check("5 kg", "5", required, 1.0, 1.0);
        let ignored = NumericOptions { units: UnitRule::Ignored, ..optional };
        check("5 km", "5 kg", ignored, 1.0, 1.0);
    }

    #[test]
    fn percent() {
        let unit = NumericOptions::default();
        check("12%", "12", unit, 1.0, 1.0);
        check("12 percent", "12%", unit, 1.0, 1.0);
        check("0.12", "12%", unit, 0.0, 0.01);
        let fraction = NumericOptions { percent: PercentRule::Fraction, ..unit };
        check("0.12", "12%", fraction, 1.0, 1.0);
        check("12%", "0.12", fraction, 1.0, 1.0);
        check("12", "12%", fraction, 1.0, 1.0);
        check("0.13", "12%", fraction, 0.0, 1.0 - 1.0 / 12.0);
    }

    #[test]
    fn the_best_reference_counts() {
        let score = numeric("3", &["x", "9", "3"], &NumericOptions::default());
        assert_eq!(score, Some(Score::RIGHT));
        assert_eq!(numeric("3", &["x"], &NumericOptions::default()), Some(Score::default()));
    }
}
