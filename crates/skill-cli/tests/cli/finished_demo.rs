//! One finished run of the demo for all tests: each test is a process of its own, and training takes most of its time.
//!
//! The run is kept in cargo's directory for test data under a key of the program's build, so a rebuilt program trains
//! again. A lock on a file keeps processes from training it twice or reading it half written.

use crate::context::{TestContext, write_files};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The directory of the shared run, which nobody replaces while this lives.
pub(crate) struct SharedCopy {
    pub(crate) path: PathBuf,
    /// Holds the lock for reading.
    _lock: File,
}

/// Trains the demo if no process has done that for this program yet.
pub(crate) fn shared_copy() -> SharedCopy {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("finished-demo");
    fs::create_dir_all(&root).unwrap();
    let lock = File::options().create(true).append(true).open(root.join("lock")).unwrap();
    let path = root.join(key_of(Path::new(env!("CARGO_BIN_EXE_skillrl"))));
    lock.lock_shared().unwrap();
    if !path.exists() {
        lock.unlock().unwrap();
        lock.lock().unwrap();
        if !path.exists() {
            train(&root, &path);
        }
        lock.unlock().unwrap();
        lock.lock_shared().unwrap();
    }
    SharedCopy { path, _lock: lock }
}

/// Identifies a build of the program without reading its hundred megabytes.
fn key_of(program: &Path) -> String {
    let metadata = fs::metadata(program).unwrap();
    let modified = metadata.modified().unwrap().duration_since(UNIX_EPOCH).unwrap();
    format!("{}-{}", metadata.len(), modified.as_nanos())
}

/// Replaces the runs of earlier builds by one of this build; its directory gets its name when it is complete.
fn train(root: &Path, path: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            fs::remove_dir_all(entry).unwrap();
        }
    }
    let context = TestContext::with_demo();
    context.succeed(&["train", "demo/skillrl.toml", "--quiet"]);
    let unfinished = root.join("unfinished");
    write_files(&unfinished, context.files("."));
    fs::rename(unfinished, path).unwrap();
}
