//! Finds a sandbox and tries it out.

#[cfg(target_os = "linux")]
use crate::bubblewrap::SETPRIV;
use crate::container::{ContainerConfig, WITHOUT_LIMIT};
#[cfg(target_os = "linux")]
use crate::sandbox::Bubblewrap;
use crate::sandbox::{Choice, Kind, Limiting, Sandbox};
use crate::stage::Base;
use crate::{Cancel, ExecutionResult, Input, Outputs, Program, RunError, SandboxError};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::Arc;

impl Sandbox {
    /// Finds the sandbox and runs a first program in it.
    ///
    /// # Errors
    ///
    /// There is none: what is missing, apart by kind, with a hint.
    pub fn open(choice: &Choice) -> Result<Self, SandboxError> {
        match choice {
            Choice::Auto => open_usual(),
            Choice::Bubblewrap { path, limiting } => open_bubblewrap(path, *limiting),
            Choice::Container(config) => open_container(config),
            Choice::Off => Ok(Self { kind: Kind::Off, base: base(false)? }),
        }
    }
}

fn base(is_other: bool) -> Result<Arc<Base>, SandboxError> {
    Base::new(is_other).map(Arc::new).map_err(|source| SandboxError::Try(RunError::Start(source)))
}

#[cfg(target_os = "linux")]
fn open_usual() -> Result<Sandbox, SandboxError> {
    open_bubblewrap(&found("bwrap").ok_or(SandboxError::BwrapMissing)?, None)
}

#[cfg(not(target_os = "linux"))]
fn open_usual() -> Result<Sandbox, SandboxError> {
    Err(SandboxError::System { system: std::env::consts::OS })
}

/// A program where the system looks for programs.
#[cfg(target_os = "linux")]
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/bin".into(), "/bin".into()]);
    directories.filter(|path| path.is_absolute()).map(|path| path.join(name)).find(|path| path.is_file())
}

#[cfg(not(target_os = "linux"))]
fn open_bubblewrap(_path: &Path, _limiting: Option<Limiting>) -> Result<Sandbox, SandboxError> {
    open_usual()
}

#[cfg(target_os = "linux")]
fn open_bubblewrap(path: &Path, limiting: Option<Limiting>) -> Result<Sandbox, SandboxError> {
    if !path.is_file() {
        return Err(SandboxError::BwrapMissing);
    }
    let drops_root = rustix::process::geteuid().is_root();
    let base = base(drops_root)?;
    let open = |cgroups| {
        let kind = Kind::Bubblewrap(Bubblewrap { path: path.to_owned(), cgroups, drops_root });
        let sandbox = Sandbox { kind, base: Arc::clone(&base) };
        try_out(&sandbox).map(|()| sandbox)
    };
    let no_cgroup = match (limiting, crate::cgroup::Place::find()) {
        (Some(Limiting::Rlimits), _) => String::new(),
        (_, Ok(place)) => match open(Some(place)) {
            Ok(sandbox) => return Ok(sandbox),
            Err(error) => error.to_string(),
        },
        (_, Err(why)) => why,
    };
    if limiting == Some(Limiting::Cgroup) {
        return Err(SandboxError::NoProcessLimit { why: no_cgroup });
    }
    open(None)
}

/// What a first program copies.
const SAMPLE: &str = "tried";

/// A program that does what any program has to be able to: read an input and leave a file.
fn first() -> Program {
    let copying = Program::new(["/bin/sh", "-c", "cat in.txt >out.txt"]);
    Program { outputs: Outputs::Named(vec!["out.txt".to_owned()]), ..copying }
        .with_input("in.txt", Input::text(SAMPLE))
}

/// What is wrong with how a first program ended.
fn fault(outcome: &ExecutionResult) -> Option<String> {
    if !outcome.verdict.is_success() {
        return Some(format!("the first program {}: {}", outcome.verdict, outcome.stderr.text().trim()));
    }
    let is_copied = outcome.file("out.txt") == Some(SAMPLE.as_bytes());
    (!is_copied).then(|| "the file of the first program did not come out".to_owned())
}

/// Runs a first program as any program would run.
#[cfg(target_os = "linux")]
fn try_out(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let outcome = match sandbox.run(&first(), &Cancel::default()) {
        Ok(outcome) => outcome,
        Err(RunError::Setup { said }) => return Err(refused(said)),
        Err(RunError::Start(error)) if error.to_string().starts_with(SETPRIV) => {
            return Err(SandboxError::NoProcessLimit { why: error.to_string() });
        }
        Err(error) => return Err(SandboxError::Try(error)),
    };
    match fault(&outcome) {
        Some(why) => Err(SandboxError::NoProcessLimit { why }),
        None => Ok(()),
    }
}

/// Why the sandbox did not begin, by what its programs printed.
#[cfg(target_os = "linux")]
fn refused(said: String) -> SandboxError {
    if said.contains("nknown option") {
        return SandboxError::BwrapTooOld { said };
    }
    if said.contains(SETPRIV) || said.contains("cgroup.procs") {
        return SandboxError::NoProcessLimit { why: said };
    }
    if said.contains("bwrap:") {
        return SandboxError::Refused { said };
    }
    SandboxError::Try(RunError::Setup { said })
}

fn open_container(config: &ContainerConfig) -> Result<Sandbox, SandboxError> {
    let sandbox = Sandbox { kind: Kind::Container(config.clone()), base: base(true)? };
    let failed = |said: String| SandboxError::Engine { engine: config.engine.clone(), said };
    match sandbox.run(&first(), &Cancel::default()) {
        Ok(outcome) => {
            if let Some(why) = fault(&outcome) {
                return Err(failed(why));
            }
            let said = outcome.stderr.text();
            if WITHOUT_LIMIT.iter().any(|word| said.contains(word)) {
                return Err(SandboxError::NoProcessLimit { why: said.trim().to_owned() });
            }
            Ok(sandbox)
        }
        Err(RunError::Setup { said }) => Err(failed(said)),
        Err(RunError::Start(error)) => Err(failed(error.to_string())),
        Err(error) => Err(SandboxError::Try(error)),
    }
}
