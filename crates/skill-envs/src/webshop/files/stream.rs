//! JSON files that are read entry by entry, so that a catalogue of a million products needs no second copy.

use crate::error::EnvError;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::path::Path;
use std::rc::Rc;

/// Calls `each` with every element of the array in a file, or with the first `limit`.
///
/// # Errors
///
/// A file that cannot be read or is not such an array, or what `each` refuses.
pub(super) fn elements<T: DeserializeOwned>(
    path: &Path,
    limit: Option<usize>,
    each: &mut dyn FnMut(T) -> Result<(), String>,
) -> Result<(), EnvError> {
    let (reader, mut walk) = open(path)?;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let elements = Elements { walk: &mut walk, limit, each };
    let result = json.deserialize_seq(elements).and_then(|()| json.end());
    walk.finish(path, result)
}

/// Calls `each` with every member of the object in a file.
///
/// # Errors
///
/// A file that cannot be read or is not such an object, or what `each` refuses.
pub(super) fn members(
    path: &Path,
    each: &mut dyn FnMut(String, Value) -> Result<(), String>,
) -> Result<(), EnvError> {
    let (reader, mut walk) = open(path)?;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let result = json.deserialize_map(Members { walk: &mut walk, each }).and_then(|()| json.end());
    walk.finish(path, result)
}

fn open(path: &Path) -> Result<(PythonJson<BufReader<File>>, Walk), EnvError> {
    let file = File::open(path).map_err(|source| EnvError::ReadData { path: path.to_path_buf(), source })?;
    let line = Rc::new(Cell::new(1));
    let reader = PythonJson { bytes: BufReader::new(file), state: Lexical::Outside, line: Rc::clone(&line) };
    Ok((reader, Walk { line, entry_line: 1, element: 0, refusal: None, is_cut: false }))
}

/// Where the reading of a file is.
struct Walk {
    /// The line of the byte that was read last, from 1.
    line: Rc<Cell<usize>>,
    /// The line where the last entry begins.
    entry_line: usize,
    /// The number of the last element of an array, from 1.
    element: usize,
    /// Why the last entry was refused.
    refusal: Option<String>,
    /// Whether the limit was reached before the end.
    is_cut: bool,
}

impl Walk {
    fn refuse<E: serde::de::Error>(&mut self, message: String) -> E {
        self.refusal = Some(message);
        E::custom("refused")
    }

    fn finish(self, path: &Path, result: Result<(), serde_json::Error>) -> Result<(), EnvError> {
        let error = match result {
            Ok(()) => return Ok(()),
            Err(_) if self.is_cut => return Ok(()),
            Err(error) => error,
        };
        let path = path.to_path_buf();
        if error.is_io() {
            return Err(EnvError::ReadData { path, source: error.into() });
        }
        let (line, message) = match self.refusal {
            Some(message) => (self.entry_line, message),
            None => (error.line(), message_of(&error)),
        };
        Err(match self.element {
            0 => EnvError::BadLine { path, line, message },
            element => EnvError::BadElement { path, element, line, message },
        })
    }
}

/// What is wrong, with the column; the line is named apart.
fn message_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

struct Elements<'w, 'e, T> {
    walk: &'w mut Walk,
    limit: Option<usize>,
    each: &'e mut dyn FnMut(T) -> Result<(), String>,
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Elements<'_, '_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        loop {
            if self.limit.is_some_and(|limit| self.walk.element >= limit) {
                self.walk.is_cut = true;
                return Err(A::Error::custom("the limit is reached"));
            }
            self.walk.element += 1;
            let entry = Entry { line: Rc::clone(&self.walk.line), kind: PhantomData };
            let Some((line, value)) = sequence.next_element_seed(entry)? else {
                // What is wrong behind the array is wrong with no element.
                self.walk.element = 0;
                return Ok(());
            };
            self.walk.entry_line = line;
            (self.each)(value).map_err(|message| self.walk.refuse(message))?;
        }
    }
}

struct Members<'w, 'e> {
    walk: &'w mut Walk,
    each: &'e mut dyn FnMut(String, Value) -> Result<(), String>,
}

impl<'de> Visitor<'de> for Members<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key()? {
            self.walk.entry_line = self.walk.line.get();
            let value = map.next_value()?;
            (self.each)(name, value).map_err(|message| self.walk.refuse(message))?;
        }
        Ok(())
    }
}

/// Notes the line at which an element begins.
struct Entry<T> {
    line: Rc<Cell<usize>>,
    kind: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Entry<T> {
    type Value = (usize, T);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let line = self.line.get();
        Ok((line, T::deserialize(deserializer)?))
    }
}

/// Bytes of JSON as Python writes it: `NaN`, `Infinity` and `-Infinity`, which JSON does not have, become a 0 of the
/// same width. Counts lines on the way.
struct PythonJson<R> {
    bytes: R,
    state: Lexical,
    line: Rc<Cell<usize>>,
}

/// Where in a JSON text a byte stands.
#[derive(Clone, Copy)]
enum Lexical {
    Outside,
    String,
    /// Behind a backslash in a string.
    Escaped,
    /// In a word that is no JSON, with so many bytes still to come.
    Word(u8),
}

impl<R: Read> Read for PythonJson<R> {
    /// Reads one byte, since the line must be known to anyone who reads, and serde_json asks for no more.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(one) = buffer.get_mut(..1) else {
            return Ok(0);
        };
        let n_read = self.bytes.read(one)?;
        if n_read == 1
            && let Some(byte) = one.first_mut()
        {
            (*byte, self.state) = self.state.after(*byte);
            if *byte == b'\n' {
                self.line.set(self.line.get() + 1);
            }
        }
        Ok(n_read)
    }
}

impl Lexical {
    /// The byte to hand out, and where the next one stands.
    fn after(self, byte: u8) -> (u8, Self) {
        match (self, byte) {
            (Self::Outside, b'"') => (byte, Self::String),
            (Self::Outside, b'N') => (b'0', Self::Word(2)),
            (Self::Outside, b'I') => (b'0', Self::Word(7)),
            (Self::Outside, _) => (byte, Self::Outside),
            (Self::String, b'"') => (byte, Self::Outside),
            (Self::String, b'\\') => (byte, Self::Escaped),
            (Self::String | Self::Escaped, _) => (byte, Self::String),
            (Self::Word(0 | 1), b'a'..=b'z' | b'N') => (b' ', Self::Outside),
            (Self::Word(rest), b'a'..=b'z') => (b' ', Self::Word(rest - 1)),
            (Self::Word(_), _) => (byte, Self::Outside),
        }
    }
}
