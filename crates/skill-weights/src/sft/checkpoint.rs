//! `checkpoint.json`: the position of a run, and the hashes of its states.
//!
//! It is written after the state that it names, and it is what counts: whatever a killed process did after its last
//! checkpoint is done again. The random state of a run is its seed with this position, since the order of each epoch
//! follows from both.

use serde::{Deserialize, Serialize};
use skill_pipeline::error::PipelineError;
use skill_pipeline::records::FORMAT_VERSION;
use skill_pipeline::records::sft::{CHECKPOINT_FILE, STEPS_FILE, VALIDATION_FILE};
use skill_pipeline::run_dir::line_log::{LineLog, LogMark};
use skill_pipeline::run_dir::{read_versioned, seal};
use std::collections::BTreeMap;
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
    /// The marks of the files of lines, by name; absent in checkpoints of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) logs: BTreeMap<String, LogMark>,
}

/// The best weights by validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Best {
    pub(super) step: u64,
    pub(super) loss: f64,
    pub(super) state: String,
}

impl Checkpoint {
    /// The position after the last of these steps.
    pub(super) fn new(
        state: String,
        best: Option<Best>,
        tokens: u64,
        steps: &LineLog,
        validations: &LineLog,
    ) -> Self {
        Self {
            format_version: FORMAT_VERSION.to_owned(),
            step: steps.n_lines(),
            state,
            best,
            tokens,
            validations: validations.n_lines(),
            logs: [(STEPS_FILE.to_owned(), steps.mark()), (VALIDATION_FILE.to_owned(), validations.mark())]
                .into(),
        }
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
        read_versioned(&file(run))
    }

    pub(super) fn write(&self, run: &Path) -> Result<(), PipelineError> {
        let path = file(run);
        seal::write_sealed_json(&path, self)
    }
}

fn file(run: &Path) -> PathBuf {
    run.join(CHECKPOINT_FILE)
}
