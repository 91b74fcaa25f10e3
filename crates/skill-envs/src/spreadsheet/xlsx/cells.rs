//! The cells of a sheet.

use super::styles::Styles;
use super::text::{attribute, content, reader, rich};
use super::value::{DAYS_TO_1904, Value};
use super::{XlsxError, damaged};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a sheet.
pub(crate) const MAX_ROWS: u32 = 1_048_576;
/// The columns of a sheet.
pub(crate) const MAX_COLUMNS: u32 = 16_384;
/// The most cells that are kept of a sheet.
const MAX_CELLS: usize = 4_000_000;

/// A rectangle of cells; rows and columns from 1, both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// The first and the last row.
    pub rows: (u32, u32),
    /// The first and the last column.
    pub columns: (u32, u32),
}

impl Area {
    /// All cells of a sheet.
    pub const WHOLE: Self = Self { rows: (1, MAX_ROWS), columns: (1, MAX_COLUMNS) };

    /// True if a cell lies in it.
    pub fn contains(&self, row: u32, column: u32) -> bool {
        (self.rows.0..=self.rows.1).contains(&row) && (self.columns.0..=self.columns.1).contains(&column)
    }
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Its value; of a formula the stored one.
    pub value: Value,
    /// The number that it stores, under whatever format.
    pub number: Option<f64>,
    /// The number is shown as a percentage.
    pub is_percent: bool,
    /// It holds a formula.
    pub has_formula: bool,
    /// The text of the formula, for people.
    pub formula: Option<Box<str>>,
}

impl Cell {
    /// A cell without anything.
    pub(crate) fn empty() -> Self {
        Self::of(Value::Empty)
    }

    /// A cell with this value, as a number if it is one.
    pub fn of(value: Value) -> Self {
        Self { number: value.number(), value, is_percent: false, has_formula: false, formula: None }
    }

    /// A formula that nobody has calculated.
    pub(crate) fn is_uncalculated(&self) -> bool {
        self.has_formula && self.value == Value::Empty
    }
}

/// Cells by row and column, from 1; those without value and formula are left out.
pub type Cells = BTreeMap<(u32, u32), Cell>;

/// What was found in a sheet.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The cells that were asked for.
    pub(crate) cells: Cells,
    /// The last row and the last column with a cell, of the whole sheet; 0 in an empty one.
    pub(crate) last: (u32, u32),
}

/// What the cells of a sheet refer to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) part: &'a str,
    pub(super) strings: &'a [Arc<str>],
    pub(super) styles: &'a Styles,
    pub(super) is_1904: bool,
}

impl Context<'_> {
    /// The cells of a sheet in these areas.
    pub(super) fn read(&self, text: &str, areas: &[Area]) -> Result<Found, XlsxError> {
        let mut xml = reader(text);
        let mut cells = Cells::new();
        let mut last = (0, 0);
        let (mut row, mut column) = (0_u32, 0_u32);
        loop {
            match xml.read_event().map_err(|error| damaged(self.part, error))? {
                Event::Start(element) => match element.local_name().as_ref() {
                    "row" => {
                        let named = attribute(&element, "r").and_then(|number| number.trim().parse().ok());
                        row = named.unwrap_or(row.saturating_add(1));
                        column = 0;
                    }
                    "c" => {
                        let at = attribute(&element, "r").map(|name| self.place(&name)).transpose()?;
                        let at = at.unwrap_or((row, column.saturating_add(1)));
                        column = at.1;
                        let Some(cell) = self.cell(&mut xml, &element)? else { continue };
                        last = (last.0.max(at.0), last.1.max(at.1));
                        if areas.iter().any(|area| area.contains(at.0, at.1)) {
                            cells.insert(at, cell);
                            if cells.len() > MAX_CELLS {
                                return Err(XlsxError::TooManyCells { max_cells: MAX_CELLS });
                            }
                        }
                    }
                    "mergeCell" => {
                        if let Some(area) = attribute(&element, "ref").and_then(|text| merged(&text)) {
                            hide(&mut cells, &area);
                        }
                    }
                    _ => {}
                },
                Event::Eof => return Ok(Found { cells, last }),
                _ => {}
            }
        }
    }

    fn place(&self, name: &str) -> Result<(u32, u32), XlsxError> {
        parse_place(name).ok_or_else(|| damaged(self.part, format!("{name:?} is not the name of a cell")))
    }

    /// A cell up to its end; `None` for an empty one.
    fn cell(&self, xml: &mut Reader<&[u8]>, element: &BytesStart<'_>) -> Result<Option<Cell>, XlsxError> {
        let kind = attribute(element, "t").unwrap_or_else(|| "n".to_owned());
        let style = attribute(element, "s").and_then(|number| number.trim().parse().ok()).unwrap_or(0);
        let (mut stored, mut inline, mut formula) = (None, None, None);
        loop {
            match xml.read_event().map_err(|error| damaged(self.part, error))? {
                Event::Start(element) => {
                    let name = element.local_name().as_ref().to_owned();
                    match name.as_str() {
                        "v" => stored = Some(content(xml, self.part)?).filter(|text| !text.is_empty()),
                        "f" => formula = Some(content(xml, self.part)?),
                        "is" => inline = Some(rich(xml, self.part)?),
                        _ => drop(content(xml, self.part)?),
                    }
                }
                Event::End(_) => break,
                Event::Eof => return Err(damaged(self.part, "the sheet ends in the middle")),
                _ => {}
            }
        }
        let format = self.styles.format(style);
        let mut number = None;
        let value = match (kind.as_str(), stored) {
            ("inlineStr", _) => inline.map_or(Value::Empty, |text| Value::Text(text.into())),
            (_, None) => Value::Empty,
            ("n", Some(text)) => {
                let value = Value::of_number(&text)
                    .ok_or_else(|| damaged(self.part, format!("{text:?} is not a number")))?;
                let raw = value.number().unwrap_or(f64::NAN);
                number = Some(raw);
                if format.is_date {
                    let shifted = self.is_1904 && !format.is_duration && !(0.0..1.0).contains(&raw);
                    number = Some(if shifted { raw + DAYS_TO_1904 } else { raw });
                    let date = Value::of_serial(raw, format.is_duration, self.is_1904);
                    date.unwrap_or_else(|| Value::Text("#VALUE!".into()))
                } else {
                    value
                }
            }
            ("s", Some(text)) => {
                let found = text.trim().parse().ok().and_then(|index: usize| self.strings.get(index));
                let text =
                    found.ok_or_else(|| damaged(self.part, format!("there is no text number {text}")))?;
                Value::Text(Arc::clone(text))
            }
            ("b", Some(text)) => match text.trim() {
                "0" => Value::Bool(false),
                other if other.parse::<i64>().is_ok() => Value::Bool(true),
                "true" | "TRUE" => Value::Bool(true),
                "false" | "FALSE" => Value::Bool(false),
                other => return Err(damaged(self.part, format!("{other:?} is not a truth value"))),
            },
            ("d", Some(text)) => {
                Value::of_iso(&text).ok_or_else(|| damaged(self.part, format!("{text:?} is not a date")))?
            }
            // Results of formulas and errors.
            (_, Some(text)) => Value::Text(text.into()),
        };
        if value == Value::Empty && formula.is_none() {
            return Ok(None);
        }
        Ok(Some(Cell {
            number: number.or_else(|| value.number()),
            value,
            is_percent: format.is_percent,
            has_formula: formula.is_some(),
            formula: formula.map(String::into_boxed_str),
        }))
    }
}

/// Of a merged area only the first cell is shown.
fn hide(cells: &mut Cells, area: &Area) {
    let rows = (area.rows.0, 0)..=(area.rows.1, MAX_COLUMNS);
    let hidden = cells.range(rows).map(|(at, _)| *at);
    let hidden: Vec<(u32, u32)> =
        hidden.filter(|at| area.contains(at.0, at.1) && *at != (area.rows.0, area.columns.0)).collect();
    for at in hidden {
        cells.remove(&at);
    }
}

/// Row and column of a name such as `AB12`; `$` is ignored.
pub(crate) fn parse_place(name: &str) -> Option<(u32, u32)> {
    let name: String = name.chars().filter(|char| *char != '$').collect();
    let at = name.find(|char: char| char.is_ascii_digit())?;
    let (letters, digits) = name.split_at(at);
    let row: u32 = digits.parse().ok()?;
    (1..=MAX_ROWS).contains(&row).then_some((row, parse_column(letters)?))
}

/// The number of a column by its letters.
pub(crate) fn parse_column(letters: &str) -> Option<u32> {
    let is_name = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_name || letters.len() > 3 {
        return None;
    }
    let column =
        letters.bytes().fold(0, |column, byte| column * 26 + u32::from(byte.to_ascii_uppercase() - b'A') + 1);
    (column <= MAX_COLUMNS).then_some(column)
}

/// The name of a cell.
pub(crate) fn place_name((row, column): (u32, u32)) -> String {
    format!("{}{row}", column_name(column))
}

/// The letters of a column.
pub(crate) fn column_name(column: u32) -> String {
    let mut letters = Vec::new();
    let mut rest = column;
    while rest > 0 {
        rest -= 1;
        letters.push(char::from(b'A' + u8::try_from(rest % 26).unwrap_or(0)));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

fn merged(text: &str) -> Option<Area> {
    let (first, last) = text.split_once(':')?;
    let (first, last) = (parse_place(first)?, parse_place(last)?);
    // A range of the standard library has its ends in order.
    if first.0 > last.0 || first.1 > last.1 {
        return None;
    }
    Some(Area { rows: (first.0, last.0), columns: (first.1, last.1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_letters() {
        for (letters, number) in [("A", 1), ("Z", 26), ("AA", 27), ("XFD", 16_384)] {
            assert_eq!((parse_column(letters), column_name(number).as_str()), (Some(number), letters));
        }
        assert_eq!((parse_column("XFE"), parse_column(""), parse_place("A0")), (None, None, None));
    }
}
