//! Files that have to be on the disk before the run's state is, and not earlier.
//!
//! A step writes a dozen files, and until the state names the step all of them are made again after a crash. Flushing
//! each by itself would make every step wait for the disk some thirty times in a row.

use super::atomic;
use crate::error::PipelineError;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// The most files that are flushed at a time.
const MAX_AT_ONCE: usize = 8;

/// Files that were written and are not known to be on the disk.
#[derive(Debug, Default)]
pub(super) struct Unflushed(Mutex<BTreeSet<PathBuf>>);

impl Unflushed {
    pub(super) fn add(&self, path: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Sees to it that all files, and the names of them, are on the disk.
    pub(super) fn flush(&self) -> Result<(), PipelineError> {
        let paths = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let parents: BTreeSet<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
        flush_all(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>(), flush_file)?;
        flush_all(&parents.into_iter().collect::<Vec<_>>(), atomic::sync_dir)
    }
}

/// Flushes at the same time what can be: file systems commit what waits for them together.
pub(super) fn flush_all(
    paths: &[&Path],
    flush: impl Fn(&Path) -> io::Result<()> + Sync,
) -> Result<(), PipelineError> {
    let flush_one = |path: &Path| match flush(path) {
        // What is gone again belonged to a step that was begun anew.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(atomic::failed("write", path)),
    };
    let share = paths.len().div_ceil(MAX_AT_ONCE).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> = paths
            .chunks(share)
            .map(|share| scope.spawn(|| share.iter().try_for_each(|path| flush_one(path))))
            .collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Sees to it that what a file holds is on the disk.
pub(super) fn flush_file(path: &Path) -> io::Result<()> {
    File::options().write(true).open(path)?.sync_all()
}
