//! The traces of this process that outlive it when it is killed: temporary directories and running programs.
//!
//! Each process that starts programs or makes temporary directories has a session: a directory
//! `skillrl-UID/TOKEN` in the system's temporary directory, and beside it a locked file `TOKEN.lock`.
//! All its temporary directories are inside, and all its programs have the token in their environment
//! (`SKILLRL_PROCESS`), which their children inherit. The system releases the lock when the process ends, however it
//! ends; [`sweep`] looks for files whose lock is free, kills the programs with that token and removes the directory.
//!
//! Nothing is killed or removed by a process id or a name alone, so no process or directory of anybody else is touched.

use super::descendants::{self, Mark};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once, Weak};
use tempfile::TempDir;

/// The variable by which the programs that this process starts, and their children, are recognised.
pub(super) const MARK_VARIABLE: &str = "SKILLRL_PROCESS";

/// The extension of the locked file of a session.
const LOCK_EXTENSION: &str = "lock";
/// The hexadecimal digits of a token.
const TOKEN_DIGITS: usize = 32;
/// How often a session is begun where another process takes it for one that has ended.
const MAX_BEGINNINGS: usize = 5;

/// The session of this process, for as long as somebody needs it.
static CURRENT: Mutex<Weak<Session>> = Mutex::new(Weak::new());

/// What the programs and temporary directories of this process have in common.
#[derive(Debug)]
pub(super) struct Session {
    token: String,
    /// None where no directory can be made; then nothing can be cleaned up after this process.
    home: Option<Home>,
    n_marks: AtomicU64,
}

/// The directory of a session, with the lock that says that its process is alive.
#[derive(Debug)]
struct Home {
    directory: PathBuf,
    lock_path: PathBuf,
    _lock: File,
}

impl Session {
    /// The session of this process; it begins with the first one who needs it, and ends with the last.
    pub(super) fn current() -> Arc<Self> {
        static SWEPT: Once = Once::new();
        let mut current = CURRENT.lock();
        if let Some(session) = current.upgrade() {
            return session;
        }
        SWEPT.call_once(|| {
            sweep();
        });
        let session = Arc::new(Self::begin());
        *current = Arc::downgrade(&session);
        session
    }

    fn begin() -> Self {
        let begun = match base_directory() {
            Ok(base) => begin_in(&base),
            Err(error) => Err(error),
        };
        match begun {
            Ok((token, home)) => Self { token, home: Some(home), n_marks: AtomicU64::new(0) },
            Err(error) => {
                tracing::debug!(%error, "no directory for what has to be cleaned up if this process is killed");
                Self { token: new_token(), home: None, n_marks: AtomicU64::new(0) }
            }
        }
    }

    /// A mark that no other program has.
    pub(super) fn new_mark(&self) -> Mark {
        Mark::of_program(&self.token, self.n_marks.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Where something is left inside, the lock file stays, so that a later sweep finds the directory.
        if fs::remove_dir(&self.directory).is_ok() {
            drop(fs::remove_file(&self.lock_path));
        }
    }
}

/// A directory for the time being; it is removed when this is dropped, and by [`sweep`] if the process was killed.
#[derive(Debug)]
pub struct TemporaryDir {
    directory: TempDir,
    /// Dropped after the directory, which may lie inside its own.
    _session: Arc<Session>,
}

impl TemporaryDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Makes a directory that only this user can look into.
///
/// # Errors
///
/// A directory that cannot be made.
pub fn temporary_dir(prefix: &str) -> io::Result<TemporaryDir> {
    let session = Session::current();
    let mut builder = tempfile::Builder::new();
    let directory = match &session.home {
        Some(home) => builder.prefix(prefix).tempdir_in(&home.directory)?,
        None => builder.prefix(&format!("skillrl-{prefix}")).tempdir()?,
    };
    Ok(TemporaryDir { directory, _session: session })
}

/// What [`sweep`] has cleaned up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Processes that had been killed with programs running, or with temporary directories.
    pub n_sessions: usize,
    /// Programs of theirs that were still running, and their children.
    pub n_processes: usize,
}

/// Cleans up after processes of this user that were killed: ends their programs and removes their temporary
/// directories.
///
/// Programs are found on Linux alone; elsewhere only directories are removed.
pub fn sweep() -> Swept {
    match existing_base_directory() {
        Some(base) => sweep_in(&base),
        None => Swept::default(),
    }
}

fn sweep_in(base: &Path) -> Swept {
    let mut swept = Swept::default();
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let lock_path = entry.path();
        let Some(token) = token_of(&lock_path) else { continue };
        let Some(_lock) = lock_of_the_dead(&lock_path) else { continue };
        swept.n_sessions += 1;
        swept.n_processes += descendants::kill(&Mark::of_session(token));
        let directory = base.join(token);
        let removed = match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => fs::remove_file(&lock_path),
        };
        match removed {
            Ok(()) => {
                tracing::info!(directory = %directory.display(), "cleaned up after a process that was killed");
            }
            Err(error) => tracing::debug!(%error, directory = %directory.display(), "cannot be removed"),
        }
    }
    swept
}

/// The token of the session that a file locks.
fn token_of(path: &Path) -> Option<&str> {
    let token = path.file_stem()?.to_str()?;
    let is_token = token.len() == TOKEN_DIGITS && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_token && path.extension()?.to_str()? == LOCK_EXTENSION).then_some(token)
}

/// The lock of a session whose process has ended.
fn lock_of_the_dead(path: &Path) -> Option<File> {
    let lock = File::options().read(true).write(true).open(path).ok()?;
    // Anyone who swept at the same time may have been faster.
    (lock.try_lock().is_ok() && path.exists()).then_some(lock)
}

fn begin_in(base: &Path) -> io::Result<(String, Home)> {
    let mut n_beginnings = 0;
    loop {
        n_beginnings += 1;
        let token = new_token();
        let lock_path = base.join(&token).with_extension(LOCK_EXTENSION);
        let lock = File::create_new(&lock_path)?;
        // Before it is locked, a sweep may take it for a session that has ended, and remove it.
        if lock.try_lock().is_ok() && lock_path.exists() {
            let directory = base.join(&token);
            create_private(&directory)?;
            return Ok((token, Home { directory, lock_path, _lock: lock }));
        }
        if n_beginnings >= MAX_BEGINNINGS {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
    }
}

/// 128 bits that nobody else comes to.
fn new_token() -> String {
    let random = || std::hash::RandomState::new().build_hasher().finish();
    let process = u64::from(std::process::id());
    // Within a process the seeds of the hashers are counted up from one that the system has drawn.
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u128(clock.as_nanos());
    hasher.write_u64(process);
    format!("{:016x}{:016x}", random(), hasher.finish())
}

/// The directory of this user's sessions, made if it is not there.
fn base_directory() -> io::Result<PathBuf> {
    let base = base_path();
    match create_private(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    match is_private(&base) {
        true => Ok(base),
        // Somebody else has taken the name in a directory that all may write.
        false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    }
}

fn existing_base_directory() -> Option<PathBuf> {
    Some(base_path()).filter(|base| is_private(base))
}

#[cfg(unix)]
fn base_path() -> PathBuf {
    std::env::temp_dir().join(format!("skillrl-{}", rustix::process::geteuid().as_raw()))
}

/// The temporary directory is the user's own here.
#[cfg(not(unix))]
fn base_path() -> PathBuf {
    std::env::temp_dir().join("skillrl-sessions")
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Whether it is a directory of this user's that nobody else can write.
#[cfg(unix)]
fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // A link is none, wherever it leads.
    fs::symlink_metadata(path).is_ok_and(|found| {
        found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0
    })
}

#[cfg(not(unix))]
fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A base directory as this user's own would be.
    fn base() -> (TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let base = parent.path().join("sessions");
        create_private(&base).unwrap();
        (parent, base)
    }

    fn names(base: &Path) -> Vec<String> {
        let entries = fs::read_dir(base).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_session_that_is_over_leaves_nothing() {
        let (_parent, base) = base();
        let (token, home) = begin_in(&base).unwrap();
        assert_eq!(token_of(&home.lock_path), Some(token.as_str()));
        assert!(base.join(&token).is_dir());
        drop(home);
        assert_eq!(names(&base), Vec::<String>::new());
    }

    #[test]
    fn a_sweep_removes_what_the_dead_have_left_and_nothing_else() {
        let (_parent, base) = base();
        let (alive, home) = begin_in(&base).unwrap();
        fs::write(home.directory.join("SKILL.md"), "of somebody who is at work").unwrap();
        // A killed process leaves both, and no lock.
        let dead = new_token();
        fs::create_dir_all(base.join(&dead).join("agent-1")).unwrap();
        fs::write(base.join(&dead).join("agent-1/SKILL.md"), "of somebody who was killed").unwrap();
        fs::write(base.join(&dead).with_extension(LOCK_EXTENSION), "").unwrap();
        // Whatever else is there is not ours to judge.
        fs::create_dir(base.join("other")).unwrap();
        fs::write(base.join("other.lock"), "").unwrap();
        let without_lock = new_token();
        fs::create_dir(base.join(&without_lock)).unwrap();
        assert_eq!(sweep_in(&base).n_sessions, 1);
        let mut left = names(&base);
        left.sort();
        let mut expect =
            [alive.clone(), format!("{alive}.lock"), "other".into(), "other.lock".into(), without_lock];
        expect.sort();
        assert_eq!(left, expect);
        assert!(home.directory.join("SKILL.md").is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let (parent, base) = base();
        assert!(is_private(&base));
        fs::set_permissions(&base, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(!is_private(&base));
        fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink(&base, &link).unwrap();
        assert!(!is_private(&link));
    }

    #[test]
    fn tokens_differ() {
        let tokens: std::collections::BTreeSet<String> = (0..100).map(|_| new_token()).collect();
        assert_eq!(tokens.len(), 100);
        assert!(tokens.iter().all(|token| token.len() == TOKEN_DIGITS));
    }
}
