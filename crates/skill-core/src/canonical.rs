//! JSON with one spelling per value, so that equal values have equal hashes.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Writes a value without white space and with the keys of every object sorted by their bytes.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

/// The SHA-256 of the canonical JSON of a value, as 64 hexadecimal digits.
pub fn canonical_hash(value: &Value) -> String {
    hex_sha256(canonical_json(value).as_bytes())
}

/// The [`canonical_hash`] of an array with these elements, of which one at a time is in memory.
pub fn canonical_list_hash(elements: impl IntoIterator<Item = Value>) -> String {
    let mut digest = Sha256::new();
    digest.update("[");
    for (element_idx, element) in elements.into_iter().enumerate() {
        if element_idx > 0 {
            digest.update(",");
        }
        digest.update(canonical_json(&element));
    }
    digest.update("]");
    hexadecimal(&digest.finalize())
}

/// The SHA-256 of some bytes, as 64 hexadecimal digits.
pub fn hex_sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// A SHA-256 of bytes that come one part after the other.
#[derive(Debug, Clone, Default)]
pub struct RunningSha256 {
    digest: Sha256,
    n_bytes: u64,
}

impl RunningSha256 {
    /// Adds a part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.n_bytes += bytes.len() as u64;
    }

    /// Bytes so far.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The hash of all bytes so far, as [`hex_sha256`] gives it.
    pub fn hex(&self) -> String {
        hexadecimal(&self.digest.clone().finalize())
    }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            write_list(entries, ('{', '}'), out, |(key, member), out| {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_value(member, out);
            });
        }
        Value::Array(elements) => write_list(elements, ('[', ']'), out, write_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

fn write_list<T>(
    elements: impl IntoIterator<Item = T>,
    (open, close): (char, char),
    out: &mut String,
    write: impl Fn(T, &mut String),
) {
    out.push(open);
    for (element_idx, element) in elements.into_iter().enumerate() {
        if element_idx > 0 {
            out.push(',');
        }
        write(element, out);
    }
    out.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter() {
        let value: Value =
            serde_json::from_str(r#"{"b": [1, 2.5, {"z": null, "a": "q\"\n"}], "a": true}"#).unwrap();
        assert_eq!(canonical_json(&value), r#"{"a":true,"b":[1,2.5,{"a":"q\"\n","z":null}]}"#);
        assert_eq!(canonical_hash(&json!({"a": 1, "b": 2})), canonical_hash(&json!({"b": 2, "a": 1})));
        assert_ne!(canonical_hash(&json!([1, 2])), canonical_hash(&json!([2, 1])));
    }

    #[test]
    fn a_list_is_hashed_as_the_array_is() {
        for list in [json!([]), json!([1]), json!([{"b": "x,y", "a": null}, [2.5], "z"])] {
            let elements = list.as_array().unwrap().iter().cloned();
            assert_eq!(canonical_list_hash(elements), canonical_hash(&list));
        }
    }

    #[test]
    fn the_hash_is_sha_256() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex_sha256(b""), empty);
    }
}
