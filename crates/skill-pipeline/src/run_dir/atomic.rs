//! Whole files or none: write beside, flush to the disk, rename, flush the directory.
//!
//! What a process that was killed leaves is whole in any case; flushing is for the loss of power.
//!
//! # Invariants
//!
//! - The files of a state are written in an order that leaves the state before or the one after, whichever write is
//!   the last. Held by `a_state_is_written_in_an_order_that_leaves_one_whole`.

use super::path::LOCK_FILE;
use crate::error::PipelineError;
use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer as _};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use tempfile::NamedTempFile;

/// How the names of files begin that are being written.
pub(super) const TEMPORARY_PREFIX: &str = ".writing-";
/// How many characters come after that.
const RANDOM_CHARACTERS: usize = 6;

/// The most files that are flushed at a time.
const MAX_FLUSHED_AT_ONCE: usize = 8;

/// Makes the [`PipelineError::RunDir`] for an action that failed on a file, such as `read`, `write` or `create`.
pub fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PipelineError {
    move |source| PipelineError::RunDir { action, path: path.to_owned(), source }
}

/// Creates a directory with its parents; those that are new are for their owner alone, since a run holds prompts.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the directory.
pub fn create_dir(path: &Path) -> Result<(), PipelineError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(failed("create", path))
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
pub(crate) fn write_with_mode(path: &Path, bytes: &[u8], is_executable: bool) -> Result<(), PipelineError> {
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
    let beside = write_all_beside(files)?;
    flush_all(beside.iter().map(|file| OnDisk::Content(file.path())))?;
    rename_all(beside, files)
}

/// As [`write_all`], and then the same for `last`: where it is on the disk, so are all others and what is `waiting`,
/// which are files that stand where they belong and were not flushed.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; then `last` is the old one. A waiting file that is gone is not an error.
pub(super) fn write_all_before(
    last: (&Path, &[u8]),
    files: &[(&Path, &[u8])],
    waiting: &BTreeSet<PathBuf>,
) -> Result<(), PipelineError> {
    let (beside, last_beside) = (write_all_beside(files)?, write_all_beside(&[last])?);
    let contents = beside.iter().chain(&last_beside).map(NamedTempFile::path);
    let contents = contents.chain(waiting.iter().map(PathBuf::as_path)).map(OnDisk::Content);
    // Nothing here has to be on the disk before anything else, so all of it waits at the same time.
    flush_all(contents.chain(names(waiting.iter().map(PathBuf::as_path))))?;
    rename_all(beside, files)?;
    rename_all(last_beside, &[last])
}

/// Sees to it that files which stand where they belong are on the disk, with their names. One that is gone is not an
/// error.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file.
pub(super) fn flush(files: &BTreeSet<PathBuf>) -> Result<(), PipelineError> {
    let contents = files.iter().map(|path| OnDisk::Content(path));
    flush_all(contents.chain(names(files.iter().map(PathBuf::as_path))))
}

fn write_all_beside(files: &[(&Path, &[u8])]) -> Result<Vec<NamedTempFile>, PipelineError> {
    files.iter().map(|(path, bytes)| write_beside(path, bytes, false)).collect()
}

/// Puts files that are on the disk where they belong, and sees to it that their names are on the disk too.
fn rename_all(beside: Vec<NamedTempFile>, files: &[(&Path, &[u8])]) -> Result<(), PipelineError> {
    for (file, (path, _)) in beside.into_iter().zip(files) {
        rename(file, path)?;
    }
    flush_all(names(files.iter().map(|(path, _)| *path)))
}

/// As [`write`](fn@write), but nothing waits for the disk: after a loss of power the file may be anything.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub(super) fn write_unflushed(path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
    rename(write_beside(path, bytes, false)?, path)
}

/// What can be seen to be on the disk.
#[derive(Debug, Clone, Copy)]
enum OnDisk<'a> {
    /// What a file holds.
    Content(&'a Path),
    /// The names in a directory.
    Names(&'a Path),
}

impl OnDisk<'_> {
    fn flush(self) -> Result<(), PipelineError> {
        let (path, flushed) = match self {
            Self::Content(path) => {
                (path, fs::File::options().write(true).open(path).and_then(|file| file.sync_all()))
            }
            Self::Names(path) => (path, sync_dir(path)),
        };
        // What is gone again belonged to a step that was restarted.
        if_there(flushed).map_err(failed("write", path))
    }
}

/// The directories that name these files, each once.
fn names<'a>(paths: impl Iterator<Item = &'a Path>) -> impl Iterator<Item = OnDisk<'a>> {
    paths.map(parent_of).collect::<BTreeSet<&Path>>().into_iter().map(OnDisk::Names)
}

/// Flushes at the same time what can be: file systems commit what waits for them together.
fn flush_all<'a>(all: impl Iterator<Item = OnDisk<'a>>) -> Result<(), PipelineError> {
    let all: Vec<OnDisk<'_>> = all.collect();
    let share = all.len().div_ceil(MAX_FLUSHED_AT_ONCE).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> = all
            .chunks(share)
            .map(|share| scope.spawn(|| share.iter().try_for_each(|part| part.flush())))
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_beside(path: &Path, bytes: &[u8], is_executable: bool) -> Result<NamedTempFile, PipelineError> {
    let mut file = new_beside(path, is_executable)?;
    file.write_all(bytes).map_err(failed("write", path))?;
    Ok(file)
}

/// A new file in the directory of this one, which is created.
fn new_beside(path: &Path, is_executable: bool) -> Result<NamedTempFile, PipelineError> {
    let parent = parent_of(path);
    create_dir(parent)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY_PREFIX).rand_bytes(RANDOM_CHARACTERS);
    // Temporary files are private by default; a file of a run is as the umask says, in a directory that is private.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(if is_executable { 0o777 } else { 0o666 }));
    }
    #[cfg(not(unix))]
    let _ = is_executable;
    builder.tempfile_in(parent).map_err(failed("write", path))
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

/// Writes values as the indented JSON array that [`write_json`] makes of a list of them, one at a time.
///
/// # Errors
///
/// The first of the values that is an error, and [`PipelineError::RunDir`] naming the file; the old file is untouched.
pub fn write_json_list<T: Serialize>(
    path: &Path,
    values: impl IntoIterator<Item = Result<T, PipelineError>>,
) -> Result<(), PipelineError> {
    let file = new_beside(path, false)?;
    let mut out = io::BufWriter::new(file);
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    let not_written = |error: serde_json::Error| failed("write", path)(io::Error::from(error));
    let mut list = serializer.serialize_seq(None).map_err(not_written)?;
    for value in values {
        list.serialize_element(&value?).map_err(not_written)?;
    }
    list.end().map_err(not_written)?;
    out.write_all(b"\n").map_err(failed("write", path))?;
    let file = out.into_inner().map_err(|error| failed("write", path)(error.into_error()))?;
    file.as_file().sync_all().map_err(failed("write", path))?;
    rename(file, path)?;
    sync_dir(parent_of(path)).map_err(failed("write", path))
}

/// A value as [`write_json`] writes it.
pub(super) fn json_bytes(path: &Path, value: &impl Serialize) -> Result<Vec<u8>, PipelineError> {
    let mut bytes =
        serde_json::to_vec_pretty(value).map_err(|error| failed("write", path)(io::Error::from(error)))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Removes what a process that was killed left half written in the directory of a run.
///
/// Only files with names as they are given here. A directory without `config.json` is no run yet, so nothing is looked for
/// below it; and what is in the directory of another run is left to that run, which may be going on.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file.
pub(super) fn remove_half_written(run: &Path) -> Result<(), PipelineError> {
    remove_half_written_in(run, run.join("config.json").is_file())
}

fn remove_half_written_in(dir: &Path, goes_down: bool) -> Result<(), PipelineError> {
    for entry in fs::read_dir(dir).map_err(failed("read", dir))? {
        let entry = entry.map_err(failed("read", dir))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(failed("read", dir))?);
        if kind.is_dir() && goes_down && !path.join(LOCK_FILE).exists() {
            remove_half_written_in(&path, goes_down)?;
        } else if kind.is_file() && is_temporary(&entry.file_name().to_string_lossy()) {
            fs::remove_file(&path).map_err(failed("write", &path))?;
        }
    }
    Ok(())
}

/// Whether a file has a name as [`write_beside`] gives it while it writes.
fn is_temporary(name: &str) -> bool {
    let random = name.strip_prefix(TEMPORARY_PREFIX);
    random.is_some_and(|random| {
        random.len() == RANDOM_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Removes a file, if it is there.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the file.
pub fn remove_file(path: &Path) -> Result<(), PipelineError> {
    if_there(fs::remove_file(path)).map_err(failed("write", path))
}

/// Removes a directory with all that is in it, if it is there.
///
/// # Errors
///
/// [`PipelineError::RunDir`] naming the directory.
pub fn remove_dir(path: &Path) -> Result<(), PipelineError> {
    if_there(fs::remove_dir_all(path)).map_err(failed("write", path))
}

/// Something done to a file that may be gone, which is not an error.
pub(super) fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A rename is on the disk only when its directory is.
#[cfg(unix)]
fn sync_dir(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn sync_dir(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_is_written_one_by_one_as_it_is_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let [whole, by_one] = ["whole", "by_one"].map(|name| dir.path().join(name));
        for list in [vec![], vec![json!({"a": [1, {}]})], vec![json!("x"), json!([]), json!(2.5)]] {
            write_json(&whole, &list).unwrap();
            write_json_list(&by_one, list.into_iter().map(Ok)).unwrap();
            assert_eq!(fs::read(&whole).unwrap(), fs::read(&by_one).unwrap());
        }
        let halted = write_json_list(&by_one, [Ok(1), Err(PipelineError::Halted)]);
        assert!(matches!(halted, Err(PipelineError::Halted)));
        assert_eq!(fs::read(&whole).unwrap(), fs::read(&by_one).unwrap(), "the old file is untouched");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
