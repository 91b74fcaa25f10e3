//! Why no program can be run, or one was not.

use std::io;
use std::path::PathBuf;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// `bwrap` is not installed.
    #[error("bwrap is not installed")]
    BwrapMissing,
    /// An installed `bwrap` is older than the options that it needs.
    #[error("bwrap does not take the options that are needed (0.8 or later does): {said}")]
    BwrapTooOld {
        /// What it printed.
        said: String,
    },
    /// The kernel, or a container around this process, allows no namespaces.
    #[error("the kernel refuses bwrap: {said}")]
    Refused {
        /// What bwrap printed.
        said: String,
    },
    /// Processes of a program cannot be counted and bounded.
    #[error("there is no way to limit the processes of a program: {why}")]
    NoProcessLimit {
        /// What was tried.
        why: String,
    },
    /// This system has no `bwrap`, and no container engine was configured.
    #[error("there is no sandbox on {system} but a container engine, and none is configured")]
    System {
        /// The name of the system.
        system: &'static str,
    },
    /// The container engine cannot run a program.
    #[error("the container engine `{engine}` does not run a program: {said}")]
    Engine {
        /// Its name.
        engine: String,
        /// What it printed.
        said: String,
    },
    /// The first program could not be started.
    #[error("the sandbox could not be tried")]
    Try(#[source] RunError),
}

impl SandboxError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::BwrapMissing | Self::BwrapTooOld { .. } => {
                "install bubblewrap 0.8 or later (`apt-get install bubblewrap`, `dnf install bubblewrap`)"
            }
            Self::Refused { .. } => {
                "allow user namespaces: in a container start it with them, on Ubuntu 24.04 install an AppArmor profile \
                 for bwrap, elsewhere set the sysctl `kernel.unprivileged_userns_clone` to 1"
            }
            Self::NoProcessLimit { .. } => {
                "run as a user who is not root, with `prlimit` and `setpriv` (util-linux) installed, or where a cgroup \
                 can be made"
            }
            Self::System { .. } => "configure a container engine and an image",
            Self::Engine { .. } => {
                "start the engine, and check runtime, flags and image: it has `sh` and `tar`, and no directory `/work` of its own"
            }
            Self::Try(_) => "start it by hand (`bwrap --version`), and install it again where that fails",
        }
    }
}

/// Why a program did not run; never what it did itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// [`crate::Cancel`] ended it.
    #[error("cancelled")]
    Cancelled,
    /// The program of a request cannot be run as it is.
    #[error("{0}")]
    Program(String),
    /// An input cannot be read, or not be given to the program.
    #[error("the input `{name}` cannot be given to the program ({})", path.display())]
    Input {
        /// Its name in the working directory.
        name: String,
        /// The file, of the user or a copy.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The sandbox could not be started.
    #[error("the sandbox cannot be started")]
    Start(#[source] io::Error),
    /// The sandbox ended before the program began.
    #[error("the sandbox did not start the program: {said}")]
    Setup {
        /// What it printed.
        said: String,
    },
    /// A cgroup for the program could not be made, or what it counts cannot be read.
    #[error("the cgroup for the program cannot be used ({})", path.display())]
    Cgroup {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}
