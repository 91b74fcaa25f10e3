//! Reading the JSON of a request: every complaint names the field by its path.

use super::problem::Problem;
use serde_json::{Map, Value};
use skill_core::member::kind_of;
use skill_llm::{ContentPart, ImageSource};

/// A value, and where it is in the request.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Field<'a> {
    pub(super) fn new(path: impl Into<String>, value: &'a Value) -> Self {
        Self { path: path.into(), value }
    }

    pub(super) fn problem(&self, message: impl AsRef<str>) -> Problem {
        Problem::field(self.path.clone(), message)
    }

    fn is_not(&self, expected: &str) -> Problem {
        self.problem(format!("is {}; expected {expected}", kind_of(self.value)))
    }

    pub(super) fn text(&self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.is_not("a string"))
    }

    pub(super) fn flag(&self) -> Result<bool, Problem> {
        self.value.as_bool().ok_or_else(|| self.is_not("true or false"))
    }

    pub(super) fn object(&self) -> Result<Object<'a>, Problem> {
        let fields = self.value.as_object().ok_or_else(|| self.is_not("an object"))?;
        Ok(Object { path: self.path.clone(), fields })
    }

    pub(super) fn list(&self) -> Result<Vec<Field<'a>>, Problem> {
        let list = self.value.as_array().ok_or_else(|| self.is_not("a list"))?;
        let named = |(idx, value)| Field::new(format!("{}[{idx}]", self.path), value);
        Ok(list.iter().enumerate().map(named).collect())
    }

    /// A finite number within bounds.
    pub(super) fn number(&self, at_least: f64, at_most: f64) -> Result<f64, Problem> {
        let number = self.value.as_f64().ok_or_else(|| self.is_not("a number"))?;
        if (at_least..=at_most).contains(&number) {
            Ok(number)
        } else {
            Err(self.problem(format!("is {number}; expected a number from {at_least} to {at_most}")))
        }
    }

    pub(super) fn whole(&self) -> Result<u64, Problem> {
        self.value.as_u64().ok_or_else(|| self.is_not("a whole number from 0 on"))
    }

    /// How many tokens a reply may have.
    pub(super) fn max_tokens(&self) -> Result<u32, Problem> {
        match self.whole().map(u32::try_from)? {
            Ok(0) | Err(_) => {
                Err(self.problem(format!("is {}; expected a number from 1 to {}", self.value, u32::MAX)))
            }
            Ok(max_tokens) => Ok(max_tokens),
        }
    }

    /// One text or a list of them.
    pub(super) fn texts(&self) -> Result<Vec<String>, Problem> {
        match self.value {
            Value::String(text) => Ok(vec![text.clone()]),
            Value::Array(_) => {
                self.list()?.iter().map(|text| text.text().map(str::to_owned)).collect::<Result<_, _>>()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                Err(self.is_not("a string or a list of strings"))
            }
        }
    }

    /// The texts of a content that can hold nothing else: one, or parts of these types.
    pub(super) fn part_texts(&self, kinds: &[&str]) -> Result<Vec<&'a str>, Problem> {
        if let Some(text) = self.value.as_str() {
            return Ok(vec![text]);
        }
        let text = |part: &Field<'a>| {
            let fields = part.object()?;
            let kind = fields.kind()?;
            if !kinds.contains(&kind) {
                return Err(part.problem(format!("is of the type {kind:?}; only text can stand here")));
            }
            // A refusal is text too, in a field of its own name.
            fields.need(if kind == "refusal" { kind } else { "text" })?.text()
        };
        self.list()?.iter().map(text).collect()
    }

    /// An image by its address: on the web, or in the address itself.
    pub(super) fn image_url(&self) -> Result<ImageSource, Problem> {
        let url = self.text()?;
        if url.starts_with("https://") || url.starts_with("http://") {
            return Ok(ImageSource::Url(url.to_owned()));
        }
        let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match data {
            Some((media_type, data)) => self.image_bytes(media_type, data),
            None => Err(self.problem("is neither an http(s) address nor a `data:` URL in base64")),
        }
    }

    /// An image by its bytes; what the provider would refuse is the agent's to hear, not the end of the rollout.
    pub(super) fn image_bytes(&self, media_type: &str, data: &str) -> Result<ImageSource, Problem> {
        if !media_type.starts_with("image/") {
            return Err(self.problem(format!("has the media type {media_type:?}; expected an image")));
        }
        let digits = data.trim_end_matches('=');
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/';
        if data.is_empty() || !data.len().is_multiple_of(4) || data.len() - digits.len() > 2 {
            return Err(self.problem("is not whole base64"));
        }
        if !digits.bytes().all(is_digit) {
            return Err(self.problem("is not standard base64"));
        }
        Ok(ImageSource::Base64 { media_type: media_type.to_owned(), data: data.to_owned() })
    }
}

/// An object, and where it is in the request.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// The body of a request.
    pub(super) fn root(fields: &'a Map<String, Value>) -> Self {
        Self { path: String::new(), fields }
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// A field that is there; `null` counts as missing, as clients write it for what nobody has set.
    pub(super) fn get(&self, name: &str) -> Option<Field<'a>> {
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        Some(Field::new(self.path_of(name), value))
    }

    pub(super) fn need(&self, name: &str) -> Result<Field<'a>, Problem> {
        self.get(name).ok_or_else(|| Problem::field(self.path_of(name), "is missing"))
    }

    /// What a field holds, if it is there.
    pub(super) fn read<T>(
        &self,
        name: &str,
        read: impl FnOnce(&Field<'a>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|field| read(&field)).transpose()
    }

    /// The `type` of a part, a block or a tool.
    pub(super) fn kind(&self) -> Result<&'a str, Problem> {
        self.need("type")?.text()
    }

    /// Refuses fields that would change what is asked for and cannot be honoured, unless they hold `neutral`.
    pub(super) fn refuse(&self, names: &[(&str, Value)]) -> Result<(), Problem> {
        for (name, neutral) in names {
            if let Some(field) = self.get(name)
                && !same(field.value, neutral)
            {
                return Err(field.problem("cannot be honoured by this endpoint; leave it out"));
            }
        }
        Ok(())
    }

    /// Says in a trace which fields have no effect here.
    pub(super) fn trace_ignored(&self, known: &[&str]) {
        let ignored: Vec<&str> =
            self.fields.keys().map(String::as_str).filter(|name| !known.contains(name)).collect();
        if !ignored.is_empty() {
            tracing::debug!(fields = ?ignored, "fields of an agent's request have no effect");
        }
    }
}

/// Whether two values are the same, where 0 and 0.0 are, and nothing in a list is as good as nothing.
fn same(value: &Value, neutral: &Value) -> bool {
    match (value, neutral) {
        (Value::Number(value), Value::Number(neutral)) => value.as_f64() == neutral.as_f64(),
        (Value::Array(list), Value::Null) => list.is_empty(),
        (Value::Object(fields), Value::Null) => fields.is_empty(),
        (value, neutral) => value == neutral,
    }
}

/// Text as a part of a message.
pub(super) fn text_part(text: &str) -> ContentPart {
    ContentPart::Text(text.into())
}
