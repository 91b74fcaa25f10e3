//! What was wrong with a JSON text and was read anyway.

use std::fmt;

/// One kind of damage that a reading had to repair; [`fmt::Display`] gives a sentence for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Repair {
    /// A comma before a closing bracket.
    TrailingComma,
    /// Two members or elements without a comma between them.
    MissingComma,
    /// A comma with nothing before it.
    ExtraComma,
    /// A quote inside a string without its backslash.
    UnescapedQuote,
    /// A string that ended without its quote, before the next key.
    MissingQuote,
    /// A line break, tab or other control character inside a string.
    ControlCharacter,
    /// A backslash before a character that needs none.
    InvalidEscape,
    /// A backslash of LaTeX that was not doubled, so that JSON has a control character in its place.
    LatexBackslash,
    /// Half of a surrogate pair, read as U+FFFD.
    LoneSurrogate,
    /// Strings in single quotes or back quotes.
    OtherQuotes,
    /// Strings in typographic quotes.
    CurlyQuotes,
    /// Strings in three quotes, as in Python.
    TripleQuotes,
    /// String literals written one after the other, read as one string.
    JoinedStrings,
    /// A key without quotes.
    UnquotedKey,
    /// A single word without quotes as value.
    UnquotedText,
    /// A literal of another language, such as `True` or `None`.
    ForeignLiteral,
    /// `NaN`, an infinity or a number beyond the range of a double, read as `null`.
    NotANumber,
    /// A number in a form that JSON does not have, such as `+1`, `.5` or `007`.
    NumberForm,
    /// A comment.
    Comment,
    /// A key and its value without a colon between them.
    MissingColon,
    /// A key without a value, read as `null`.
    MissingValue,
    /// Dots in the place of elements.
    Ellipsis,
    /// A bracket that was not closed although its surroundings went on.
    MissingBracket,
    /// A closing bracket that nothing had opened.
    StrayBracket,
    /// Braces written twice, as in a template.
    DoubledBrace,
    /// The object was written as a JSON string.
    EncodedTwice,
    /// The text ended before the value did: what was whole is kept.
    CutOff,
    /// Several different objects fitted, and one had to be chosen.
    SeveralObjects,
}

impl Repair {
    /// The sentence for people, without a full stop.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TrailingComma => "a comma before a closing bracket was ignored",
            Self::MissingComma => "a missing comma was supplied",
            Self::ExtraComma => "a comma too many was ignored",
            Self::UnescapedQuote => "a quote inside a string had no backslash",
            Self::MissingQuote => "a string without its closing quote was ended before the next key",
            Self::ControlCharacter => "a raw line break or control character inside a string was kept",
            Self::InvalidEscape => "a backslash that escapes nothing was read as text",
            Self::LatexBackslash => "a backslash of LaTeX that was not doubled was put back",
            Self::LoneSurrogate => "half of a surrogate pair was read as U+FFFD",
            Self::OtherQuotes => "single quotes or back quotes were read as string delimiters",
            Self::CurlyQuotes => "typographic quotes were read as string delimiters",
            Self::TripleQuotes => "triple quotes were read as string delimiters",
            Self::JoinedStrings => "consecutive string literals were joined",
            Self::UnquotedKey => "a key without quotes was accepted",
            Self::UnquotedText => "a word without quotes was read as a string",
            Self::ForeignLiteral => "a literal of another language was read as its JSON counterpart",
            Self::NotANumber => "a number that JSON cannot express was read as null",
            Self::NumberForm => "a number in a form that JSON does not have was accepted",
            Self::Comment => "a comment was ignored",
            Self::MissingColon => "a missing colon was supplied",
            Self::MissingValue => "a key without a value was read as null",
            Self::Ellipsis => "dots instead of elements were ignored",
            Self::MissingBracket => "a missing closing bracket was supplied",
            Self::StrayBracket => "a closing bracket too many was ignored",
            Self::DoubledBrace => "doubled braces were read as single ones",
            Self::EncodedTwice => "the object was written as a JSON string and was decoded",
            Self::CutOff => "the text was truncated: its complete part is used",
            Self::SeveralObjects => "several different objects fit: one was chosen",
        }
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The repairs of one reading: each kind once, in the order in which it was first needed.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    in_order: Vec<Repair>,
    /// One bit for each kind: a hostile text needs the same repair at every other byte.
    seen: u32,
}

impl Repairs {
    #[inline]
    pub(super) fn note(&mut self, repair: Repair) {
        if !self.has(repair) {
            self.seen |= bit(repair);
            self.in_order.push(repair);
        }
    }

    #[inline]
    pub(super) fn has(&self, repair: Repair) -> bool {
        self.seen & bit(repair) != 0
    }

    pub(super) fn clear(&mut self) {
        self.in_order.clear();
        self.seen = 0;
    }

    pub(super) fn to_vec(&self) -> Vec<Repair> {
        self.in_order.clone()
    }
}

const fn bit(repair: Repair) -> u32 {
    1 << repair as u32
}
