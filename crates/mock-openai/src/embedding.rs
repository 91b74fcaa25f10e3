//! Vectors of texts: words are hashed to dimensions, so that texts with words in common are near each other.

use crate::dice::hash;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

/// The length of the vectors of a request that names none.
pub const DEFAULT_DIMENSIONS: usize = 64;
/// The longest vectors.
const MAX_DIMENSIONS: usize = 8_192;
/// Characters per token, as providers' rules of thumb have it.
const BYTES_PER_TOKEN: usize = 4;

/// A request for embeddings, as far as the server reads it.
#[derive(Debug, Deserialize)]
pub(crate) struct EmbeddingRequest {
    #[serde(default)]
    model: String,
    input: Input,
    dimensions: Option<usize>,
    encoding_format: Option<Encoding>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Float,
    Base64,
}

impl EmbeddingRequest {
    /// Reads a body; the error says what is wrong with it.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        if !(1..=MAX_DIMENSIONS).contains(&request.dimensions()) {
            return Err(format!("'dimensions' has to be from 1 to {MAX_DIMENSIONS}"));
        }
        match request.texts() {
            [] => Err("'input' has no text".to_owned()),
            texts if texts.iter().any(String::is_empty) => Err("'input' has an empty text".to_owned()),
            _ => Ok(request),
        }
    }

    fn texts(&self) -> &[String] {
        match &self.input {
            Input::One(text) => std::slice::from_ref(text),
            Input::Many(texts) => texts,
        }
    }

    fn dimensions(&self) -> usize {
        self.dimensions.unwrap_or(DEFAULT_DIMENSIONS)
    }

    /// The reply with a vector for each text.
    pub(crate) fn reply(&self) -> String {
        self.reply_of(self.texts().iter().map(|text| self.encoded(&vector(text, self.dimensions()))))
    }

    /// The reply with these values in place of vectors.
    pub(crate) fn reply_of(&self, vectors: impl Iterator<Item = Value>) -> String {
        let data: Vec<Value> = vectors
            .enumerate()
            .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
            .collect();
        let n_tokens = self.texts().iter().map(|text| text.len().div_ceil(BYTES_PER_TOKEN)).sum::<usize>();
        let usage = json!({"prompt_tokens": n_tokens, "total_tokens": n_tokens});
        json!({"object": "list", "data": data, "model": self.model, "usage": usage}).to_string()
    }

    /// How many vectors the reply has.
    pub(crate) fn n_texts(&self) -> usize {
        self.texts().len()
    }

    fn encoded(&self, vector: &[f32]) -> Value {
        match self.encoding_format.unwrap_or(Encoding::Float) {
            Encoding::Float => json!(vector),
            Encoding::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
                STANDARD.encode(bytes).into()
            }
        }
    }
}

/// The vector that the server gives a text: of this length and of norm 1.
///
/// Each word adds 1 or -1 to one number by its hash (feature hashing: Weinberger and others, "Feature hashing for large
/// scale multitask learning", 2009). Case and punctuation do not matter. A text without words is its own word.
pub fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector = vec![0.0_f32; dimensions];
    let mut add = |word: &str| {
        let thrown = hash(0, word.as_bytes());
        let sign = if thrown & 1 == 0 { 1.0 } else { -1.0 };
        // A remainder is smaller than the length of a vector.
        let place = (thrown >> 1) % (dimensions.max(1) as u64);
        if let Some(number) = usize::try_from(place).ok().and_then(|place| vector.get_mut(place)) {
            *number += sign;
        }
    };
    let lower = text.to_lowercase();
    lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()).for_each(&mut add);
    if vector.iter().all(|number| *number == 0.0) {
        // No word, or words that cancel each other out.
        let thrown = hash(1, text.as_bytes()) % (dimensions.max(1) as u64);
        if let Some(number) = usize::try_from(thrown).ok().and_then(|place| vector.get_mut(place)) {
            *number = 1.0;
        }
    }
    let norm = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|number| *number /= norm);
    vector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn likeness(one: &str, other: &str) -> f32 {
        vector(one, 256).iter().zip(vector(other, 256)).map(|(one, other)| one * other).sum()
    }

    #[test]
    fn texts_with_words_in_common_are_near() {
        let near = likeness("heat the egg in the microwave", "Heat an egg, in a microwave!");
        let far = likeness("heat the egg in the microwave", "buy red running shoes");
        assert!(near > 0.5 && far < 0.3, "{near} {far}");
        assert!((likeness("one", "one") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn every_text_has_a_vector_of_norm_1() {
        for text in ["a", "!", " ", "a b c d", "ä", "x y"] {
            for dimensions in [1, 2, 64] {
                let vector = vector(text, dimensions);
                let norm: f32 = vector.iter().map(|number| number * number).sum();
                assert!(vector.len() == dimensions && (norm - 1.0).abs() < 1e-5, "{text} {vector:?}");
            }
        }
    }
}
