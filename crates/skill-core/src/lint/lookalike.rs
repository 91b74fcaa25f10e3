//! Letters that look like others: what a reader takes a text for, so that an order in disguise is read as the order.
//!
//! The fold is the compatibility form of Unicode (full width, mathematical and enclosed letters), without marks that
//! combine with letters, and a table of Cyrillic, Greek and other letters that common fonts draw like Latin ones. It
//! covers words that are otherwise English; texts of other languages are not turned into anything that means something.

use super::{Finding, Severity, numbered};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Letters that are not Latin, each behind the Latin letters that it looks like.
const LOOK_ALIKES: [(char, &str); 52] = [
    ('a', "аαɑ"),
    ('b', "ЬƄ"),
    ('c', "сϲᴄ"),
    ('d', "ԁ"),
    ('e', "еҽε"),
    ('f', "ƒ"),
    ('g', "ɡց"),
    ('h', "һհ"),
    ('i', "іιɪı"),
    ('j', "јϳ"),
    ('k', "кκ"),
    ('l', "ӏⅼ"),
    ('m', "м"),
    ('n', "ոп"),
    ('o', "оοօσ"),
    ('p', "рρ"),
    ('q', "ԛ"),
    ('r', "гᴦ"),
    ('s', "ѕꜱ"),
    ('t', "тτ"),
    ('u', "υսᴜ"),
    ('v', "ѵνᴠ"),
    ('w', "ԝѡᴡ"),
    ('x', "хχ"),
    ('y', "уγყ"),
    ('z', "ᴢ"),
    ('A', "АΑ"),
    ('B', "ВΒ"),
    ('C', "СϹ"),
    ('D', "Ꭰ"),
    ('E', "ЕΕ"),
    ('F', "Ϝ"),
    ('G', "Ԍ"),
    ('H', "НΗ"),
    ('I', "ІΙӀ"),
    ('J', "ЈͿ"),
    ('K', "КΚ"),
    ('L', "Ꮮ"),
    ('M', "МΜ"),
    ('N', "Ν"),
    ('O', "ОΟ"),
    ('P', "РΡ"),
    ('Q', "Ԛ"),
    ('R', "Ꭱ"),
    ('S', "ЅՏ"),
    ('T', "ТΤ"),
    ('U', "Ս"),
    ('V', "Ѵ"),
    ('W', "Ԝ"),
    ('X', "ХΧ"),
    ('Y', "УΥ"),
    ('Z', "ΖᏃ"),
];

/// A text as it looks: every look-alike is the Latin letter, and characters of no width are gone.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let is_seen = |letter: &char| {
        !is_combining_mark(*letter)
            && !matches!(letter, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}' | '\u{00AD}')
    };
    text.nfkd().filter(is_seen).map(|letter| look_alike(letter).unwrap_or(letter)).collect()
}

fn look_alike(letter: char) -> Option<char> {
    if letter.is_ascii() {
        return None;
    }
    LOOK_ALIKES.iter().find(|(_, others)| others.contains(letter)).map(|(latin, _)| *latin)
}

/// A look-alike of another script; small Greek letters are in names of units and variables.
fn is_foreign(letter: char) -> bool {
    let scripts =
        matches!(letter, '\u{0391}'..='\u{03A9}' | 'ο' | '\u{0400}'..='\u{058F}' | '\u{13A0}'..='\u{13FF}');
    scripts && look_alike(letter).is_some()
}

/// Words that mix Latin letters with letters that only look like Latin ones.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text).filter(|(_, content)| !content.is_ascii()) {
        let mixed = content.split(|letter: char| !letter.is_alphanumeric()).find(|word| {
            word.chars().any(|letter| letter.is_ascii_alphabetic()) && word.chars().any(is_foreign)
        });
        if let Some(word) = mixed {
            let message = format!(
                "letters of another script that look like Latin ones: it reads as {:?}",
                folded(word)
            );
            let advice =
                "write the word in one script; if the text was copied, look for what else came with it";
            findings.push(Finding::new("mixed-letters", Severity::Warning, (path, line), message, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_read_alike() {
        for (text, expect) in [
            ("Ignоre", "Ignore"),
            ("ΙGΝΟRE", "IGNORE"),
            ("ｉｇｎｏｒｅ", "ignore"),
            ("𝗶𝗴𝗻𝗼𝗿𝗲 ⓐll", "ignore all"),
            ("i\u{200b}gnore", "ignore"),
            ("ignóre", "ignore"),
            ("plain", "plain"),
        ] {
            assert_eq!(folded(text), expect, "{text}");
        }
    }
}
