//! What an agent is shown of a workbook: of each sheet its size and its first rows.

use super::xlsx::{Area, Cell, Found, Workbook, column_name, place_name};
use std::fmt::Write as _;
use std::sync::Arc;

/// The rows that are shown of a sheet.
const ROWS: u32 = 5;
/// The columns that are shown of a sheet.
const COLUMNS: u32 = 20;
/// The characters that are shown of a cell.
const CELL_CHARS: usize = 40;
/// The characters of a preview.
const MAX_CHARS: usize = 12_000;

/// The first rows of each sheet; of a workbook that cannot be read, why.
pub fn preview(bytes: Arc<[u8]>) -> String {
    match sheets(bytes, &[Area { rows: (1, ROWS), columns: (1, COLUMNS) }]) {
        Ok(text) => text,
        Err(error) => format!("(the workbook cannot be shown: it {error})"),
    }
}

fn sheets(bytes: Arc<[u8]>, shown: &[Area]) -> Result<String, super::XlsxError> {
    let mut workbook = Workbook::open(bytes)?;
    let mut text = String::new();
    for (index, sheet) in workbook.sheets().to_vec().into_iter().enumerate() {
        if !sheet.has_cells {
            let _ = writeln!(text, "## Sheet {:?}: no cells (a chart or a dialog)\n", sheet.name);
            continue;
        }
        let Found { cells, last: (n_rows, n_columns) } = workbook.read(index, shown)?;
        if n_rows == 0 {
            let _ = writeln!(text, "## Sheet {:?}: empty\n", sheet.name);
            continue;
        }
        let last = place_name((n_rows, n_columns));
        let _ = writeln!(text, "## Sheet {:?}: A1:{last}, {n_rows} rows, {n_columns} columns", sheet.name);
        for area in shown {
            for row in area.rows.0..=area.rows.1.min(n_rows) {
                let columns = area.columns.0..=area.columns.1.min(n_columns);
                let cells = columns.map(|column| {
                    let shown = cells.get(&(row, column)).map(cell_text).unwrap_or_default();
                    format!("{}{row}={shown}", column_name(column))
                });
                let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(" | "));
            }
        }
        let (n_more_rows, n_more_columns) = (n_rows.saturating_sub(ROWS), n_columns.saturating_sub(COLUMNS));
        if n_more_rows > 0 || n_more_columns > 0 {
            let _ = writeln!(text, "... ({n_more_rows} more rows, {n_more_columns} more columns)");
        }
        text.push('\n');
        if text.chars().count() > MAX_CHARS {
            let kept: String = text.chars().take(MAX_CHARS).collect();
            return Ok(format!("{kept}\n... (the preview ends here)"));
        }
    }
    Ok(text.trim_end().to_owned())
}

/// A cell in a few characters; a formula as it is written.
fn cell_text(cell: &Cell) -> String {
    let text = match (&cell.formula, &cell.value) {
        (Some(formula), _) if !formula.is_empty() => format!("={formula}"),
        (Some(_), value) => format!("=(shared formula, {value})"),
        (None, super::Value::Text(text)) => text.to_string(),
        (None, value) => value.to_string(),
    };
    let text = text.replace(['\n', '\r'], " ");
    if text.chars().count() <= CELL_CHARS {
        return text;
    }
    let kept: String = text.chars().take(CELL_CHARS - 3).collect();
    format!("{kept}...")
}
