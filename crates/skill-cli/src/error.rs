//! Every way in which a command fails, each with its exit code.
//!
//! A command returns [`CliError`]. An error of another crate becomes one by `From` only where its type decides the code;
//! what the system says about a file becomes one through [`OfFile`], which asks whether the file was read or written. So
//! an error whose code nobody chose does not compile.

use crate::exit_code;
use skill_agents::TableError;
use skill_agents::home::HomeError;
use skillrl::bank::BankError;
use skillrl::config::ConfigError;
use skillrl::envs::folder::FolderError;
use skillrl::identify::PathError;
use skillrl::llm::error::with_causes;
use skillrl::pipeline::PipelineError;
use std::io;
use std::path::Path;

/// How a command ends.
pub(crate) type Result<T = (), E = CliError> = std::result::Result<T, E>;

/// A failure of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The facade's error, whose kind decides the code.
    #[error(transparent)]
    Run(Box<skillrl::Error>),
    /// In this program's own words.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The command's output already reports the failure; only the exit code remains.
    #[error("the output reports the failure")]
    Reported {
        /// The exit code.
        code: u8,
    },
    /// A file that the command line names cannot be read.
    #[error("cannot read {what}")]
    Unread {
        /// The file, with its role where it has one.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The system refuses what the command needs, such as a file to write.
    #[error("cannot {what}")]
    Refused {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
}

impl CliError {
    /// The exit code of the program.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Run(error) => exit_code::of(error.failure()),
            Self::Command(error) => error.code,
            Self::Reported { code } => *code,
            Self::Unread { .. } => exit_code::USAGE,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => exit_code::SUCCESS,
            Self::Refused { .. } | Self::Output(_) => exit_code::OTHER,
        }
    }

    /// What a person can do about it, if the message does not say it already.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Reported { .. } => None,
            Self::Run(error) => Some(error.hint()),
            Self::Command(error) => error.hint.clone(),
            Self::Unread { source, .. } | Self::Refused { source, .. } | Self::Output(source) => {
                Some(hint_of_system(source).to_owned())
            }
        }
    }

    /// The message with its causes and a hint; `None` where there is nothing to add.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Reported { .. } => return None,
            // The reader closed the pipe, as `head` does: that is not a failure.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return None,
            Self::Run(_)
            | Self::Command(_)
            | Self::Unread { .. }
            | Self::Refused { .. }
            | Self::Output(_) => {}
        }
        let hint = self.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        Some(format!("error: {}{hint}", with_causes(self)))
    }
}

impl<E: Into<skillrl::Error> + FacadeError> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::Run(Box::new(error.into()))
    }
}

/// An error whose type alone decides which error of the facade it is.
pub(crate) trait FacadeError {}

impl FacadeError for skillrl::Error {}
impl FacadeError for ConfigError {}
impl FacadeError for PathError {}
impl FacadeError for PipelineError {}

/// A folder without a valid skill.
impl From<FolderError> for CliError {
    fn from(error: FolderError) -> Self {
        skillrl::Error::SkillFolder(error).into()
    }
}

/// A bank that cannot be used, without a path.
impl From<BankError> for CliError {
    fn from(error: BankError) -> Self {
        CommandError::of(&error).with_code(exit_code::DATA).into()
    }
}

/// Tasks that the format of another trainer cannot hold.
#[cfg(feature = "weights")]
impl From<skillrl::train::export::ExportError> for CliError {
    fn from(error: skillrl::train::export::ExportError) -> Self {
        CommandError::of(&error).with_code(exit_code::DATA).into()
    }
}

/// The home directory of an agent, which the command line names.
impl From<HomeError> for CliError {
    fn from(error: HomeError) -> Self {
        CommandError::of(&error).into()
    }
}

/// The table of agents is part of the program.
impl From<TableError> for CliError {
    fn from(error: TableError) -> Self {
        CommandError::of(&error).with_code(exit_code::OTHER).into()
    }
}

/// What the system said about a file, or about something else that a command needs.
pub(crate) trait OfFile<T> {
    /// The error of an input.
    fn reading(self, what: impl std::fmt::Display) -> Result<T>;
    /// The error of an output.
    fn writing(self, path: &Path) -> Result<T>;
    /// The error of something else, such as "start the runtime".
    fn trying_to(self, what: impl std::fmt::Display) -> Result<T>;
}

impl<T> OfFile<T> for io::Result<T> {
    fn reading(self, what: impl std::fmt::Display) -> Result<T> {
        self.map_err(|source| CliError::Unread { what: what.to_string(), source })
    }

    fn writing(self, path: &Path) -> Result<T> {
        self.trying_to(format_args!("write {}", path.display()))
    }

    fn trying_to(self, what: impl std::fmt::Display) -> Result<T> {
        self.map_err(|source| CliError::Refused { what: what.to_string(), source })
    }
}

/// What to do about what the operating system has refused.
fn hint_of_system(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "ask for another path, or for the right to use this one"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there, or name another place",
        _ => "check the path, and that it can be read and written",
    }
}

/// A failure in this program's own words, with its exit code and a hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CommandError {
    pub(crate) message: String,
    /// The exit code.
    pub(crate) code: u8,
    /// What a person can do about it, where the message does not say it already.
    pub(crate) hint: Option<String>,
}

impl CommandError {
    /// A mistake of usage, until another code is named.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit_code::USAGE, hint: None }
    }

    /// The same with the message of an error and of all that caused it.
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        Self::new(with_causes(error))
    }

    /// The same of data that cannot be used as they are.
    pub(crate) fn of_data(message: impl Into<String>) -> Self {
        Self::new(message).with_code(exit_code::DATA)
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// The command that installs the program with everything that builds everywhere.
pub(crate) const INSTALL_FULL: &str = "cargo install --path crates/skill-cli --features full";

/// The message where a feature is missing from this build.
#[cfg(not(all(
    feature = "mcp",
    feature = "nats",
    feature = "openenv",
    feature = "parquet",
    feature = "weights"
)))]
pub(crate) fn not_built_in(part: &str) -> CliError {
    let hint = format!(
        "install the program with everything: `{INSTALL_FULL}`, or with Python `pip install ./crates/skillrl-python`, \
         both in a checkout"
    );
    CommandError::new(format!("this program was built without {part}")).with_hint(hint).into()
}
