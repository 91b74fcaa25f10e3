//! JSON as Python writes it, and objects that keep the order of their keys in a template.

use minijinja::value::{Enumerator, Object};
use std::fmt::Write as _;
use std::sync::Arc;

/// A value for a template; objects keep the order of their keys.
pub(super) fn ordered(value: &serde_json::Value) -> minijinja::Value {
    match value {
        serde_json::Value::Object(map) => minijinja::Value::from_object(Ordered(Arc::new(map.clone()))),
        serde_json::Value::Array(values) => {
            minijinja::Value::from(values.iter().map(ordered).collect::<Vec<minijinja::Value>>())
        }
        serde_json::Value::Null => minijinja::Value::from(()),
        plain => minijinja::Value::from(minijinja::value::Serde(plain)),
    }
}

/// An object of JSON.
#[derive(Debug)]
struct Ordered(Arc<serde_json::Map<String, serde_json::Value>>);

impl Object for Ordered {
    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        self.0.get(key.as_str()?).map(ordered)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.keys().map(minijinja::Value::from).collect())
    }
}

/// Arguments of Python's `json.dumps`; the default is that of chat templates.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Spaces for each level; `None` writes one line.
    pub(super) indent: Option<usize>,
    /// Separators of items, and of key and value.
    pub(super) separators: Option<[String; 2]>,
    /// Characters beyond ASCII are escaped.
    pub(super) ascii: bool,
    /// Keys in ascending order.
    pub(super) sorted: bool,
}

impl Layout {
    pub(super) fn dump(&self, value: &serde_json::Value) -> String {
        let mut written = String::new();
        self.write(value, 0, &mut written);
        written
    }

    fn write(&self, value: &serde_json::Value, depth: usize, out: &mut String) {
        match value {
            serde_json::Value::String(text) => self.write_text(text, out),
            serde_json::Value::Number(number) => out.push_str(&python_number(number)),
            serde_json::Value::Null | serde_json::Value::Bool(_) => out.push_str(&value.to_string()),
            serde_json::Value::Array(values) => {
                let items = values.iter().map(|value| (None, value)).collect();
                self.write_items(items, ['[', ']'], depth, out);
            }
            serde_json::Value::Object(map) => {
                let mut items: Vec<_> = map.iter().map(|(key, value)| (Some(key.as_str()), value)).collect();
                if self.sorted {
                    items.sort_by_key(|(key, _)| *key);
                }
                self.write_items(items, ['{', '}'], depth, out);
            }
        }
    }

    fn write_items(
        &self,
        items: Vec<(Option<&str>, &serde_json::Value)>,
        [open, close]: [char; 2],
        depth: usize,
        out: &mut String,
    ) {
        out.push(open);
        let empty = items.is_empty();
        let [between, colon] = match (&self.separators, self.indent) {
            (Some([between, colon]), _) => [between.as_str(), colon.as_str()],
            (None, None) => [", ", ": "],
            (None, Some(_)) => [",", ": "],
        };
        for (place, (key, value)) in items.into_iter().enumerate() {
            if place > 0 {
                out.push_str(between);
            }
            self.write_break(depth + 1, out);
            if let Some(key) = key {
                self.write_text(key, out);
                out.push_str(colon);
            }
            self.write(value, depth + 1, out);
        }
        if !empty {
            self.write_break(depth, out);
        }
        out.push(close);
    }

    fn write_break(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn write_text(&self, text: &str, out: &mut String) {
        let quoted = serde_json::Value::String(text.to_owned()).to_string();
        for character in quoted.chars() {
            if self.ascii && !character.is_ascii() {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing into a text cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            } else if character == '\u{7f}' && self.ascii {
                out.push_str("\\u007f");
            } else {
                out.push(character);
            }
        }
    }
}

/// A number as Python's `repr` writes it: exponents have a sign and two digits.
fn python_number(number: &serde_json::Number) -> String {
    let whole = number.is_i64() || number.is_u64();
    let Some(float) = number.as_f64().filter(|_| !whole) else { return number.to_string() };
    let written = format!("{float:?}");
    let Some((digits, exponent)) = written.split_once('e') else { return written };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}
