//! Text as a reader sees it: tokens and blocks of Markdown, with what does not change the meaning folded away.
//!
//! Models quote a skill from memory: a curly quote becomes a straight one, two lines become one, `*` becomes `-`.
//! [`FoldedText`] takes a text apart once, in time linear in it; [`FoldedText::render`] then writes it in one of three
//! [`Level`]s, each of which disregards all that the one before does, so that equal texts stay equal. Every token knows
//! where it is in the text. Nothing here changes a text or decides what to do with one.

mod blocks;
mod glyph;
mod markup;

use glyph::Glyph;
use std::ops::Range;

/// How much is disregarded when two texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// White space, characters that look alike, HTML entities and backslashes in front of signs.
    Looks,
    /// Also what is Markdown's and not the text's: markers of items and headings, emphasis, backticks; and whether a
    /// quotation mark is single or double.
    Markup,
    /// Also capitals and pairs of quotation marks.
    Words,
}

impl Level {
    /// From the strictest on.
    pub(crate) const ALL: [Self; 3] = [Self::Looks, Self::Markup, Self::Words];
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// Letters, digits and underscores, with apostrophes between them.
    Word,
    /// Any other sign that is part of the text.
    Sign,
    /// A quotation mark.
    Quote,
    /// A run of asterisks or underscores.
    Emphasis,
    /// A run of backticks.
    Code,
    /// A part of what marks an item, a heading or a quotation at the start of a line.
    Marker,
    /// Text that cannot be touched is here.
    Barrier,
}

/// A word or a sign.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// Where it is in the text, in bytes.
    pub(crate) range: Range<usize>,
    pub(crate) kind: TokenKind,
    /// Where its folded text is in the pool.
    text: Range<usize>,
    /// The other one, if this opens or closes emphasis, code or a quotation.
    pub(crate) pair: Option<usize>,
    /// The block that it belongs to.
    pub(crate) block: usize,
    /// It comes first in its line, but for markers.
    pub(crate) is_first: bool,
    /// A marker is in front of it in its line.
    pub(crate) is_marked: bool,
    /// It comes last in its line.
    pub(crate) is_last: bool,
    /// Nothing but a single sign that ends sentences comes after it in its line.
    pub(crate) is_nearly_last: bool,
}

impl Token {
    /// Whether this level disregards it.
    pub(crate) fn is_dropped(&self, level: Level) -> bool {
        match self.kind {
            TokenKind::Word | TokenKind::Sign | TokenKind::Barrier => false,
            TokenKind::Marker => level >= Level::Markup,
            TokenKind::Emphasis | TokenKind::Code => level >= Level::Markup && self.pair.is_some(),
            TokenKind::Quote => level >= Level::Words && self.pair.is_some(),
        }
    }

    /// Whether it opens or closes something.
    pub(crate) fn is_pairing(&self) -> bool {
        match self.kind {
            TokenKind::Emphasis | TokenKind::Code | TokenKind::Quote => self.pair.is_some(),
            TokenKind::Word | TokenKind::Sign | TokenKind::Marker | TokenKind::Barrier => false,
        }
    }
}

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// A line that starts with `#`.
    Heading,
    /// An item of a list with the lines that continue it.
    Item,
    /// A line in a code fence, or the fence itself.
    Code,
    /// Anything else: the lines up to a blank one or up to another block.
    Plain,
}

/// Lines that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) kind: BlockKind,
    /// Its tokens.
    pub(crate) tokens: Range<usize>,
    /// Its lines in the text, without the last one's end.
    pub(crate) range: Range<usize>,
}

/// A text, taken apart.
#[derive(Debug, Default)]
pub(crate) struct FoldedText {
    pool: String,
    tokens: Vec<Token>,
    blocks: Vec<Block>,
}

/// A text as a level sees it: tokens between single blanks, with a blank at both ends.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    /// Where the blank in front of each token stands that is not dropped, and which token that is.
    starts: Vec<(usize, usize)>,
}

impl FoldedText {
    /// Takes a text apart.
    pub(crate) fn new(text: &str) -> Self {
        Self::of_open(text, &[])
    }

    /// Takes apart what is outside of these ranges, which are in order.
    pub(crate) fn of_open(text: &str, protected: &[Range<usize>]) -> Self {
        let mut reader = blocks::Reader::new(text);
        let mut from = 0;
        for range in protected {
            reader.read(from..range.start);
            reader.barrier(range.start);
            from = range.end;
        }
        reader.read(from..text.len());
        reader.finish()
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The folded text of a token, capitals kept.
    pub(crate) fn text_of(&self, token: &Token) -> &str {
        self.pool.get(token.text.clone()).unwrap_or_default()
    }

    /// The tokens in this range that the level keeps, with their places.
    pub(crate) fn kept(&self, range: Range<usize>, level: Level) -> impl Iterator<Item = (usize, &Token)> {
        let start = range.start;
        let tokens = self.tokens.get(range).unwrap_or_default();
        tokens
            .iter()
            .enumerate()
            .filter(move |(_, token)| !token.is_dropped(level))
            .map(move |(offset, token)| (start + offset, token))
    }

    /// These tokens as a level sees them.
    pub(crate) fn render(&self, range: Range<usize>, level: Level) -> Rendered {
        let mut text = String::with_capacity(8 * range.len() + 1);
        let mut starts = Vec::with_capacity(range.len());
        for (token_idx, token) in self.kept(range, level) {
            starts.push((text.len(), token_idx));
            text.push(' ');
            match (token.kind, level) {
                (TokenKind::Quote, Level::Markup | Level::Words) => text.push('"'),
                (TokenKind::Word, Level::Words) => push_lower(self.text_of(token), &mut text),
                _ => text.push_str(self.text_of(token)),
            }
        }
        text.push(' ');
        Rendered { text, starts }
    }
}

impl Rendered {
    /// The token whose leading blank is here.
    pub(crate) fn token_at(&self, at: usize) -> Option<usize> {
        let place = self.starts.binary_search_by_key(&at, |(start, _)| *start).ok()?;
        self.starts.get(place).map(|(_, token_idx)| *token_idx)
    }

    /// The token that ends with the blank here.
    pub(crate) fn token_before(&self, at: usize) -> Option<usize> {
        let place = self.starts.partition_point(|(start, _)| *start < at).checked_sub(1)?;
        self.starts.get(place).map(|(_, token_idx)| *token_idx)
    }
}

fn push_lower(word: &str, out: &mut String) {
    if word.is_ascii() {
        out.extend(word.chars().map(|char| char.to_ascii_lowercase()));
        return;
    }
    for char in word.chars() {
        match char {
            'ß' | 'ẞ' => out.push_str("ss"),
            _ => out.extend(char.to_lowercase()),
        }
    }
}

/// Whether a sign may end a sentence or a heading.
pub(crate) fn is_closing_sign(text: &str) -> bool {
    matches!(text, "." | "," | ";" | ":" | "!" | "?")
}
