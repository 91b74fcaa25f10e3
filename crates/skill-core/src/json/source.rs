//! The text being read, and the looks ahead that decide whether a quote ends a string.
//!
//! Every look ahead goes at most to the second quote from where it starts, or is bounded by a constant, so
//! that all of them together are linear in the text.

/// The longest key, in bytes, that a look ahead takes for one.
const MAX_KEY_BYTES: usize = 256;

/// The longest string, in bytes, that a look ahead takes for one.
const MAX_STRING_LOOK: usize = 4096;

/// The longest comment, in bytes, that a look ahead steps over.
const MAX_COMMENT_LOOK: usize = 200;

/// What is around the container that holds a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    Nothing,
    Object,
    Array,
}

/// Where a string value stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The container is an object; otherwise an array.
    pub(super) in_object: bool,
    /// What holds the container.
    pub(super) around: Around,
    /// The keys of this object are written without quotes.
    pub(super) bare_keys: bool,
}

/// A text with total access to its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text }
    }

    pub(super) fn len(self) -> usize {
        self.text.len()
    }

    #[inline]
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    /// The bytes from `at`; empty past the end.
    #[inline]
    pub(super) fn bytes_from(self, at: usize) -> &'a [u8] {
        self.text.as_bytes().get(at..).unwrap_or_default()
    }

    /// The text between two positions; empty if they are not on character boundaries.
    #[inline]
    pub(super) fn slice(self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    pub(super) fn char(self, at: usize) -> Option<char> {
        self.text.get(at..).and_then(|rest| rest.chars().next())
    }

    pub(super) fn starts_with(self, at: usize, prefix: &str) -> bool {
        self.bytes_from(at).starts_with(prefix.as_bytes())
    }

    /// The position of the first byte from `at` that is not white space.
    #[inline]
    pub(super) fn blank_end(self, at: usize) -> usize {
        match self.byte(at) {
            Some(b'!'..=b'~') => at,
            _ => self.skip_blanks(at),
        }
    }

    fn skip_blanks(self, mut at: usize) -> usize {
        loop {
            match self.byte(at) {
                Some(b' ' | b'\n' | b'\r' | b'\t' | 0x0b | 0x0c) => at += 1,
                Some(byte) if byte >= 0x80 => match self.char(at) {
                    Some(char) if char.is_whitespace() || matches!(char, '\u{feff}' | '\u{200b}') => {
                        at += char.len_utf8();
                    }
                    _ => return at,
                },
                _ => return at,
            }
        }
    }

    /// The end of the comment that starts at `at`, if one does; a comment that is not closed ends with the text.
    pub(super) fn comment_end(self, at: usize) -> Option<usize> {
        let rest = self.bytes_from(at);
        let length = match rest {
            [b'/', b'/', ..] | [b'#', ..] => rest.iter().position(|&byte| byte == b'\n'),
            [b'/', b'*', tail @ ..] => {
                tail.windows(2).position(|pair| pair == b"*/").map(|length| length + 4)
            }
            _ => return None,
        };
        Some(at + length.unwrap_or(rest.len()))
    }

    /// Like [`Self::comment_end`], for a comment that ends soon and has no quote before a comment in it: so no
    /// byte is looked at from more than one quote.
    fn short_comment_end(self, at: usize) -> Option<usize> {
        let rest = self.bytes_from(at);
        let (is_block, start) = match rest {
            [b'/', b'/', ..] => (false, 2),
            [b'#', ..] => (false, 1),
            [b'/', b'*', ..] => (true, 2),
            _ => return None,
        };
        let mut before = 0;
        for (offset, &byte) in rest.iter().enumerate().take(MAX_COMMENT_LOOK).skip(start) {
            match byte {
                b'\n' if !is_block => return Some(at + offset),
                b'/' if is_block && before == b'*' => return Some(at + offset + 1),
                b'/' | b'#' if matches!(before, b'"' | b'\'' | b'`' | 0x98..=0x9f) => return None,
                _ => before = byte,
            }
        }
        None
    }

    /// Like [`Self::blank_end`], and steps over one short comment too.
    #[inline]
    fn gap_end(self, at: usize) -> usize {
        let at = self.blank_end(at);
        if !matches!(self.byte(at), Some(b'/' | b'#')) {
            return at;
        }
        self.short_comment_end(at).map_or(at, |end| self.blank_end(end))
    }

    /// The length of the quote at `at`, whatever its kind, or 0.
    #[inline]
    pub(super) fn quote_len(self, at: usize) -> usize {
        match self.byte(at) {
            Some(b'"' | b'\'' | b'`') => 1,
            Some(0xe2) if self.is_curly(at) => 3,
            _ => 0,
        }
    }

    /// Whether a typographic quote (U+2018 to U+201F) is at `at`.
    pub(super) fn is_curly(self, at: usize) -> bool {
        matches!(self.bytes_from(at), [0xe2, 0x80, 0x98..=0x9f, ..])
    }

    /// Whether a quoted key and its colon are at `at`, as far as the text goes.
    pub(super) fn key_at(self, at: usize) -> bool {
        let opening = self.quote_len(at);
        match self.quoted_end(at, opening, MAX_KEY_BYTES) {
            _ if opening == 0 => false,
            Some(end) => matches!(self.byte(self.gap_end(end)), None | Some(b':')),
            // The text may have ended inside the key.
            None => {
                let rest = self.bytes_from(at + opening);
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b' ');
                rest.len() <= MAX_KEY_BYTES && rest.iter().all(is_part)
            }
        }
    }

    /// Whether a quoted key and its colon are at `at` for certain.
    pub(super) fn whole_key_at(self, at: usize) -> bool {
        self.quoted_end(at, self.quote_len(at), MAX_KEY_BYTES)
            .is_some_and(|end| self.byte(self.gap_end(end)) == Some(b':'))
    }

    /// The end of the next quote that could close the one at `at`, within `limit` bytes.
    fn quoted_end(self, at: usize, opening: usize, limit: usize) -> Option<usize> {
        let opener = self.byte(at).filter(|_| opening > 0)?;
        let curly = opener == 0xe2;
        let mut here = at + opening;
        let limit = here.saturating_add(limit);
        while here < limit {
            match self.byte(here)? {
                b'\\' => here += 1,
                byte if byte == opener && !curly => return Some(here + 1),
                b'"' if curly => return Some(here + 1),
                0xe2 if curly && self.is_curly(here) => return Some(here + 3),
                _ => {}
            }
            here += 1;
        }
        None
    }

    /// The end of the bare word at `at`; `at` itself if there is none.
    pub(super) fn word_end(self, at: usize) -> usize {
        let rest = self.bytes_from(at);
        match rest.first() {
            Some(byte) if byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$') => {}
            _ => return at,
        }
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-');
        at + rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len())
    }

    fn bare_key_at(self, at: usize) -> bool {
        let end = self.word_end(at);
        end > at && end - at <= MAX_KEY_BYTES && self.byte(self.blank_end(end)) == Some(b':')
    }

    /// Whether a quote that ends just before `after` ends the string too: what follows must be a valid
    /// continuation of the container.
    pub(super) fn closes(self, place: Place, after: usize) -> bool {
        let next = self.gap_end(after);
        let Some(byte) = self.byte(next) else { return true };
        if place.in_object {
            self.closes_member(place, after, next, byte)
        } else {
            self.closes_element(place, next, byte)
        }
    }

    fn closes_member(self, place: Place, after: usize, next: usize, byte: u8) -> bool {
        match byte {
            b'}' => self.goes_on_after_close(next + 1, place.around),
            b',' => self.member_may_start(place, self.gap_end(next + 1)),
            b']' => place.around == Around::Array && self.goes_on_after_close(next + 1, Around::Object),
            b'+' => self.quote_len(self.blank_end(next + 1)) > 0,
            b'{' => place.around == Around::Array && self.key_at(self.blank_end(next + 1)),
            b'`' if self.starts_with(next, "```") => true,
            _ if self.quote_len(next) > 0 => self.key_or_line_at(after, next),
            _ => place.bare_keys && self.has_line_break(after, next) && self.bare_key_at(next),
        }
    }

    fn closes_element(self, place: Place, next: usize, byte: u8) -> bool {
        match byte {
            b']' => self.goes_on_after_close(next + 1, place.around),
            b',' => self.element_may_start(self.gap_end(next + 1)),
            b'}' => place.around == Around::Object && self.goes_on_after_close(next + 1, Around::Array),
            b'+' => self.quote_len(self.blank_end(next + 1)) > 0,
            b'`' if self.starts_with(next, "```") => true,
            _ if self.quote_len(next) > 0 => self.string_at(next),
            _ => false,
        }
    }

    /// Whether a key is at `at`, or a string that a line break parts from the one that ends before `after`.
    fn key_or_line_at(self, after: usize, at: usize) -> bool {
        let on_new_line = || self.has_line_break(after, at);
        match self.quoted_end(at, self.quote_len(at), MAX_KEY_BYTES) {
            Some(end) => {
                let next = self.gap_end(end);
                self.byte(next) == Some(b':') || (on_new_line() && self.may_follow_string(end, next))
            }
            None => on_new_line() && self.string_at(at),
        }
    }

    /// Whether a string without inner quotes is at `at`, with something behind it that can follow a string.
    fn string_at(self, at: usize) -> bool {
        self.quoted_end(at, self.quote_len(at), MAX_STRING_LOOK)
            .is_some_and(|end| self.may_follow_string(end, self.gap_end(end)))
    }

    /// Whether what is at `next` can follow a string that ends before `end`.
    fn may_follow_string(self, end: usize, next: usize) -> bool {
        match self.byte(next) {
            None | Some(b',' | b']' | b'}') => true,
            Some(_) => self.quote_len(next) > 0 && self.has_line_break(end, next),
        }
    }

    fn has_line_break(self, from: usize, to: usize) -> bool {
        self.slice(from, to).contains('\n')
    }

    /// Whether the text after a closing bracket fits what holds the closed container.
    fn goes_on_after_close(self, at: usize, around: Around) -> bool {
        let next = self.gap_end(at);
        match self.byte(next) {
            None | Some(b',' | b'}' | b']') => true,
            Some(b'{') => {
                around != Around::Object && matches!(self.byte(self.blank_end(next + 1)), Some(b'"' | b'}'))
            }
            Some(b'`') if self.starts_with(next, "```") => true,
            // Prose may follow the outermost value, but not a quote: that one would end the string around it.
            Some(_) if around == Around::Nothing => self.quote_len(next) == 0,
            Some(_) => around == Around::Object && self.whole_key_at(next),
        }
    }

    fn member_may_start(self, place: Place, at: usize) -> bool {
        match self.byte(at) {
            None | Some(b'}') => true,
            Some(b'{') => place.around == Around::Array && self.key_at(self.blank_end(at + 1)),
            Some(b']') => place.around == Around::Array && self.goes_on_after_close(at + 1, Around::Object),
            Some(_) if self.quote_len(at) > 0 => self.key_at(at),
            Some(_) => place.bare_keys && self.bare_key_at(at),
        }
    }

    fn element_may_start(self, at: usize) -> bool {
        match self.byte(at) {
            None | Some(b']' | b'{' | b'[' | b'-' | b'0'..=b'9') => true,
            Some(_) if self.quote_len(at) > 0 => true,
            Some(_) if self.starts_with(at, "...") => true,
            Some(_) => {
                let end = self.word_end(at);
                end > at
                    && matches!(self.byte(self.blank_end(end)), None | Some(b',' | b']'))
                    && super::scalar::is_literal(self.slice(at, end))
            }
        }
    }
}
