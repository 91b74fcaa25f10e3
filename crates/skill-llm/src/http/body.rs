//! Bodies of requests, written straight from the request.
//!
//! Prompts are long, and thousands of calls may be in flight, so no tree of values with copies of them is made first.

use crate::chat::{ChatRequest, ContentPart, ImageSource, Sampling};
use crate::error::{LlmError, wrong};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value};

/// What a body has besides its texts, at most, for the size of its buffer; a longer one grows.
const BYTES_AROUND: usize = 256;

/// The value of a field; `C` is whatever a dialect writes its conversation with.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Field<'a, C> {
    Text(&'a str),
    Content(C),
    Float(f64),
    Whole(u64),
    Json(Value),
}

/// The address of an image; bytes are an address of their own.
pub(crate) struct ImageUrl<'a>(pub(crate) &'a ImageSource);

impl Serialize for ImageUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ImageSource::Url(url) => serializer.serialize_str(url),
            ImageSource::Base64 { media_type, data } => {
                serializer.collect_str(&format_args!("data:{media_type};base64,{data}"))
            }
        }
    }
}

/// The fields of a body in order; a configured field takes the place of one with its name, and where both are objects
/// they become one.
pub(crate) struct Body<'a, C> {
    fields: Vec<(&'static str, Field<'a, C>)>,
    extra: &'a Map<String, Value>,
}

impl<'a, C: Serialize> Body<'a, C> {
    pub(crate) fn new(extra: &'a Map<String, Value>) -> Self {
        Self { fields: Vec::new(), extra }
    }

    pub(crate) fn push(&mut self, name: &'static str, field: Field<'a, C>) {
        self.fields.push((name, field));
    }

    /// Adds a value, where there is one.
    pub(crate) fn json(&mut self, name: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.push(name, Field::Json(value));
        }
    }

    /// Adds a number, where there is one.
    pub(crate) fn float(&mut self, name: &'static str, number: Option<f64>) -> Result<(), LlmError> {
        if let Some(number) = number {
            if !number.is_finite() {
                return Err(wrong(format!("`{name}` is {number}, not a number that can be sent")));
            }
            self.push(name, Field::Float(number));
        }
        Ok(())
    }

    /// The bytes of the body.
    pub(crate) fn bytes(&self, request: &ChatRequest) -> Result<Vec<u8>, LlmError> {
        self.bytes_of_about(expected_bytes(request))
    }

    /// The bytes of a body that has about this many.
    pub(crate) fn bytes_of_about(&self, n_bytes: usize) -> Result<Vec<u8>, LlmError> {
        let mut bytes = Vec::with_capacity(n_bytes);
        serde_json::to_writer(&mut bytes, self)
            .map_err(|error| wrong(format!("the request cannot be written as JSON: {error}")))?;
        Ok(bytes)
    }
}

impl<C: Serialize> Serialize for Body<'_, C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, field) in &self.fields {
            match (self.extra.get(*name), field) {
                (Some(extra), Field::Json(value)) => {
                    map.serialize_entry(name, &merged_value(value, extra))?;
                }
                (Some(extra), _) => map.serialize_entry(name, extra)?,
                (None, field) => map.serialize_entry(name, field)?,
            }
        }
        for (name, value) in self.extra {
            if self.fields.iter().all(|(own, _)| own != name) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// What is configured counts; of two objects, member by member.
fn merged_value(own: &Value, extra: &Value) -> Value {
    match (own, extra) {
        (Value::Object(own), Value::Object(extra)) => {
            let mut merged = own.clone();
            for (name, value) in extra {
                let value = own.get(name).map_or_else(|| value.clone(), |own| merged_value(own, value));
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        _ => extra.clone(),
    }
}

/// About how long the body will be; escapes make it longer.
fn expected_bytes(request: &ChatRequest) -> usize {
    let parts = request.messages.iter().flat_map(|message| &message.content);
    let texts = parts.map(|part| match part {
        ContentPart::Text(text) => text.len() + text.len() / 16,
        ContentPart::Image(ImageSource::Url(url)) => url.len(),
        ContentPart::Image(ImageSource::Base64 { data, .. }) => data.len(),
    });
    texts.sum::<usize>() + BYTES_AROUND * (1 + request.messages.len() + request.tools.len())
}

/// What the request asks for, and what the configuration asks for where the request is silent.
pub(crate) fn merged(request: Sampling, defaults: Sampling) -> Sampling {
    Sampling {
        temperature: request.temperature.or(defaults.temperature),
        top_p: request.top_p.or(defaults.top_p),
        max_tokens: request.max_tokens.or(defaults.max_tokens),
        seed: request.seed.or(defaults.seed),
        logprobs: request.logprobs.or(defaults.logprobs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_become_one_and_what_is_configured_counts() {
        let own = json!({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]});
        let extra = json!({"b": {"d": 4, "f": 5}, "e": [2], "g": null});
        let merged = merged_value(&own, &extra);
        assert_eq!(merged, json!({"a": 1, "b": {"c": 2, "d": 4, "f": 5}, "e": [2], "g": null}));
    }
}
