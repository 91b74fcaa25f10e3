//! An answer that is a JSON object, compared with a reference field by field.

use super::text::collapsed;
use super::{Score, share};
use serde_json::Value;
use skill_core::decoration::{of_cell, undecorated};
use skill_core::json::{Extracted, extract_answer};
use skill_core::text::composed;

/// What became of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonFieldsVerdict {
    /// `hard` is 1 if all fields are right, `soft` the share of right ones.
    pub score: Score,
    /// Each field, in the order in which they were asked for.
    pub fields: Vec<FieldVerdict>,
}

/// One field of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldVerdict {
    /// Its name; dots lead into objects.
    pub field: String,
    /// What the reference has.
    pub expected: Value,
    /// What the answer has; `None` if it does not have the field.
    pub found: Option<Value>,
    /// Whether they are the same.
    pub is_right: bool,
}

/// Compares the fields of two objects.
///
/// Texts are the same if they are after white space is collapsed and case is ignored where that is asked for.
/// Numbers are the same within `tolerance`, and a text that is a number counts as one. Lists have an order; objects
/// inside have none and may not have further fields.
/// Without `fields` all fields of the reference are compared, and further fields of the answer do not count.
///
/// ```
/// use serde_json::json;
/// use skill_envs::score::json_fields;
///
/// let reference = json!({"name": "Ada", "year": 1815});
/// let verdict = json_fields(&json!({"year": "1815", "name": "Bob"}), &reference, &[], 0.0, true);
/// assert_eq!((verdict.score.hard, verdict.score.soft), (0.0, 0.5));
/// ```
pub fn json_fields(
    answer: &Value,
    reference: &Value,
    fields: &[String],
    tolerance: f64,
    ignores_case: bool,
) -> JsonFieldsVerdict {
    let all: Vec<String> =
        reference.as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default();
    let fields = if fields.is_empty() { all.as_slice() } else { fields };
    let verdicts: Vec<FieldVerdict> = fields
        .iter()
        .map(|field| {
            let expected = member(reference, field).cloned().unwrap_or(Value::Null);
            let found = member(answer, field).cloned();
            let is_right = match &found {
                Some(found) => is_same(found, &expected, tolerance, ignores_case),
                // What the reference leaves empty may be left out.
                None => expected.is_null(),
            };
            FieldVerdict { field: field.clone(), expected, found, is_right }
        })
        .collect();
    let n_right = verdicts.iter().filter(|verdict| verdict.is_right).count();
    let is_right = n_right == verdicts.len() && !verdicts.is_empty();
    let score =
        if is_right { Score::RIGHT } else { Score { hard: 0.0, soft: share(n_right, verdicts.len()) } };
    JsonFieldsVerdict { score, fields: verdicts }
}

/// The JSON value in an answer, by the rules of [`extract_answer`]: the whole text, or the last whole object in it.
pub fn parse_json_answer(text: &str) -> Option<Extracted> {
    let read = |text: &str| extract_answer(text, Value::is_object).or_else(|| extract_answer(text, |_| true));
    match text.contains("&quot;") || text.contains("&#34;") {
        true => read(text).filter(|found| found.value.is_object()).or_else(|| read(&of_cell(text))),
        false => read(text),
    }
}

/// The member that a dotted name leads to; a name that is a key to the letter comes first.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(found) = value.get(name) {
        return Some(found);
    }
    name.split('.').try_fold(value, |value, part| match value {
        Value::Array(values) => part.parse::<usize>().ok().and_then(|index| values.get(index)),
        other => other.get(part),
    })
}

fn is_same(found: &Value, expected: &Value, tolerance: f64, ignores_case: bool) -> bool {
    if let (Some(found), Some(expected)) = (number(found), number(expected)) {
        return found == expected || (found - expected).abs() <= tolerance;
    }
    let inner = |(found, expected): (&Value, &Value)| is_same(found, expected, tolerance, ignores_case);
    match (found, expected) {
        (Value::String(found), Value::String(expected)) => {
            let plain = |text: &str| {
                let text = collapsed(&composed(text));
                if ignores_case { text.to_lowercase() } else { text }
            };
            let undecorated =
                || undecorated(&of_cell(found)).is_some_and(|found| plain(&found) == plain(expected));
            plain(found) == plain(expected) || undecorated()
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(inner)
        }
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && expected
                    .iter()
                    .all(|(name, expected)| found.get(name).is_some_and(|found| inner((found, expected))))
        }
        (found, expected) => found == expected,
    }
}

/// A number, or a text that is nothing else.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entities_and_emphasis_are_no_part_of_a_text() {
        let reference = r#"{"name": "Ann", "n": 3}"#;
        for answer in [
            "{&quot;name&quot;: &quot;Ann&quot;, &quot;n&quot;: 3}",
            r#"{"name": "**Ann**", "n": 3}"#,
            r#"{"name": "Ann.", "n": "3"}"#,
        ] {
            check(answer, reference, &[], 1.0);
        }
        check(r#"{"name": "&quot;Ann&quot; B", "n": 3}"#, reference, &[], 0.5);
    }

    #[track_caller]
    fn check(answer: &str, reference: &str, fields: &[&str], soft: f64) {
        let answer = parse_json_answer(answer).unwrap().value;
        let reference = serde_json::from_str(reference).unwrap();
        let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
        let verdict = json_fields(&answer, &reference, &fields, 0.01, true);
        assert_eq!(verdict.score.soft, soft, "{answer}: {verdict:?}");
        assert_eq!(verdict.score.hard, f64::from(u8::from(soft == 1.0)));
    }

    #[test]
    fn fields_are_compared_one_by_one() {
        check(r#"{"a": 1, "b": "x"}"#, r#"{"a": 1, "b": "x"}"#, &[], 1.0);
        check(r#"{"b": " X ", "a": "1.005", "c": 3}"#, r#"{"a": 1, "b": "x"}"#, &[], 1.0);
        check(r#"{"a": 2, "b": "x"}"#, r#"{"a": 1, "b": "x"}"#, &[], 0.5);
        check(r#"{"a": 2, "b": "x"}"#, r#"{"a": 1, "b": "x"}"#, &["b"], 1.0);
        check(r#"{"a": 1}"#, r#"{"a": 1, "b": null}"#, &[], 1.0);
        check(r#"{"a": 1}"#, r#"{"a": 1, "b": false}"#, &[], 0.5);
        check(r#"{"a": {"b": [1, 2]}}"#, r#"{"a": {"b": [1, 3]}}"#, &["a.b.0", "a.b.1"], 0.5);
        check(r#"{"a": [1, 2]}"#, r#"{"a": [2, 1]}"#, &[], 0.0);
        check(r#"{"a": {"x": 1, "y": 2}}"#, r#"{"a": {"y": 2, "x": 1}}"#, &[], 1.0);
        check(r#"{"a": {"x": 1, "y": 2}}"#, r#"{"a": {"x": 1}}"#, &[], 0.0);
        check(r#"[1]"#, r#"{"a": 1}"#, &[], 0.0);
        check(r#"[{"a": 1}]"#, r#"{"a": 1}"#, &[], 1.0);
        check("Draft: {\"a\": 2}\nFinal: {\"a\": 1}", r#"{"a": 1}"#, &[], 1.0);
        check("{a: 1}", r#"{"a": 1}"#, &[], 1.0);
        check("{\"a\": \"e\u{301}\"}", "{\"a\": \"\u{e9}\"}", &[], 1.0);
        check(r#"{"a": true}"#, r#"{"a": "true"}"#, &[], 0.0);
        check("Here it is:\n```json\n{\"a\": 1}\n```", r#"{"a": 1}"#, &[], 1.0);
        check(r#"{"a": 1}"#, "{}", &[], 0.0);
    }

    #[test]
    fn text_without_json_is_nothing() {
        assert_eq!(parse_json_answer("no idea"), None);
        assert_eq!(parse_json_answer("{\"a\": 1, \"b\": "), None);
        assert_eq!(parse_json_answer("17").map(|found| found.value), Some(json!(17)));
    }
}
