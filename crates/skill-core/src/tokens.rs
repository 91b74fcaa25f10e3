//! How many tokens a text has, about, for a limit that is the same with every provider.
//!
//! Tokenizers differ and change; a limit must not. The estimate counts characters by how many bytes they take in UTF-8,
//! which is how byte-pair encodings see them: four ASCII characters make a token, two of Latin with accents, Greek,
//! Cyrillic, Hebrew or Arabic, one Chinese, Japanese, Korean or Indic character is one, and an emoji two. It is made for
//! limits, not for bills: what is paid for is what the server counts.

/// The number of tokens that a text has, about; see [the module](self) for the rule.
///
/// ```
/// use skill_core::estimate_tokens;
///
/// assert_eq!(estimate_tokens(""), 0);
/// assert_eq!(estimate_tokens("- Answer with a number."), 6);
/// assert_eq!(estimate_tokens("答案是一个数字"), 7);
/// ```
pub fn estimate_tokens(text: &str) -> u64 {
    tokens_of(quarter_tokens(text))
}

/// The tokens that so many quarters are, rounded up.
pub(crate) fn tokens_of(quarters: u64) -> u64 {
    quarters.div_ceil(4)
}

/// The estimate in quarters of a token: a sum over the characters, so that a change of the text changes it by what came
/// less what went.
pub(crate) fn quarter_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return text.len() as u64;
    }
    let quarters = |byte: u8| match byte {
        0..=0x7f => 1,
        // The bytes after the first one.
        0x80..=0xbf => 0,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 4,
        0xf0..=0xff => 8,
    };
    text.bytes().map(quarters).sum()
}
