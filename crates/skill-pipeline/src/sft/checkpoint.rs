//! `checkpoint.json`: the position of a run, and the hashes of its states.
//!
//! It is written after the state that it names, and it is what counts: whatever a killed process did after its last
//! checkpoint is done again. The random state of a run is its seed with this position, since the order of each epoch
//! follows from both.

use crate::error::PipelineError;
use crate::records::FORMAT_VERSION;
use crate::records::sft::CHECKPOINT_FILE;
use crate::run_dir::atomic;
use crate::run_dir::parse_versioned;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The position of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) format_version: String,
    /// Finished steps.
    pub(super) step: u64,
    /// The state after that step.
    pub(super) state: String,
    /// The state with the lowest validation loss.
    pub(super) best: Option<Best>,
    /// Tokens that were trained on.
    pub(super) tokens: u64,
    /// Lines of `validation.jsonl`.
    pub(super) validations: u64,
}

/// The best weights by validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    pub(super) step: u64,
    pub(super) loss: f64,
    pub(super) state: String,
}

impl Checkpoint {
    pub(super) fn new(step: u64, state: String, best: Option<Best>, tokens: u64, validations: u64) -> Self {
        Self { format_version: FORMAT_VERSION.to_owned(), step, state, best, tokens, validations }
    }

    /// The states that must stay.
    pub(super) fn states(&self) -> Vec<&str> {
        let best = self.best.as_ref().map(|best| best.state.as_str());
        std::iter::once(self.state.as_str()).chain(best).collect()
    }

    /// The state that is handed out as the policy, and its step.
    pub(super) fn policy(&self) -> (&str, u64) {
        match &self.best {
            Some(best) => (&best.state, best.step),
            None => (&self.state, self.step),
        }
    }

    pub(super) fn read(run: &Path) -> Result<Option<Self>, PipelineError> {
        let path = file(run);
        match std::fs::read(&path) {
            Ok(bytes) => parse_versioned(&path, &bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PipelineError::RunDir { action: "read", path, source }),
        }
    }

    pub(super) fn write(&self, run: &Path) -> Result<(), PipelineError> {
        let path = file(run);
        atomic::write(&path, &atomic::sealed_json_bytes(&path, self)?)
    }
}

fn file(run: &Path) -> PathBuf {
    run.join(CHECKPOINT_FILE)
}
