//! A tolerant JSON parser: one pass, no recursion, and every repair on record.
//!
//! It reads one object or array from a position in a text and does not mind what follows.
//! It fails rather than guesses where it meets something that no rule explains.

use super::MAX_DEPTH;
use super::repair::{Repair, Repairs};
use super::scalar::{self, Scalar};
use super::source::{Around, Place, Source};
use super::string;
use super::tape::{Node, Tape};

/// A value that was read: it stands on the tape of the [`Room`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Parsed {
    /// The position after it.
    pub(super) end: usize,
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
}

/// Room for one parser after the other, so that many small values need only one.
#[derive(Debug, Default)]
pub(super) struct Room {
    stack: Vec<Frame>,
    /// The value that was read last.
    pub(super) tape: Tape,
    /// Where another reading of the same value is tried.
    pub(super) spare: Tape,
    /// What was repaired in it, or before reading it failed.
    pub(super) repairs: Repairs,
}

/// Reads the object or array whose opening bracket is at `start`, into `room`, whose content is dropped.
pub(super) fn parse(text: &str, start: usize, room: &mut Room) -> Result<Parsed, Failed> {
    let Room { stack, tape, repairs, .. } = room;
    stack.clear();
    tape.clear();
    repairs.clear();
    let mut parser = Parser { source: Source::new(text), at: start, repairs, stack, tape, sure: false };
    match parser.run() {
        Ok(cut) => Ok(Parsed { end: parser.at, cut }),
        Err(why) => {
            let why = if parser.sure || why == Failure::TooDeep { why } else { Failure::NotJson };
            Err(Failed { why, at: parser.at })
        }
    }
}

/// An open container.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// It is an object; otherwise an array.
    is_object: bool,
    /// Its keys have no quotes.
    bare_keys: bool,
    /// A value has ended, and no comma has come since.
    comma_due: bool,
    /// Nothing has been read since the opening bracket.
    fresh: bool,
    /// Where it stands on the tape.
    node: usize,
    /// How many values in it have ended.
    length: usize,
}

impl Frame {
    /// The node of this container once it has ended with so many values.
    fn closed(self, length: usize) -> Node {
        if self.is_object { Node::Object(length) } else { Node::Array(length) }
    }
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
    repairs: &'a mut Repairs,
    stack: &'a mut Vec<Frame>,
    tape: &'a mut Tape,
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
                Some(frame) => frame.is_object,
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
                    self.close_all();
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
        if !self.stack.iter().any(|frame| frame.is_object) {
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
        let key_start = self.tape.text.len();
        if bare {
            let end = self.source.word_end(self.at);
            if end == self.at {
                return Err(Failure::Broken);
            }
            self.tape.text.push_str(self.source.slice(self.at, end));
            self.at = end;
            self.repairs.note(Repair::UnquotedKey);
        } else {
            // A single quote opens a key only at the start of a word: anything else is prose.
            if byte == b'\'' && !self.sure && self.source.word_end(self.at + 1) == self.at + 1 {
                return Err(Failure::NotJson);
            }
            let read = string::string(self.source, self.at, None, self.repairs, &mut self.tape.text);
            let Some(end) = read else {
                self.at = self.source.len();
                return if self.sure { Ok(Step::End) } else { Err(Failure::NotJson) };
            };
            self.at = end;
        }
        match self.next_token() {
            Some(b':') => self.at += 1,
            Some(_) if self.sure && !bare && self.source.quote_len(self.at) > 0 => {
                self.repairs.note(Repair::MissingColon);
            }
            Some(_) => return Err(Failure::Broken),
            None if self.sure => return Ok(Step::End),
            None => return Err(Failure::NotJson),
        }
        self.sure = true;
        self.tape.push(Node::Key(self.tape.text.len() - key_start));
        if let Some(frame) = self.stack.last_mut() {
            frame.bare_keys |= bare;
        }
        let Some(byte) = self.next_token() else { return Ok(Step::End) };
        if matches!(byte, b',' | b'}' | b']') {
            self.repairs.note(Repair::MissingValue);
            self.attach(Node::Null);
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
            // Nothing comes before the comma that follows, and that is as it should be.
            if let Some(frame) = self.stack.last_mut() {
                frame.comma_due = true;
            }
            return Ok(Step::Go);
        }
        let scalar = match byte {
            b'0'..=b'9' | b'-' | b'+' | b'.' => scalar::number(self.source, self.at, self.repairs),
            _ => scalar::word(self.source, self.at, self.repairs),
        };
        match scalar {
            Scalar::Value(node, end) => {
                self.at = end;
                self.attach(node);
                Ok(Step::Go)
            }
            Scalar::Word(end) => {
                self.tape.text.push_str(self.source.slice(self.at, end));
                self.attach(Node::Text(end - self.at));
                self.at = end;
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
        let start = self.tape.text.len();
        loop {
            let read = string::string(self.source, self.at, Some(place), self.repairs, &mut self.tape.text);
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
        self.attach(Node::Text(self.tape.text.len() - start));
        Step::Go
    }

    fn open(&mut self, bracket: u8) -> Result<(), Failure> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Failure::TooDeep);
        }
        let is_object = bracket == b'{';
        let node = self.tape.push(Node::Null);
        self.stack.push(Frame {
            is_object,
            bare_keys: false,
            comma_due: false,
            fresh: true,
            node,
            length: 0,
        });
        self.at += 1;
        Ok(())
    }

    /// Ends the innermost container; `consume` if its bracket is here.
    fn close(&mut self, consume: bool) -> Step {
        if consume {
            self.at += 1;
        }
        let Some(frame) = self.stack.pop() else { return Step::End };
        if consume && !frame.comma_due && !frame.fresh {
            self.repairs.note(Repair::TrailingComma);
        }
        self.tape.set(frame.node, frame.closed(frame.length));
        if self.stack.is_empty() {
            return Step::Done;
        }
        self.count_value();
        Step::Go
    }

    /// Adds a scalar to the innermost container.
    fn attach(&mut self, scalar: Node) {
        self.tape.push(scalar);
        self.count_value();
    }

    /// Notes that a value in the innermost container has ended.
    #[inline]
    fn count_value(&mut self) {
        if let Some(frame) = self.stack.last_mut() {
            frame.comma_due = true;
            frame.fresh = false;
            frame.length += 1;
        }
    }

    /// Ends everything that is open at the end of the text.
    ///
    /// A member keeps what is whole of its value; an element that is not whole is dropped, because half an
    /// edit is not an edit.
    fn close_all(&mut self) {
        self.tape.drop_open_key();
        let mut inner = None;
        while let Some(frame) = self.stack.pop() {
            let length = match inner {
                Some(_) if frame.is_object => frame.length + 1,
                Some(element) => {
                    self.tape.drop_from(element);
                    frame.length
                }
                None => frame.length,
            };
            self.tape.set(frame.node, frame.closed(length));
            inner = Some(frame.node);
        }
    }

    fn in_object(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.is_object)
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
        match self.stack.iter().rev().nth(1) {
            None => Around::Nothing,
            Some(frame) if frame.is_object => Around::Object,
            Some(_) => Around::Array,
        }
    }

    fn place(&self) -> Place {
        let innermost = self.stack.last();
        Place {
            in_object: innermost.is_some_and(|frame| frame.is_object),
            around: self.around(),
            bare_keys: innermost.is_some_and(|frame| frame.bare_keys),
        }
    }
}
