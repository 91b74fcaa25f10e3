//! The files of a run that trains weights, as they are.

use serde::de::DeserializeOwned;
use skill_llm::regular_file;
use skill_pipeline::PipelineError;
use skill_pipeline::run_dir::atomic::failed;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

/// The longest file of a run that is read; 100,000 steps take 20 MB.
pub(super) const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// The complete lines of a file; empty if the file does not exist. An unterminated last line is still being written.
pub(super) fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, PipelineError> {
    let Some(file) = open(path)? else { return Ok(Vec::new()) };
    let mut reader = BufReader::new(file.take(MAX_FILE_BYTES));
    let (mut read, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        reader.read_until(b'\n', &mut line).map_err(failed("read", path))?;
        if line.last() != Some(&b'\n') {
            return Ok(read);
        }
        read.push(parsed(path, &line)?);
    }
}

pub(super) fn whole<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(failed("read", path))?;
    parsed(path, &bytes).map(Some)
}

pub(super) fn open(path: &Path) -> Result<Option<File>, PipelineError> {
    match regular_file::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

fn parsed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, PipelineError> {
    serde_json::from_slice(bytes)
        .map_err(|error| PipelineError::Corrupt { path: path.to_owned(), message: error.to_string() })
}
