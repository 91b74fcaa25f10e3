//! Verdicts of judges as models write them: points and truths, in JSON or in words, with the decoration that the other readers
//! take off.

use crate::score::parse_quantity;
use regex::Regex;
use serde_json::Value;
use skill_core::decoration::{of_cell, undecorated, without_emphasis};
use skill_core::json::extract_answer;
use std::sync::LazyLock;

/// Points for all of a rubric.
pub(crate) const MOST_POINTS: f64 = 10.0;

/// A line such as `Points: 8` or `Final score = 4/5`.
static LABELLED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?im)^\W*(?:(?:my|the|total|final|overall)\s+)*(points|score|grade|rating)\W*?(?:\s+is)?\s*[:=]\s*(.+?)\s*$").ok()
});
/// A share: `4/5`, `8 out of 10`.
static SHARE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^(\d+(?:\.\d+)?)\s*(?:/|out\s+of|of)\s*(\d+(?:\.\d+)?)(?:\s*(?:points?|stars?))?\.?$")
        .ok()
});

/// What a judge gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Points {
    /// From 0 to [`MOST_POINTS`].
    pub(crate) points: f64,
    /// Why, where it says so.
    pub(crate) reason: String,
}

/// The points in a judge's reply: of the object with `points`, else of a line such as `Points: 8/10`, else of the reply as a
/// whole; `None` where it has none or says no scale for them.
pub(crate) fn points_in(reply: &str) -> Option<Points> {
    let plain = of_cell(reply);
    points_in_json(reply).or_else(|| points_in_json(&plain)).or_else(|| points_in_words(&plain))
}

fn points_in_json(reply: &str) -> Option<Points> {
    const LABELS: [&str; 4] = ["points", "score", "grade", "rating"];
    let member = |value: &Value, label: &str| {
        let mut members = value.as_object()?.iter();
        members.find(|(name, _)| name.trim().eq_ignore_ascii_case(label)).map(|(_, value)| value.clone())
    };
    let first = |value: &Value| LABELS.iter().find_map(|label| Some((*label, member(value, label)?)));
    let value = extract_answer(reply, |value| first(value).is_some())?.value;
    let (label, given) = first(&value)?;
    let given = match given {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let reason = member(&value, "reason").and_then(|reason| Some(reason.as_str()?.trim().to_owned()));
    Some(Points { points: points_of(&given, label == "points")?, reason: reason.unwrap_or_default() })
}

fn points_in_words(reply: &str) -> Option<Points> {
    // An object that says no points is not read as words.
    if reply.contains('{') {
        return None;
    }
    let text = without_emphasis(reply);
    let labelled = LABELLED.as_ref()?.captures_iter(&text).last();
    let (points, reason) = match labelled {
        Some(found) => {
            let (line, label, given) = (found.get(0)?, found.get(1)?.as_str(), found.get(2)?.as_str());
            let reason = text.get(..line.start()).unwrap_or_default().trim().to_owned();
            (points_of(given, label.eq_ignore_ascii_case("points"))?, reason)
        }
        // A reply of nothing but the number is the number that was requested.
        None => (points_of(text.trim(), true)?, String::new()),
    };
    Some(Points { points, reason })
}

/// Points that are written as a number, a share or a percentage. A number without a scale counts as points where it is called
/// so, or can be nothing else.
fn points_of(text: &str, are_points: bool) -> Option<f64> {
    let text = undecorated(text).unwrap_or_else(|| text.to_owned());
    let text = text.trim().trim_end_matches('.');
    if let Some(share) = SHARE.as_ref()?.captures(text) {
        let part = |at: usize| share.get(at)?.as_str().parse::<f64>().ok();
        let (points, most) = (part(1)?, part(2)?);
        return (most > 0.0).then(|| points / most * MOST_POINTS).and_then(within);
    }
    if let Some(percent) = text.strip_suffix('%') {
        return percent
            .trim()
            .parse::<f64>()
            .ok()
            .map(|percent| percent / 100.0 * MOST_POINTS)
            .and_then(within);
    }
    let number = match text.parse::<f64>() {
        Ok(number) => number,
        Err(_) => {
            let found = parse_quantity(text)?;
            let is_alone = text.chars().filter(|sign| sign.is_alphabetic()).count() <= "points".len();
            (is_alone && ["", "point", "points"].contains(&found.unit.as_str())).then_some(found.value)?
        }
    };
    // 0.8 may be of 1 or of 10.
    let has_scale = are_points || number == 0.0 || number > 1.0;
    has_scale.then_some(number).and_then(within)
}

fn within(points: f64) -> Option<f64> {
    (0.0..=MOST_POINTS).contains(&points).then_some(points)
}

/// A verdict that is true or false, also as a word such as `"PASS"`.
#[cfg(any(feature = "evals", test))]
pub(crate) fn truth_of(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => {
            let text = of_cell(text);
            let plain = undecorated(&text).unwrap_or_else(|| text.clone().into_owned());
            match plain.trim().trim_end_matches('.').to_lowercase().as_str() {
                "true" | "yes" | "pass" | "passed" | "met" => Some(true),
                "false" | "no" | "fail" | "failed" | "not met" => Some(false),
                _ => None,
            }
        }
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn points_are_read_as_judges_write_them() {
        #[track_caller]
        fn check(reply: &str, expect: Option<f64>) {
            assert_eq!(points_in(reply).map(|found| found.points), expect, "{reply}");
        }
        for reply in [
            r#"{"reason": "r", "points": 8}"#,
            r#"{"reason": "r", "points": "8"}"#,
            r#"{"points": "**8**"}"#,
            r#"{"points": "8/10"}"#,
            r#"{"Points": "4 out of 5"}"#,
            r#"{"score": 8}"#,
            r#"{"score": "80%"}"#,
            "```json\n{\"points\": 8}\n```",
            "{&quot;reason&quot;: &quot;r&quot;, &quot;points&quot;: 8}",
            "Points: 8",
            "**Points:** 8",
            "**Points**: **8/10**",
            "It is good.\n\nFinal score: 4/5",
            "Rating: 8",
            "8",
            "**8**",
            "8/10",
            "8 points",
            "Points: 8 points.",
        ] {
            check(reply, Some(8.0));
        }
        check(r#"{"points": 7.5}"#, Some(7.5));
        check(r#"{"points": 0.5}"#, Some(0.5));
        check("Score: 0", Some(0.0));
        for reply in [
            "Score: **0.8**",
            r#"{"score": 0.8}"#,
            r#"{"score": 1}"#,
            "Points: 12",
            "Points: -1",
            "Points: 11/10",
            "Points: 5/0",
            "I cannot grade this.",
            "The answer names 8 of the cities.",
            "It is 8 or 9.",
            r#"{"points": null}"#,
            r#"{"points": [8]}"#,
            "",
        ] {
            check(reply, None);
        }
        let found = points_in("It names the person.\nPoints: 6/10").unwrap();
        assert_eq!((found.points, found.reason.as_str()), (6.0, "It names the person."));
    }

    #[test]
    fn a_truth_may_be_a_word() {
        for value in [json!(true), json!("true"), json!("**PASS**"), json!("Yes."), json!("passed")] {
            assert_eq!(truth_of(&value), Some(true), "{value}");
        }
        for value in [json!(false), json!("FAIL"), json!("`no`"), json!("not met")] {
            assert_eq!(truth_of(&value), Some(false), "{value}");
        }
        for value in [json!(null), json!(1), json!("partly"), json!("")] {
            assert_eq!(truth_of(&value), None, "{value}");
        }
    }
}
