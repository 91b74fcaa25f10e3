//! The directory that a process holds, known by what it is and not by its name.
//!
//! # Invariants
//!
//! - A process writes into one directory: if it is renamed or replaced, the process ends. Held by
//!   `crates/skill-cli/tests/cli/moved.rs`.

use super::atomic::failed;
use crate::error::PipelineError;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A directory that stays the same one while its name may come to mean another.
#[derive(Debug)]
pub(super) struct DirHandle {
    path: PathBuf,
    /// Open, so that the system gives its number to no other directory.
    handle: Option<File>,
}

impl DirHandle {
    /// Takes hold of a directory.
    ///
    /// # Errors
    ///
    /// A directory that cannot be opened.
    pub(super) fn hold(path: &Path) -> Result<Self, PipelineError> {
        let handle = open(path).map_err(failed("open", path))?;
        Ok(Self { path: path.to_owned(), handle })
    }

    /// The name under which it was opened.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that the name still means this directory.
    ///
    /// # Errors
    ///
    /// [`PipelineError::MovedRunDir`] if the directory was renamed, moved, removed or replaced.
    pub(super) fn check_not_moved(&self) -> Result<(), PipelineError> {
        let Some(handle) = &self.handle else { return Ok(()) };
        match is_same(handle, &self.path) {
            Ok(true) => Ok(()),
            Ok(false) => Err(PipelineError::MovedRunDir { path: self.path.clone() }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Err(PipelineError::MovedRunDir { path: self.path.clone() })
            }
            Err(error) => Err(failed("read", &self.path)(error)),
        }
    }
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<Option<File>> {
    File::open(path).map(Some)
}

/// Elsewhere a directory with an open file, such as the lock, cannot be renamed.
#[cfg(not(unix))]
fn open(_path: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

#[cfg(unix)]
fn is_same(handle: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let (held, named) = (handle.metadata()?, std::fs::metadata(path)?);
    Ok((held.dev(), held.ino()) == (named.dev(), named.ino()))
}

#[cfg(not(unix))]
fn is_same(_handle: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}
