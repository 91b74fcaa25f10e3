//! Members of JSON objects that other programs and people wrote, each read as one type.
//!
//! An absent member and `null` are `None`. A value of another type is an error that names the key, and never `None`: what
//! is read by a default would hide it.
//!
//! ```
//! use serde_json::json;
//! use skill_core::member;
//!
//! let row = json!({"hard": 1, "soft": null, "id": 7});
//! let fields = row.as_object().unwrap();
//! assert_eq!(member::number(fields, "hard"), Ok(Some(1.0)));
//! assert_eq!(member::number(fields, "soft"), Ok(None));
//! let error = member::text(fields, "id").unwrap_err();
//! assert_eq!(error.to_string(), "`id` is a number; expected a text");
//! ```

use serde_json::{Map, Value};

/// A member that is not of the type that it should have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {found}; expected {expected}")]
pub struct WrongType {
    /// The key.
    pub key: String,
    /// The value that is there.
    pub found: &'static str,
    /// The type that it should have.
    pub expected: &'static str,
}

/// A text.
///
/// # Errors
///
/// A value of another type.
pub fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, WrongType> {
    read(fields, key, "a text", Value::as_str)
}

/// `true` or `false`.
///
/// # Errors
///
/// A value of another type.
pub fn flag(fields: &Map<String, Value>, key: &str) -> Result<Option<bool>, WrongType> {
    read(fields, key, "true or false", Value::as_bool)
}

/// A number.
///
/// # Errors
///
/// A value of another type.
pub fn number(fields: &Map<String, Value>, key: &str) -> Result<Option<f64>, WrongType> {
    read(fields, key, "a number", Value::as_f64)
}

/// A whole number from 0 on.
///
/// # Errors
///
/// A value of another type, a fraction and a negative number.
pub fn count(fields: &Map<String, Value>, key: &str) -> Result<Option<u64>, WrongType> {
    read(fields, key, "a whole number from 0 on", Value::as_u64)
}

/// A list.
///
/// # Errors
///
/// A value of another type.
pub fn list<'a>(fields: &'a Map<String, Value>, key: &str) -> Result<Option<&'a [Value]>, WrongType> {
    read(fields, key, "a list", |value| value.as_array().map(Vec::as_slice))
}

/// An object.
///
/// # Errors
///
/// A value of another type.
pub fn object<'a>(
    fields: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Map<String, Value>>, WrongType> {
    read(fields, key, "an object", Value::as_object)
}

/// The kind of a value, as a person would say it.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn read<'a, T>(
    fields: &'a Map<String, Value>,
    key: &str,
    expected: &'static str,
    of: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, WrongType> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => of(value).map(Some).ok_or_else(|| WrongType {
            key: key.to_owned(),
            found: kind_of(value),
            expected,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// One object with a value of each type under its name.
    fn fields() -> Map<String, Value> {
        let all = json!({
            "text": "1", "flag": true, "number": 1.5, "count": 1, "list": [], "object": {}, "null": null,
        });
        all.as_object().unwrap().clone()
    }

    #[test]
    fn a_value_of_another_type_is_an_error_and_never_absent() {
        #[track_caller]
        fn check<T: std::fmt::Debug>(read: impl Fn(&str) -> Result<Option<T>, WrongType>, of: &[&str]) {
            for name in ["text", "flag", "number", "count", "list", "object"] {
                match read(name) {
                    Ok(Some(_)) => assert!(of.contains(&name), "{name}"),
                    Err(error) => assert!(!of.contains(&name) && error.key == name, "{error}"),
                    Ok(None) => panic!("{name}"),
                }
            }
            assert!(matches!((read("null"), read("absent")), (Ok(None), Ok(None))));
        }
        let fields = fields();
        check(|name| text(&fields, name), &["text"]);
        check(|name| flag(&fields, name), &["flag"]);
        check(|name| number(&fields, name), &["number", "count"]);
        check(|name| count(&fields, name), &["count"]);
        check(|name| list(&fields, name), &["list"]);
        check(|name| object(&fields, name), &["object"]);
    }
}
