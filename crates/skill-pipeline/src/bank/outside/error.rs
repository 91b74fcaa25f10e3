//! Why a trainer's request about a bank is refused.

use crate::error::PipelineError;
use skill_bank::trial::TrialError;
use std::path::PathBuf;

/// Why a request about a served bank is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutsideError {
    /// No episode of this id was begun here, or it was long ago.
    #[error("episode `{id}` not found")]
    UnknownEpisode {
        /// The id.
        id: String,
    },
    /// An episode of this id was begun before.
    #[error("an episode `{id}` was begun before: ids are never used again")]
    EpisodeTaken {
        /// The id.
        id: String,
    },
    /// The bank never had this version, and no skill of this id.
    #[error("the bank has no version `{version}`")]
    UnknownVersion {
        /// What was asked for.
        version: String,
    },
    /// The episode was shown another version.
    #[error("the episode `{id}` was shown the version `{shown}`, not `{version}`")]
    OtherVersion {
        /// The episode.
        id: String,
        /// What it was shown.
        shown: String,
        /// What was said.
        version: String,
    },
    /// Another result of the episode was recorded before.
    #[error("the episode `{id}` has the reward {recorded} already, which is not {reward}")]
    OtherResult {
        /// The episode.
        id: String,
        /// The reward that is recorded.
        recorded: f64,
        /// The one that was sent.
        reward: f64,
    },
    /// A reward that is not a number.
    #[error("the reward is not a finite number")]
    BadReward,
    /// A teacher is being asked already.
    #[error("a teacher is being asked already")]
    Evolving,
    /// There are too few training tasks to teach on some and try on others.
    #[error("there are too few training tasks to teach on some and to try on others")]
    TooFewTasks,
    /// The bank is a file of another system.
    #[error("{} is not a bank's directory, so it cannot be changed", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// A trial that cannot be made.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The bank, or what is beside it, cannot be read or written.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}
