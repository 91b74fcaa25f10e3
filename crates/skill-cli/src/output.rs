//! What commands write: data and texts to standard output, sentences for people to standard error.

use crate::error::{CliError, Result};
use crate::table::terminal_width;
use crate::wrap::{stderr_width, wrapped};
use serde::Serialize;
use std::io::Write as _;

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(CliError::Output)
}

/// Writes sentences and tables for people to standard output: on a terminal, long lines are broken between words.
pub(crate) fn print_wrapped(text: &str) -> Result {
    print(&wrapped(text, terminal_width()))
}

/// Writes a sentence for people to standard error; a closed stream is not a failure.
pub(crate) fn say(text: &str) {
    if crate::log::is_json() {
        return crate::log::tell(text);
    }
    let write = || writeln!(anstream::stderr(), "{}", wrapped(text, stderr_width()));
    crate::progress_bar::beside_bar(write).unwrap_or_default();
}

/// A value as one line of JSON, without the end of the line.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("the keys of what commands show are texts")
}

/// A value as JSON for people.
pub(crate) fn pretty_json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("the keys of what commands show are texts")
}

/// Writes a value as a line of JSON to standard output.
pub(crate) fn print_json(value: &(impl Serialize + ?Sized)) -> Result {
    print(&(json(value) + "\n"))
}

/// Writes a value as JSON for people to standard output.
pub(crate) fn print_pretty_json(value: &(impl Serialize + ?Sized)) -> Result {
    print(&(pretty_json(value) + "\n"))
}
