//! From a text to the terms that are indexed and looked up, as Lucene's English analyzer finds them: words, without
//! possessive `'s`, lower case, without stop words, stemmed.

use super::porter::stem;
use crate::digits::ascii_digit;
use unicode_segmentation::UnicodeSegmentation as _;

/// Lucene's English stop words.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

/// The most UTF-16 units of a word; a longer one is cut into pieces of this length.
const MAX_WORD_UNITS: usize = 255;

/// The ranges of [`is_picture`].
const PICTURES: [(u32, u32); 76] = [
    (0xa9, 0xa9),
    (0xae, 0xae),
    (0x203c, 0x203c),
    (0x2049, 0x2049),
    (0x2122, 0x2122),
    (0x2139, 0x2139),
    (0x2194, 0x2199),
    (0x21a9, 0x21aa),
    (0x231a, 0x231b),
    (0x2328, 0x2328),
    (0x2388, 0x2388),
    (0x23cf, 0x23cf),
    (0x23e9, 0x23f3),
    (0x23f8, 0x23fa),
    (0x24c2, 0x24c2),
    (0x25aa, 0x25ab),
    (0x25b6, 0x25b6),
    (0x25c0, 0x25c0),
    (0x25fb, 0x25fe),
    (0x2600, 0x2605),
    (0x2607, 0x2612),
    (0x2614, 0x2685),
    (0x2690, 0x2705),
    (0x2708, 0x2712),
    (0x2714, 0x2714),
    (0x2716, 0x2716),
    (0x271d, 0x271d),
    (0x2721, 0x2721),
    (0x2728, 0x2728),
    (0x2733, 0x2734),
    (0x2744, 0x2744),
    (0x2747, 0x2747),
    (0x274c, 0x274c),
    (0x274e, 0x274e),
    (0x2753, 0x2755),
    (0x2757, 0x2757),
    (0x2763, 0x2767),
    (0x2795, 0x2797),
    (0x27a1, 0x27a1),
    (0x27b0, 0x27b0),
    (0x27bf, 0x27bf),
    (0x2934, 0x2935),
    (0x2b05, 0x2b07),
    (0x2b1b, 0x2b1c),
    (0x2b50, 0x2b50),
    (0x2b55, 0x2b55),
    (0x3030, 0x3030),
    (0x303d, 0x303d),
    (0x3297, 0x3297),
    (0x3299, 0x3299),
    (0x1f000, 0x1f0ff),
    (0x1f10d, 0x1f10f),
    (0x1f12f, 0x1f12f),
    (0x1f16c, 0x1f171),
    (0x1f17e, 0x1f17f),
    (0x1f18e, 0x1f18e),
    (0x1f191, 0x1f19a),
    (0x1f1ad, 0x1f1e5),
    (0x1f201, 0x1f20f),
    (0x1f21a, 0x1f21a),
    (0x1f22f, 0x1f22f),
    (0x1f232, 0x1f23a),
    (0x1f23c, 0x1f23f),
    (0x1f249, 0x1f53d),
    (0x1f546, 0x1f64f),
    (0x1f680, 0x1f6ff),
    (0x1f774, 0x1f77f),
    (0x1f7d5, 0x1f7ff),
    (0x1f80c, 0x1f80f),
    (0x1f848, 0x1f84f),
    (0x1f85a, 0x1f85f),
    (0x1f888, 0x1f88f),
    (0x1f8ae, 0x1f8ff),
    (0x1f90c, 0x1f93a),
    (0x1f93c, 0x1f945),
    (0x1f947, 0x1fffd),
];

/// The terms of a text, in its order.
pub fn terms(text: &str) -> impl Iterator<Item = String> + '_ {
    words(text).filter_map(term)
}

/// The words of a text as they are there.
pub(super) fn words(text: &str) -> Box<dyn Iterator<Item = &str> + '_> {
    if text.is_ascii() {
        // The same words, found in a quicker way.
        return Box::new(text.unicode_words().flat_map(pieces));
    }
    Box::new(text.split_word_bounds().filter(|word| is_term(word)).flat_map(pieces))
}

/// The term that a word stands for, if it is not a stop word.
pub(super) fn term(word: &str) -> Option<String> {
    let word = without_possessive(word).to_lowercase();
    (!word.is_empty() && STOP_WORDS.binary_search(&word.as_str()).is_err()).then(|| stem(&word))
}

/// Whether a piece between two word boundaries is a word or a picture, and not white space, punctuation, or a digit
/// such as `²` that no word has.
fn is_term(word: &str) -> bool {
    let is_part = |character: char| {
        character.is_alphabetic() || ascii_digit(character).is_some() || is_picture(character)
    };
    // A key cap makes a picture of what comes before it.
    word.contains(is_part)
        || (word.starts_with(['#', '*']) && word.contains('\u{20e3}'))
        || word.chars().filter(|character| is_flag_letter(*character)).count() > 1
}

/// The letters that make a flag in pairs.
fn is_flag_letter(character: char) -> bool {
    matches!(character, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Unicode's `Extended_Pictographic` as of version 11, and the modifiers of skin: `®` and `★` are words too.
fn is_picture(character: char) -> bool {
    let code = u32::from(character);
    let place = PICTURES.partition_point(|(first, _)| *first <= code);
    let range = place.checked_sub(1).and_then(|place| PICTURES.get(place));
    range.is_some_and(|(_, last)| code <= *last)
}

/// The word itself, or pieces of the greatest length if it is longer.
fn pieces(word: &str) -> Vec<&str> {
    if word.len() <= MAX_WORD_UNITS {
        return vec![word];
    }
    let mut found = Vec::new();
    let (mut start, mut n_units) = (0, 0);
    for (place, character) in word.char_indices() {
        if n_units + character.len_utf16() > MAX_WORD_UNITS {
            found.extend(word.get(start..place));
            (start, n_units) = (place, 0);
        }
        n_units += character.len_utf16();
    }
    found.extend(word.get(start..));
    found
}

fn without_possessive(word: &str) -> &str {
    word.strip_suffix(['s', 'S'])
        .and_then(|rest| rest.strip_suffix(['\'', '\u{2019}', '\u{ff07}']))
        .unwrap_or(word)
}
