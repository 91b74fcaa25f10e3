//! The autonomous edit budget: how many of the proposed edits the optimizer wants applied, read from its reply.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The key of a reply that holds the number.
pub const LEARNING_RATE: &str = "learning_rate";

/// How many edits a step applies where the optimizer chooses; the names are those of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetChoice {
    /// The edits to apply, at most as many as there are.
    pub learning_rate: u32,
    /// The number in the reply; a negative one is 0.
    pub raw_learning_rate: u32,
    /// Whether the reply asked for more than there are.
    pub clamped: bool,
    /// Whether the reply names no number: then nothing is applied.
    pub fallback: bool,
}

impl BudgetChoice {
    /// The choice of a reply among so many edits; no reply at all names no number.
    ///
    /// Integers, integral numbers and the first digits of other numbers and of texts are a number; booleans, lists and
    /// objects are none.
    pub fn read(reply: Option<&Value>, n_available: usize) -> Self {
        let named = reply.and_then(|reply| reply.get(LEARNING_RATE)).and_then(number);
        let raw_learning_rate = named.unwrap_or_default();
        let available = u32::try_from(n_available).unwrap_or(u32::MAX);
        let learning_rate = raw_learning_rate.min(available);
        Self {
            learning_rate,
            raw_learning_rate,
            clamped: learning_rate != raw_learning_rate,
            fallback: named.is_none(),
        }
    }
}

/// Reads a number that is not negative, leniently; too large a one is the largest.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Some(u32::try_from(integer.max(0)).unwrap_or(u32::MAX)),
            // The cast saturates and cuts what is behind the point.
            None => number.as_f64().map(|number| number as u32),
        },
        Value::String(text) => first_integer(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The first run of digits in a text, 0 with a minus in front.
fn first_integer(text: &str) -> Option<u32> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let (before, rest) = text.split_at_checked(start)?;
    if before.ends_with('-') {
        return Some(0);
    }
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    // Digits alone fail to parse only where there are too many.
    Some(digits.parse().unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(value: Value, expect: Option<u32>) {
        let choice = BudgetChoice::read(Some(&json!({ "learning_rate": value })), 5);
        assert_eq!(
            (choice.raw_learning_rate, choice.fallback),
            (expect.unwrap_or(0), expect.is_none()),
            "{value}"
        );
        assert_eq!(choice.learning_rate, expect.unwrap_or(0).min(5), "{value}");
        assert_eq!(choice.clamped, expect.unwrap_or(0) > 5, "{value}");
    }

    #[test]
    fn numbers_are_read_leniently() {
        check(json!(3), Some(3));
        check(json!(0), Some(0));
        check(json!(99), Some(99));
        check(json!(-4), Some(0));
        check(json!(2.0), Some(2));
        check(json!(2.5), Some(2));
        check(json!(-2.5), Some(0));
        check(json!(1e300), Some(u32::MAX));
        check(json!(u64::MAX), Some(u32::MAX));
        check(json!("about 2 or 3"), Some(2));
        check(json!("-7"), Some(0));
        check(json!("99999999999999999999"), Some(u32::MAX));
        for value in [json!("many"), json!(""), json!(null), json!(true), json!([2]), json!({"n": 2})] {
            check(value, None);
        }
        assert!(BudgetChoice::read(None, 5).fallback);
        assert!(BudgetChoice::read(Some(&json!([2])), 5).fallback);
    }
}
