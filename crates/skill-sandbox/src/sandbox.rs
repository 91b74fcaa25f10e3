//! Which sandbox there is.

use crate::container::ContainerConfig;
use crate::stage::Base;
use crate::{Cancel, Outcome, Program, RunError, SandboxError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which sandbox is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    /// `bwrap` on Linux; elsewhere none.
    #[default]
    Auto,
    /// This `bwrap`, with these limits or none.
    Bubblewrap {
        /// Its program.
        path: PathBuf,
        /// How memory and processes are limited; none for the first way that works.
        limiting: Option<Limiting>,
    },
    /// A container for each program.
    Container(ContainerConfig),
    /// None: the program runs as this user, with the user's files and network, and only time and output are limited.
    Off,
}

/// How memory and processes are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiting {
    /// By a cgroup of each program.
    Cgroup,
    /// By resource limits of a user who is not root, and by a monitor.
    Rlimits,
    /// By the container engine.
    Engine,
    /// Not at all.
    Nothing,
}

impl Limiting {
    /// The name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::Engine => "engine",
            Self::Nothing => "nothing",
        }
    }
}

/// A sandbox that has been tried. Clones share it.
#[derive(Debug, Clone)]
pub struct Sandbox {
    pub(crate) kind: Kind,
    pub(crate) base: Arc<Base>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    #[cfg(target_os = "linux")]
    Bubblewrap(Bubblewrap),
    Container(ContainerConfig),
    Off,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Clone)]
pub(crate) struct Bubblewrap {
    pub(crate) path: PathBuf,
    /// Where cgroups are made; none for resource limits.
    pub(crate) cgroups: Option<crate::cgroup::Place>,
    /// This process is root's, and programs get a user without rights.
    pub(crate) drops_root: bool,
}

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

    /// Runs a program to its end.
    ///
    /// However the program ends is an `Ok`. Whatever way the call ends, the program and all that it started are gone.
    ///
    /// # Errors
    ///
    /// A program that was not run: the sandbox or an input is at fault, or the call was cancelled.
    pub fn run(&self, program: &Program, cancel: &Cancel) -> Result<Outcome, RunError> {
        #[cfg(unix)]
        return crate::run::run(self, program, cancel);
        #[cfg(not(unix))]
        {
            let _unused = (program, cancel);
            Err(RunError::Program("programs are run on Unix alone".to_owned()))
        }
    }

    /// The kind of sandbox in records: `bwrap`, `off`, or the image of the containers.
    pub fn name(&self) -> &str {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(_) => "bwrap",
            Kind::Container(config) => &config.image,
            Kind::Off => "off",
        }
    }

    /// How memory and processes are limited.
    pub fn limiting(&self) -> Limiting {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(Bubblewrap { cgroups: Some(_), .. }) => Limiting::Cgroup,
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(_) => Limiting::Rlimits,
            Kind::Container(_) => Limiting::Engine,
            Kind::Off => Limiting::Nothing,
        }
    }

    /// True if programs run as a user other than the one of this process, who reads what everybody may read.
    pub fn is_other_user(&self) -> bool {
        match &self.kind {
            #[cfg(target_os = "linux")]
            Kind::Bubblewrap(bubblewrap) => bubblewrap.drops_root,
            Kind::Container(_) => true,
            Kind::Off => false,
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

/// Runs `true` as any program would run.
#[cfg(target_os = "linux")]
fn try_out(sandbox: &Sandbox) -> Result<(), SandboxError> {
    let outcome = match sandbox.run(&Program::new(["true"]), &Cancel::default()) {
        Ok(outcome) => outcome,
        Err(RunError::Setup { said }) => return Err(refused(said)),
        Err(error) => return Err(SandboxError::Try(error)),
    };
    if outcome.verdict.is_success() {
        return Ok(());
    }
    let said = outcome.stderr.text().trim().to_owned();
    Err(SandboxError::NoProcessLimit { why: format!("the first program {}: {said}", outcome.verdict) })
}

/// Why the sandbox did not begin, by what its programs printed.
#[cfg(target_os = "linux")]
fn refused(said: String) -> SandboxError {
    if said.contains("nknown option") {
        return SandboxError::BwrapTooOld { said };
    }
    if said.contains("setpriv") || said.contains("cgroup.procs") {
        return SandboxError::NoProcessLimit { why: said };
    }
    SandboxError::Refused { said }
}

fn open_container(config: &ContainerConfig) -> Result<Sandbox, SandboxError> {
    let sandbox = Sandbox { kind: Kind::Container(config.clone()), base: base(true)? };
    let failed = |said: String| SandboxError::Engine { engine: config.engine.clone(), said };
    match sandbox.run(&Program::new(["true"]), &Cancel::default()) {
        Ok(outcome) if outcome.verdict.is_success() => Ok(sandbox),
        Ok(outcome) => Err(failed(format!("`true` {}", outcome.verdict))),
        Err(RunError::Setup { said }) => Err(failed(said)),
        Err(RunError::Start(error)) => Err(failed(error.to_string())),
        Err(error) => Err(SandboxError::Try(error)),
    }
}
