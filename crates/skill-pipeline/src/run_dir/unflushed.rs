//! Files that have to be on the disk before the run's state is, and not earlier.
//!
//! A step writes a dozen files, and until the state names the step all of them are made again after a crash. Flushing
//! each by itself would make every step wait for the disk some thirty times in a row.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that were written and are not known to be on the disk.
#[derive(Debug, Default)]
pub(super) struct Unflushed(Mutex<BTreeSet<PathBuf>>);

impl Unflushed {
    pub(super) fn add(&self, path: &Path) {
        self.0.lock().insert(path.to_owned());
    }

    /// Takes back those below a directory that is removed.
    pub(super) fn forget(&self, dir: &Path) {
        self.0.lock().retain(|path| !path.starts_with(dir));
    }

    /// All of them; who takes them sees to it that they are on the disk.
    pub(super) fn take(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut *self.0.lock())
    }
}
