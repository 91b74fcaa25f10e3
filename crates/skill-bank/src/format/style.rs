//! How a JSON text was laid out, so that it can be written in the same way again.

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter};
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
        let spaces = " ".repeat(self.indent.unwrap_or(0));
        let mut bytes = Vec::new();
        // Writing a value to memory does not fail.
        let _ = match self.indent {
            Some(_) => {
                let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
                let layout = Layout { inner: pretty, is_ascii: self.is_ascii };
                value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, layout))
            }
            None => {
                let layout = Layout { inner: OneLine, is_ascii: self.is_ascii };
                value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, layout))
            }
        };
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
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

/// A layout that may escape characters beyond ASCII.
struct Layout<F> {
    inner: F,
    is_ascii: bool,
}

impl<F: Formatter> Formatter for Layout<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.is_ascii || fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut units = [0_u16; 2];
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        self.inner.write_char_escape(writer, escape)
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.inner.begin_array_value(writer, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        self.inner.begin_object_key(writer, is_first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.begin_object_value(writer)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.inner.end_object_value(writer)
    }
}
