//! Tables of runs, and what opened runs have spent.

use crate::errors::run_error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;
use skillrl::Error;
use skillrl::runs::Depth;
use std::path::PathBuf;

/// The table of these runs as JSON: `table` as every other medium has it, `records` with all columns, and `markdown`.
///
/// A directory stands for the runs in it.
#[pyfunction]
pub(crate) fn runs_table(py: Python<'_>, runs: Vec<PathBuf>, group_by: Vec<String>) -> PyResult<String> {
    let made = py.detach(|| {
        let paths = runs.into_iter().flat_map(|path| match skillrl::reports::runs_in(&path) {
            Ok(found) if !found.is_empty() => found,
            // A row says what is wrong with it.
            Ok(_) | Err(_) => vec![path],
        });
        skillrl::runs::table(&paths.collect::<Vec<_>>(), &group_by, Depth::Rows)
    });
    let table = made.map_err(|error| run_error(py, &error, None))?;
    let value = json!({"table": table, "records": table.records(), "markdown": table.markdown()});
    serde_json::to_string(&value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What a run has sent over all its processes, as JSON: calls, tokens, and money, which is null without prices.
#[pyfunction]
pub(crate) fn spent(py: Python<'_>, directory: PathBuf) -> PyResult<String> {
    let read = py.detach(|| skillrl::report::overview(&directory));
    let run = read.map_err(|error| run_error(py, &Error::from(error), None))?;
    Ok(json!({"calls": run.calls, "tokens": run.tokens, "money": run.money}).to_string())
}
