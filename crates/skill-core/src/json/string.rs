//! Strings: escapes, raw control characters, and quotes that nobody escaped.

use super::repair::{Repair, Repairs};
use super::source::{Place, Source};

/// Reads the string whose opening quote is at `at`: its content goes to the end of `out`.
///
/// Gives the position after it; `None` if the text ends within it, and then `out` holds nothing of use.
///
/// `place` is `None` for a key, which ends at the first quote that is not escaped.
/// A value ends at the first one that is followed by a valid continuation; the others belong to its content.
pub(super) fn string(
    source: Source<'_>,
    at: usize,
    place: Option<Place>,
    repairs: &mut Repairs,
    out: &mut String,
) -> Option<usize> {
    if place.is_some() && source.starts_with(at, "\"\"\"") {
        return triple_quoted(source, at, repairs, out);
    }
    if let Some(length) = simple_length(source, at)
        && let end = at + 1 + length
        && place.is_none_or(|place| source.closes(place, end + 1))
    {
        out.push_str(source.slice(at + 1, end));
        return Some(end + 1);
    }
    let opening = source.quote_len(at);
    let curly = opening == 3;
    match source.byte(at) {
        Some(b'"') => {}
        Some(_) if curly => repairs.note(Repair::CurlyQuotes),
        _ => repairs.note(Repair::OtherQuotes),
    }
    let quote = if curly { b'"' } else { source.byte(at).unwrap_or(b'"') };
    let at = at + opening;
    let mut reader = Reader { source, quote, curly, at, copied_to: at, out, embedded: 0, mark: None };
    reader.read(place, repairs)
}

/// The length of the content up to the next quote, if the quotes are JSON's and nothing special is between them.
#[inline]
fn simple_length(source: Source<'_>, at: usize) -> Option<usize> {
    let [b'"', inside @ ..] = source.bytes_from(at) else { return None };
    let length = inside.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < 0x20)?;
    (inside.get(length) == Some(&b'"')).then_some(length)
}

/// Where a missing quote would have stood, if the next quote turns out to end a key.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The position of the comma before the quote.
    comma: usize,
    /// How long the content was when the quote was met.
    out_len: usize,
}

struct Reader<'a> {
    source: Source<'a>,
    quote: u8,
    curly: bool,
    at: usize,
    /// What is between here and `at` belongs to the content and is not yet in `out`.
    copied_to: usize,
    out: &'a mut String,
    /// How many braces of a JSON object quoted within the string are open.
    embedded: usize,
    mark: Option<Mark>,
}

impl Reader<'_> {
    fn read(&mut self, place: Option<Place>, repairs: &mut Repairs) -> Option<usize> {
        loop {
            self.at += self.plain_length();
            let byte = self.source.byte(self.at)?;
            match byte {
                b'\\' => {
                    self.copy();
                    self.at = escape(self.source, self.at, self.out, repairs)?;
                    self.copied_to = self.at;
                }
                _ if byte == self.quote || (self.curly && self.source.is_curly(self.at)) => {
                    if let Some(end) = self.meet_quote(place, repairs) {
                        return Some(end);
                    }
                }
                b'{' if self.embedded > 0 => {
                    self.embedded += 1;
                    self.at += 1;
                }
                b'}' if self.embedded > 0 => {
                    self.embedded -= 1;
                    self.at += 1;
                }
                // The first byte of a character that only looks like a typographic quote.
                0xe2 => self.at += self.source.char(self.at).map_or(1, char::len_utf8),
                _ => {
                    repairs.note(Repair::ControlCharacter);
                    self.at += 1;
                }
            }
        }
    }

    /// How many of the next bytes are content and nothing else.
    fn plain_length(&self) -> usize {
        let (quote, curly, embedded) = (self.quote, self.curly, self.embedded > 0);
        let rest = self.source.bytes_from(self.at);
        let special = |byte: u8| byte == quote || byte == b'\\' || byte < 0x20;
        let length = if curly || embedded {
            rest.iter().position(|&byte| {
                special(byte) || (curly && byte == 0xe2) || (embedded && matches!(byte, b'{' | b'}'))
            })
        } else {
            rest.iter().position(|&byte| special(byte))
        };
        length.unwrap_or(rest.len())
    }

    /// Brings the content up to date.
    fn copy(&mut self) {
        self.out.push_str(self.source.slice(self.copied_to, self.at));
        self.copied_to = self.at;
    }

    /// Decides about a quote: the end of the string, whose position it gives, or a part of it.
    fn meet_quote(&mut self, place: Option<Place>, repairs: &mut Repairs) -> Option<usize> {
        let length = self.source.quote_len(self.at).max(1);
        let after = self.at + length;
        let Some(place) = place else {
            self.copy();
            return Some(after);
        };
        if self.embedded == 0 {
            if self.source.closes(place, after) {
                self.copy();
                return Some(after);
            }
            if place.in_object
                && self.source.byte(self.source.blank_end(after)) == Some(b':')
                && let Some(mark) = self.mark
            {
                repairs.note(Repair::MissingQuote);
                self.copy();
                self.out.truncate(mark.out_len);
                self.out.truncate(self.out.trim_end().len());
                self.out.pop();
                return Some(mark.comma);
            }
        }
        repairs.note(Repair::UnescapedQuote);
        self.mark = None;
        let before = self.source.bytes_from(0).get(..self.at).unwrap_or_default().trim_ascii_end();
        match before.last() {
            Some(b',') => {
                let out_len = self.out.len() + (self.at - self.copied_to);
                self.mark = Some(Mark { comma: before.len() - 1, out_len });
            }
            // An object is quoted: its own quotes end nothing until its braces are closed.
            Some(b'{') if self.embedded == 0 && self.source.key_at(self.at) => self.embedded = 1,
            _ => {}
        }
        self.at = after;
        None
    }
}

/// Reads a string between `"""` and `"""`, or an empty one that something odd follows.
fn triple_quoted(source: Source<'_>, at: usize, repairs: &mut Repairs, out: &mut String) -> Option<usize> {
    repairs.note(Repair::TripleQuotes);
    let mut from = at + 3;
    loop {
        let rest = source.bytes_from(from);
        let length = memchr::memchr2(b'"', b'\\', rest)?;
        out.push_str(source.slice(from, from + length));
        from += length;
        if source.byte(from) == Some(b'\\') {
            from = escape(source, from, out, repairs)?;
            continue;
        }
        let quotes = source.bytes_from(from).iter().take_while(|&&byte| byte == b'"').count();
        // Of four quotes in a row the first belongs to the content.
        let in_content = if quotes < 3 { quotes } else { quotes - 3 };
        out.push_str(source.slice(from, from + in_content));
        from += quotes;
        if quotes >= 3 {
            return Some(from);
        }
    }
}

/// Decodes the escape at `at` and gives the position after it; `None` if the text ends within it.
///
/// A backslash before a character that JSON does not escape is dropped where Markdown habit put it
/// (`\_`, `\'`, `` \` ``, ..) and kept where it may be meant (`\d`, `\.`, `\(`).
fn escape(source: Source<'_>, at: usize, out: &mut String, repairs: &mut Repairs) -> Option<usize> {
    let char = source.char(at + 1)?;
    let plain = match char {
        '"' | '\\' | '/' => char,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'u' => return unicode_escape(source, at, out, repairs),
        'x' if let Some(plain) = hex_escape(source, at + 2) => {
            repairs.note(Repair::InvalidEscape);
            out.push(plain);
            return Some(at + 4);
        }
        '\'' | '`' | '_' | '#' | '~' | '&' | '$' | '<' | '>' | '-' | '!' | '\n' => {
            repairs.note(Repair::InvalidEscape);
            char
        }
        other => {
            repairs.note(Repair::InvalidEscape);
            out.push('\\');
            other
        }
    };
    out.push(plain);
    Some(at + 1 + char.len_utf8())
}

/// Decodes `\u` and four hexadecimal digits, with its second half where it is the first of a surrogate pair.
fn unicode_escape(source: Source<'_>, at: usize, out: &mut String, repairs: &mut Repairs) -> Option<usize> {
    let Some(first) = code_unit(source, at + 2) else {
        if at + 6 > source.len() {
            return None;
        }
        repairs.note(Repair::InvalidEscape);
        out.push_str("\\u");
        return Some(at + 2);
    };
    if let Some(char) = char::from_u32(first) {
        out.push(char);
        return Some(at + 6);
    }
    if (0xd800..0xdc00).contains(&first)
        && source.starts_with(at + 6, "\\u")
        && let Some(second @ 0xdc00..=0xdfff) = code_unit(source, at + 8)
    {
        let joined = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        out.push(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
        return Some(at + 12);
    }
    repairs.note(Repair::LoneSurrogate);
    out.push(char::REPLACEMENT_CHARACTER);
    Some(at + 6)
}

/// The printable ASCII character that two hexadecimal digits stand for, as in Python and JavaScript.
fn hex_escape(source: Source<'_>, at: usize) -> Option<char> {
    let digits = source.text.get(at..at + 2)?;
    let byte = u8::from_str_radix(digits, 16).ok().filter(|byte| (0x20..0x7f).contains(byte))?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(char::from(byte))
}

fn code_unit(source: Source<'_>, at: usize) -> Option<u32> {
    let digits = source.text.get(at..at + 4)?;
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}
