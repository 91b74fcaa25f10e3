//! One program: its files, its start, what is seen of it, and its end.

#[cfg(target_os = "linux")]
use crate::bubblewrap::SETPRIV;
use crate::bubblewrap::{STDIN, TEMPORARY, UNPACK, WORK};
#[cfg(target_os = "linux")]
use crate::cgroup::Cgroup;
use crate::channel::{Channelled, files_of, last_words, read_channel, read_printed, report};
use crate::container::{CONTAINER_KILLED, ENGINE_FAILED};
use crate::outcome::ExecutionResult;
use crate::program::{Cancel, Input, Outputs, Program};
use crate::sandbox::{Kind, Sandbox};
use crate::script::{BEGAN, Channel, RlimitSet, Script, check_name, check_path};
use crate::stage::{Stage, is_open_to_others};
use crate::verdict::{Seen, verdict};
use crate::{Limits, RunError};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How often limits are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long the streams of a program may stay open that was killed.
const CLOSING: Duration = Duration::from_secs(5);
/// How long the script of a container may take to end the program.
const ASKED: Duration = Duration::from_secs(2);
/// What an archive takes besides the content of its files: headers, and zeros at its end.
const ARCHIVE_OVERHEAD: u64 = 1 << 20;
/// The modes of inputs in an archive: of those that are read, and of those that are also started.
const MODE: u32 = 0o644;
const EXECUTABLE_MODE: u32 = 0o755;
/// The user and group without rights.
const NOBODY: &str = "65534";
/// The number of the names of containers.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A program that is running.
struct Running<'a> {
    child: Child,
    limits: Limits,
    kind: &'a Kind,
    #[cfg(target_os = "linux")]
    cgroup: Option<Cgroup>,
    container: Option<String>,
}

impl Sandbox {
    /// Runs a program to its end.
    ///
    /// However the program ends is an `Ok`. Whatever way the call ends, the program and all that it started are gone.
    ///
    /// # Errors
    ///
    /// A program that was not run: the sandbox or an input is at fault, or the call was cancelled.
    pub fn run(&self, program: &Program, cancel: &Cancel) -> Result<ExecutionResult, RunError> {
        run(self, program, cancel)
    }
}

fn run(sandbox: &Sandbox, program: &Program, cancel: &Cancel) -> Result<ExecutionResult, RunError> {
    if cancel.is_cancelled() {
        return Err(RunError::Cancelled);
    }
    check(sandbox, program)?;
    let began = Instant::now();
    let stage = sandbox.base.stage().map_err(RunError::Start)?;
    let prepared = prepare(sandbox, program, &stage)?;
    let (mut running, channel) = start(sandbox, program, &stage, &prepared)?;
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    let limits = program.limits;
    let max_bytes = limits.output.saturating_add(ARCHIVE_OVERHEAD);
    let (files, stdout) = match channel {
        Some(channel) => (read_channel(Some(channel), max_bytes), read_printed(stdout, limits.printed)),
        None => (read_channel(stdout, max_bytes), read_printed(None::<io::Empty>, limits.printed)),
    };
    let stderr = read_printed(stderr, limits.printed);
    let (seen, channelled) = running.watch(&files, began, cancel)?;
    let code = running.end();
    let channelled = match channelled {
        Some(channelled) => channelled,
        None => files.recv_timeout(CLOSING).unwrap_or(Channelled { bytes: Vec::new(), is_too_much: false }),
    };
    let wall = began.elapsed();
    let (stdout, stderr) = (stdout.within(CLOSING), stderr.within(CLOSING));
    let seen = seen.or(channelled.is_too_much.then_some(Seen::Output));
    let engine_failed = running.container.is_some() && code == Some(ENGINE_FAILED);
    let Some(said) = channelled.bytes.strip_prefix(BEGAN).filter(|_| !engine_failed) else {
        if seen == Some(Seen::Clock) {
            return Err(RunError::Setup { said: "nothing, in the time that the program had".to_owned() });
        }
        let said = stderr.text().trim().to_owned();
        return Err(RunError::Setup { said: if said.is_empty() { "nothing".to_owned() } else { said } });
    };
    let (report, archive) = report(said);
    let is_container = running.container.is_some();
    let counted = report.and_then(|report| report.seen);
    let seen = if matches!(seen, None | Some(Seen::Clock)) { counted.or(seen) } else { seen };
    let seen = seen.or_else(|| {
        (is_container && report.is_none() && code == Some(CONTAINER_KILLED)).then_some(Seen::Memory)
    });
    let verdict = verdict(seen, report, &last_words(&stdout, &stderr), wall, &limits);
    let files = match seen {
        None => files_of(archive, program, limits.output),
        Some(_) => Vec::new(),
    };
    Ok(ExecutionResult { verdict, stdout, stderr, files, wall })
}

/// Checks what can be wrong with a program before it is started.
fn check(sandbox: &Sandbox, program: &Program) -> Result<(), RunError> {
    if program.command.is_empty() {
        return Err(RunError::Program("the command of a program is empty".to_owned()));
    }
    let named: &[String] = match &program.outputs {
        Outputs::Named(names) => names,
        Outputs::None | Outputs::All => &[],
    };
    program.inputs.iter().try_for_each(|(name, _)| check_path(name))?;
    named.iter().try_for_each(|name| check_name(name))?;
    if let Some((name, _)) = program
        .environment
        .iter()
        .find(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
    {
        return Err(RunError::Program(format!("{name:?} cannot be the name of an environment variable")));
    }
    for path in &program.readable {
        if sandbox.is_other_user() && !is_open_to_others(path) {
            return Err(RunError::Program(format!(
                "{} is closed to the user as whom programs run; put it where everybody may read it",
                path.display()
            )));
        }
    }
    Ok(())
}

/// The inputs as the sandbox is given them.
#[derive(Default)]
struct Prepared {
    /// Files of this machine with their places inside.
    binds: Vec<(PathBuf, String)>,
    has_archive: bool,
}

fn prepare(sandbox: &Sandbox, program: &Program, stage: &Stage) -> Result<Prepared, RunError> {
    let mut prepared = Prepared::default();
    let mut archive = tar::Builder::new(Vec::new());
    for (number, (name, input)) in program.inputs.iter().enumerate() {
        let failed =
            |path: &Path, source| RunError::Input { name: name.clone(), path: path.to_owned(), source };
        let place = format!("{WORK}/{name}");
        let copy = format!("input-{number}");
        // Without a sandbox all inputs are files of the working directory, and only copies.
        let is_off = matches!(sandbox.kind, Kind::Off);
        match input {
            Input::Bytes(bytes) if !is_off => {
                let path = stage.write(&copy, bytes).map_err(|source| failed(stage.path(), source))?;
                prepared.binds.push((path, place));
            }
            Input::File(path) if !is_off => {
                let path = if sandbox.is_other_user() {
                    stage.copy(&copy, path).map_err(|source| failed(path, source))?
                } else {
                    path.canonicalize().map_err(|source| failed(path, source))?
                };
                prepared.binds.push((path, place));
            }
            Input::File(path) => {
                let bytes = std::fs::read(path).map_err(|source| failed(path, source))?;
                append(&mut archive, name, &bytes, MODE).map_err(|source| failed(path, source))?;
            }
            Input::Bytes(bytes) | Input::Writable(bytes) | Input::Executable(bytes) => {
                let mode = if matches!(input, Input::Executable(_)) { EXECUTABLE_MODE } else { MODE };
                append(&mut archive, name, bytes, mode).map_err(|source| failed(stage.path(), source))?;
                prepared.has_archive = true;
            }
        }
        prepared.has_archive |= is_off;
    }
    if !program.stdin.is_empty() {
        let path = stage.write("stdin", &program.stdin).map_err(RunError::Start)?;
        prepared.binds.push((path, STDIN.to_owned()));
    }
    if prepared.has_archive {
        let written = archive.into_inner().and_then(|bytes| stage.write("unpack.tar", &bytes));
        let path = written.map_err(RunError::Start)?;
        prepared.binds.push((path, UNPACK.to_owned()));
    }
    Ok(prepared)
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, name, bytes)
}

fn start<'a>(
    sandbox: &'a Sandbox,
    program: &Program,
    stage: &Stage,
    prepared: &Prepared,
) -> Result<(Running<'a>, Option<io::PipeReader>), RunError> {
    let limits = program.limits;
    let unpack = prepared.has_archive.then_some(UNPACK);
    let stdin = !program.stdin.is_empty();
    let place = program.directory.as_ref().map(|directory| directory.to_string_lossy());
    let script = Script {
        channel: Channel::Input,
        work: WORK,
        temporary: TEMPORARY,
        directory: place.as_deref(),
        stdin: stdin.then_some(STDIN),
        unpack,
        outputs: &program.outputs,
        limits: None,
    };
    #[cfg(target_os = "linux")]
    let mut cgroup = None;
    let mut container = None;
    let mut directory = None;
    let mut environment = None;
    let (mut words, script) = match &sandbox.kind {
        #[cfg(target_os = "linux")]
        Kind::Bubblewrap(bubblewrap) => {
            cgroup = bubblewrap.cgroups.as_ref().map(|place| place.make(&limits)).transpose()?;
            let mut words = match &cgroup {
                Some(cgroup) => join(cgroup),
                None => {
                    let filter = crate::calls::filter().map_err(io::Error::other);
                    let path = filter.and_then(|filter| stage.write("filter", &filter));
                    crate::bubblewrap::open_filter(&path.map_err(RunError::Start)?)
                }
            };
            if bubblewrap.drops_root {
                let [user, group] = ["--reuid=", "--regid="].map(|flag| format!("{flag}{NOBODY}"));
                words.extend([SETPRIV, &user, &group, "--clear-groups", "--"].map(OsString::from));
            }
            words.extend(crate::bubblewrap::words(
                &bubblewrap.path,
                &limits,
                &prepared.binds,
                &program.readable,
                &program.environment,
                cgroup.is_none(),
            ));
            let limits = Some(RlimitSet { limits, is_alone: cgroup.is_none() });
            (words, Script { limits, ..script }.text())
        }
        Kind::Container(config) => {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("skillrl-sandbox-{}-{number}", std::process::id());
            let words =
                crate::container::words(config, &name, &limits, &prepared.binds, &program.environment);
            container = Some(name);
            (words, Script { channel: Channel::Output, ..script }.text())
        }
        Kind::Off => {
            let work = stage.path().join("work");
            std::fs::create_dir(&work).map_err(RunError::Start)?;
            let usual =
                [("PATH", std::env::var_os("PATH").unwrap_or_default()), ("HOME", work.clone().into())];
            let usual = usual.into_iter().map(|(name, value)| (OsString::from(name), value));
            let own = program.environment.iter().map(|(name, value)| (name.into(), value.into()));
            environment = Some(usual.chain(own).collect::<Vec<_>>());
            directory = Some(work);
            let unpack = prepared.has_archive.then_some("../unpack.tar");
            let stdin = stdin.then_some("../stdin");
            (Vec::new(), Script { work: ".", temporary: ".", unpack, stdin, ..script }.text())
        }
    };
    words.extend(["/bin/sh".into(), "-c".into(), script.into(), "sh".into()]);
    words.extend(program.command.iter().cloned());
    let mut words = words.into_iter();
    let starter = words.next().unwrap_or_default();
    let mut command = Command::new(&starter);
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    if let Some(directory) = directory {
        command.current_dir(directory);
    }
    if let Some(environment) = environment {
        command.env_clear().envs(environment);
    }
    let channel = if container.is_some() {
        // Held open: its end tells the container that the caller is gone.
        command.stdin(Stdio::piped());
        None
    } else {
        let (reader, writer) = io::pipe().map_err(RunError::Start)?;
        command.stdin(writer);
        Some(reader)
    };
    let child = command.spawn().map_err(|error| {
        RunError::Start(io::Error::new(error.kind(), format!("{}: {error}", starter.display())))
    })?;
    let kind = &sandbox.kind;
    let running = Running {
        child,
        limits,
        kind,
        #[cfg(target_os = "linux")]
        cgroup,
        container,
    };
    Ok((running, channel))
}

/// A shell that enters the cgroups and becomes what follows.
#[cfg(target_os = "linux")]
fn join(cgroup: &Cgroup) -> Vec<OsString> {
    let entrances = cgroup.entrances();
    // Both values are ours: a count of one or two, and paths that are arguments.
    let script = r#"for at in 1 2; do [ "$1" = -- ] && break; echo 0 >"$1" || exit 125; shift; done; shift; exec "$@""#;
    let mut words: Vec<OsString> = ["/bin/sh", "-c", script, "sh"].map(OsString::from).into();
    words.extend(entrances.into_iter().map(OsString::from));
    words.push("--".into());
    words
}

impl Running<'_> {
    /// Waits for the end of the program, or ends it where it is over a limit.
    fn watch(
        &mut self,
        files: &Receiver<Channelled>,
        began: Instant,
        cancel: &Cancel,
    ) -> Result<(Option<Seen>, Option<Channelled>), RunError> {
        loop {
            match files.recv_timeout(TICK) {
                Ok(channelled) => return Ok((self.over()?, Some(channelled))),
                Err(RecvTimeoutError::Disconnected) => return Ok((self.over()?, None)),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let seen = self.over()?.or((began.elapsed() >= self.limits.wall).then_some(Seen::Clock));
            if cancel.is_cancelled() {
                self.kill();
                return Err(RunError::Cancelled);
            }
            if seen.is_some() {
                let told = self.ask_to_end(files);
                self.kill();
                return Ok((seen, told));
            }
        }
    }

    /// The limit that the program is over.
    fn over(&self) -> Result<Option<Seen>, RunError> {
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &self.cgroup {
            let counts = cgroup.counts()?;
            return Ok(match (counts.n_oom_kills, counts.n_refused_forks) {
                (0, 0) => None,
                (0, _) => Some(Seen::Processes),
                (_, _) => Some(Seen::Memory),
            });
        } else if let Kind::Bubblewrap(_) = self.kind {
            return Ok(crate::monitor::over(self.child.id(), &self.limits));
        }
        Ok(None)
    }

    /// Has the script of a container end the program and say what was counted; `None` where it does not.
    fn ask_to_end(&mut self, files: &Receiver<Channelled>) -> Option<Channelled> {
        self.container.as_ref()?;
        drop(self.child.stdin.take());
        files.recv_timeout(ASKED).ok()
    }

    /// Ends the program with all that it has started.
    fn kill(&mut self) {
        if let (Kind::Container(config), Some(name)) = (self.kind, &self.container) {
            let mut kill = Command::new(&config.engine);
            kill.args(["kill", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            kill.process_group(0);
            // An engine that does not answer leaves the rest to the time limit of the container's own processes.
            if let Ok(mut kill) = kill.spawn()
                && wait(&mut kill, CLOSING).is_none()
            {
                kill_group(&kill);
                drop(kill.wait());
            }
        }
        // In a sandbox all other processes die with the first one.
        kill_group(&self.child);
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        drop(self.child.kill());
    }

    /// Waits until the sandbox is gone.
    fn end(&mut self) -> Option<i32> {
        if let Kind::Off = self.kind {
            // What the program has left running; the number of the group is still its own.
            self.kill();
        }
        // The first process has ended or was killed: this takes a moment.
        if let Some(status) = wait(&mut self.child, CLOSING) {
            return status.code();
        }
        self.kill();
        self.child.wait().ok().and_then(|status| status.code())
    }
}

/// Waits so long for the end of a process.
fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < limit {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => break,
        }
    }
    None
}

/// Kills a process that leads its group, with all of the group.
fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
            drop(self.child.wait());
        }
    }
}
