//! Several runs as tables.

use crate::table::cells_table;
use skillrl::reports::RunsTable;
use std::fmt::Write as _;

/// Groups, runs and remarks.
pub(crate) fn runs_tables(found: &RunsTable) -> String {
    let mut text = String::new();
    let groups = found.group_cells();
    if !groups.rows.is_empty() {
        let _ = writeln!(text, "{}", cells_table(&groups));
    }
    text.push_str(&cells_table(&found.run_cells()));
    for (place, remark) in found.remarks().iter().enumerate() {
        let _ = writeln!(text, "{}note: {remark}", if place == 0 { "\n" } else { "" });
    }
    text
}
