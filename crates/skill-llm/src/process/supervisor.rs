//! A process between this one and a program, which ends with all that the program has started when this one is gone.
//!
//! A program can leave its process group and clear its environment, and this process can be killed before it cleans up.
//! So each program is the child of a supervisor: the same executable, started again under another name. The supervisor
//! is the subreaper of all that the program starts, whatever becomes of their parents, and kills them when the program
//! has ended or when its own parent is gone.
//!
//! Only a process that says so at its start ([`offer_supervision`]) is started again, since this one cannot know what
//! the executable of a library's user would do. Only Linux has subreapers; elsewhere nothing is supervised.
//!
//! # Invariants
//!
//! - No program outlives the run that started it, however either ends. Held by
//!   `no_program_outlives_its_run_however_it_ends` of `skill-cli`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use tokio::process::Command;

/// The name (`argv[0]`) under which an executable is started to supervise.
const NAME: &str = "skillrl-supervisor";

/// Says that the executable of this process calls [`supervised`] first of all, so that programs are started under it.
pub fn offer_supervision() {
    #[cfg(target_os = "linux")]
    linux::OFFERED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Supervises, if this process was started for that, and returns the exit code with which it has to end; `None` in any
/// other process. To be called before anything else, while the process has one thread.
pub fn supervised(mut arguments: impl Iterator<Item = OsString>) -> Option<u8> {
    (arguments.next()? == NAME).then(|| supervise(arguments))
}

#[cfg(target_os = "linux")]
fn supervise(arguments: impl Iterator<Item = OsString>) -> u8 {
    linux::supervise(arguments)
}

/// Nothing is started under this name here.
#[cfg(not(target_os = "linux"))]
fn supervise(_arguments: impl Iterator<Item = OsString>) -> u8 {
    1
}

/// A command that starts a program under a supervisor, where there can be one.
///
/// `path` is where the program will look for others, for a name without a directory.
pub fn supervised_command(program: &Path, path: Option<&OsStr>) -> Command {
    #[cfg(target_os = "linux")]
    if let Some(command) = linux::command(program, path) {
        return command;
    }
    let _ = path;
    Command::new(program)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Command, NAME, OsStr, OsString, Path};
    use crate::process::descendants;
    use rustix::process::{
        Pid, Resource, Rlimit, Signal, getpid, getppid, kill_process, set_child_subreaper,
    };
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    pub(super) static OFFERED: AtomicBool = AtomicBool::new(false);

    /// This executable, also after it was replaced on the disk.
    const SELF: &str = "/proc/self/exe";
    /// How often a supervisor looks whether its parent is there.
    const PARENT_PAUSE: Duration = Duration::from_millis(100);
    /// What a shell says of a program that cannot be started.
    const NOT_STARTED: u8 = 127;
    /// Retries, and the pause before each, while a program's file is open for writing.
    const MAX_BUSY_RETRIES: usize = 100;
    const BUSY_PAUSE: Duration = Duration::from_millis(10);

    pub(super) fn command(program: &Path, path: Option<&OsStr>) -> Option<Command> {
        // A program that cannot be started is the caller's to name, by the error of the system.
        let can =
            OFFERED.load(Ordering::Relaxed) && can_be_started(program, path) && Path::new(SELF).exists();
        can.then(|| {
            let mut command = Command::new(SELF);
            command.arg0(NAME).arg(getpid().as_raw_nonzero().to_string()).arg(program);
            command
        })
    }

    fn can_be_started(program: &Path, path: Option<&OsStr>) -> bool {
        let is_program = |path: &Path| {
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        match program.components().count() {
            0 => false,
            1 if !program.has_root() && !program.as_os_str().as_encoded_bytes().contains(&b'/') => {
                path.is_some_and(|path| std::env::split_paths(path).any(|at| is_program(&at.join(program))))
            }
            _ => is_program(program),
        }
    }

    pub(super) fn supervise(mut arguments: impl Iterator<Item = OsString>) -> u8 {
        let parent = arguments.next().and_then(|word| word.to_str()?.parse().ok()).and_then(Pid::from_raw);
        let (Some(parent), Some(program)) = (parent, arguments.next()) else { return NOT_STARTED };
        // Without it, what has left its parents could not be found.
        if let Err(error) = set_child_subreaper(Some(getpid())) {
            return failed(&program, error.into());
        }
        let mut command = std::process::Command::new(&program);
        let pause = || thread::sleep(BUSY_PAUSE);
        let mut child = match spawn_when_closed(command.args(arguments), pause) {
            Ok(child) => child,
            Err(error) => return failed(&program, error),
        };
        // From the moment of the fork on the parent may be gone.
        thread::spawn(move || {
            while getppid() == Some(parent) {
                thread::sleep(PARENT_PAUSE);
            }
            // The program is among them, so what waits for it below goes on.
            descendants::kill_below(descendants::this_process());
        });
        // A stream that the program closes has an end for whoever reads it.
        if let Err(error) = let_go_of_streams() {
            descendants::kill_below(descendants::this_process());
            return failed(&program, error);
        }
        let status = child.wait();
        descendants::kill_below(descendants::this_process());
        match status {
            Ok(status) => as_ended(status),
            Err(error) => failed(&program, error),
        }
    }

    /// Starts a program, and tries again while its file is open for writing.
    ///
    /// The process that wrote it has closed it, but a child that was forked in the meantime inherits the open file until it
    /// calls `exec`; until then the kernel refuses to start the program (`ETXTBSY`).
    fn spawn_when_closed(
        command: &mut std::process::Command,
        mut pause: impl FnMut(),
    ) -> std::io::Result<std::process::Child> {
        for _ in 0..MAX_BUSY_RETRIES {
            match command.spawn() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => pause(),
                other => return other,
            }
        }
        command.spawn()
    }

    fn let_go_of_streams() -> std::io::Result<()> {
        let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        rustix::stdio::dup2_stdout(&nothing)?;
        rustix::stdio::dup2_stderr(&nothing)?;
        Ok(())
    }

    fn failed(program: &OsStr, error: std::io::Error) -> u8 {
        use std::io::Write as _;
        // Standard error is the program's own, and whoever started it reads it.
        let _ = writeln!(std::io::stderr(), "{}: cannot be started: {error}", program.display());
        NOT_STARTED
    }

    /// Ends as the program did: with its exit code, or by the signal that ended it.
    fn as_ended(status: ExitStatus) -> u8 {
        if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
            // The program may have left a core file, and this process must not.
            let _ = rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            // The first may only take off the handler with which a Rust program notices that its stack is full.
            let _ = kill_process(getpid(), signal);
            let _ = kill_process(getpid(), signal);
        }
        let of_signal = || status.signal().and_then(|signal| u8::try_from(signal).ok()?.checked_add(128));
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        code.or_else(of_signal).unwrap_or(NOT_STARTED)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::io::Write as _;

        fn script(dir: &Path) -> (std::path::PathBuf, std::fs::File) {
            let path = dir.join("program");
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(b"#!/bin/sh\nexit 7\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            (path, file)
        }

        #[test]
        fn a_program_that_was_just_written_is_started_when_its_file_is_closed() {
            let dir = tempfile::tempdir().unwrap();
            let (path, file) = script(dir.path());
            let mut open = Some(file);
            let mut n_pauses = 0;
            let pause = || {
                n_pauses += 1;
                if n_pauses == 3 {
                    open.take();
                }
            };
            let status =
                spawn_when_closed(&mut std::process::Command::new(&path), pause).unwrap().wait().unwrap();
            assert_eq!((status.code(), n_pauses >= 3), (Some(7), true));
        }

        #[test]
        fn a_program_that_stays_open_for_writing_is_an_error() {
            let dir = tempfile::tempdir().unwrap();
            let (path, _open) = script(dir.path());
            let error = spawn_when_closed(&mut std::process::Command::new(&path), || {}).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ExecutableFileBusy);
        }
    }
}
