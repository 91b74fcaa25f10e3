//! A tokenizer for tests without features: a token for each byte, and three special tokens.

use skill_train::tokenizer::{SpecialToken, TokenCodec, TokenizerError};

pub(crate) const END: u32 = 256;
pub(crate) const IM_START: u32 = 257;
pub(crate) const IM_END: u32 = 258;

pub(crate) struct ByteCodec {
    special: Vec<SpecialToken>,
}

impl ByteCodec {
    pub(crate) fn new() -> Self {
        let special = [("<|end|>", END), ("<|im_start|>", IM_START), ("<|im_end|>", IM_END)];
        let special = special.map(|(text, id)| SpecialToken { text: text.to_owned(), id });
        Self { special: special.to_vec() }
    }
}

impl TokenCodec for ByteCodec {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match self.special.iter().find(|token| rest.starts_with(&token.text)) {
                Some(token) => {
                    ids.push(token.id);
                    rest = &rest[token.text.len()..];
                }
                None => {
                    ids.extend(rest[..first.len_utf8()].bytes().map(u32::from));
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        Ok(ids)
    }

    fn encode_ordinary(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(text.bytes().map(u32::from).collect())
    }

    fn decode(&self, ids: &[u32], with_special: bool) -> Result<String, TokenizerError> {
        let mut bytes = Vec::new();
        for id in ids {
            match self.special.iter().find(|token| token.id == *id) {
                Some(token) if with_special => bytes.extend(token.text.bytes()),
                Some(_) => {}
                None => bytes.push(u8::try_from(*id).unwrap()),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn special_tokens(&self) -> &[SpecialToken] {
        &self.special
    }

    fn n_tokens(&self) -> usize {
        259
    }
}
