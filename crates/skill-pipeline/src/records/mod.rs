//! The records of runs: plain data with the formats of the files and events that hold it, and nothing else of this crate.
//!
//! Field names and file names are those of skillrl 1.0 where it has them, because people's scripts read them.
//! Objects carry `format_version`; another major version is refused. Nothing measured in seconds is in any of
//! these: times are in `timings.json` and `events.jsonl` alone, so that two runs of the same settings can be compared
//! byte for byte.

pub mod arm;
pub mod bank;
pub mod document;
pub mod epoch;
pub mod evaluation;
pub mod memory;
pub mod paired;
pub mod phases;
pub mod proposal;
pub mod rl;
pub mod sft;
pub mod signs;
pub mod summary;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use skill_llm::MeterReading;
use std::collections::BTreeMap;

/// The version of the formats in these modules, `major.minor`.
///
/// Version 2 has `history.jsonl`, `timings.jsonl` and `files.jsonl`, and names skills by their origin.
/// Files of another major version are refused.
pub const FORMAT_VERSION: &str = "2.0";

/// Whether a file of this version can be read: whether it has the same major version.
pub fn is_supported(version: &str) -> bool {
    let major = |version: &str| version.split('.').next().and_then(|part| part.parse::<u32>().ok());
    major(version) == major(FORMAT_VERSION)
}

/// Settings by name. Speed, cost and the number of epochs are not among them: they may change.
pub type RunIdentity = BTreeMap<String, Value>;

/// `config.json`: what decides the results of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConfigFile {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// The resolved configuration, without what only changes speed or cost.
    pub config: Value,
    /// Every setting that must stay the same while the run is resumed, by name.
    pub identity: RunIdentity,
    /// The models that are simulated, by their names in the configuration; absent where none is, and in earlier runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub simulated_models: Vec<String>,
    /// True where `files.jsonl` has hashes from the beginning of the run on. Absent in earlier runs, and in runs of
    /// documents, whose state says which lines of `files.jsonl` hold.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_hashes: bool,
    /// Settings once more, by the names of skillrl 1.0 and beside the other fields; only in runs that Python code started.
    #[serde(flatten, skip_deserializing)]
    pub named: Map<String, Value>,
}

impl ConfigFile {
    /// The configuration of a run, in the newest format.
    pub fn new(config: Value, identity: RunIdentity) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            config,
            identity,
            simulated_models: Vec::new(),
            has_hashes: false,
            named: Map::new(),
        }
    }

    /// The same, of a run with these simulated models.
    #[must_use]
    pub(crate) fn with_simulated_models(self, names: &[String]) -> Self {
        Self { simulated_models: names.to_vec(), ..self }
    }

    /// The same, with these settings beside the other fields.
    #[must_use]
    pub fn with_named(self, named: Map<String, Value>) -> Self {
        Self { named, ..self }
    }

    /// The same, of a run that records the hashes of its files from its beginning on.
    #[must_use]
    pub(crate) fn with_hashes(self, has_hashes: bool) -> Self {
        Self { has_hashes, ..self }
    }
}

/// Calls and tokens of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageTokens {
    /// Calls that were answered.
    pub calls: u64,
    /// Tokens of prompts, cached ones included.
    pub prompt_tokens: u64,
    /// Tokens of prompts that the provider took from its cache.
    pub cached_tokens: u64,
    /// Tokens of prompts that the provider wrote to its cache; left out at 0.
    #[serde(default, skip_serializing_if = "is_none")]
    pub cache_written_tokens: u64,
    /// Tokens of replies.
    pub completion_tokens: u64,
}

impl From<MeterReading> for StageTokens {
    fn from(used: MeterReading) -> Self {
        Self {
            calls: used.calls,
            prompt_tokens: used.usage.input,
            cached_tokens: used.usage.cached,
            cache_written_tokens: used.usage.cache_written,
            completion_tokens: used.usage.output,
        }
    }
}

impl StageTokens {
    /// What all stages used.
    pub fn of_all(stages: &TokensByStage) -> Self {
        stages.values().fold(Self::default(), |mut all, used| {
            all += *used;
            all
        })
    }

    /// True unless calls were answered and no tokens were counted: some servers report none, and nobody knows the cost.
    pub fn has_counts(&self) -> bool {
        self.calls == 0 || self.tokens() > 0
    }

    /// Tokens of prompts and of replies.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }
}

impl std::ops::AddAssign for StageTokens {
    fn add_assign(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_written_tokens = self.cache_written_tokens.saturating_add(other.cache_written_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
    }
}

/// Calls and tokens by stage, in the order in which the stages ran.
pub type TokensByStage = IndexMap<String, StageTokens>;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(tokens: &u64) -> bool {
    *tokens == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(is: &bool) -> bool {
    !*is
}
