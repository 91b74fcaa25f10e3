//! Files that tests write.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A fresh directory with these files.
pub(crate) fn files<B: AsRef<[u8]>>(files: &[(&str, B)]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, content) in files {
        write(directory.path(), path, content.as_ref());
    }
    directory
}

/// Writes a file below a directory.
pub(crate) fn write(directory: &Path, path: &str, content: &[u8]) {
    let path = directory.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
