//! What a run of several phases says of them; [`crate::phases`] reads and writes its files.

use super::RunIdentity;
use super::sft::SftGames;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::json;
use skill_core::canonical::canonical_hash;
use std::path::{Path, PathBuf};

/// The file of finished phases.
pub(crate) const PHASES_FILE: &str = "phases.json";
/// The file of what they have taken.
pub(crate) const PHASE_TIMES_FILE: &str = "phase_times.json";

skill_core::named_enum! {
    /// A phase, in the order of the run.
    pub enum Phase {
        /// An agent plays the training split.
        Collect = "collect",
        /// A teacher writes skills from its episodes.
        Distill = "distill",
        /// The policy learns from demonstrations.
        Sft = "sft",
        /// It learns from its own episodes.
        Rl = "rl",
        /// The policy before and after these two phases plays the test split.
        Test = "test",
    }
}

impl Phase {
    /// Its directory in that of the run.
    pub fn dir(self, run: &Path) -> PathBuf {
        run.join(self.as_str())
    }
}

/// A finished phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PhaseRecord {
    /// The phase.
    pub phase: Phase,
    /// What decides its result, the results of earlier phases included.
    pub settings: RunIdentity,
    /// The hash of its result.
    pub result: String,
    /// What it came to, by name.
    pub figures: IndexMap<String, f64>,
    /// True if the result was made by another run.
    pub is_reused: bool,
}

impl PhaseRecord {
    /// A phase that came to this result.
    pub fn new(phase: Phase, result: String) -> Self {
        Self { phase, settings: RunIdentity::new(), result, figures: IndexMap::new(), is_reused: false }
    }

    /// The same, by these settings.
    #[must_use]
    pub fn with_settings(self, settings: RunIdentity) -> Self {
        Self { settings, ..self }
    }

    /// The same, taken over from another run.
    #[must_use]
    pub fn reused(self) -> Self {
        Self { is_reused: true, ..self }
    }

    /// The same with this figure, where it is known.
    #[must_use]
    pub fn with_figure(mut self, name: &str, value: Option<f64>) -> Self {
        self.figures.extend(value.map(|value| (name.to_owned(), value)));
        self
    }

    /// The key under which other runs find the result: the hash of the settings.
    pub fn key(&self) -> String {
        canonical_hash(&json!(self.settings))
    }
}

/// The file of the games of the last phase, in its directory.
pub const TEST_FILE: &str = "games.json";

/// What a policy wins of the test split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TestGames {
    /// The phase that the policy comes from; none before the first step.
    pub policy: Option<Phase>,
    /// True if it was shown the skills of a bank.
    pub has_skills: bool,
    /// The games.
    pub games: SftGames,
}

impl TestGames {
    /// These games.
    pub fn new(policy: Option<Phase>, has_skills: bool, games: SftGames) -> Self {
        Self { policy, has_skills, games }
    }
}
