//! Values: from TOML to checked JSON, and from JSON to TOML text.

use super::error::ProblemKind;
use super::key::ValueType;
use super::secret::{self, UrlFault};
use super::suggest;
use serde_json::{Map, Number, Value};
use skill_core::SplitRatio;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

/// Longer values are cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// Checks a value and turns it into JSON; `key` stands in the problem.
pub(super) fn check(key: &str, value_type: ValueType, value: &DeValue<'_>) -> Result<Value, ProblemKind> {
    let wrong = || ProblemKind::Value {
        key: key.to_owned(),
        expected: value_type.expectation(),
        found: shown(value_type, value),
        nearest: None,
    };
    match value_type {
        ValueType::Text => {
            text(value).filter(|text| !text.trim().is_empty()).map(Value::from).ok_or_else(wrong)
        }
        ValueType::Path(_) => text(value)
            .filter(|text| !text.trim().is_empty() && !text.contains('\0'))
            .map(Value::from)
            .ok_or_else(wrong),
        ValueType::Variable => variable(key, text(value).ok_or_else(wrong)?),
        ValueType::Url => {
            url(key, text(value).ok_or_else(wrong)?).map_err(|problem| problem.unwrap_or_else(wrong))
        }
        ValueType::Integer { min, max } => integer(value)
            .and_then(|number| u64::try_from(number).ok())
            .filter(|number| (min..=max).contains(number))
            .map(Value::from)
            .ok_or_else(wrong),
        ValueType::Number { min, max } => number(value)
            .filter(|number| number.is_finite() && (min..=max).contains(number))
            .and_then(Number::from_f64)
            .map(Value::from)
            .ok_or_else(wrong),
        ValueType::Flag => value.as_bool().map(Value::from).ok_or_else(wrong),
        ValueType::Choice(words) => choice(words, value).ok_or_else(|| ProblemKind::Value {
            key: key.to_owned(),
            expected: value_type.expectation(),
            found: shown(value_type, value),
            nearest: text(value)
                .and_then(|text| suggest::nearest(text, words.iter().copied()))
                .map(str::to_owned),
        }),
        ValueType::Texts => match texts(value) {
            Some(Value::Array(texts))
                if texts.iter().filter_map(Value::as_str).any(secret::looks_like_key) =>
            {
                Err(secret_field(key.to_owned()))
            }
            texts => texts.ok_or_else(wrong),
        },
        ValueType::Rules => rules(key, value, wrong),
        ValueType::Ratio => ratio(value).ok_or_else(wrong),
        ValueType::Headers => headers(key, value.as_table().ok_or_else(wrong)?),
        ValueType::Body => body(key, value.as_table().ok_or_else(wrong)?).map(Value::from),
    }
}

fn text<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    value.as_str()
}

/// The number, where it is one that TOML allows: 64 bits with a sign.
fn integer(value: &DeValue<'_>) -> Option<i64> {
    value.as_integer().and_then(to_i64)
}

fn to_i64(integer: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// An integer is a number too.
fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        // By way of the text, as not every integer is a floating-point number.
        DeValue::Integer(_) => integer(value).and_then(|number| number.to_string().parse().ok()),
        DeValue::Float(number) => number.as_str().parse().ok().map(|number: f64| number + 0.0),
        DeValue::String(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)
        | DeValue::Table(_) => None,
    }
}

fn variable(key: &str, name: &str) -> Result<Value, ProblemKind> {
    if name.is_empty() || secret::is_variable_name(name) {
        return Ok(Value::from(name));
    }
    Err(ProblemKind::Secret {
        key: key.to_owned(),
        what: "takes the name of an environment variable, and this is not one",
    })
}

/// `Err(None)` is an address that is merely wrong.
fn url(key: &str, url: &str) -> Result<Value, Option<ProblemKind>> {
    match secret::check_url(url) {
        Ok(()) => Ok(Value::from(url)),
        Err(UrlFault::Malformed) => Err(None),
        Err(UrlFault::Credentials) => Err(Some(ProblemKind::Secret {
            key: key.to_owned(),
            what: "has credentials in the address, and this file is copied into the run directory",
        })),
    }
}

fn choice(words: &[&str], value: &DeValue<'_>) -> Option<Value> {
    text(value).filter(|text| words.contains(text)).map(Value::from)
}

fn ratio(value: &DeValue<'_>) -> Option<Value> {
    if text(value) == Some(SplitRatio::AUTO) {
        return Some(SplitRatio::Auto.into());
    }
    let shares: Vec<u32> = match text(value) {
        // As SkillOpt writes it.
        Some(text) => text.split(':').map(|share| share.trim().parse().ok()).collect::<Option<_>>()?,
        None => value
            .as_array()?
            .iter()
            .map(|share| integer(share.get_ref()).and_then(|share| u32::try_from(share).ok()))
            .collect::<Option<_>>()?,
    };
    (shares.len() == 3 && shares.iter().any(|share| *share > 0)).then(|| Value::from(shares))
}

fn texts(value: &DeValue<'_>) -> Option<Value> {
    let texts: Vec<&str> = value
        .as_array()?
        .iter()
        .map(|value| text(value.get_ref()).filter(|text| !text.trim().is_empty()))
        .collect::<Option<_>>()?;
    (!texts.is_empty()).then(|| Value::from(texts))
}

/// A list of tables; what may stand in them is known to whoever applies them.
fn rules(key: &str, value: &DeValue<'_>, wrong: impl Fn() -> ProblemKind) -> Result<Value, ProblemKind> {
    let tables = value.as_array().filter(|values| !values.is_empty()).ok_or_else(&wrong)?;
    let rules = tables.iter().map(|table| {
        let table = table.get_ref().as_table().ok_or_else(&wrong)?;
        let rule = Value::from(body(key, table)?);
        match skill_envs::score::Rule::parse(&rule) {
            Ok(_) => Ok(rule),
            Err(error) => Err(ProblemKind::Conflict { message: format!("`{key}`: {error}") }),
        }
    });
    rules.collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn headers(key: &str, table: &DeTable<'_>) -> Result<Value, ProblemKind> {
    let mut headers = Map::new();
    for (name, value) in table {
        let (name, path) = (name.get_ref(), format!("{key}.{}", name.get_ref()));
        if secret::is_secret_header(name) || text(value.get_ref()).is_some_and(secret::looks_like_key) {
            return Err(secret_field(path));
        }
        let is_token = !name.is_empty()
            && name
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter));
        let content = text(value.get_ref()).filter(|text| !text.chars().any(char::is_control));
        let (true, Some(content)) = (is_token, content) else {
            return Err(ProblemKind::Value {
                key: path,
                expected: "the name of a header and a text of one line".to_owned(),
                found: shown(ValueType::Headers, value.get_ref()),
                nearest: None,
            });
        };
        headers.insert(name.to_string(), Value::from(content));
    }
    Ok(Value::Object(headers))
}

fn secret_field(key: String) -> ProblemKind {
    ProblemKind::Secret { key, what: "looks like a secret, and this file is copied into the run directory" }
}

fn body(key: &str, table: &DeTable<'_>) -> Result<Map<String, Value>, ProblemKind> {
    let mut fields = Map::new();
    for (name, value) in table {
        let path = format!("{key}.{}", name.get_ref());
        if secret::is_secret_name(name.get_ref()) {
            return Err(secret_field(path));
        }
        fields.insert(name.get_ref().to_string(), free(&path, value.get_ref())?);
    }
    Ok(fields)
}

/// Any TOML value as JSON; dates become texts.
fn free(key: &str, value: &DeValue<'_>) -> Result<Value, ProblemKind> {
    let wrong = |expected: &str| ProblemKind::Value {
        key: key.to_owned(),
        expected: expected.to_owned(),
        found: shown(ValueType::Body, value),
        nearest: None,
    };
    match value {
        DeValue::String(text) if secret::looks_like_key(text) => Err(secret_field(key.to_owned())),
        DeValue::String(text) => Ok(Value::from(text.as_ref())),
        DeValue::Integer(number) => {
            to_i64(number).map(Value::from).ok_or_else(|| wrong("a number of at most 64 bits"))
        }
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::from)
            .ok_or_else(|| wrong("a finite number")),
        DeValue::Boolean(flag) => Ok(Value::from(*flag)),
        DeValue::Datetime(datetime) => Ok(Value::from(datetime.to_string())),
        DeValue::Array(values) => array(key, values),
        DeValue::Table(table) => body(key, table).map(Value::from),
    }
}

fn array(key: &str, values: &DeArray<'_>) -> Result<Value, ProblemKind> {
    values.iter().map(|value| free(key, value.get_ref())).collect::<Result<Vec<_>, _>>().map(Value::from)
}

/// A value as it may stand in a message: short, and never one that may be a secret.
fn shown(value_type: ValueType, value: &DeValue<'_>) -> String {
    let hidden =
        matches!(value_type, ValueType::Variable | ValueType::Url | ValueType::Headers | ValueType::Body);
    let text = match value {
        DeValue::String(text) if hidden || secret::looks_like_key(text) => return "this text".to_owned(),
        DeValue::String(text) => quoted(text),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(datetime) => datetime.to_string(),
        DeValue::Array(values) if !hidden => {
            let values: Vec<_> = values.iter().map(|value| shown(value_type, value.get_ref())).collect();
            format!("[{}]", values.join(", "))
        }
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    };
    if text.chars().count() > MAX_SHOWN_CHARS {
        return format!("{}...", text.chars().take(MAX_SHOWN_CHARS).collect::<String>());
    }
    text
}

/// A JSON value as TOML on one line.
pub(crate) fn to_toml(value: &Value) -> String {
    match value {
        // TOML has no null; a null never comes out of `check`.
        Value::Null => "\"\"".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(values) => {
            format!("[{}]", values.iter().map(to_toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| format!("{} = {}", toml_key(name), to_toml(value)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}

fn toml_key(name: &str) -> String {
    let is_bare = !name.is_empty()
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'));
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// A TOML basic string: JSON's escapes are TOML's too, but for the one control character that JSON lets stand.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}
