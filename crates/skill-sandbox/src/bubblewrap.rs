//! The command line of `bwrap`.

use crate::Limits;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The working directory of a program.
pub(crate) const WORK: &str = "/work";
/// Where it may write besides.
pub(crate) const TEMPORARY: &str = "/tmp";
/// Where an archive lies that is unpacked before it starts.
pub(crate) const UNPACK: &str = "/unpack.tar";

/// Where the standard input lies.
pub(crate) const STDIN: &str = "/stdin";

/// What takes the rights of root from it.
#[cfg(target_os = "linux")]
pub(crate) const SETPRIV: &str = "setpriv";

/// The size of `/dev/shm`.
const SHARED_MEMORY: u64 = 16 << 20;
/// What systems have beside `/usr`: links into it, or directories of their own.
const SYSTEM: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib64", "/lib32", "/nix/store"];
/// What the loader and the alternatives of a distribution need of `/etc`.
const CONFIGURATION: [&str; 2] = ["/etc/ld.so.cache", "/etc/alternatives"];

/// The file descriptor from which `bwrap` reads the filter of system calls.
const FILTER: &str = "9";

/// A shell command that opens the filter of system calls and replaces itself with the words that follow.
#[cfg(target_os = "linux")]
pub(crate) fn open_filter(path: &Path) -> Vec<OsString> {
    let script = format!(r#"exec {FILTER}<"$1" || exit 125; shift; exec "$@""#);
    let mut words: Vec<OsString> = ["/bin/sh", "-c", &script, "sh"].map(OsString::from).into();
    words.push(path.into());
    words
}

/// The words of `bwrap` up to the command that it starts.
///
/// `binds` are files of this machine with their places inside; `has_filter` is whether [`open_filter`] stands before.
pub(crate) fn words(
    bwrap: &Path,
    limits: &Limits,
    binds: &[(PathBuf, String)],
    readable: &[PathBuf],
    environment: &[(String, String)],
    has_filter: bool,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![bwrap.into()];
    let mut add = |parts: &[&dyn AsRef<OsStr>]| words.extend(parts.iter().map(|part| part.as_ref().into()));
    add(&[&"--unshare-all", &"--unshare-user", &"--disable-userns", &"--die-with-parent", &"--new-session"]);
    add(&[&"--as-pid-1", &"--clearenv", &"--cap-drop", &"ALL", &"--hostname", &"sandbox"]);
    if has_filter {
        add(&[&"--seccomp", &FILTER]);
    }
    add(&[&"--ro-bind", &"/usr", &"/usr"]);
    for path in SYSTEM {
        match std::fs::read_link(path) {
            Ok(target) => add(&[&"--symlink", &target, &path]),
            Err(_) => add(&[&"--ro-bind-try", &path, &path]),
        }
    }
    for path in CONFIGURATION {
        add(&[&"--ro-bind-try", &path, &path]);
    }
    add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
    for (path, size) in [("/dev/shm", SHARED_MEMORY), (TEMPORARY, limits.temporary), (WORK, limits.disk)] {
        add(&[&"--size", &size.to_string(), &"--tmpfs", &path]);
    }
    for path in readable {
        add(&[&"--ro-bind", path, path]);
    }
    for (path, place) in binds {
        add(&[&"--ro-bind", path, place]);
    }
    add(&[&"--chdir", &WORK, &"--remount-ro", &"/dev", &"--remount-ro", &"/"]);
    let usual = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", TEMPORARY), ("LANG", "C.UTF-8")];
    for (name, value) in usual {
        add(&[&"--setenv", &name, &value]);
    }
    for (name, value) in environment {
        add(&[&"--setenv", name, value]);
    }
    words
}
