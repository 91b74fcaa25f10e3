//! Which words of a product's name are nouns.
//!
//! The original asks a statistical tagger. Here they are found by rule: names are written in title case, where a
//! word that is neither a function word nor a number is called a (proper) noun by such a tagger nearly always. Words
//! in lower case are told apart by lists of general English and by their endings.

mod words;

use std::collections::HashMap;
use words::{ADJECTIVES, FUNCTION_WORDS, NUMBER_WORDS, UNITS, VERBS, Words};

/// Endings of adjectives and adverbs.
const DESCRIBING_ENDINGS: [&str; 7] = ["ly", "ful", "less", "ous", "able", "ible", "proof"];

/// The nouns of names: those that were given, else those found by rule.
#[derive(Debug, Clone, Default)]
pub struct Nouns {
    given: HashMap<String, Vec<String>>,
}

impl Nouns {
    /// Takes the nouns of these names as they are given, such as recorded ones.
    pub fn given(given: HashMap<String, Vec<String>>) -> Self {
        Self { given }
    }

    /// Calls `each` with the given nouns, names in order.
    pub(super) fn each_given(&self, mut each: impl FnMut(&str, &[String])) {
        let mut names: Vec<&String> = self.given.keys().collect();
        names.sort_unstable();
        for name in names {
            each(name, self.given.get(name).map(Vec::as_slice).unwrap_or_default());
        }
    }

    /// The nouns of a name, in lower case and in its order; a noun that is there twice is there twice.
    pub fn of(&self, name: &str) -> Vec<String> {
        self.given.get(name).cloned().unwrap_or_else(|| nouns(name))
    }
}

/// The nouns of a name by rule, in lower case and in its order.
pub fn nouns(name: &str) -> Vec<String> {
    let words = name.split_whitespace().flat_map(split).filter_map(without_unit_or_possessive);
    words.filter(|word| is_noun(word)).map(str::to_lowercase).collect()
}

/// The words of a piece without blanks: split at slashes, commas and the like, and at most hyphens.
fn split(piece: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    let mut characters = piece.char_indices().peekable();
    while let Some((place, character)) = characters.next() {
        let after = characters.peek().map(|(_, after)| *after);
        let is_cut = match character {
            // A model number such as `XR-200` stays whole.
            '-' => {
                !(before.is_some_and(char::is_alphabetic)
                    && after.is_some_and(|after| after.is_ascii_digit()))
            }
            '.' | '\'' | '’' | '+' | '&' | '@' | '_' => false,
            other => !other.is_alphanumeric(),
        };
        if is_cut {
            words.extend(piece.get(start..place));
            start = place + character.len_utf8();
        }
        before = Some(character);
    }
    words.extend(piece.get(start..));
    words
}

/// A word without punctuation around it, without a possessive `'s`; of a number with its unit, the unit.
fn without_unit_or_possessive(word: &str) -> Option<&str> {
    let word = word.trim_matches(|character: char| !character.is_alphanumeric());
    let word = ["'s", "’s", "'S", "’S"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    let unit = word.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let word = if unit.len() < word.len() && UNITS.contains(unit) { unit } else { word };
    (!word.is_empty()).then_some(word)
}

fn is_noun(word: &str) -> bool {
    let lower = word.to_lowercase();
    let is_in = |words: &Words| words.contains(lower.as_str());
    let is_number = word.contains(|character: char| character.is_numeric())
        && !word.contains(|character: char| character.is_alphabetic() && !matches!(character, 'x' | 'X'));
    if is_number || is_in(&FUNCTION_WORDS) || is_in(&NUMBER_WORDS) {
        return false;
    }
    // A capital anywhere makes a name: `iPhone` too.
    if word.contains(char::is_uppercase) || !word.contains(char::is_lowercase) {
        return true;
    }
    !(is_in(&ADJECTIVES)
        || is_in(&VERBS)
        || DESCRIBING_ENDINGS.iter().any(|ending| lower.len() > ending.len() + 2 && lower.ends_with(ending)))
}
