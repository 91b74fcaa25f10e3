//! Decoding while tokens arrive.

use super::{TokenCodec, TokenizerError};

/// The replacement for bytes that are not a character, or not yet.
const UNFINISHED: char = '\u{fffd}';
/// Marks at the end of a text that later tokens can turn into a character: one for each of its bytes but the last,
/// in tokenizers that decode every byte by itself.
const MOST_UNFINISHED: usize = 3;
/// Tokens that are kept for the sake of those that follow: the text of a token can depend on the one before it.
const CONTEXT: usize = 8;
/// Tokens at which the oldest are dropped.
const MOST_TOKENS: usize = 32;

/// Decodes a growing list of tokens: each text is given once, and never with half a character.
///
/// The texts of all calls, [`StreamDecoder::finish`] included, are together the text of all tokens. A text that ends
/// with U+FFFD is held back until something follows.
#[derive(Debug, Clone, Default)]
pub struct StreamDecoder {
    /// The last tokens.
    ids: Vec<u32>,
    /// Characters of their text that have been given.
    n_given: usize,
    with_special: bool,
}

impl StreamDecoder {
    /// A decoder at the beginning of a text.
    pub fn new(with_special: bool) -> Self {
        Self { with_special, ..Self::default() }
    }

    /// The text that this token completes; empty while a character is not finished.
    ///
    /// # Errors
    ///
    /// As [`TokenCodec::decode`].
    pub fn push(&mut self, codec: &(impl TokenCodec + ?Sized), id: u32) -> Result<String, TokenizerError> {
        self.ids.push(id);
        let decoded = codec.decode(&self.ids, self.with_special)?;
        let n_unfinished =
            decoded.chars().rev().take(MOST_UNFINISHED).take_while(|c| *c == UNFINISHED).count();
        let n_finished = decoded.chars().count() - n_unfinished;
        let text = decoded.chars().take(n_finished).skip(self.n_given).collect();
        self.n_given = self.n_given.max(n_finished);
        if n_unfinished == 0 && self.ids.len() >= MOST_TOKENS {
            self.ids.drain(..self.ids.len() - CONTEXT);
            self.n_given = codec.decode(&self.ids, self.with_special)?.chars().count();
        }
        Ok(text)
    }

    /// The text that is still held back, when no token follows.
    ///
    /// # Errors
    ///
    /// As [`TokenCodec::decode`].
    pub fn finish(self, codec: &(impl TokenCodec + ?Sized)) -> Result<String, TokenizerError> {
        Ok(codec.decode(&self.ids, self.with_special)?.chars().skip(self.n_given).collect())
    }
}
