//! Tokenizers of published models, from their `tokenizer.json`.

use super::{SpecialToken, TokenCodec, TokenizerError};
use skill_llm::text_file;
use std::path::Path;
use std::str::FromStr as _;
use tokenizers::Tokenizer;

/// A tokenizer from `tokenizer.json`, as the tokenizers library of Hugging Face reads it.
///
/// Padding and truncation of the file are switched off: the caller decides about lengths.
#[derive(Clone)]
pub struct JsonTokenizer {
    /// Special tokens in texts are special.
    rendered: Tokenizer,
    /// Special tokens in texts are text.
    ordinary: Tokenizer,
    special: Vec<SpecialToken>,
}

impl JsonTokenizer {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::Unreadable`] with the file's name.
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        let unreadable =
            |message: String| TokenizerError::Unreadable { place: Some(path.display().to_string()), message };
        let text = text_file::read(path).map_err(|error| unreadable(error.to_string()))?;
        let tokenizer = Tokenizer::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self::new(tokenizer))
    }

    /// Reads the bytes of a `tokenizer.json`, such as those inside another file.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::Unreadable`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let tokenizer = Tokenizer::from_bytes(bytes)
            .map_err(|error| TokenizerError::Unreadable { place: None, message: error.to_string() })?;
        Ok(Self::new(tokenizer))
    }

    fn new(mut rendered: Tokenizer) -> Self {
        rendered.with_padding(None);
        // It fails for settings that are out of range; none are set here.
        let _ = rendered.with_truncation(None);
        rendered.set_encode_special_tokens(false);
        let mut ordinary = rendered.clone();
        ordinary.set_encode_special_tokens(true);
        let added = rendered.get_added_tokens_decoder();
        let special = added.iter().filter(|(_, token)| token.special);
        let special = special.map(|(id, token)| SpecialToken { text: token.content.clone(), id: *id });
        let mut special: Vec<SpecialToken> = special.collect();
        special.sort_by_key(|token| token.id);
        Self { rendered, ordinary, special }
    }
}

impl std::fmt::Debug for JsonTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonTokenizer")
            .field("n_tokens", &self.n_tokens())
            .field("special", &self.special)
            .finish_non_exhaustive()
    }
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TokenizerError> {
    let encoded = tokenizer.encode_fast(text, false);
    let encoded = encoded.map_err(|error| TokenizerError::Encode { message: error.to_string() })?;
    Ok(encoded.get_ids().to_vec())
}

impl TokenCodec for JsonTokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        encode(&self.rendered, text)
    }

    fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        encode(&self.ordinary, text)
    }

    fn decode(&self, ids: &[u32], with_special: bool) -> Result<String, TokenizerError> {
        let decoded = self.rendered.decode(ids, !with_special);
        decoded.map_err(|error| TokenizerError::Decode { message: error.to_string() })
    }

    fn special_tokens(&self) -> &[SpecialToken] {
        &self.special
    }

    fn n_tokens(&self) -> usize {
        self.rendered.get_vocab_size(true)
    }
}
