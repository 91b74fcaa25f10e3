//! A tolerant JSON parser: one pass, no recursion, and every mend on record.
//!
//! It reads one object or array from a position in a text and does not mind what follows.
//! It fails rather than guesses where it meets something that no rule explains.

use super::MAX_DEPTH;
use super::repair::{Repair, Repairs};
use super::scalar::{self, Scalar};
use super::source::{Around, Place, Source};
use super::string;
use serde_json::{Map, Value};

/// A value that was read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) value: Value,
    /// The position after it.
    pub(super) end: usize,
    pub(super) repairs: Repairs,
    /// The text ended before the value did.
    pub(super) cut: bool,
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It does not start like JSON, and was never meant to be.
    NotJson,
    /// It starts like JSON and cannot be understood further on.
    Broken,
    /// It is nested deeper than [`MAX_DEPTH`].
    TooDeep,
}

/// A failure, and where it was noticed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) why: Failure,
    pub(super) at: usize,
    /// A quote was taken for a part of a string before: a wrong guess there may be the reason.
    pub(super) guessed_quotes: bool,
}

/// Reads the object or array whose opening bracket stands at `start`.
///
/// `room` is to work in; what it holds is dropped.
pub(super) fn parse(text: &str, start: usize, room: &mut Room) -> Result<Parsed, Failed> {
    let Room { stack, members } = room;
    stack.clear();
    members.clear();
    let mut parser = Parser {
        source: Source::new(text),
        at: start,
        repairs: Repairs::default(),
        stack,
        members,
        outermost: Value::Null,
        sure: false,
    };
    match parser.run() {
        Ok(cut) => Ok(Parsed { value: parser.outermost, end: parser.at, repairs: parser.repairs, cut }),
        Err(why) => {
            let why = if parser.sure || why == Failure::TooDeep { why } else { Failure::NotJson };
            Err(Failed { why, at: parser.at, guessed_quotes: parser.repairs.has(Repair::UnescapedQuote) })
        }
    }
}

/// Room for one parser after the other, so that many small values need only one.
#[derive(Debug, Default)]
pub(super) struct Room {
    stack: Vec<Frame>,
    /// The members of all open objects, those of the innermost last: a map is made, and its keys are hashed,
    /// only of an object that is whole.
    members: Vec<(String, Value)>,
}

#[derive(Debug)]
enum Container {
    Object {
        /// Where the members of this object begin among those of all.
        first_member: usize,
        /// The key whose value is being read.
        key: Option<String>,
        /// Its keys have no quotes.
        bare_keys: bool,
    },
    Array(Vec<Value>),
}

/// An open container.
#[derive(Debug)]
struct Frame {
    container: Container,
    /// A value has ended, and no comma has come since.
    comma_due: bool,
    /// Nothing has been read since the opening bracket.
    fresh: bool,
}

/// What one step led to.
enum Step {
    Go,
    /// The outermost value is whole.
    Done,
    /// The text has ended.
    End,
}

struct Parser<'a> {
    source: Source<'a>,
    at: usize,
    repairs: Repairs,
    stack: &'a mut Vec<Frame>,
    members: &'a mut Vec<(String, Value)>,
    /// The value that was read, once it has ended.
    outermost: Value,
    /// Enough was read to know that this was meant to be JSON.
    sure: bool,
}

impl Parser<'_> {
    /// Reads the outermost value, and says whether it was cut off.
    fn run(&mut self) -> Result<bool, Failure> {
        match self.source.byte(self.at) {
            Some(bracket @ (b'{' | b'[')) => self.open(bracket)?,
            _ => return Err(Failure::NotJson),
        }
        loop {
            let in_object = match self.stack.last() {
                Some(frame) => matches!(frame.container, Container::Object { .. }),
                None => return Err(Failure::Broken),
            };
            let step = match self.next_token() {
                None => Step::End,
                Some(byte) if in_object => self.object_step(byte)?,
                Some(byte) => self.array_step(byte)?,
            };
            match step {
                Step::Go => {}
                Step::Done => return Ok(false),
                Step::End => {
                    self.repairs.note(Repair::CutOff);
                    self.outermost = self.close_all();
                    return Ok(true);
                }
            }
        }
    }

    /// Steps over white space and comments; `None` at the end of the text or of its code fence.
    #[inline]
    fn next_token(&mut self) -> Option<u8> {
        self.at = self.source.blank_end(self.at);
        match self.source.byte(self.at)? {
            b'/' | b'#' => self.token_after_comments(),
            b'`' if self.source.starts_with(self.at, "```") => None,
            byte => Some(byte),
        }
    }

    #[cold]
    fn token_after_comments(&mut self) -> Option<u8> {
        while let Some(end) = self.source.comment_end(self.at) {
            self.repairs.note(Repair::Comment);
            self.at = self.source.blank_end(end);
        }
        self.source.byte(self.at).filter(|_| !self.source.starts_with(self.at, "```"))
    }

    fn object_step(&mut self, byte: u8) -> Result<Step, Failure> {
        match byte {
            b'}' => return Ok(self.close(true)),
            b',' => self.comma(),
            b']' if self.around() == Around::Array => {
                self.repairs.note(Repair::MissingBracket);
                return Ok(self.close(false));
            }
            b']' if self.sure => self.skip_stray(),
            b'{' if self.is_fresh() && self.stack.len() > 1 => {
                self.repairs.note(Repair::DoubledBrace);
                self.set_fresh(false);
                self.at += 1;
            }
            b'{' if self.around() == Around::Array && !self.is_fresh() => {
                self.repairs.note(Repair::MissingBracket);
                let comma_due = self.stack.last().is_some_and(|frame| frame.comma_due);
                let step = self.close(false);
                // The comma that was read inside belongs behind the bracket.
                if let Some(frame) = self.stack.last_mut() {
                    frame.comma_due = comma_due;
                }
                return Ok(step);
            }
            _ => return self.member(byte),
        }
        Ok(Step::Go)
    }

    fn array_step(&mut self, byte: u8) -> Result<Step, Failure> {
        match byte {
            b']' => return Ok(self.close(true)),
            b',' => self.comma(),
            b'}' if self.is_stray_brace() => self.skip_stray(),
            b'}' => {
                self.repairs.note(Repair::MissingBracket);
                return Ok(self.close(false));
            }
            _ => {
                self.note_missing_comma();
                self.sure |= !matches!(byte, b'[' | b'{');
                return self.value(byte);
            }
        }
        Ok(Step::Go)
    }

    /// Whether the `}` here, in an array, closes nothing: no object is open, or the array goes on behind it.
    fn is_stray_brace(&self) -> bool {
        if !self.stack.iter().any(|frame| matches!(frame.container, Container::Object { .. })) {
            return true;
        }
        let next = self.source.blank_end(self.at + 1);
        match self.source.byte(next) {
            Some(b']') => true,
            Some(b',') => self.source.byte(self.source.blank_end(next + 1)) == Some(b'{'),
            _ => false,
        }
    }

    fn skip_stray(&mut self) {
        self.repairs.note(Repair::StrayBracket);
        self.at += 1;
    }

    fn comma(&mut self) {
        self.at += 1;
        let had_value = match self.stack.last_mut() {
            Some(frame) => {
                frame.fresh = false;
                std::mem::replace(&mut frame.comma_due, false)
            }
            None => false,
        };
        if !had_value {
            self.repairs.note(Repair::ExtraComma);
        }
    }

    fn note_missing_comma(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.fresh = false;
            if frame.comma_due {
                frame.comma_due = false;
                self.repairs.note(Repair::MissingComma);
            }
        }
    }

    /// Reads a key, its colon, and the value or its opening bracket.
    fn member(&mut self, byte: u8) -> Result<Step, Failure> {
        self.note_missing_comma();
        let bare = self.source.quote_len(self.at) == 0;
        let key = if bare {
            let end = self.source.word_end(self.at);
            if end == self.at {
                return Err(Failure::Broken);
            }
            let word = self.source.slice(self.at, end).to_owned();
            self.at = end;
            self.repairs.note(Repair::UnquotedKey);
            word
        } else {
            // A single quote opens a key only at the start of a word: anything else is prose.
            if byte == b'\'' && !self.sure && self.source.word_end(self.at + 1) == self.at + 1 {
                return Err(Failure::NotJson);
            }
            let mut key = String::new();
            let Some(end) = string::string(self.source, self.at, None, &mut self.repairs, &mut key) else {
                self.at = self.source.len();
                return if self.sure { Ok(Step::End) } else { Err(Failure::NotJson) };
            };
            self.at = end;
            key
        };
        match self.next_token() {
            Some(b':') => self.at += 1,
            Some(_) => return Err(Failure::Broken),
            None if self.sure => return Ok(Step::End),
            None => return Err(Failure::NotJson),
        }
        self.sure = true;
        if let Some(Frame { container: Container::Object { key: pending, bare_keys, .. }, .. }) =
            self.stack.last_mut()
        {
            *pending = Some(key);
            *bare_keys |= bare;
        }
        let Some(byte) = self.next_token() else { return Ok(Step::End) };
        if matches!(byte, b',' | b'}' | b']') {
            self.repairs.note(Repair::MissingValue);
            self.attach(Value::Null);
            return Ok(Step::Go);
        }
        self.value(byte)
    }

    /// Reads a scalar, or opens a container.
    fn value(&mut self, byte: u8) -> Result<Step, Failure> {
        if matches!(byte, b'{' | b'[') {
            self.open(byte)?;
            return Ok(Step::Go);
        }
        if self.source.quote_len(self.at) > 0 {
            return Ok(self.text());
        }
        if self.source.starts_with(self.at, "...") && !self.in_object() {
            self.repairs.note(Repair::Ellipsis);
            self.at += 3;
            // Nothing stands before the comma that follows, and that is as it should be.
            if let Some(frame) = self.stack.last_mut() {
                frame.comma_due = true;
            }
            return Ok(Step::Go);
        }
        let scalar = match byte {
            b'0'..=b'9' | b'-' | b'+' | b'.' => scalar::number(self.source, self.at, &mut self.repairs),
            _ => scalar::word(self.source, self.at, &mut self.repairs),
        };
        match scalar {
            Scalar::Value(value, end) => {
                self.at = end;
                self.attach(value);
                Ok(Step::Go)
            }
            Scalar::Cut => {
                self.at = self.source.len();
                Ok(Step::End)
            }
            Scalar::Nothing => Err(Failure::Broken),
        }
    }

    /// Reads a string, and those that follow it where they are meant to be one.
    fn text(&mut self) -> Step {
        let place = self.place();
        let mut joined = String::new();
        loop {
            let read = string::string(self.source, self.at, Some(place), &mut self.repairs, &mut joined);
            let Some(end) = read else {
                self.at = self.source.len();
                return Step::End;
            };
            self.at = end;
            let next = self.source.blank_end(self.at);
            let next = match self.source.byte(next) {
                Some(b'+') => self.source.blank_end(next + 1),
                Some(_)
                    if place.in_object
                        && !self.source.starts_with(next, "```")
                        && !self.source.key_at(next) =>
                {
                    next
                }
                _ => break,
            };
            if self.source.quote_len(next) == 0 {
                break;
            }
            self.repairs.note(Repair::JoinedStrings);
            self.at = next;
        }
        self.attach(Value::String(joined));
        Step::Go
    }

    fn open(&mut self, bracket: u8) -> Result<(), Failure> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Failure::TooDeep);
        }
        let container = if bracket == b'{' {
            Container::Object { first_member: self.members.len(), key: None, bare_keys: false }
        } else {
            Container::Array(Vec::new())
        };
        self.stack.push(Frame { container, comma_due: false, fresh: true });
        self.at += 1;
        Ok(())
    }

    /// Ends the innermost container; `consume` if its bracket stands here.
    fn close(&mut self, consume: bool) -> Step {
        if consume {
            self.at += 1;
        }
        let Some(frame) = self.stack.pop() else { return Step::End };
        if consume && !frame.comma_due && !frame.fresh {
            self.repairs.note(Repair::TrailingComma);
        }
        let value = match frame.container {
            Container::Object { first_member, .. } => self.object(first_member),
            Container::Array(elements) => Value::Array(elements),
        };
        if self.stack.is_empty() {
            self.outermost = value;
            return Step::Done;
        }
        self.attach(value);
        Step::Go
    }

    /// The object that has the members from this one on.
    fn object(&mut self, first_member: usize) -> Value {
        if first_member >= self.members.len() {
            return Value::Object(Map::new());
        }
        Value::Object(self.members.drain(first_member..).collect())
    }

    fn attach(&mut self, value: Value) {
        let Some(frame) = self.stack.last_mut() else { return };
        frame.comma_due = true;
        frame.fresh = false;
        match &mut frame.container {
            Container::Object { key, .. } => {
                if let Some(key) = key.take() {
                    self.members.push((key, value));
                }
            }
            Container::Array(elements) => elements.push(value),
        }
    }

    /// Ends everything that is open at the end of the text.
    ///
    /// A member keeps what is whole of its value; an element that is not whole is dropped, because half an
    /// edit is not an edit.
    fn close_all(&mut self) -> Value {
        let mut inner: Option<Value> = None;
        while let Some(frame) = self.stack.pop() {
            inner = Some(match frame.container {
                Container::Object { first_member, key, .. } => {
                    if let (Some(key), Some(value)) = (key, inner) {
                        self.members.push((key, value));
                    }
                    self.object(first_member)
                }
                Container::Array(elements) => Value::Array(elements),
            });
        }
        inner.unwrap_or_default()
    }

    fn in_object(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { container: Container::Object { .. }, .. }))
    }

    fn is_fresh(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.fresh)
    }

    fn set_fresh(&mut self, fresh: bool) {
        if let Some(frame) = self.stack.last_mut() {
            frame.fresh = fresh;
        }
    }

    /// What holds the innermost container.
    fn around(&self) -> Around {
        match self.stack.iter().rev().nth(1).map(|frame| &frame.container) {
            None => Around::Nothing,
            Some(Container::Object { .. }) => Around::Object,
            Some(Container::Array(_)) => Around::Array,
        }
    }

    fn place(&self) -> Place {
        let (in_object, bare_keys) = match self.stack.last().map(|frame| &frame.container) {
            Some(Container::Object { bare_keys, .. }) => (true, *bare_keys),
            _ => (false, false),
        };
        Place { in_object, around: self.around(), bare_keys }
    }
}
