//! Text to tokens and back.
//!
//! [`TokenCodec`] is what chat templates, examples and generation need of a tokenizer; `JsonTokenizer` (feature
//! `tokenizer`) is one from a published `tokenizer.json` or from the metadata of a GGUF file. [`StreamDecoder`]
//! decodes while tokens arrive, and holds back characters that are not finished.

mod stream;

#[cfg(feature = "tokenizer")]
mod gguf;
#[cfg(feature = "tokenizer")]
mod json;

#[cfg(feature = "tokenizer")]
pub use gguf::GgufVocabulary;
#[cfg(feature = "tokenizer")]
pub use json::JsonTokenizer;
pub use stream::StreamDecoder;

use thiserror::Error;

/// Why a tokenizer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The file is not a tokenizer.
    #[error("the tokenizer{} cannot be read: {message}", place.as_ref().map(|place| format!(" {place}")).unwrap_or_default())]
    Unreadable {
        /// The file, where it was one.
        place: Option<String>,
        /// The reason in the words of the reader.
        message: String,
    },
    /// A text could not be encoded.
    #[error("the text cannot be encoded: {message}")]
    Encode {
        /// The reason in the words of the tokenizer.
        message: String,
    },
    /// Tokens could not be decoded.
    #[error("the tokens cannot be decoded: {message}")]
    Decode {
        /// The reason in the words of the tokenizer.
        message: String,
    },
    /// The vocabulary has no token of this name.
    #[error("the tokenizer has no token `{text}`")]
    UnknownToken {
        /// The text of the token.
        text: String,
    },
}

/// A token that steers the model, such as the end of a turn, and is not a part of any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialToken {
    /// Its text in templates, such as `<|im_end|>`.
    pub text: String,
    /// Its id.
    pub id: u32,
}

/// Text to tokens and back, without the network and without state.
pub trait TokenCodec: Send + Sync {
    /// The tokens of a rendered template: where the text has that of a special token, it is that token. Nothing is
    /// added at the beginning or the end.
    ///
    /// # Errors
    ///
    /// A text that the tokenizer has no tokens for.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// The tokens of a text that came from outside: none of them is a special token, whatever the text holds.
    ///
    /// # Errors
    ///
    /// A text that the tokenizer has no tokens for.
    fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// The text of tokens, with special tokens by their texts or without them. Bytes that are not a character
    /// become U+FFFD.
    ///
    /// # Errors
    ///
    /// Tokens that the tokenizer cannot decode; ids outside the vocabulary are skipped.
    fn decode(&self, ids: &[u32], with_special: bool) -> Result<String, TokenizerError>;

    /// All special tokens.
    fn special_tokens(&self) -> &[SpecialToken];

    /// The number of ids, special tokens included.
    fn n_tokens(&self) -> usize;

    /// The id of a special token.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::UnknownToken`] if there is none with this text.
    fn special_id(&self, text: &str) -> Result<u32, TokenizerError> {
        let found = self.special_tokens().iter().find(|token| token.text == text);
        found.map(|token| token.id).ok_or_else(|| TokenizerError::UnknownToken { text: text.to_owned() })
    }
}
