//! A run directory for those who only look: without its lock, while the run is in progress too.

use super::format::{ConfigFile, EvaluationSummary, RuntimeState, StepRecord, Summary};
use super::{EvaluationDir, evaluation_path, read_value, snapshot_path, step_path};
use super::{from_value, read_config, read_summary, read_versioned};
use crate::error::PipelineError;
use serde::de::DeserializeOwned;
use skill_core::{EditRow, Patch, RawPatch, RolloutResult, SkillDoc, StepIdx};
use std::path::{Path, PathBuf};

/// Reads the files of a run; what is not there yet is `None` or empty, what is not what it should be an error.
///
/// It may be used while another process trains: a step is shown when all of its files are written.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
    config: ConfigFile,
}

impl RunReader {
    /// Opens a run directory.
    ///
    /// # Errors
    ///
    /// A directory without a run, and a `config.json` that cannot be read or is of a newer format.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        match read_config(path)? {
            Some(config) => Ok(Self { path: path.to_owned(), config }),
            None => Err(PipelineError::NoRun { path: path.to_owned() }),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was asked when the run was started or last resumed.
    pub fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// Where the run stands; `None` before its baseline is measured.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format.
    pub fn state(&self) -> Result<Option<RuntimeState>, PipelineError> {
        read_versioned(&self.path.join("runtime_state.json"))
    }

    /// What the run came to; `None` before its end.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn summary(&self) -> Result<Option<Summary>, PipelineError> {
        read_summary(&self.path)
    }

    /// The records of the steps whose files are all written, in order.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state), and a history that lacks one of those steps.
    pub fn history(&self) -> Result<Vec<StepRecord>, PipelineError> {
        match self.state()? {
            Some(state) => super::read_history(&self.path, state.last_completed_step),
            None => Ok(Vec::new()),
        }
    }

    /// The skill that was current after a step; 0 is the initial one.
    ///
    /// # Errors
    ///
    /// A file that is not there or cannot be read.
    pub fn skill_after(&self, step: StepIdx) -> Result<SkillDoc, PipelineError> {
        let path = snapshot_path(&self.path, step);
        let text = std::fs::read_to_string(&path).map_err(|source| PipelineError::RunDir {
            action: "read",
            path,
            source,
        })?;
        Ok(SkillDoc::new(text))
    }

    /// What the analysts of a step proposed, all micro-batches in order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be.
    pub fn raw_patches(&self, step: StepIdx) -> Result<Vec<RawPatch>, PipelineError> {
        const NAME: &str = "raw_patches.json";
        let dir = step_path(&self.path, step);
        if let Some(patches) = read_json(&dir.join(NAME))? {
            return Ok(patches);
        }
        let mut all: Vec<RawPatch> = Vec::new();
        for batch_idx in 0.. {
            match read_json::<Vec<RawPatch>>(&dir.join(format!("batch_{batch_idx}")).join(NAME))? {
                Some(patches) => all.extend(patches),
                None => break,
            }
        }
        Ok(all)
    }

    /// The edits that a step applied; `None` if nobody proposed any.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn ranked_patch(&self, step: StepIdx) -> Result<Option<Patch>, PipelineError> {
        read_json(&step_path(&self.path, step).join("ranked_patch.json"))
    }

    /// What became of a step's edits; `None` if there were none.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn apply_report(&self, step: StepIdx) -> Result<Option<Vec<EditRow>>, PipelineError> {
        read_json(&step_path(&self.path, step).join("edit_apply_report.json"))
    }

    /// What a step's edits made of the skill; `None` if there were none.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn candidate(&self, step: StepIdx) -> Result<Option<SkillDoc>, PipelineError> {
        let path = step_path(&self.path, step).join("candidate_skill.md");
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(SkillDoc::new(text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(PipelineError::RunDir { action: "read", path, source }),
        }
    }

    /// The summary of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn evaluation_summary(&self, dir: EvaluationDir) -> Result<Option<EvaluationSummary>, PipelineError> {
        read_versioned(&evaluation_path(&self.path, dir).join("summary.json"))
    }

    /// The results of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn results(&self, dir: EvaluationDir) -> Result<Option<Vec<RolloutResult>>, PipelineError> {
        read_json(&evaluation_path(&self.path, dir).join("results.json"))
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    read_value(path)?.map(|value| from_value(path, value)).transpose()
}
