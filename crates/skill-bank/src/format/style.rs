//! How a JSON text was laid out, so that it can be written in the same way again.

use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter};
use serde_json::{Serializer, Value};
use std::io::{self, Write};

/// The layout of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Spaces of each level; `None` for one line.
    indent: Option<usize>,
    /// Whether characters beyond ASCII are escaped by their number, as Python does by default.
    is_ascii: bool,
    /// Whether a line feed ends the text.
    ends_line: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { indent: Some(2), is_ascii: false, ends_line: true }
    }
}

impl Style {
    /// The layout that gives exactly this text for this value, or the nearest to it.
    pub(super) fn of(text: &str, value: &Value) -> Self {
        let ends_line = text.ends_with('\n');
        let second_line = text.lines().nth(1);
        let indent = second_line.map(|line| line.chars().take_while(|&character| character == ' ').count());
        let plain = Self { indent, is_ascii: false, ends_line };
        let ascii = Self { is_ascii: true, ..plain };
        if text.is_ascii() && ascii.write(value) == text && plain.write(value) != text {
            ascii
        } else {
            plain
        }
    }

    /// The value as text in this layout.
    pub(super) fn write(self, value: &Value) -> String {
        let mut bytes = Vec::new();
        // Writing a value to memory does not fail.
        let _ = match self.indent {
            Some(n_spaces) => {
                let spaces = " ".repeat(n_spaces);
                let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
                value.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))
            }
            None => value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine)),
        };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if self.is_ascii {
            text = in_ascii(&text);
        }
        if self.ends_line {
            text.push('\n');
        }
        text
    }
}

/// One line as Python writes it, with a space after each comma and colon.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        if is_first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// A text of JSON whose characters beyond ASCII are escaped: they are in strings, where an escape says the same.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            ascii.push(character);
        } else {
            let mut units = [0; 2];
            ascii.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    ascii
}
