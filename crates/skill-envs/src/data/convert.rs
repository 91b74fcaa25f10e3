//! Records of any data files as JSON Lines.

use super::read_records;
use crate::error::{EnvError, read_error};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Writes the records of several data files, in order, as one file of JSON Lines; returns how many there are.
///
/// # Errors
///
/// Data that cannot be read, and a file that cannot be written.
pub fn write_json_lines(from: &[PathBuf], into: &Path) -> Result<usize, EnvError> {
    let fault = |source| read_error(into, source);
    let mut file = BufWriter::new(File::create(into).map_err(fault)?);
    let mut n_records = 0;
    for path in from {
        for record in read_records(path)? {
            serde_json::to_writer(&mut file, &record.fields).map_err(|error| fault(error.into()))?;
            file.write_all(b"\n").map_err(fault)?;
            n_records += 1;
        }
    }
    file.flush().map_err(fault)?;
    Ok(n_records)
}
