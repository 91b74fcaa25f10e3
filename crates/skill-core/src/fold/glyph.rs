//! Characters as they look: spaces are one space, quotes are straight, dashes are hyphens, ligatures are letters.

use std::ops::Range;
use unicode_normalization::char::{compose, decompose_compatible, is_combining_mark};

/// What a reader sees as one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glyph {
    pub(super) char: char,
    /// Where it is in the text, in bytes.
    pub(super) range: Range<usize>,
}

impl Glyph {
    pub(super) fn is_space(&self) -> bool {
        self.char == ' '
    }

    /// Whether it can be part of a word.
    pub(super) fn is_word(&self) -> bool {
        self.char == '_' || self.is_letter()
    }

    pub(super) fn is_letter(&self) -> bool {
        self.char.is_ascii_alphanumeric()
            || (!self.char.is_ascii() && (self.char.is_alphanumeric() || is_combining_mark(self.char)))
    }

    /// Whether it is a word of its own: Chinese and Japanese have no spaces.
    pub(super) fn is_ideograph(&self) -> bool {
        matches!(self.char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
    }
}

/// The entities that models write for what is in a text, without the ampersand.
const ENTITIES: [(&str, char); 9] = [
    ("amp;", '&'),
    ("lt;", '<'),
    ("gt;", '>'),
    ("quot;", '"'),
    ("apos;", '\''),
    ("nbsp;", ' '),
    ("#39;", '\''),
    ("#34;", '"'),
    ("#x27;", '\''),
];

/// Writes the glyphs of a line; `at` is where it starts in the text.
pub(super) fn read_line(line: &str, at: usize, out: &mut Vec<Glyph>) {
    out.clear();
    let mut chars = line.char_indices();
    while let Some((offset, char)) = chars.next() {
        let start = at + offset;
        let mut push = |char: char, len: usize| out.push(Glyph { char, range: start..start + len });
        let rest = line.get(offset + char.len_utf8()..).unwrap_or_default();
        match char {
            '&' => match ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
                Some((name, meant)) => {
                    push(*meant, 1 + name.len());
                    // The name is ASCII: each of its bytes is a character.
                    chars.nth(name.len() - 1);
                }
                None => push('&', 1),
            },
            '\\' => match rest.chars().next().filter(char::is_ascii_punctuation) {
                Some(escaped) => {
                    push(escaped, 2);
                    chars.next();
                }
                None => push('\\', 1),
            },
            '\t' | ' ' | '\r' | '\n' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1f}' => push(' ', 1),
            _ if char.is_ascii() => push(char, 1),
            _ => fold_other(char, start, out),
        }
    }
}

/// A character beyond ASCII.
fn fold_other(char: char, start: usize, out: &mut Vec<Glyph>) {
    let range = start..start + char.len_utf8();
    let folded = match char {
        // Joiners, direction marks, soft hyphens, variation selectors: nobody sees them.
        '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{2069}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' => return,
        '‘' | '’' | '‚' | '‛' | 'ʼ' | '′' | '´' | '‹' | '›' | '＇' => '\'',
        '“' | '”' | '„' | '‟' | '«' | '»' | '″' | '＂' | '「' | '」' | '『' | '』' => '"',
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '﹘' | '﹣' | '－' | '⸺' | '⸻' => '-',
        '⇒' | '⟶' | '➜' | '➔' => '→',
        // Superscripts, subscripts and fractions are not the digits that they are made of: 10² is not 102.
        '²' | '³' | '¹' | '¼'..='¾' | '⁰'..='ₜ' | '⅐'..='⅟' | '↉' => char,
        _ if char.is_whitespace() => ' ',
        _ => {
            decompose_compatible(char, |part| push_composed(part, &range, out));
            return;
        }
    };
    out.push(Glyph { char: folded, range });
}

/// Adds a character, together with the one before it where the two make one.
fn push_composed(part: char, range: &Range<usize>, out: &mut Vec<Glyph>) {
    if let Some(before) = out.last_mut()
        && let Some(both) = compose(before.char, part)
    {
        before.char = both;
        before.range.end = range.end;
        return;
    }
    let char = if part.is_whitespace() { ' ' } else { part };
    out.push(Glyph { char, range: range.clone() });
}
