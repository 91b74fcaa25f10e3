//! Copies of inputs on this machine's disk, for as long as a program needs them.
//!
//! A sandbox has a directory of its own, with a locked file in it. The lock is free once its process has ended, however
//! that ended; the next sandbox removes such directories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "skillrl-sandbox-";
const LOCK: &str = "lock";

/// The directory of a sandbox, for the directories of its programs.
#[derive(Debug)]
pub(crate) struct Base {
    directory: TempDir,
    _lock: File,
}

/// The files of one program.
#[derive(Debug)]
pub(crate) struct Stage {
    directory: TempDir,
}

impl Base {
    /// Makes the directory, and removes those that killed processes have left beside it.
    ///
    /// For a program of another user (`is_other`) no directory above it may be closed to others.
    pub(crate) fn new(is_other: bool) -> io::Result<Self> {
        let candidates = [std::env::temp_dir(), "/dev/shm".into(), "/tmp".into(), "/var/tmp".into()];
        let open = |path: &&PathBuf| path.is_dir() && (!is_other || is_open_to_others(path));
        let parent = candidates.iter().find(open).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "no temporary directory that another user may look into",
            )
        })?;
        sweep(parent);
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let unlocked = directory.path().join("lock.new");
        let lock = File::create_new(&unlocked)?;
        lock.lock()?;
        // Under this name it is locked from the beginning.
        fs::rename(&unlocked, directory.path().join(LOCK))?;
        let base = Self { directory, _lock: lock };
        open_to_others(base.directory.path())?;
        Ok(base)
    }

    /// A directory for the files of one program.
    pub(crate) fn stage(&self) -> io::Result<Stage> {
        let directory = tempfile::Builder::new().prefix("run-").tempdir_in(self.directory.path())?;
        open_to_others(directory.path())?;
        Ok(Stage { directory })
    }
}

impl Stage {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file that all may read.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, bytes)?;
        readable_to_others(&path)?;
        Ok(path)
    }

    /// Copies a file, so that all may read it.
    pub(crate) fn copy(&self, name: &str, from: &Path) -> io::Result<PathBuf> {
        let path = self.path().join(name);
        fs::copy(from, &path)?;
        readable_to_others(&path)?;
        Ok(path)
    }
}

/// Removes what processes have left that are gone.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || !is_own_directory(&path) {
            continue;
        }
        let Ok(lock) = File::options().read(true).write(true).open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            // What is left is for the next one.
            drop(fs::remove_dir_all(&path));
        }
    }
}

#[cfg(unix)]
fn is_own_directory(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let own = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == own)
}

#[cfg(not(unix))]
fn is_own_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// True if every directory down to this one lets everybody pass.
#[cfg(unix)]
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(path) = path.canonicalize() else { return false };
    path.ancestors()
        .filter(|path| path.is_dir())
        .all(|path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

#[cfg(not(unix))]
pub(crate) fn is_open_to_others(_path: &Path) -> bool {
    true
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // Nobody else can list it, and names inside are not to be guessed.
    fs::set_permissions(path, fs::Permissions::from_mode(0o711))
}

#[cfg(not(unix))]
fn open_to_others(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn readable_to_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o444))
}

#[cfg(not(unix))]
fn readable_to_others(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_what_the_dead_have_left_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, lock: &str| {
            let path = parent.path().join(name);
            fs::create_dir_all(path.join("run-1")).unwrap();
            fs::write(path.join(lock), "").unwrap();
            path
        };
        let dead = make("skillrl-sandbox-dead", LOCK);
        let beginning = make("skillrl-sandbox-new", "lock.new");
        let other = make("other", LOCK);
        let alive = make("skillrl-sandbox-alive", LOCK);
        let lock = File::open(alive.join(LOCK)).unwrap();
        lock.lock().unwrap();
        sweep(parent.path());
        assert!(!dead.exists());
        assert!(beginning.exists() && other.exists() && alive.exists());
    }
}
