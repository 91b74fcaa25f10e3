//! The program `skillrl`, started by the console script of the package.

use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the program with these arguments, the first of which is its name, and returns the exit code.
#[pyfunction]
pub(crate) fn program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| skill_cli::run(arguments))
}
