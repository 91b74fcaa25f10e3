//! A matrix of measurements as output.

use super::super::transfer;
use crate::args::EvalArgs;
use crate::table::cells_table;
use serde_json::json;
use skillrl::reports::Matrix;
use std::fmt::Write as _;

/// Prints the matrix in the form that was requested, with the limits that are not kept; `is_transfer` has a row for each
/// model.
pub(super) fn print(
    matrix: &Matrix,
    args: &EvalArgs,
    (broken, is_transfer): (&[String], bool),
) -> crate::Result {
    match () {
        () if args.json => {
            let mut value = json!(matrix);
            if let Some(fields) = value.as_object_mut() {
                fields.insert("broken_limits".to_owned(), json!(broken));
            }
            crate::command::print_pretty_json(&value)
        }
        () if args.csv => crate::command::print(&matrix.csv()),
        () if args.markdown => {
            let mut text = matrix.markdown();
            for limit in broken {
                let _ = writeln!(text, "\n- **Failed:** {}", crate::table::harmless(limit));
            }
            crate::command::print(&text)
        }
        () if is_transfer => crate::command::print(&transfer::described(matrix)),
        () => {
            let mut text = format!("{}\n\n{}", matrix.size(), cells_table(&matrix.cells_table()));
            for remark in matrix.remarks() {
                let _ = write!(text, "\n{}", crate::table::harmless(&remark));
            }
            crate::command::print(&format!("{text}\n"))
        }
    }
}
