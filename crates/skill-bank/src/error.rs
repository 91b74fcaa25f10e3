//! What can go wrong with a bank.

use crate::skill::{SkillRef, State};
use skill_core::SkillPartId;
use thiserror::Error;

/// Why a bank cannot be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BankError {
    /// The text is not JSON, or ends too early.
    #[error("the bank is not JSON: {message}")]
    NotJson {
        /// What the parser says, with line and column.
        message: String,
    },
    /// The JSON is not a bank of a known format.
    #[error("this is not a skill bank: {message}")]
    NotABank {
        /// What is missing or unexpected.
        message: String,
    },
    /// A skill of the bank cannot be used.
    #[error("{place}: {message}")]
    BadSkill {
        /// Where it is, such as `general_skills[3] (gen_004)`.
        place: String,
        /// What is wrong.
        message: String,
    },
    /// Two skills of a bank have one id.
    #[error("two skills have the id `{id}`: {first} and {second}")]
    DuplicateId {
        /// The id.
        id: SkillPartId,
        /// Where the first one is.
        first: String,
        /// Where the second one is.
        second: String,
    },
    /// The log was written by a later version of this program.
    #[error("the bank's log has version {version}; this program reads versions up to {newest}")]
    NewerVersion {
        /// The version of the log.
        version: u32,
        /// The newest version that is known.
        newest: u32,
    },
    /// A line of the log cannot be read or does not follow from those before it.
    #[error("line {line} of the bank's log: {message}")]
    BadLog {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// No skill has this id.
    #[error("the bank has no skill `{id}`")]
    UnknownSkill {
        /// The id.
        id: SkillPartId,
    },
    /// The skill has no version of this number, or not the next one.
    #[error("the bank has no version `{skill}`")]
    UnknownVersion {
        /// The version.
        skill: SkillRef,
    },
    /// A version of this name was proposed before.
    #[error("`{skill}` was proposed before: ids are never used again")]
    IdTaken {
        /// The version.
        skill: SkillRef,
    },
    /// The event does not fit the version's state.
    #[error("`{skill}` is {}, so it cannot be {action}", state.as_str())]
    WrongState {
        /// The version.
        skill: SkillRef,
        /// Its state.
        state: State,
        /// What was to happen to it.
        action: &'static str,
    },
    /// A process wanted to change what a person has pinned.
    #[error("`{id}` is pinned by a person, so it is not {action}")]
    Pinned {
        /// The skill.
        id: SkillPartId,
        /// What was to happen to it.
        action: &'static str,
    },
    /// A table of task types cannot be used.
    #[error("the table of task types cannot be used: {message}")]
    BadTypeTable {
        /// What is wrong.
        message: String,
    },
    /// A threshold that is not a cosine.
    #[error("the similarity threshold is {value}; expected a number from -1 to 1")]
    BadThreshold {
        /// The threshold.
        value: String,
    },
    /// Vectors that cannot be compared.
    #[error("the vectors cannot be compared: {message}")]
    BadVectors {
        /// What is wrong.
        message: String,
    },
    /// A threshold that was calibrated for another embedding model.
    #[error(
        "the similarity threshold was calibrated for `{calibrated}`, and the embedding model is `{model}`"
    )]
    OtherModelsThreshold {
        /// The model of the threshold.
        calibrated: String,
        /// The model that is used.
        model: String,
    },
    /// Skills where episodes are shown, or episodes where skills are.
    #[error("the bank has {found}")]
    OtherContents {
        /// What it has, and what is shown.
        found: String,
    },
    /// Embedding mode without an embedding model.
    #[error("retrieval by embedding needs an embedding model")]
    NoEmbeddingModel,
}
