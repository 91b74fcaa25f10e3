//! Why an attempt could not be made.

mod fault;

pub use fault::{FaultKind, RolloutFault};

use skill_core::ItemId;
use skill_llm::{LlmError, PromptError};
use std::path::PathBuf;
#[cfg(any(feature = "alfworld", feature = "tasks"))]
use {skill_llm::text_file, std::io::ErrorKind, std::path::Path};

/// A fault of the environment, of its data or of the provider behind it; never a score.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The model could not be asked.
    #[error(transparent)]
    Model(#[from] LlmError),
    /// A data file cannot be read.
    #[error("cannot read {}", path.display())]
    ReadData {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A data file is not what it should be.
    #[error("{}, line {line}: {message}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// An element of a JSON array is not what it should be.
    #[error("{}, element {element} (line {line}): {message}", path.display())]
    BadElement {
        /// The file.
        path: PathBuf,
        /// The number of the element, from 1.
        element: usize,
        /// The line where it starts, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A data file or directory is not what it should be, as a whole.
    #[error("{}: {message}", path.display())]
    BadData {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A case of a coding agent is not what it should be.
    #[error("{place}: {message}")]
    BadCase {
        /// The file and the number of the case, or its folder.
        place: String,
        /// What is wrong and what would be right.
        message: String,
    },
    /// The environment cannot be set up as configured.
    #[error("{message}")]
    Configuration {
        /// What is wrong and what would be right.
        message: String,
    },
    /// A replaced prompt of the environment cannot be used.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The program that is the environment does not do what it promised, and would not the next time either.
    #[error("{message}")]
    Program {
        /// What it did, and where.
        message: String,
    },
    /// The judge did not come to a number of points, however often it was asked.
    #[error("item {item}: {message}")]
    NoPoints {
        /// The item.
        item: ItemId,
        /// What it said instead.
        message: String,
    },
    /// The world broke while an item was running.
    #[error("item {item}: {message}")]
    Broken {
        /// The item.
        item: ItemId,
        /// What happened.
        message: String,
    },
    /// The rollout was made in another process, and failed there.
    #[error(transparent)]
    Remote(Box<RolloutFault>),
}

impl EnvError {
    /// Whether trying again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Model(error) => error.is_retryable(),
            Self::Broken { .. } => true,
            Self::Remote(fault) => fault.is_retryable,
            Self::ReadData { .. }
            | Self::BadLine { .. }
            | Self::BadElement { .. }
            | Self::BadData { .. }
            | Self::BadCase { .. }
            | Self::Configuration { .. }
            | Self::Program { .. }
            // It was asked again already.
            | Self::NoPoints { .. }
            | Self::Prompt(_) => false,
        }
    }

    /// What a program that runs the environment, or who wrote it, can do about it, as one sentence.
    ///
    /// It names no command and no key of a configuration file: programs that have these say it in their own terms.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Model(error) => error.hint(),
            Self::ReadData { .. } => "check the path",
            Self::BadLine { .. } | Self::BadElement { .. } | Self::BadData { .. } => "fix the data",
            Self::BadCase { .. } => "fix the case",
            Self::Configuration { .. } => "fix the environment's configuration",
            Self::Prompt(_) => "fix the prompt's template",
            Self::Program { .. } => "fix the environment's program",
            Self::NoPoints { .. } => {
                "run it again to ask the judge again; if its replies stay unreadable, change its model or its prompt"
            }
            Self::Remote(fault) if fault.kind == FaultKind::Unreachable => {
                "run the same again once the way to the workers is there; what was answered is kept"
            }
            Self::Remote(_) => "see the log of the worker that made the rollout",
            Self::Broken { .. } => "retry the item; if it fails in the same way, fix the cause first",
        }
    }
}

/// That a file cannot be read, with the line where it is not text.
#[cfg(any(feature = "alfworld", feature = "tasks"))]
pub(crate) fn read_error(path: &Path, source: std::io::Error) -> EnvError {
    let path = path.to_path_buf();
    match text_file::fault_of(&source) {
        Some(fault) => EnvError::BadLine { path, line: fault.line(), message: fault.in_line() },
        None if source.kind() == ErrorKind::FileTooLarge => {
            EnvError::BadData { path, message: source.to_string() }
        }
        None => EnvError::ReadData { path, source },
    }
}
