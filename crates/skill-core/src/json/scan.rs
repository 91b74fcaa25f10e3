//! Where in a reply JSON may stand: reasoning before the answer, code fences, bare values in prose.

use super::latex;
use super::parser::{self, Failed, Failure, Parsed, Room};
use super::repair::{Repair, Repairs};
use super::source::Source;
use super::strict;
use crate::thought;
use memchr::memmem::{self, Finder};
use serde_json::Value;
use std::borrow::Cow;

/// How many times its own length a text may be looked at again after a start that led nowhere.
const WORK_FACTOR: usize = 2;

/// Tags of a code fence whose content is JSON, in lower case.
const JSON_TAGS: [&str; 4] = ["json", "jsonc", "json5", "jsonl"];

/// The part of a reply that is not reasoning: JSON in a thought is a draft, and a thought that never ends leaves nothing.
///
/// A closing tag without an opening one counts only where JSON may follow it.
pub(super) fn after_reasoning(text: &str) -> Cow<'_, str> {
    let parts = thought::parts(text);
    if parts.is_bare && !parts.answer.contains(['{', '[']) {
        return Cow::Borrowed(text);
    }
    parts.answer
}

/// A value found in a text; [`Scanner::value`] gives it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    /// The text ended before the value did.
    pub(super) cut: bool,
    /// Where it starts.
    pub(super) start: usize,
    /// It is first in a code fence that is tagged as JSON.
    pub(super) fenced: bool,
}

/// What a scan came upon.
#[derive(Debug)]
pub(super) enum Found {
    Value(Candidate),
    /// Something that starts like JSON and cannot be understood.
    Broken,
}

/// Which values a scan looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Objects that start like JSON.
    Objects,
    /// Lists of objects too, and in a fence tagged as JSON also lists of anything and objects with bare keys.
    ObjectsAndLists,
}

/// Finds the outermost values of a text, from left to right.
pub(super) struct Scanner<'a> {
    source: Source<'a>,
    wanted: Wanted,
    at: usize,
    /// Bytes that may still be read a second time.
    work_left: usize,
    /// Bytes that the tolerant parser may still read in vain beyond the end of JSON to the letter.
    overrun_left: usize,
    /// Where the last value found ends.
    resume_at: usize,
    room: Room,
    /// The value found last has been made of what stands on the tape.
    is_built: bool,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, wanted: Wanted) -> Self {
        let work_left = text.len().saturating_mul(WORK_FACTOR);
        Self {
            source: Source::new(text),
            wanted,
            at: 0,
            work_left,
            overrun_left: work_left,
            resume_at: 0,
            room: Room::default(),
            is_built: false,
        }
    }

    /// The value found last.
    #[inline]
    pub(super) fn value(&mut self) -> &Value {
        if !self.is_built {
            self.room.tape.build();
            if self.room.tape.has_control_characters() && latex::restore(&mut self.room.tape.built) {
                self.room.repairs.note(Repair::LatexBackslash);
            }
            self.is_built = true;
        }
        &self.room.tape.built
    }

    /// The value found last, to keep.
    pub(super) fn take_value(&mut self) -> Value {
        self.value();
        std::mem::take(&mut self.room.tape.built)
    }

    /// What was repaired in the value found last.
    pub(super) fn repairs(&self) -> &Repairs {
        &self.room.repairs
    }

    /// Goes on inside the value found last: it was not the answer, and its end was a guess.
    pub(super) fn look_inside(&mut self, start: usize) {
        self.restart(start, self.resume_at);
    }

    /// Goes on one byte after `start`, or at `reached` once too much has been read twice.
    fn restart(&mut self, start: usize, reached: usize) {
        let read = reached.saturating_sub(start);
        self.at = if self.work_left >= read { start + 1 } else { reached.max(start + 1) };
        self.work_left = self.work_left.saturating_sub(read);
    }

    /// Whether a fence may still open in what is left.
    pub(super) fn has_fence_left(&self) -> bool {
        let rest = self.source.bytes_from(self.at);
        ["```", "~~~"].iter().any(|fence| memmem::find(rest, fence.as_bytes()).is_some())
    }

    pub(super) fn next(&mut self) -> Option<Found> {
        self.is_built = false;
        loop {
            let start = self.next_bracket()?;
            if !self.may_start(start) {
                self.at = start + 1;
                continue;
            }
            let fenced = is_fenced(self.source, start);
            if self.overrun_left == 0
                && let Some(end) = self.read_strictly(start)
            {
                return Some(Found::Value(self.candidate(Parsed { end, cut: false }, start, fenced)));
            }
            match parser::parse(self.source.text, start, &mut self.room) {
                Ok(parsed) => {
                    let parsed = self.letter_or(parsed, start);
                    return Some(Found::Value(self.candidate(parsed, start, fenced)));
                }
                Err(failed) => {
                    if let Some(found) = self.after_failure(&failed, start, fenced) {
                        return Some(found);
                    }
                }
            }
        }
    }

    /// What a start that the tolerant parser could not read comes to: nothing, if it was never JSON.
    fn after_failure(&mut self, failed: &Failed, start: usize, fenced: bool) -> Option<Found> {
        if self.has_guessed_quotes()
            && let Some(end) = self.read_strictly(start)
        {
            self.overrun_left = self.overrun_left.saturating_sub(failed.at.saturating_sub(end));
            return Some(Found::Value(self.candidate(Parsed { end, cut: false }, start, fenced)));
        }
        match failed.why {
            // What is inside a value that is too deep is not an outermost value.
            Failure::TooDeep => {
                self.at = self.source.len();
                Some(Found::Broken)
            }
            Failure::Broken => {
                self.restart(start, failed.at);
                Some(Found::Broken)
            }
            Failure::NotJson => {
                self.restart(start, failed.at);
                None
            }
        }
    }

    fn next_bracket(&self) -> Option<usize> {
        let rest = self.source.bytes_from(self.at);
        let lists = self.wanted == Wanted::ObjectsAndLists;
        let length = match rest.first()? {
            // One bracket after the other: a search costs more than a look.
            b'{' => 0,
            b'[' if lists => 0,
            _ if lists => memchr::memchr2(b'{', b'[', rest)?,
            _ => memchr::memchr(b'{', rest)?,
        };
        Some(self.at + length)
    }

    /// Whether what follows the bracket at `start` looks like JSON rather than prose.
    fn may_start(&self, start: usize) -> bool {
        let declared = || self.wanted == Wanted::ObjectsAndLists && is_fenced(self.source, start);
        let inside = self.source.blank_end(start + 1);
        let next = self.source.byte(inside);
        if self.source.byte(start) == Some(b'[') {
            return matches!(next, Some(b'{' | b']')) || declared();
        }
        match next {
            None => false,
            Some(b'}' | b'/' | b'#') => true,
            Some(_) if self.source.quote_len(inside) > 0 => self.source.key_at(inside),
            Some(_) => declared(),
        }
    }

    /// Takes what the tolerant parser read, unless it is JSON to the letter.
    ///
    /// Of JSON to the letter only a quote can be misread: whatever else is repaired, a strict reading fails at.
    #[inline]
    fn letter_or(&mut self, parsed: Parsed, start: usize) -> Parsed {
        if self.has_guessed_quotes()
            && let Some(end) = self.read_strictly(start)
        {
            self.overrun_left = self.overrun_left.saturating_sub(parsed.end.saturating_sub(end));
            return Parsed { end, cut: false };
        }
        parsed
    }

    #[inline]
    fn candidate(&mut self, parsed: Parsed, start: usize, fenced: bool) -> Candidate {
        self.at = parsed.end;
        self.resume_at = parsed.end;
        Candidate { cut: parsed.cut, start, fenced }
    }

    /// Whether a quote was taken for a part of a string: if that was wrong, so is all that followed.
    #[inline]
    pub(super) fn has_guessed_quotes(&self) -> bool {
        self.room.repairs.has(Repair::UnescapedQuote)
    }

    /// Reads the value at `start` again, to the letter, and gives the position after it.
    #[cold]
    fn read_strictly(&mut self, start: usize) -> Option<usize> {
        let length = strict::read(self.source.text.get(start..)?, &mut self.room.spare)?;
        let Room { tape, spare, repairs, .. } = &mut self.room;
        tape.swap_content(spare);
        repairs.clear();
        self.is_built = false;
        Some(start + length)
    }
}

/// Whether nothing but a fence's opening line, tagged as JSON, comes before `start`.
fn is_fenced(source: Source<'_>, start: usize) -> bool {
    let before = source.bytes_from(0).get(..start).unwrap_or_default().trim_ascii_end();
    if !before.last().is_some_and(u8::is_ascii_alphanumeric) {
        return false;
    }
    JSON_TAGS.iter().any(|tag| {
        before.len().checked_sub(tag.len()).is_some_and(|at| {
            before.get(at..).is_some_and(|tail| tail.eq_ignore_ascii_case(tag.as_bytes()))
                && before.get(..at).is_some_and(|head| {
                    let head = head.trim_ascii_end();
                    head.ends_with(b"```") || head.ends_with(b"~~~")
                })
        })
    })
}

/// A value that is JSON to the letter, and where it is.
pub(super) struct Strict {
    pub(super) value: Value,
    start: usize,
    end: usize,
}

/// The text from the first opening to the last closing brace, if it is JSON to the letter.
pub(super) fn strict_slice(text: &str) -> Option<Strict> {
    let (start, end) = (text.find('{')?, text.rfind('}')?);
    let value = serde_json::from_str(text.get(start..=end)?).ok()?;
    Some(Strict { value, start, end })
}

/// The content of the first fence tagged `json` that is JSON to the letter.
///
/// A fence within `slice` is in one of its strings and does not count.
pub(super) fn strict_fence(text: &str, slice: Option<&Strict>) -> Option<Value> {
    const OPENING: &str = "```json";
    let (opening, closing) = (Finder::new(OPENING), Finder::new("```"));
    let mut from = 0;
    loop {
        let start = from + opening.find(text.get(from..)?.as_bytes())?;
        from = start + OPENING.len();
        if slice.is_some_and(|slice| (slice.start..slice.end).contains(&start)) {
            continue;
        }
        let rest = text.get(from..)?;
        let length = closing.find(rest.as_bytes())?;
        let body = rest.get(..length)?;
        if !body.trim_ascii().is_empty()
            && let Ok(value) = serde_json::from_str(body)
        {
            return Some(value);
        }
        from += length;
    }
}
