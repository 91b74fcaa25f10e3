//! Tables for people: columns that are in line, and fit the terminal where there is one.

pub(crate) use skillrl::reports::words::{counted, duration, grouped, harmless, seconds};

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use skillrl::reports::TextTable;
use std::io::IsTerminal as _;

/// Between two columns.
const GAP: &str = "  ";

/// A column is not cut below this width.
const MIN_WIDTH: usize = 8;

/// Stands where the end of a text was cut off.
const CUT: &str = "…";

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    title: &'a str,
    alignment: Alignment,
    may_be_cut: bool,
}

impl<'a> Column<'a> {
    /// A column of text, which may lose its end where the terminal is narrow.
    pub(crate) const fn text(title: &'a str) -> Self {
        Self { title, alignment: Alignment::Left, may_be_cut: true }
    }

    /// A column of names, which are always whole: two that begin alike must be told apart.
    pub(crate) const fn name(title: &'a str) -> Self {
        Self { title, alignment: Alignment::Left, may_be_cut: false }
    }

    /// A column of numbers, which are under each other and are always whole.
    pub(crate) const fn number(title: &'a str) -> Self {
        Self { title, alignment: Alignment::Right, may_be_cut: false }
    }
}

/// The columns that standard output has; `None` where it is not a terminal, and nothing has to be cut.
pub(crate) fn terminal_width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns))
}

/// The table with its titles, a line for each row; rows have as many cells as there are columns.
///
/// Where the terminal is too narrow for that, each row becomes a few lines, one for each cell.
pub(crate) fn table(columns: &[Column<'_>], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut widths: Vec<usize> = columns.iter().map(|column| measure_text_width(column.title)).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(cell));
        }
    }
    if let Some(width) = width {
        shrink(columns, &mut widths, width);
        if total(&widths) > width && !rows.is_empty() {
            return stacked(columns, rows, width);
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(columns).zip(&widths).map(|((cell, column), width)| {
            pad_str(&truncate_str(cell, *width, CUT), *width, column.alignment, None).into_owned()
        });
        let line = cells.collect::<Vec<_>>().join(GAP);
        format!("{}\n", line.trim_end())
    };
    let titles = line(&mut columns.iter().map(|column| column.title));
    rows.iter().fold(titles, |text, row| text + &line(&mut row.iter().map(String::as_str)))
}

/// Cells as a table that fits the terminal.
pub(crate) fn cells_table(cells: &TextTable) -> String {
    let columns =
        cells.titles.iter().enumerate().map(|(place, (title, is_number))| match (place, is_number) {
            (0, _) => Column::name(title),
            (_, true) => Column::number(title),
            (_, false) => Column::text(title),
        });
    table(&columns.collect::<Vec<_>>(), &cells.rows, terminal_width())
}

/// Each row as lines of a title and a cell, with an empty line between rows; a cell that is empty has no line.
fn stacked(columns: &[Column<'_>], rows: &[Vec<String>], width: usize) -> String {
    let titles = columns.iter().map(|column| measure_text_width(column.title)).max().unwrap_or(0);
    let room = width.saturating_sub(titles + GAP.len()).max(MIN_WIDTH);
    let rows = rows.iter().map(|row| {
        let cells = columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        let lines = cells.map(|(column, cell)| {
            let title = pad_str(column.title, titles, Alignment::Left, None);
            let cell = if column.may_be_cut { truncate_str(cell, room, CUT) } else { cell.into() };
            format!("{title}{GAP}{cell}\n")
        });
        lines.collect::<String>()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// How wide a line is with columns of these widths.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// Takes from the widest column that may be cut, until the table fits or nothing more can be taken.
fn shrink(columns: &[Column<'_>], widths: &mut [usize], limit: usize) {
    while total(widths) > limit {
        let cuttable = columns.iter().zip(widths.iter_mut()).filter(|(column, _)| column.may_be_cut);
        match cuttable.map(|(_, width)| width).max() {
            Some(widest) if *widest > MIN_WIDTH => *widest -= 1,
            Some(_) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'static>; 3] =
        [Column::number("id"), Column::text("place"), Column::text("model")];

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        vec![row(["7", "step 1 / rollout / q7", "m"]), row(["12345", "x", "a-model-of-a-name"])]
    }

    #[track_caller]
    fn check(width: Option<usize>, expect: &[&str]) {
        let text = table(&COLUMNS, &rows(), width);
        assert_eq!(text.lines().collect::<Vec<_>>(), expect);
        assert!(text.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn columns_stand_in_line_and_give_way_the_widest_first() {
        let whole = [
            "   id  place                  model",
            "    7  step 1 / rollout / q7  m",
            "12345  x                      a-model-of-a-name",
        ];
        check(None, &whole);
        check(Some(47), &whole);
        check(
            Some(40),
            &[
                "   id  place             model",
                "    7  step 1 / rollou…  m",
                "12345  x                 a-model-of-a-n…",
            ],
        );
        let narrow = ["   id  place     model", "    7  step 1 …  m", "12345  x         a-model…"];
        check(Some(25), &narrow);
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_lines() {
        let stacked = [
            "id     7",
            "place  step 1 / rollout…",
            "model  m",
            "",
            "id     12345",
            "place  x",
            "model  a-model-of-a-name",
        ];
        check(Some(24), &stacked);
        let text = table(&COLUMNS, &rows(), Some(1));
        assert!(text.lines().all(|line| line.chars().count() <= 15), "{text}");
    }

    #[test]
    fn names_are_whole_however_narrow_the_terminal() {
        let columns = [Column::name("setting"), Column::text("A"), Column::text("B")];
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [
            row(["models.target.requests_per_minute", "1", "2"]),
            row(["models.target.requests_per_hour", "a long value", "another"]),
        ];
        for width in [60, 45, 40, 20] {
            let text = table(&columns, &rows, Some(width));
            assert!(rows.iter().all(|row| text.contains(&row[0])), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_table_without_rows_is_its_titles() {
        assert_eq!(table(&COLUMNS, &[], Some(80)), "id  place  model\n");
    }

    #[test]
    fn wide_letters_take_two_columns() {
        let rows = vec![vec!["1".to_owned(), "日本".to_owned(), "m".to_owned()]];
        assert_eq!(table(&COLUMNS, &rows, None), "id  place  model\n 1  日本   m\n");
    }
}
