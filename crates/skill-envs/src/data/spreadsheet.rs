//! Records of a spreadsheet: the first sheet with cells, a header with names, then one record a row.
//!
//! Cells are read as they come, and only those with values are kept: two values in opposite corners of a sheet are two
//! cells, whatever lies between them.

use super::number_format::shown;
use super::{Missing, Place, Record, bad_data};
use crate::error::{EnvError, read_error};
use calamine::{Data, DataRef, ExcelDateTime, Reader as _, Sheets, Xlsx, XlsxError, open_workbook_auto};
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::ZipArchive;

/// Floating-point numbers up to here hold whole numbers exactly.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;
/// The most bytes that the parts of a workbook may have when they are unpacked: 1 GiB.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;
/// The most cells with values of a sheet.
const MAX_CELLS: usize = 20_000_000;

/// A value of a cell; the error is what the sheet shows in its place, such as `#N/A`.
type CellValue = Result<Value, String>;

/// The cells of a sheet that have values: rows from 0, columns from 0.
type Rows = BTreeMap<u32, BTreeMap<u32, CellValue>>;

/// All records of the first sheet that has cells, in order; a row without a value below a name is left out.
///
/// Numbers without a fraction are whole numbers, dates are texts, and empty cells empty texts. A number that `.xlsx`
/// shows as a percentage or with leading zeros is the text that is shown. A cell with an error is `null`, and told.
///
/// # Errors
///
/// A file that cannot be read or is too large, or a header with an empty or repeated name.
pub(super) fn spreadsheet_records(path: &Path) -> Result<Vec<Record>, EnvError> {
    check_size(path)?;
    let fault = |error: calamine::Error| bad_data(path, format!("is not read as a spreadsheet: {error}"));
    let mut workbook = open_workbook_auto(path).map_err(fault)?;
    let mut sheets = workbook.sheet_names().into_iter();
    let (name, mut rows) = loop {
        let Some(name) = sheets.next() else {
            return Err(bad_data(path, "has no sheet with cells".to_owned()));
        };
        let mut cells = Cells { path, rows: Rows::new(), n_cells: 0 };
        cells.read(&mut workbook, &name)?;
        if !cells.rows.is_empty() {
            break (name, cells.rows);
        }
    };
    let others: Vec<String> = sheets.collect();
    if !others.is_empty() {
        tracing::warn!(path = %path.display(), "the sheet `{name}` is read; not read: {}", others.join(", "));
    }
    let first_column = rows.values().filter_map(|row| row.keys().next()).min().copied().unwrap_or(0);
    let file = Arc::new(path.to_path_buf());
    let Some((header_row, header)) = rows.pop_first() else { return Ok(Vec::new()) };
    let names = header_names(&header, first_column, &place(&file, header_row))?;
    let mut records = Vec::new();
    for (row, mut cells) in rows {
        if !names.keys().any(|column| cells.contains_key(column)) {
            continue;
        }
        let (mut fields, mut missing) = (Map::new(), Vec::new());
        for (column, name) in &names {
            let value = match cells.remove(column) {
                Some(Ok(value)) => value,
                Some(Err(error)) => {
                    missing.push(Missing::CellError { field: name.clone(), error });
                    Value::Null
                }
                None => Value::from(""),
            };
            fields.insert(name.clone(), value);
        }
        records.push(Record { fields, place: place(&file, row), missing });
    }
    warn_of_errors(path, &records);
    Ok(records)
}

fn place(file: &Arc<PathBuf>, row: u32) -> Place {
    let line = usize::try_from(row).unwrap_or(usize::MAX).saturating_add(1);
    Place { file: Arc::clone(file), line, element: None, stem: None }
}

fn warn_of_errors(path: &Path, records: &[Record]) {
    let missing =
        records.iter().flat_map(|record| record.missing.iter().map(move |missing| (record, missing)));
    let mut errors = missing.filter_map(|(record, missing)| match missing {
        Missing::CellError { field, error } => Some((record.place.line(), field, error)),
        Missing::Unlabelled { .. } => None,
    });
    if let Some((line, field, error)) = errors.next() {
        let n_errors = 1 + errors.count();
        tracing::warn!(
            path = %path.display(),
            "{n_errors} cells hold errors and count as missing; the first is {error} in `{field}` in row {line}"
        );
    }
}

/// Refuses a workbook whose packed parts are too large, before any of them is read.
fn check_size(path: &Path) -> Result<(), EnvError> {
    let file = File::open(path).map_err(|source| read_error(path, source))?;
    // The old binary format is no archive, and the reader says what else is not one.
    let Ok(mut archive) = ZipArchive::new(BufReader::new(file)) else { return Ok(()) };
    let mut n_bytes = 0_u64;
    for index in 0..archive.len() {
        let part = archive.by_index_raw(index).map_err(|error| {
            bad_data(path, format!("is not read as a spreadsheet: part {} is damaged: {error}", index + 1))
        })?;
        n_bytes = n_bytes.saturating_add(part.size());
    }
    if n_bytes > MAX_UNPACKED_BYTES {
        return Err(bad_data(path, format!("has more than {MAX_UNPACKED_BYTES} bytes when it is unpacked")));
    }
    Ok(())
}

/// The cells of one sheet while they are read.
struct Cells<'a> {
    path: &'a Path,
    rows: Rows,
    n_cells: usize,
}

impl Cells<'_> {
    fn read(&mut self, workbook: &mut Sheets<BufReader<File>>, name: &str) -> Result<(), EnvError> {
        match workbook {
            Sheets::Xlsx(workbook) => self.read_xlsx(workbook, name),
            Sheets::Xlsb(workbook) => {
                let mut cells = workbook.worksheet_cells_reader(name).map_err(|error| self.fault(&error))?;
                while let Some(cell) = cells.next_cell().map_err(|error| self.fault(&error))? {
                    self.add(cell.get_position(), value(&Data::from(cell.get_value().clone())))?;
                }
                Ok(())
            }
            // The readers of these formats hold a sheet as a whole, within limits of their own.
            Sheets::Xls(_) | Sheets::Ods(_) => {
                let sheet = workbook.worksheet_range(name).map_err(|error| self.fault(&error))?;
                let (first_row, first_column) = sheet.start().unwrap_or_default();
                for (row, column, cell) in sheet.used_cells() {
                    let [row, column] = [row, column].map(|index| u32::try_from(index).unwrap_or(u32::MAX));
                    self.add(
                        (first_row.saturating_add(row), first_column.saturating_add(column)),
                        value(cell),
                    )?;
                }
                Ok(())
            }
        }
    }

    fn read_xlsx(&mut self, workbook: &mut Xlsx<BufReader<File>>, name: &str) -> Result<(), EnvError> {
        let mut cells = match workbook.worksheet_cells_reader(name) {
            Ok(cells) => cells,
            // A chart has a sheet of its own.
            Err(XlsxError::NotAWorksheet(_)) => return Ok(()),
            Err(error) => return Err(self.fault(&error)),
        };
        let formats: Vec<Option<String>> = cells
            .styles()
            .iter()
            .map(|style| style.number_format.as_ref().map(|format| format.format_code.clone()))
            .collect();
        // Errors that came later than the format are not known to its reader, which tells their text and not their place.
        let mut unknown: Vec<(usize, String)> = Vec::new();
        for cell_idx in 0_usize.. {
            match cells.next_cell_with_style_id() {
                Ok(Some((cell, style))) => {
                    let format = formats.get(style).and_then(Option::as_deref);
                    let text = match cell.get_value() {
                        DataRef::Float(number) => format.and_then(|format| shown(*number, format)),
                        _ => None,
                    };
                    let value = match text {
                        Some(text) => Some(Ok(Value::from(text))),
                        None => value(&Data::from(cell.get_value().clone())),
                    };
                    self.add(cell.get_position(), value)?;
                }
                Ok(None) => break,
                Err(XlsxError::CellError(error)) => unknown.push((cell_idx, error)),
                Err(error) => return Err(self.fault(&error)),
            }
        }
        drop(cells);
        self.fill_merged(workbook, name)?;
        if unknown.is_empty() {
            return Ok(());
        }
        let mut unknown = unknown.into_iter().peekable();
        let mut cells = workbook.worksheet_cells_reader(name).map_err(|error| self.fault(&error))?;
        for cell_idx in 0_usize.. {
            let Some(cell) = cells.next_formula().map_err(|error| self.fault(&error))? else { break };
            if let Some((_, error)) = unknown.next_if(|(index, _)| *index == cell_idx) {
                self.add(cell.get_position(), Some(Err(error)))?;
            }
        }
        Ok(())
    }

    /// Gives the cells of a merged range below the header the value of the first one, as far as they are in its column: one
    /// value for several rows is meant for each of them, and one across columns is a heading or a long text.
    fn fill_merged(&mut self, workbook: &mut Xlsx<BufReader<File>>, name: &str) -> Result<(), EnvError> {
        let merged = match workbook.merge_cells_by_sheet_name(name) {
            Ok(merged) => merged,
            Err(error) => return Err(self.fault(&error)),
        };
        let Some(header) = self.rows.keys().next().copied() else { return Ok(()) };
        for range in merged {
            let (first_row, first_column) = range.start;
            let (last_row, _) = range.end;
            let value = self.rows.get(&first_row).and_then(|row| row.get(&first_column)).cloned();
            let Some(value) = value.filter(|_| first_row > header) else { continue };
            for row in first_row.saturating_add(1)..=last_row {
                self.add((row, first_column), Some(value.clone()))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, (row, column): (u32, u32), value: Option<CellValue>) -> Result<(), EnvError> {
        let Some(value) = value else { return Ok(()) };
        self.n_cells += 1;
        if self.n_cells > MAX_CELLS {
            return Err(bad_data(self.path, format!("has a sheet with more than {MAX_CELLS} cells")));
        }
        self.rows.entry(row).or_default().insert(column, value);
        Ok(())
    }

    fn fault(&self, error: &dyn std::error::Error) -> EnvError {
        bad_data(self.path, format!("is not read as a spreadsheet: {error}"))
    }
}

/// The names of the columns; columns behind the last name hold no fields.
fn header_names(
    header: &BTreeMap<u32, CellValue>,
    first_column: u32,
    place: &Place,
) -> Result<BTreeMap<u32, String>, EnvError> {
    let named = header.iter().map(|(column, cell)| (*column, header_name(cell)));
    let named: BTreeMap<u32, String> = named.filter(|(_, name)| !name.is_empty()).collect();
    let last = named.keys().next_back().copied().unwrap_or(first_column);
    for column in first_column..=last {
        let Some(name) = named.get(&column) else {
            let number = column - first_column + 1;
            return Err(place.error(format!("column {number} has no name in the header")));
        };
        if named.range(..column).any(|(_, earlier)| earlier == name) {
            return Err(place.error(format!("the header has the column `{name}` twice")));
        }
    }
    Ok(named)
}

fn header_name(cell: &CellValue) -> String {
    match cell {
        Ok(Value::String(text)) => text.trim().to_owned(),
        Ok(other) => other.to_string(),
        Err(error) => error.clone(),
    }
}

/// The value of a cell; `None` for an empty one.
fn value(cell: &Data) -> Option<CellValue> {
    Some(Ok(match cell {
        Data::Empty => return None,
        Data::String(text) => Value::from(text.as_str()),
        Data::Bool(is_true) => Value::from(*is_true),
        Data::Int(number) => Value::from(*number),
        Data::Float(number) => number_value(*number),
        Data::Error(error) => return Some(Err(error.to_string())),
        Data::DateTime(time) => Value::from(time_text(time)),
        Data::DateTimeIso(text) | Data::DurationIso(text) => Value::from(text.as_str()),
    }))
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
