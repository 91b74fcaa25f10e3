//! Everything that can go wrong, in one type, with the kind of failure that decides an exit code.

#[cfg(feature = "report")]
mod bundle;
#[cfg(feature = "yaml")]
mod export;
#[cfg(feature = "import")]
mod import;
mod measurement;
#[cfg(feature = "weights")]
mod merge;
mod replay;

#[cfg(feature = "report")]
pub use bundle::BundleError;
#[cfg(feature = "yaml")]
pub use export::ExportError;
#[cfg(feature = "import")]
pub use import::ImportError;
pub use measurement::MeasurementError;
#[cfg(feature = "weights")]
pub use merge::MergeError;
pub use replay::ReplayError;

use crate::config::{ConfigError, EnvKind};
use crate::hint;
use crate::identify::PathError;
use crate::not_a_skill::NotASkill;
use skill_envs::folder::FolderError;
use skill_envs::{EnvError, FaultKind, RolloutFault};
use skill_llm::{ErrorClass, LlmError, PromptError};
use skill_pipeline::PipelineError;
use skill_pipeline::prompts::PromptLibraryError;
#[cfg(feature = "report")]
use skill_report::ReportError;
#[cfg(feature = "weights")]
use skill_train::TrainError;
use std::path::PathBuf;

/// A configuration that cannot be turned into a run, or a run that stopped before its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The environment cannot be set up.
    #[error("cannot set up the environment")]
    Env(#[source] EnvError),
    /// An item that was played or tried by hand, outside a run.
    #[error("the attempt has failed")]
    Attempt(#[source] EnvError),
    /// A model cannot be set up.
    #[error("cannot set up the {role} model")]
    Model {
        /// `target` or `optimizer`.
        role: &'static str,
        /// What is wrong.
        #[source]
        source: LlmError,
    },
    /// A further target cannot be set up.
    #[error("cannot set up the target `{name}`")]
    NamedTarget {
        /// Its name in `[models.targets]`.
        name: String,
        /// What is wrong.
        #[source]
        source: LlmError,
    },
    /// No target has this name.
    #[error("{}", if known.is_empty() { "no other model is configured to measure".to_owned() } else { format!("there is no target `{name}`; the configured ones are {known}") })]
    UnknownTarget {
        /// The name that was asked for.
        name: String,
        /// The names that there are, less that of the target itself.
        known: String,
    },
    /// A target did not answer; what the others did is kept.
    #[error("the target `{name}` did not do the tasks")]
    TargetFailed {
        /// Its name.
        name: String,
        /// What happened.
        #[source]
        source: Box<PipelineError>,
    },
    /// A replaced prompt cannot be used.
    #[error("cannot use the prompts")]
    Prompts(#[source] PromptLibraryError),
    /// A replaced prompt of the environment cannot be used.
    #[error("cannot use the prompts")]
    Prompt(#[source] PromptError),
    /// A path is not what a command takes.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file that the configuration or the command line names cannot be read.
    #[error("cannot read the {what} {}", path.display())]
    Read {
        /// `skill` or `prompt`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// What is named as a skill is something else.
    #[error("{} {}", path.display(), what.describe())]
    NotASkill {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: NotASkill,
    },
    /// The folder of a skill cannot be used.
    #[error("cannot use the skill")]
    SkillFolder(#[source] FolderError),
    /// A bundle of a run that cannot be written or read.
    #[cfg(feature = "report")]
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A package cannot be exported.
    #[cfg(feature = "yaml")]
    #[error("cannot export the skill")]
    Export(#[from] ExportError),
    /// A policy cannot be merged.
    #[cfg(feature = "weights")]
    #[error("cannot export the policy")]
    Merge(#[from] MergeError),
    /// A directory cannot keep a measurement.
    #[error(transparent)]
    Measurement(#[from] MeasurementError),
    /// A directory holds the pruning of something else.
    #[error("{} holds another pruning: {change}", path.display())]
    OtherPruning {
        /// The directory.
        path: PathBuf,
        /// What differs.
        change: String,
    },
    /// Something cannot be imported.
    #[cfg(feature = "import")]
    #[error("cannot import")]
    Import(#[from] ImportError),
    /// A run is too long to say what it will take.
    #[error("a run of {} steps is not estimated", skill_core::usage::grouped(*steps))]
    TooManySteps {
        /// How many.
        steps: u64,
    },
    /// There is no split of this name.
    #[error("unknown split `{name}`; the splits are train, val and test")]
    UnknownSplit {
        /// What was asked for.
        name: String,
    },
    /// The run stopped.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// A file that a person asked for, outside of any run, cannot be written.
    #[error(transparent)]
    Output(Box<PipelineError>),
    /// A replay cannot begin, or did not come to what was recorded.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A report cannot be made.
    #[cfg(feature = "report")]
    #[error("cannot make the report")]
    Report(#[source] Box<ReportError>),
    /// An environment without an expert.
    #[error("the environment \"{env}\" has no expert")]
    NoExpert {
        /// The kind of the environment.
        env: &'static str,
    },
    /// `run.runner` asks for workers where none can make the rollouts.
    #[error("workers cannot make the rollouts of {what}")]
    NoWorkers {
        /// Whose rollouts they are.
        what: &'static str,
    },
    /// The broker between a run and its workers cannot be used.
    #[cfg(feature = "nats")]
    #[error("cannot use the broker")]
    Broker(#[source] skill_nats::BrokerError),
    /// A file that workers need cannot be sent to them.
    #[cfg(feature = "nats")]
    #[error("`{key}`: cannot send {} to workers", path.display())]
    NotSent {
        /// The setting that names it.
        key: String,
        /// The file or directory.
        path: PathBuf,
        /// What happened.
        #[source]
        source: std::io::Error,
    },
    /// The configuration needs what this build leaves out.
    #[error("{what} needs the cargo feature `{feature}` of skillrl, which this build leaves out")]
    LeftOut {
        /// The setting.
        what: String,
        /// The feature.
        feature: &'static str,
    },
}

/// What kind of failure an [`Error`] is; the command's exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The configuration, a prompt or a skill file is wrong.
    Usage,
    /// The data is wrong.
    Data,
    /// A provider will not answer until something is changed.
    ProviderRefused,
    /// A provider or the environment failed for now.
    Outage,
    /// The run directory cannot be used.
    RunDir,
    /// The run directory holds another run.
    OtherRun,
    /// A cap of the run is reached.
    Budget,
    /// A replay has come to a call that its recording does not hold, or to other files.
    Diverged,
    /// A person stopped the run.
    Stopped,
    /// An error of a library that this version has no kind for.
    Other,
}

/// True if a server sends what is not a reply.
fn is_unreadable(error: &EnvError) -> bool {
    matches!(error, EnvError::Model(error) if error.class() == ErrorClass::InvalidReply)
}

impl Error {
    /// What kind of failure this is.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Config(_)
            | Self::Prompts(_)
            | Self::Prompt(_)
            | Self::Read { .. }
            | Self::Path(_)
            | Self::NotASkill { .. }
            | Self::SkillFolder(_)
            | Self::Measurement(_)
            | Self::OtherPruning { .. }
            | Self::TooManySteps { .. }
            | Self::UnknownSplit { .. }
            | Self::NoExpert { .. }
            | Self::NoWorkers { .. }
            | Self::LeftOut { .. } => Failure::Usage,
            #[cfg(feature = "yaml")]
            Self::Export(_) => Failure::Usage,
            #[cfg(feature = "weights")]
            Self::Merge(MergeError::NoPolicy { .. }) => Failure::RunDir,
            #[cfg(feature = "weights")]
            Self::Merge(MergeError::Write { .. }) => Failure::Other,
            #[cfg(feature = "weights")]
            Self::Merge(_) => Failure::Usage,
            #[cfg(feature = "report")]
            Self::Bundle(
                BundleError::Read { .. } | BundleError::NotABundle { .. } | BundleError::Later { .. },
            ) => Failure::Data,
            #[cfg(feature = "report")]
            Self::Bundle(_) => Failure::Usage,
            #[cfg(feature = "import")]
            Self::Import(_) => Failure::Usage,
            #[cfg(feature = "nats")]
            Self::Broker(error) if error.is_retryable() => Failure::Outage,
            #[cfg(feature = "nats")]
            Self::Broker(_) => Failure::Usage,
            #[cfg(feature = "nats")]
            Self::NotSent { .. } => Failure::Data,
            Self::Env(error) | Self::Attempt(error) => of_env(error),
            Self::Model { source, .. } | Self::NamedTarget { source, .. } => of_model(source),
            Self::UnknownTarget { .. } => Failure::Usage,
            Self::TargetFailed { source, .. } => of_pipeline(source),
            Self::Pipeline(error) => of_pipeline(error),
            Self::Output(_) => Failure::Other,
            Self::Replay(error) => error.failure(),
            #[cfg(feature = "report")]
            Self::Report(error) if matches!(**error, ReportError::UnknownGroup { .. }) => Failure::Usage,
            #[cfg(feature = "report")]
            Self::Report(_) => Failure::RunDir,
        }
    }

    /// The error of writing a file that a person asked for: a path that cannot be written is no fault of a run there.
    pub fn of_output(error: impl Into<Self>) -> Self {
        match error.into() {
            Self::Pipeline(error @ PipelineError::RunDir { .. }) => Self::Output(Box::new(error)),
            error => error,
        }
    }

    /// What a person can do about it, as one sentence.
    pub fn hint(&self) -> String {
        match self {
            Self::Config(error) => error.hint(),
            Self::Env(error) => hint::of_env(error).to_owned(),
            // Nothing of an attempt by hand is kept, so there is nothing to go on with.
            Self::Attempt(error) if error.is_retryable() && !is_unreadable(error) => {
                "retry it; if it fails in the same way, fix the cause".to_owned()
            }
            Self::Attempt(error) => hint::of_env(error).to_owned(),
            Self::Model { source, .. } | Self::NamedTarget { source, .. } => hint::of_model(source).to_owned(),
            Self::UnknownTarget { .. } => {
                "add a section [models.targets.NAME] with the keys of [models.target], or `--set models.targets.NAME.model=MODEL`; `target` is the run's own".to_owned()
            }
            Self::TargetFailed { source, .. } => hint::of_pipeline(source).to_owned(),
            Self::Prompts(_) | Self::Prompt(_) => {
                "fix the file; `skillrl config prompts DIR` writes the built-in ones".to_owned()
            }
            Self::Read { .. } => "check the path; in the configuration it is relative to its file".to_owned(),
            Self::Path(error) => error.hint(),
            Self::NotASkill { what, .. } => what.hint().to_owned(),
            Self::SkillFolder(_) => {
                "a skill package is a folder with a SKILL.md and plain files; `skillrl lint` says more"
                    .to_owned()
            }
            #[cfg(feature = "yaml")]
            Self::Export(error) => error.hint(),
            #[cfg(feature = "weights")]
            Self::Merge(error) => error.hint().to_owned(),
            #[cfg(feature = "report")]
            Self::Bundle(error) => error.hint().to_owned(),
            #[cfg(feature = "import")]
            Self::Import(error) => error.hint().to_owned(),
            Self::NoExpert { .. } => {
                let worlds: Vec<_> = EnvKind::built_in_worlds().map(EnvKind::as_str).collect();
                format!("collect with a model; these environments have experts: {}", worlds.join(", "))
            }
            Self::LeftOut { feature: "weights", .. } => {
                "build it in: `cargo install --path crates/skill-cli --features full`, or `pip install ./crates/skillrl-python`; or change the setting"
                    .to_owned()
            }
            Self::NoWorkers { .. } => "set `run.runner` to \"local\"".to_owned(),
            Self::LeftOut { feature: "nats" | "nats-client", .. } => {
                "build it in: `cargo install --path crates/skill-cli --features full`, or `pip install ./crates/skillrl-python`; or change `run.runner`"
                    .to_owned()
            }
            #[cfg(feature = "nats")]
            Self::Broker(error) => error.hint().to_owned(),
            #[cfg(feature = "nats")]
            Self::NotSent { .. } => "check the file, and that it can be read".to_owned(),
            Self::LeftOut { .. } => "build with this feature, or change the setting".to_owned(),
            Self::Measurement(error) => error.hint(),
            Self::OtherPruning { .. } => "take another --out, or remove that directory".to_owned(),
            Self::TooManySteps { .. } => "lower `train.epochs`, or raise `train.batch_size`".to_owned(),
            Self::UnknownSplit { .. } => "name one of the three".to_owned(),
            Self::Pipeline(error) => hint::of_run(error),
            Self::Output(_) => "check the path, its permissions and the free space".to_owned(),
            Self::Replay(error) => error.hint().to_owned(),
            #[cfg(feature = "report")]
            Self::Report(error) if matches!(**error, ReportError::NotCompared { .. } | ReportError::NoCurves { .. }) => {
                "`skillrl report` shows each run, and `skillrl eval --policy` measures its policy".to_owned()
            }
            #[cfg(feature = "report")]
            Self::Report(error) if matches!(**error, ReportError::UnknownGroup { .. }) => {
                "name a setting that differs, or leave `--group-by` out to group by all of them".to_owned()
            }
            #[cfg(feature = "report")]
            Self::Report(_) => "this is a fault of the program: please report it".to_owned(),
        }
    }
}

fn of_pipeline(error: &PipelineError) -> Failure {
    match error {
        PipelineError::Rollout { source, .. } => of_env(source),
        PipelineError::Optimizer { source, .. } => of_model(source),
        PipelineError::Teacher { .. } => Failure::Outage,
        PipelineError::Prompt(_)
        | PipelineError::Settings(_)
        | PipelineError::Note(_)
        | PipelineError::NoStep { .. } => Failure::Usage,
        PipelineError::EmptySplit { .. }
        | PipelineError::NoTrialTasks { .. }
        | PipelineError::DuplicateItem { .. }
        | PipelineError::Bank { .. } => Failure::Data,
        PipelineError::RunDir { .. }
        | PipelineError::Corrupt { .. }
        | PipelineError::ChangedSkill { .. }
        | PipelineError::ChangedFile { .. }
        | PipelineError::MovedRunDir { .. }
        | PipelineError::OtherFormat { .. }
        | PipelineError::NotARun { .. }
        | PipelineError::NotVacant { .. }
        | PipelineError::NoRun { .. }
        | PipelineError::NotMeasured { .. }
        | PipelineError::InsideARun { .. }
        | PipelineError::Locked { .. }
        | PipelineError::BankLocked { .. }
        | PipelineError::LostJournal { .. } => Failure::RunDir,
        PipelineError::NoExamples { .. } => Failure::Data,
        #[cfg(feature = "weights")]
        PipelineError::Weights { source, .. } => source.downcast_ref().map_or(Failure::Other, of_weights),
        PipelineError::SftCapped { .. } => Failure::Budget,
        PipelineError::Mismatch { .. } => Failure::OtherRun,
        PipelineError::Silent { .. } | PipelineError::SilentOptimizer { .. } => Failure::ProviderRefused,
        PipelineError::Capped { .. } | PipelineError::Uncounted { .. } => Failure::Budget,
        PipelineError::Journal(_) => Failure::RunDir,
        PipelineError::Halted | PipelineError::StoppedUnkept | PipelineError::Stopped { .. } => {
            Failure::Stopped
        }
        _ => Failure::Other,
    }
}

/// What a failure of the model under training, or of its checkpoints, is.
#[cfg(feature = "weights")]
fn of_weights(error: &TrainError) -> Failure {
    match error {
        // Files of the run: those of models are read before it begins.
        TrainError::Io { .. } | TrainError::State { .. } => Failure::RunDir,
        TrainError::Remote { .. } if error.is_retryable() => Failure::Outage,
        TrainError::Request { .. } => Failure::Data,
        TrainError::Cancelled => Failure::Stopped,
        _ => Failure::Other,
    }
}

fn of_env(error: &EnvError) -> Failure {
    match error {
        EnvError::Model(error) => of_model(error),
        EnvError::ReadData { .. }
        | EnvError::BadLine { .. }
        | EnvError::BadElement { .. }
        | EnvError::BadData { .. }
        | EnvError::BadCase { .. } => Failure::Data,
        EnvError::Configuration { .. } | EnvError::Prompt(_) => Failure::Usage,
        EnvError::Program { .. } => Failure::Data,
        EnvError::Broken { .. } | EnvError::NoPoints { .. } => Failure::Outage,
        EnvError::Remote(fault) => of_fault(fault),
        _ => Failure::Other,
    }
}

fn of_fault(fault: &RolloutFault) -> Failure {
    match &fault.kind {
        FaultKind::Model(class) => of_class(*class),
        FaultKind::Budget { .. } => Failure::Budget,
        FaultKind::Data | FaultKind::Program => Failure::Data,
        FaultKind::Configuration => Failure::Usage,
        // A broker that does not let this run in does not do so later either.
        FaultKind::Unreachable if !fault.is_retryable => Failure::Usage,
        // Kinds that are not known here happened elsewhere, and may go away.
        _ => Failure::Outage,
    }
}

fn of_model(error: &LlmError) -> Failure {
    of_class(error.class())
}

fn of_class(class: ErrorClass) -> Failure {
    match class {
        ErrorClass::QuotaExhausted
        | ErrorClass::Authentication
        | ErrorClass::BadRequest
        | ErrorClass::ContextTooLong
        | ErrorClass::Refused => Failure::ProviderRefused,
        ErrorClass::RateLimited
        | ErrorClass::ServerError
        | ErrorClass::Timeout
        | ErrorClass::Connection
        | ErrorClass::Truncated
        | ErrorClass::InvalidReply => Failure::Outage,
        ErrorClass::Budget => Failure::Budget,
        ErrorClass::Journal => Failure::RunDir,
        ErrorClass::NotRecorded => Failure::Diverged,
        ErrorClass::Cancelled => Failure::Stopped,
        ErrorClass::Configuration => Failure::Usage,
        _ => Failure::Other,
    }
}

#[cfg(all(test, feature = "weights"))]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_cannot_be_kept_or_read_is_a_fault_of_the_run_directory() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let lost = || TrainError::State { hash: "0".to_owned(), fault: "not found".to_owned() };
        let not_finite = TrainError::NotFinite { quantity: "the loss".to_owned() };
        for (source, expect) in [
            (TrainError::Io { path: PathBuf::from("checkpoints/objects/1"), source: full }, Failure::RunDir),
            (lost(), Failure::RunDir),
            (TrainError::Cancelled, Failure::Stopped),
            (not_finite, Failure::Other),
        ] {
            let error =
                PipelineError::Weights { step: 1, total_steps: 2, hint: "", source: Box::new(source) };
            assert_eq!(Error::Pipeline(error).failure(), expect);
        }
    }
}
