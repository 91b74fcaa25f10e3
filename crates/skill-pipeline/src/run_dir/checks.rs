//! What was found before a run began: doubts about its data and its plan, kept for those who read what it came to.

use super::read::read_sealed;
use super::seal::write_sealed_json;
use crate::error::PipelineError;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The file with the warnings, in the directory of a run; it is not there where there were none.
pub const CHECKS_FILE: &str = "checks.json";

/// One doubt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckWarning {
    /// What it is about: `splits`, `labels`, `selection` and so on, as `skillrl doctor` has them.
    pub check: String,
    /// A sentence.
    pub message: String,
}

#[derive(Serialize)]
struct Written<'a> {
    warnings: &'a [CheckWarning],
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Sealed {
        warnings: Vec<CheckWarning>,
    },
    /// As earlier versions wrote it.
    List(Vec<CheckWarning>),
}

/// Keeps the warnings in the directory of a run that begins.
///
/// # Errors
///
/// A directory that cannot be written.
pub fn write_checks(run: &Path, warnings: &[CheckWarning]) -> Result<(), PipelineError> {
    if warnings.is_empty() {
        return Ok(());
    }
    super::atomic::create_dir(run)?;
    write_sealed_json(&run.join(CHECKS_FILE), &Written { warnings })
}

/// The warnings; none where there were none, or from before they were kept.
///
/// # Errors
///
/// A file that cannot be read.
pub fn read_checks(run: &Path) -> Result<Vec<CheckWarning>, PipelineError> {
    Ok(match read_sealed(&run.join(CHECKS_FILE))? {
        Some(Kept::Sealed { warnings } | Kept::List(warnings)) => warnings,
        None => Vec::new(),
    })
}
