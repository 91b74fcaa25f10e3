//! Runs programs that a model wrote.
//!
//! One call, [`Sandbox::run`], takes a [`Program`] (command, files in, names of files out, [`Limits`]) and returns an
//! [`ExecutionResult`]: the [`Termination`], what the program printed, and its files. The program has no network,
//! sees none of the user's files, environment variables or processes, and nothing that it does outlives the call.
//!
//! On Linux this is `bwrap` (bubblewrap 0.8 or later) with all namespaces unshared. Memory and processes are limited by
//! a cgroup (version 1 or 2) where this process may make one, and else by resource limits, a monitor and a filter of
//! system calls (no files, segments or messages in memory outside of processes). On other
//! systems a container engine does it. Where nothing can, [`Sandbox::open`] refuses and says what is missing.
//!
//! The crate knows nothing of models, tasks or skills. It starts no async runtime: a call blocks its thread, and is
//! ended from another one by [`Cancel`].
//!
//! # Who should depend on this crate
//!
//! Anybody who runs code that a model wrote. It depends on no other crate of the workspace.
//!
//! ```no_run
//! use skill_sandbox::{Cancel, Choice, Input, Program, Sandbox};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::open(&Choice::Auto)?;
//! let program = Program::new(["python3", "answer.py"]).with_input("answer.py", Input::text("print(6 * 7)"));
//! let outcome = sandbox.run(&program, &Cancel::default())?;
//! assert!(outcome.verdict.is_success());
//! # Ok(())
//! # }
//! ```

mod bubblewrap;
#[cfg(target_os = "linux")]
mod calls;
#[cfg(unix)]
mod cgroup;
#[cfg(unix)]
mod channel;
mod container;
mod error;
mod limits;
#[cfg(target_os = "linux")]
mod monitor;
#[cfg(not(unix))]
mod no_run;
mod open;
mod outcome;
mod program;
#[cfg(unix)]
mod run;
mod sandbox;
mod script;
mod stage;
mod verdict;

pub use container::ContainerConfig;
pub use error::{RunError, SandboxError};
pub use limits::Limits;
pub use outcome::{ExecutionResult, OutputFile, Printed, Termination};
pub use program::{Cancel, Input, Outputs, Program};
pub use sandbox::{Choice, Limiting, Sandbox};
