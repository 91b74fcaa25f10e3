//! What is run.

use crate::Limits;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A program with its files.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program and its arguments; the program by its path inside of the sandbox, or a name in `/usr/bin`.
    pub command: Vec<OsString>,
    /// Files that it finds in its working directory, by names relative to it.
    pub inputs: Vec<(String, Input)>,
    /// The files of the working directory that come out.
    pub outputs: Outputs,
    /// Files and directories of this machine that it may read, at the same paths; not in [`crate::Choice::Container`].
    pub readable: Vec<PathBuf>,
    /// Where it starts, one of the directories that it may read; none for the working directory.
    pub directory: Option<PathBuf>,
    /// What it reads on its standard input.
    pub stdin: Arc<[u8]>,
    /// Variables of its environment, besides `PATH`, `HOME` and `LANG`.
    pub environment: Vec<(String, String)>,
    /// What it may use.
    pub limits: Limits,
}

impl Program {
    /// A program without files, under the usual limits.
    pub fn new<W: Into<OsString>>(command: impl IntoIterator<Item = W>) -> Self {
        Self { command: command.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same with one more input.
    #[must_use]
    pub fn with_input(mut self, name: impl Into<String>, input: Input) -> Self {
        self.inputs.push((name.into(), input));
        self
    }
}

/// The content of a file that a program finds.
#[derive(Debug, Clone)]
pub enum Input {
    /// These bytes, in a file that it cannot change.
    Bytes(Arc<[u8]>),
    /// A file of this machine, which it cannot change.
    File(PathBuf),
    /// These bytes, in a file that it may change or remove.
    Writable(Arc<[u8]>),
    /// The same, in a file that it may also start.
    Executable(Arc<[u8]>),
}

impl Input {
    /// A text that the program cannot change.
    pub fn text(text: &str) -> Self {
        Self::Bytes(Arc::from(text.as_bytes()))
    }
}

/// The files that come out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outputs {
    /// None.
    #[default]
    None,
    /// These, by names relative to the working directory, where the program has left them.
    Named(Vec<String>),
    /// All regular files of the working directory but the inputs that cannot be changed.
    All,
}

/// Ends a program from another thread.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends all programs that were started with this value, now and later.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
