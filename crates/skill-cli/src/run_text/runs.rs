//! Several runs as tables.

use crate::table::{Column, table, terminal_width};
use skillrl::reports::{Cells, RunsTable};
use std::fmt::Write as _;

/// Groups, runs and remarks.
pub(crate) fn runs_tables(found: &RunsTable) -> String {
    let width = terminal_width();
    let drawn = |cells: &Cells| {
        let columns =
            cells.titles.iter().zip(0..).map(|((title, is_number), place)| match (place, is_number) {
                (0, _) => Column::name(title),
                (_, true) => Column::number(title),
                (_, false) => Column::text(title),
            });
        table(&columns.collect::<Vec<_>>(), &cells.rows, width)
    };
    let mut text = String::new();
    let groups = found.group_cells();
    if !groups.rows.is_empty() {
        let _ = writeln!(text, "{}", drawn(&groups));
    }
    text.push_str(&drawn(&found.run_cells()));
    for (place, remark) in found.remarks().iter().enumerate() {
        let _ = writeln!(text, "{}note: {remark}", if place == 0 { "\n" } else { "" });
    }
    text
}
