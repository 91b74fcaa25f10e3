//! Texts that are the same to everybody who reads them, and are written in other characters; and Python's white space.

use std::borrow::Cow;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

/// A text as equal texts are written alike: with composed characters (NFC), and without characters of no width.
///
/// ```
/// use skill_core::text::composed;
///
/// assert_eq!(composed("\u{feff}e\u{301}quipe"), "\u{e9}quipe");
/// ```
pub fn composed(text: &str) -> Cow<'_, str> {
    let is_plain =
        text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes && !text.contains(is_invisible);
    if is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|character| !is_invisible(*character)).nfc().collect())
}

/// True for a character of no width that stands for nothing: spaces of no width, joiners of words, soft hyphens, marks of
/// the byte order and of the direction. The joiners within emoji and letters are none of them.
pub fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// True for a character that Python's `str.strip` removes: Unicode's `White_Space` and the four separators of ASCII.
///
/// ```
/// use skill_core::text::is_python_space;
///
/// assert!(is_python_space('\u{1c}') && !'\u{1c}'.is_whitespace());
/// ```
pub fn is_python_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_the_same_are_the_same() {
        for (text, expect) in [
            ("abc", "abc"),
            ("e\u{301}", "\u{e9}"),
            ("\u{e9}", "\u{e9}"),
            ("\u{212b}", "\u{c5}"),
            ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
            ("a\u{200b}b\u{feff}", "ab"),
            ("\u{1f469}\u{200d}\u{1f4bb}", "\u{1f469}\u{200d}\u{1f4bb}"),
            ("\u{fb01}", "\u{fb01}"),
        ] {
            assert_eq!(composed(text), expect, "{text:?}");
        }
    }
}
