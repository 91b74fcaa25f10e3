//! Records of a CSV file: a header with names, then one record a row.

use super::{Place, Record};
use crate::error::EnvError;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// All records of the text, in order; each value is a text, and an empty cell an empty one.
///
/// # Errors
///
/// A blank name in the header above a value, or a row that has not as many cells as the header.
pub(super) fn csv_records(path: &Path, text: &str, usual_delimiter: u8) -> Result<Vec<Record>, EnvError> {
    let file = Arc::new(path.to_path_buf());
    let place = |line: usize| Place { file: Arc::clone(&file), line, element: None, stem: None };
    let (text, header_line, delimiter) = match delimiter_hint(text) {
        Some((hint, rest)) => (rest, 2, hint),
        None => (text, 1, delimiter_of(text, usual_delimiter)),
    };
    let tidied = without_blanks_before_quotes(text, delimiter);
    let text = &*tidied;
    let mut lines = Lines { text, offset: 0, line: header_line };
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| fault(&error, &mut lines, &place))?.clone();
    let names: Vec<&str> = header.iter().map(str::trim).collect();
    if let [name] = names.as_slice()
        && let Some(mark) = [',', ';', '\t'].into_iter().find(|mark| name.contains(*mark))
        && text.lines().nth(1).is_some_and(|line| line.starts_with('"') && line.contains(mark))
    {
        let message = "each line is one cell in quotes, with the columns inside of it; take the quotes around the lines off, \
                       or export the file again";
        return Err(place(header_line).error(message.to_owned()));
    }
    let mut records = Vec::new();
    let mut n_headers = 0_usize;
    for row in reader.records() {
        let row = row.map_err(|error| fault(&error, &mut lines, &place))?;
        let line = lines.at(row.position());
        if names.len() > 1 && row.iter().map(str::trim).eq(names.iter().copied()) {
            n_headers += 1;
            continue;
        }
        let mut fields = Map::new();
        for (column_idx, (name, cell)) in names.iter().zip(&row).enumerate() {
            if name.is_empty() && names.len() > 1 {
                // pandas numbers the rows in a first column without a name.
                let is_index = column_idx == 0 && cell.trim().parse::<u64>().is_ok();
                if !cell.trim().is_empty() && !is_index {
                    let message = format!("column {} has no name in the header", column_idx + 1);
                    return Err(place(header_line).error(message));
                }
                continue;
            }
            add(&mut fields, name, cell);
        }
        records.push(Record { fields, place: place(line), missing: Vec::new() });
    }
    if n_headers > 0 {
        tracing::warn!(
            "{}: the header is in the file {n_headers} times more, and left out there",
            path.display()
        );
    }
    Ok(records)
}

/// Adds a cell; the cells of columns with one name are a list, as exports repeat a column for each comment or label.
fn add(fields: &mut Map<String, Value>, name: &str, cell: &str) {
    match fields.get_mut(name) {
        None => drop(fields.insert(name.to_owned(), Value::from(cell))),
        Some(_) if cell.trim().is_empty() => {}
        Some(Value::Array(cells)) => cells.push(Value::from(cell)),
        Some(first) => {
            let is_blank = first.as_str().is_some_and(|text| text.trim().is_empty());
            *first =
                if is_blank { Value::from(cell) } else { Value::from(vec![first.take(), Value::from(cell)]) };
        }
    }
}

/// The text without the blanks between a delimiter and a quote, which would make the quote a character of its cell.
fn without_blanks_before_quotes(text: &str, delimiter: u8) -> Cow<'_, str> {
    let delimiter = char::from(delimiter);
    if delimiter == ' ' || !text.contains(&format!("{delimiter} ")) {
        return Cow::Borrowed(text);
    }
    let mut tidied = String::with_capacity(text.len());
    let (mut is_quoted, mut is_start) = (false, true);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let behind = rest.get(character.len_utf8()..).unwrap_or_default();
        if is_start && character == ' ' && rest.trim_start_matches(' ').starts_with('"') {
            rest = behind;
            continue;
        }
        match character {
            '"' if is_quoted => is_quoted = false,
            // A doubled quote closes and opens again.
            '"' if is_start || tidied.ends_with('"') => is_quoted = true,
            _ => {}
        }
        is_start = !is_quoted && (character == delimiter || character == '\n');
        tidied.push(character);
        rest = behind;
    }
    Cow::Owned(tidied)
}

/// The delimiter that a first line such as `sep=;` tells Excel, and the text behind that line.
fn delimiter_hint(text: &str) -> Option<(u8, &str)> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    // Not all white space: the delimiter may be a tab.
    let first = first.trim_end_matches('\r');
    let quoted = first.strip_prefix('"').and_then(|first| first.strip_suffix('"'));
    let (name, delimiter) = quoted.unwrap_or(first).split_once('=')?;
    match delimiter.as_bytes() {
        [delimiter] if name.trim().eq_ignore_ascii_case("sep") => Some((*delimiter, rest)),
        _ => None,
    }
}

/// The delimiter of a text: the usual one, unless the header has none of them outside of quotes and has some of another.
fn delimiter_of(text: &str, usual: u8) -> u8 {
    let header = text.lines().next().unwrap_or_default();
    let count = |delimiter: u8| {
        let mut is_quoted = false;
        let outside = header.bytes().filter(|byte| {
            is_quoted ^= *byte == b'"';
            !is_quoted && *byte == delimiter
        });
        outside.count()
    };
    if count(usual) > 0 {
        return usual;
    }
    let others = [b';', b'\t', b'|', b','].into_iter().map(|delimiter| (count(delimiter), delimiter));
    // Of equal counts the first: `max_by_key` takes the last.
    others
        .rev()
        .max_by_key(|(count, _)| *count)
        .filter(|(count, _)| *count > 0)
        .map_or(usual, |(_, found)| found)
}

/// Finds the lines at which rows start; rows are asked for in order.
///
/// The reader counts lines too, but where they end with two characters it is between the two.
struct Lines<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, position: Option<&csv::Position>) -> usize {
        let start = position.and_then(|position| usize::try_from(position.byte()).ok()).unwrap_or(0);
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let start = start + rest.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let passed = self.text.as_bytes().get(self.offset..start).unwrap_or_default();
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.offset = self.offset.max(start);
        self.line
    }
}

fn fault(error: &csv::Error, lines: &mut Lines<'_>, place: &impl Fn(usize) -> Place) -> EnvError {
    let line = lines.at(error.position());
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => format!(
            "has {len} cells where the header has {expected_len}; a cell with a comma or a line break in it goes in \
             double quotes"
        ),
        _ => format!("is not CSV: {error}"),
    };
    place(line).error(message)
}
