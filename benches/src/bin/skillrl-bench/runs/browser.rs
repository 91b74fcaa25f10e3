//! What Python measures: the page in a browser, and `serve` over HTTP.

use crate::Failure;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

const PYTHON: &str = "python3";
/// Opens a file in a headless Chromium; ends with 3 where there is none.
const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/skill-serve/tests/browser/open.py");
/// Looks at 100 runs through `serve`.
const MEASURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/skill-serve/tests/browser/measure.py");
/// How a script ends that lacks what it needs.
const LACKS_SOMETHING: i32 = 3;

/// What `serve` took with 100 runs listed.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct ServeReport {
    /// The most memory, in bytes.
    pub(crate) peak_memory: u64,
    /// Seconds to the first byte, medians: of the list, of the metrics, of a run.
    pub(crate) first_bytes: [f64; 3],
}

/// Seconds until a page is there, each time in a new window; nothing without Python or Chromium.
pub(crate) fn open(page: &Path, repetitions: usize) -> Result<Vec<f64>, Failure> {
    let repetitions = repetitions.to_string();
    Ok(script(&[OPEN.as_ref(), page.as_os_str(), repetitions.as_ref()])?.unwrap_or_default())
}

/// Looks at 100 runs through `serve`; nothing without Python.
pub(crate) fn serve(program: &Path) -> Result<Option<ServeReport>, Failure> {
    script(&[MEASURE.as_ref(), program.as_os_str(), "--json".as_ref()])
}

fn script<Report: DeserializeOwned>(args: &[&OsStr]) -> Result<Option<Report>, Failure> {
    let output = Command::new(PYTHON).args(args).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match output.status.code() {
        Some(0) => Ok(Some(serde_json::from_slice(&output.stdout)?)),
        Some(LACKS_SOMETHING) => Ok(None),
        _ => Err(format!("a script of Python ended with {}", output.status).into()),
    }
}
