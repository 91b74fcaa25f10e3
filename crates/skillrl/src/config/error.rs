//! What can be wrong with a configuration, worded so that a person can fix it.

use super::suggest::Suggestion;
use skill_core::encoding::EncodingFault;
use std::fmt;
use std::path::PathBuf;

/// Where in the configuration something stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A position in the file; line and column count from 1, the column in characters.
    At {
        /// The file, as it was named.
        origin: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// The file as a whole.
    File {
        /// The file, as it was named.
        origin: String,
    },
    /// An override on the command line.
    Set,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At { origin, line, column } => write!(f, "{origin}:{line}:{column}"),
            Self::File { origin } => f.write_str(origin),
            Self::Set => f.write_str("--set"),
        }
    }
}

/// One thing that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {kind}")]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub kind: ProblemKind,
}

/// What is wrong in one place of a configuration. Values that may be secrets are never part of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The text is not TOML.
    #[error("not valid TOML: {message}")]
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// An override without `=`, or without a key.
    #[error("`{argument}` does not have the form KEY=VALUE")]
    SetSyntax {
        /// The argument.
        argument: String,
    },
    /// A key that does not exist.
    #[error("unknown key `{key}`; {suggestion}")]
    UnknownKey {
        /// The dotted key.
        key: String,
        /// What was probably meant.
        suggestion: Suggestion,
    },
    /// A section that does not exist.
    #[error("unknown section [{section}]; {suggestion}")]
    UnknownSection {
        /// The dotted name.
        section: String,
        /// What was probably meant.
        suggestion: Suggestion,
    },
    /// A section's name with a value.
    #[error("`{section}` is a section with keys of its own, not a value")]
    NotAKey {
        /// The dotted name.
        section: String,
    },
    /// A key that another kind of the section has.
    #[error("`{key}` belongs to kind {}, but `{section}.kind` is \"{kind}\"", kinds(owners))]
    OtherKind {
        /// The dotted key.
        key: String,
        /// The kinds that have the key.
        owners: Vec<&'static str>,
        /// The section.
        section: &'static str,
        /// The kind that was chosen.
        kind: String,
    },
    /// A value that the key does not take.
    #[error("`{key}` takes {expected}, not {found}{}", nearest_word(nearest))]
    Value {
        /// The dotted key.
        key: String,
        /// What is valid.
        expected: String,
        /// The value, or what kind of value it is.
        found: String,
        /// The valid word that was probably meant.
        nearest: Option<String>,
    },
    /// Two values that do not go together.
    #[error("{message}")]
    Conflict {
        /// Both values, and what is valid.
        message: String,
    },
    /// A cap on money where a model has no prices.
    #[error("`budget.money` needs prices: `models.{role}` has neither `price_input` nor `price_output`")]
    Unpriced {
        /// The model.
        role: &'static str,
    },
    /// A key without which nothing works.
    #[error("`{key}` is missing")]
    Missing {
        /// The dotted key.
        key: String,
        /// A TOML value that makes sense.
        example: &'static str,
    },
    /// What looks like a secret, in a place that is written to files.
    #[error("`{key}` {what}")]
    Secret {
        /// The dotted key.
        key: String,
        /// What is secret about it; never the value.
        what: &'static str,
    },
    /// A path to something that is not there.
    #[error("`{key}` names {path}, which {what}")]
    Path {
        /// The dotted key.
        key: String,
        /// The path that was tried.
        path: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

fn kinds(owners: &[&str]) -> String {
    super::key::any_of(owners.iter().map(|owner| format!("\"{owner}\"")))
}

fn nearest_word(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|word| format!("; did you mean \"{word}\"?")).unwrap_or_default()
}

impl ProblemKind {
    /// What a person can do about it, as one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::Syntax { .. } => "write texts in quotes, and start a section with its [name]".to_owned(),
            Self::SetSyntax { .. } => "write an override like `--set train.batch_size=8`".to_owned(),
            Self::UnknownKey { .. } | Self::UnknownSection { .. } => {
                "`skillrl init --full` writes a file with every key and what it does".to_owned()
            }
            Self::NotAKey { section } => format!("put its keys below a line [{section}], one a line"),
            Self::OtherKind { owners, section, .. } => {
                format!("take the key out, or set `{section}.kind` to {}", kinds(owners))
            }
            Self::Value { key, .. } => format!("change `{key}` and start the same command again"),
            Self::Conflict { .. } => "change one of the two and start the same command again".to_owned(),
            Self::Unpriced { role } => format!(
                "add `price_input` and `price_output` (dollars per million tokens) to [models.{role}], or cap \
                 `budget.calls` or `budget.tokens` instead"
            ),
            Self::Missing { key, example } => {
                let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
                format!("add a line like `{name} = {example}` to the section [{section}]")
            }
            Self::Secret { .. } => {
                "put the key into an environment variable and name the variable with `api_key_env`".to_owned()
            }
            Self::Path { .. } => {
                "paths in the file are relative to the file, paths given by --set to the current directory"
                    .to_owned()
            }
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The file is too large to be a configuration.
    #[error("the configuration file {} has more than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file is not text.
    #[error("the configuration file {} {fault}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Where it is not.
        fault: EncodingFault,
    },
    /// The file is JSON, and not a configuration of krill or of SkillRL in Rust.
    #[error("the configuration file {} {message}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
        /// What a person can do about it.
        advice: &'static str,
    },
    /// The run in `run.dir` was split by a rule that this version does not have.
    #[error("the run in {} was split by the rule {rule}, which this version does not have", path.display())]
    OtherSplit {
        /// The run directory.
        path: PathBuf,
        /// The rule that it recorded.
        rule: String,
    },
    /// The configuration says something that cannot be; one line per problem, in the order of the file.
    #[error("{}", lines(problems))]
    Invalid {
        /// At least one problem.
        problems: Vec<Problem>,
    },
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

impl ConfigError {
    /// What a person can do about the first problem, as one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::Read { .. } => "`skillrl init` writes a configuration file to start from; `skillrl train DATA --answer FIELD` needs none".to_owned(),
            Self::TooLarge { .. } => "check that the path names a skillrl.toml".to_owned(),
            Self::NotText { .. } => "save the file as UTF-8".to_owned(),
            Self::Json { advice, .. } => (*advice).to_owned(),
            Self::OtherSplit { .. } => {
                "use the version of skillrl that made the run, or name another directory with `run.dir`".to_owned()
            }
            Self::Invalid { problems } => {
                problems.first().map(|problem| problem.kind.hint()).unwrap_or_default()
            }
        }
    }

    /// The problems, where the file could be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid { problems } => problems,
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::Json { .. }
            | Self::OtherSplit { .. } => &[],
        }
    }
}
