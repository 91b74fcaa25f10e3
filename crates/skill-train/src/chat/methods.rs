//! Methods of Python's texts and dictionaries that chat templates call.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, Value};

/// Calls a method that the engine does not know.
pub(super) fn call(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    match (value.kind(), value.as_str()) {
        (ValueKind::String, Some(text)) => of_text(text, method, args),
        (ValueKind::Map, _) => of_map(value, method, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn of_text(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    Ok(match method {
        "strip" => Value::from(text.trim_matches(stripped(args)?)),
        "lstrip" => Value::from(text.trim_start_matches(stripped(args)?)),
        "rstrip" => Value::from(text.trim_end_matches(stripped(args)?)),
        "upper" => none(args, || text.to_uppercase())?,
        "lower" => none(args, || text.to_lowercase())?,
        "capitalize" => none(args, || capitalized(text))?,
        "title" => {
            none(args, || text.split_inclusive(|c: char| !c.is_alphabetic()).map(capitalized).collect())?
        }
        "startswith" => Value::from(affixes(args)?.iter().any(|prefix| text.starts_with(prefix))),
        "endswith" => Value::from(affixes(args)?.iter().any(|suffix| text.ends_with(suffix))),
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "replace" => {
            let (old, new, n): (&str, &str, Option<i64>) = from_args(args)?;
            let n = n.and_then(|n| usize::try_from(n).ok());
            Value::from(n.map_or_else(|| text.replace(old, new), |n| text.replacen(old, new, n)))
        }
        "split" => split(text, args)?,
        "splitlines" => Value::from(text.lines().map(Value::from).collect::<Vec<_>>()),
        "count" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.matches(part).count())
        }
        "find" => {
            let (part,): (&str,) = from_args(args)?;
            let before = text.split_once(part).map(|(before, _)| before.chars().count());
            before.map_or_else(|| Value::from(-1), Value::from)
        }
        "isdigit" => none_bool(args, || !text.is_empty() && text.chars().all(char::is_numeric))?,
        "join" => {
            let (parts,): (&Value,) = from_args(args)?;
            let parts: Vec<String> = parts.try_iter()?.map(|part| part.to_string()).collect();
            Value::from(parts.join(text))
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}

fn of_map(value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let keys = || value.try_iter().map(|keys| keys.collect::<Vec<Value>>());
    match method {
        "get" => {
            let (key, default): (&Value, Option<Value>) = from_args(args)?;
            let found = value.get_item(key)?;
            Ok(if found.is_undefined() { default.unwrap_or_else(|| Value::from(())) } else { found })
        }
        "keys" => Ok(Value::from(keys()?)),
        "values" => {
            keys()?.iter().map(|key| value.get_item(key)).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        "items" => {
            let pair = |key: Value| value.get_item(&key).map(|item| Value::from(vec![key, item]));
            keys()?.into_iter().map(pair).collect::<Result<Vec<_>, _>>().map(Value::from)
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// The characters that `strip` and its like remove: those of the argument, or white space.
fn stripped(args: &[Value]) -> Result<impl Fn(char) -> bool + Copy, Error> {
    let (characters,): (Option<&str>,) = from_args(args)?;
    Ok(move |c: char| characters.map_or_else(|| c.is_whitespace(), |characters| characters.contains(c)))
}

/// One prefix or suffix, or several.
fn affixes(args: &[Value]) -> Result<Vec<String>, Error> {
    let (affixes,): (&Value,) = from_args(args)?;
    match affixes.as_str() {
        Some(one) => Ok(vec![one.to_owned()]),
        None => Ok(affixes.try_iter()?.map(|affix| affix.to_string()).collect()),
    }
}

/// `split(separator, maxsplit)`; without a separator it splits at runs of white space.
fn split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
    let most = most.and_then(|most| usize::try_from(most).ok());
    let parts: Vec<Value> = match (separator, most) {
        (Some(""), _) => return Err(Error::new(ErrorKind::InvalidOperation, "empty separator")),
        (Some(separator), None) => text.split(separator).map(Value::from).collect(),
        (Some(separator), Some(most)) => {
            text.splitn(most.saturating_add(1), separator).map(Value::from).collect()
        }
        (None, None) => text.split_whitespace().map(Value::from).collect(),
        (None, Some(most)) => {
            let mut parts = Vec::new();
            let mut rest = text.trim_start();
            while parts.len() < most
                && let Some((part, after)) = rest.split_once(char::is_whitespace)
            {
                parts.push(Value::from(part));
                rest = after.trim_start();
            }
            if !rest.is_empty() {
                parts.push(Value::from(rest));
            }
            parts
        }
    };
    Ok(Value::from(parts))
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + &characters.as_str().to_lowercase()
}

fn none(args: &[Value], text: impl Fn() -> String) -> Result<Value, Error> {
    let () = from_args(args)?;
    Ok(Value::from(text()))
}

fn none_bool(args: &[Value], holds: impl Fn() -> bool) -> Result<Value, Error> {
    let () = from_args(args)?;
    Ok(Value::from(holds()))
}
