//! Records of a spreadsheet: the first sheet with cells, a header with names, then one record a row.

use super::{Place, Record, bad_data};
use crate::error::EnvError;
use calamine::{Data, ExcelDateTime, Reader as _, open_workbook_auto};
use serde_json::{Map, Number, Value};
use std::path::Path;
use std::sync::Arc;

/// Floating-point numbers up to here hold whole numbers exactly.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// All records of the first sheet that has cells, in order; a row without any value is left out.
///
/// Numbers without a fraction are whole numbers, dates are texts, and empty cells empty texts.
///
/// # Errors
///
/// A file that cannot be read, a header with an empty or repeated name, or a cell with an error.
pub(super) fn spreadsheet_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    let fault = |error: calamine::Error| bad_data(path, format!("is not read as a spreadsheet: {error}"));
    let mut workbook = open_workbook_auto(path).map_err(fault)?;
    let mut sheets = workbook.sheet_names().into_iter();
    let (name, sheet) = loop {
        let Some(name) = sheets.next() else {
            return Err(bad_data(path, "has no sheet with cells".to_owned()));
        };
        let sheet = workbook.worksheet_range(&name).map_err(fault)?;
        if !sheet.is_empty() {
            break (name, sheet);
        }
    };
    let others: Vec<String> = sheets.collect();
    if !others.is_empty() {
        tracing::warn!(path = %path.display(), "the sheet `{name}` is read; not read: {}", others.join(", "));
    }
    let first_row = sheet.start().map_or(0, |(row, _)| row);
    let file = Arc::new(path.to_path_buf());
    let place = |row_idx: usize| {
        let line = usize::try_from(first_row).unwrap_or(usize::MAX).saturating_add(row_idx + 1);
        Place { file: Arc::clone(&file), line, element: None }
    };
    let mut rows = sheet.rows().enumerate();
    let names = match rows.next() {
        Some((row_idx, header)) => header_names(header, &place(row_idx))?,
        None => Vec::new(),
    };
    let mut records = Vec::new();
    for (row_idx, row) in rows {
        if row.iter().all(|cell| matches!(cell, Data::Empty)) {
            continue;
        }
        let place = place(row_idx);
        let mut fields = Map::new();
        for (name, cell) in names.iter().zip(row) {
            let Some(name) = name else { continue };
            let value = value(cell)
                .map_err(|error| place.error(format!("the cell of `{name}` has the error {error}")))?;
            fields.insert(name.clone(), value);
        }
        records.push(Record { fields, place });
    }
    Ok(records)
}

/// The names of the columns; `None` for columns without a name at the end of the header, which hold no fields.
fn header_names(header: &[Data], place: &Place) -> Result<Vec<Option<String>>, EnvError> {
    let names: Vec<String> = header.iter().map(|cell| cell.to_string().trim().to_owned()).collect();
    let n_named = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    for (column_idx, name) in names.iter().enumerate().take(n_named) {
        if name.is_empty() {
            return Err(place.error(format!("column {} has no name in the header", column_idx + 1)));
        }
        if names.iter().take(column_idx).any(|earlier| earlier == name) {
            return Err(place.error(format!("the header has the column `{name}` twice")));
        }
    }
    Ok(names.into_iter().map(|name| Some(name).filter(|name| !name.is_empty())).collect())
}

fn value(cell: &Data) -> Result<Value, String> {
    Ok(match cell {
        Data::Empty => Value::from(""),
        Data::String(text) => Value::from(text.as_str()),
        Data::Bool(is_true) => Value::from(*is_true),
        Data::Int(number) => Value::from(*number),
        Data::Float(number) => number_value(*number),
        Data::Error(error) => return Err(error.to_string()),
        Data::DateTime(time) => Value::from(time_text(time)),
        Data::DateTimeIso(text) | Data::DurationIso(text) => Value::from(text.as_str()),
    })
}

/// A time as ISO 8601 writes it, a date alone where it is midnight; a duration in days.
fn time_text(time: &ExcelDateTime) -> String {
    if time.is_duration() {
        return time.as_f64().to_string();
    }
    match time.to_ymd_hms_milli() {
        (year, month, day, 0, 0, 0, 0) => format!("{year:04}-{month:02}-{day:02}"),
        (year, month, day, hour, minute, second, 0) => {
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
        }
        (year, month, day, hour, minute, second, milli) => {
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}")
        }
    }
}

/// Spreadsheets have floating-point numbers alone; whole ones are shown, and meant, without a fraction.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole and small enough")]
fn number_value(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= MAX_WHOLE {
        return Value::from(number as i64);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}
