//! Whole files or none: write beside, flush to the disk, rename, flush the directory.
//!
//! What a process that was killed leaves is whole in any case; flushing is for the loss of power.

use super::unflushed::{flush_all, flush_file};
use crate::error::PipelineError;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use tempfile::NamedTempFile;

/// How the names of files begin that are being written.
pub(super) const TEMPORARY_PREFIX: &str = ".writing-";

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PipelineError {
    move |source| PipelineError::RunDir { action, path: path.to_owned(), source }
}

/// Creates a directory with its parents.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the directory.
pub fn create_dir(path: &Path) -> Result<(), PipelineError> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

/// Writes a file whole: a reader, or a process that starts after a crash, sees the old bytes or the new ones.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
    write_with_mode(path, bytes, false)
}

/// As [`write`](fn@write); the file can be started if that is asked, where the system has such a bit.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub fn write_with_mode(path: &Path, bytes: &[u8], is_executable: bool) -> Result<(), PipelineError> {
    let file = write_beside(path, bytes, is_executable)?;
    file.as_file().sync_all().map_err(failed("write", path))?;
    rename(file, path)?;
    sync_dir(parent_of(path)).map_err(failed("write", path))
}

/// As [`write`](fn@write) for several files, which wait for the disk together.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; each file is the old one or the new one.
pub(super) fn write_all(files: &[(&Path, &[u8])]) -> Result<(), PipelineError> {
    let beside =
        files.iter().map(|(path, bytes)| write_beside(path, bytes, false)).collect::<Result<Vec<_>, _>>()?;
    let paths: Vec<&Path> = beside.iter().map(NamedTempFile::path).collect();
    flush_all(&paths, flush_file)?;
    for (file, (path, _)) in beside.into_iter().zip(files) {
        rename(file, path)?;
    }
    let parents: BTreeSet<&Path> = files.iter().map(|(path, _)| parent_of(path)).collect();
    flush_all(&parents.into_iter().collect::<Vec<_>>(), sync_dir)
}

/// As [`write`](fn@write), but nothing waits for the disk: after a loss of power the file may be anything.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub(super) fn write_unflushed(path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
    rename(write_beside(path, bytes, false)?, path)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_beside(path: &Path, bytes: &[u8], is_executable: bool) -> Result<NamedTempFile, PipelineError> {
    let parent = parent_of(path);
    create_dir(parent)?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .tempfile_in(parent)
        .map_err(failed("write", path))?;
    file.write_all(bytes).map_err(failed("write", path))?;
    set_readable(file.as_file(), is_executable).map_err(failed("write", path))?;
    Ok(file)
}

fn rename(file: NamedTempFile, path: &Path) -> Result<(), PipelineError> {
    file.persist(path).map_err(|error| failed("write", path)(error.error))?;
    Ok(())
}

/// Writes a value as indented JSON with a newline at the end.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), PipelineError> {
    write(path, &json_bytes(path, value)?)
}

/// A value as [`write_json`] writes it.
pub(super) fn json_bytes(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, PipelineError> {
    let mut bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| failed("write", path)(std::io::Error::from(error)))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Removes what a process that was killed left half written in a directory and the directories below it.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file.
pub fn remove_half_written(dir: &Path) -> Result<(), PipelineError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", dir)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed("read", dir))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed("read", dir))?);
        if kind.is_dir() {
            remove_half_written(&path)?;
        } else if entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            fs::remove_file(&path).map_err(failed("write", &path))?;
        }
    }
    Ok(())
}

/// Removes a directory with all that is in it, if it is there.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the directory.
pub fn remove_dir(path: &Path) -> Result<(), PipelineError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("write", path)(error)),
    }
}

/// Temporary files are private by default; a run directory is read by other people's programs.
#[cfg(unix)]
fn set_readable(file: &fs::File, is_executable: bool) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(if is_executable { 0o755 } else { 0o644 }))
}

#[cfg(not(unix))]
fn set_readable(_file: &fs::File, _is_executable: bool) -> std::io::Result<()> {
    Ok(())
}

/// A rename is on the disk only when its directory is.
#[cfg(unix)]
pub(super) fn sync_dir(path: &Path) -> std::io::Result<()> {
    fs::File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub(super) fn sync_dir(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
