//! Where the answer of a task is: sheets and ranges out of what people wrote.
//!
//! Positions in the data have quotes in odd places, commas in names of sheets, whole columns, typographic characters and
//! reversed corners. What cannot be understood is a fault of the task, and is told before anything is paid for.

use super::xlsx::{Area, MAX_COLUMNS, MAX_ROWS, Sheet, parse_column};
use unicode_normalization::UnicodeNormalization as _;

/// A part of a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellRange {
    /// The index of its sheet in the gold workbook.
    pub sheet: usize,
    /// Its cells; whole rows and columns end where a sheet can end.
    pub area: Area,
}

/// The parts of a position.
///
/// # Errors
///
/// A sheet that does not exist, or a range that is none.
pub fn resolve(
    position: &str,
    answer_sheet: Option<&str>,
    sheets: &[Sheet],
) -> Result<Vec<CellRange>, String> {
    let plain: String = position.chars().map(plain).collect();
    let mut parts: Vec<CellRange> = Vec::new();
    for text in pieces(&plain) {
        let (named, range) = match text.rsplit_once('!') {
            Some((sheet, range)) => (Some(sheet), range),
            None => (None, text),
        };
        let sheet = match (named, parts.last()) {
            (Some(name), _) => named_sheet(name, sheets).ok_or_else(|| {
                let name = name.trim().trim_matches(QUOTES);
                format!("the position {position:?} names the sheet {name:?}; {}", there_are(sheets))
            })?,
            (None, Some(part)) => part.sheet,
            (None, None) => usual_sheet(answer_sheet, sheets)?,
        };
        let area = area(range)
            .ok_or_else(|| format!("{range:?} in the position {position:?} is not a range of cells"))?;
        parts.push(CellRange { sheet, area });
    }
    if parts.is_empty() {
        return Err(format!("the position {position:?} names no cells"));
    }
    Ok(parts)
}

/// Typographic characters as the ones that they stand for.
fn plain(char: char) -> char {
    match char {
        '：' => ':',
        '！' => '!',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        '\u{a0}' => ' ',
        other => other,
    }
}

/// The parts between commas; a comma separates only behind a range, elsewhere it belongs to the name of a sheet.
fn pieces(position: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, _) in position.match_indices(',') {
        let text = position.get(start..at).unwrap_or_default();
        // A quote in front of a range is that of a sheet's name, unless the sheet has come before.
        let range = match text.rsplit_once('!') {
            Some((_, range)) => range.trim().trim_matches(QUOTES),
            None => text.trim().trim_end_matches(QUOTES),
        };
        if text.trim().is_empty() || area_of_plain(range).is_some() {
            pieces.push(text);
            start = at + 1;
        }
    }
    pieces.push(position.get(start..).unwrap_or_default());
    pieces.into_iter().map(str::trim).filter(|piece| !piece.is_empty()).collect()
}

/// The most sheets that a message names.
const MAX_NAMED: usize = 8;

const QUOTES: [char; 2] = ['\'', '"'];

/// The sheet of a name as it is written in a position.
fn named_sheet(name: &str, sheets: &[Sheet]) -> Option<usize> {
    let unquoted = name.trim().trim_matches(QUOTES);
    let doubled = unquoted.replace("''", "'");
    let bare = doubled.trim_matches('!');
    // The sheet twice, as in `'Data'!'Data!A1'`.
    let inner = bare.rsplit_once('!').and_then(|(first, second)| {
        let [first, second] = [first, second].map(|part| part.trim().trim_matches(QUOTES));
        (folded(first) == folded(second)).then_some(second)
    });
    let candidates = [Some(name), Some(unquoted), Some(doubled.as_str()), Some(bare), inner];
    let candidates = || candidates.iter().flatten();
    let exact = |name: &&str| sheets.iter().position(|sheet| sheet.name == *name);
    let loose = |name: &&str| sheets.iter().position(|sheet| is_same_name(&sheet.name, name));
    candidates().find_map(exact).or_else(|| candidates().find_map(loose))
}

/// The sheet of a position that names none.
fn usual_sheet(answer_sheet: Option<&str>, sheets: &[Sheet]) -> Result<usize, String> {
    if let Some(names) = answer_sheet.map(str::trim).filter(|names| !names.is_empty()) {
        let names: String = names.chars().map(plain).collect();
        let one_of = || names.split(',').find_map(|name| named_sheet(name, sheets));
        return named_sheet(&names, sheets)
            .or_else(one_of)
            .ok_or_else(|| format!("`answer_sheet` names the sheet {names:?}; {}", there_are(sheets)));
    }
    sheets
        .iter()
        .position(|sheet| sheet.has_cells)
        .ok_or_else(|| "the workbook has no sheet with cells".to_owned())
}

/// The sheets that there are, for who named another one.
fn there_are(sheets: &[Sheet]) -> String {
    let names: Vec<String> = sheets.iter().take(MAX_NAMED).map(|sheet| format!("{:?}", sheet.name)).collect();
    let more = if sheets.len() > MAX_NAMED { ", .." } else { "" };
    format!("the sheets of the workbook are {}{more}", names.join(", "))
}

/// Names that programs take for the same.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    folded(one) == folded(other)
}

fn folded(name: &str) -> String {
    name.chars().map(plain).nfc().collect::<String>().trim().to_lowercase()
}

/// The cells of a range with blanks, quotes and `$`.
fn area(range: &str) -> Option<Area> {
    area_of_plain(range.trim().trim_matches(QUOTES))
}

fn area_of_plain(range: &str) -> Option<Area> {
    let range: String = range.chars().filter(|char| !char.is_whitespace() && *char != '$').collect();
    let Some((first, last)) = range.split_once(':') else {
        let (column, row) = corner(&range)?;
        let (column, row) = (column?, row?);
        return Some(Area { rows: (row, row), columns: (column, column) });
    };
    let ordered = |one: u32, other: u32| (one.min(other), one.max(other));
    Some(match (corner(first)?, corner(last)?) {
        ((Some(left), Some(top)), (Some(right), Some(bottom))) => {
            Area { rows: ordered(top, bottom), columns: ordered(left, right) }
        }
        // The second column was left out.
        ((Some(column), Some(top)), (None, Some(bottom))) => {
            Area { rows: ordered(top, bottom), columns: (column, column) }
        }
        // Down to the end of the columns.
        ((Some(left), Some(top)), (Some(right), None)) => {
            Area { rows: (top, MAX_ROWS), columns: ordered(left, right) }
        }
        ((Some(left), None), (Some(right), None)) => {
            Area { rows: (1, MAX_ROWS), columns: ordered(left, right) }
        }
        ((None, Some(top)), (None, Some(bottom))) => {
            Area { rows: ordered(top, bottom), columns: (1, MAX_COLUMNS) }
        }
        _ => return None,
    })
}

/// Column and row of one end of a range, of which one may be left out.
fn corner(text: &str) -> Option<(Option<u32>, Option<u32>)> {
    let at = text.find(|char: char| char.is_ascii_digit()).unwrap_or(text.len());
    let (letters, digits) = text.split_at(at);
    let column = if letters.is_empty() { None } else { Some(parse_column(letters)?) };
    let row = if digits.is_empty() {
        None
    } else {
        let row: u32 = digits.parse().ok()?;
        Some((1..=MAX_ROWS).contains(&row).then_some(row)?)
    };
    (column.is_some() || row.is_some()).then_some((column, row))
}

impl Area {
    /// As people write it; whole columns and rows without their ends.
    pub fn name(&self) -> String {
        use super::xlsx::{column_name, place_name};
        let ((top, bottom), (left, right)) = (self.rows, self.columns);
        match (bottom == MAX_ROWS, right == MAX_COLUMNS) {
            (true, _) if top == 1 && bottom != top => format!("{}:{}", column_name(left), column_name(right)),
            (true, _) if bottom != top => format!("{}:{}", place_name((top, left)), column_name(right)),
            (_, true) if left == 1 => format!("{top}:{bottom}"),
            _ if (top, left) == (bottom, right) => place_name((top, left)),
            _ => format!("{}:{}", place_name((top, left)), place_name((bottom, right))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(position: &str, sheets: &[&str], expect: &str) {
        let sheets: Vec<Sheet> = sheets.iter().map(|name| Sheet::named(name)).collect();
        let shown = match resolve(position, None, &sheets) {
            Ok(parts) => parts
                .iter()
                .map(|part| format!("{}!{}", sheets[part.sheet].name, part.area.name()))
                .collect::<Vec<_>>()
                .join(" "),
            Err(_) => "error".to_owned(),
        };
        assert_eq!(shown, expect, "{position}");
    }

    #[test]
    fn positions_are_read_as_they_are_meant() {
        check("A1", &["In", "Out"], "In!A1");
        check("'Out'!B2:A1, C3", &["In", "Out"], "Out!A1:B2 Out!C3");
        check("'a, b'!A1,'a, b'!$B$2", &["In", "a, b"], "a, b!A1 a, b!B2");
        check("Out!A：B", &["In", "Out"], "Out!A:B");
        check("BD2:308", &["In"], "In!BD2:BD308");
        check("a:g", &["In"], "In!A:G");
        check("2:3", &["In"], "In!2:3");
        check("A1:A", &["In"], "In!A:A");
        check("A2:B", &["In"], "In!A2:B");
        check("’Bob’s’!A1", &["Bob’s"], "Bob’s!A1");
        check("'In'!'In!A1'", &["In"], "In!A1");
        check("In!Out!A1", &["In", "Out"], "error");
        check("Gone!A1", &["In"], "error");
        check("A1:B2:C3", &["In"], "error");
        check("B", &["In"], "error");
    }
}
