//! The results of episodes, beside the log of the bank that they were shown.

use super::error::OutsideError;
use super::trial::TrialPlace;
use crate::error::PipelineError;
use crate::run_dir::atomic;
use crate::run_dir::bank_dir::is_bank;
use serde::{Deserialize, Serialize};
use skill_bank::SkillRef;
use skill_bank::trial::TrialResult;
use skill_core::ItemId;
use skill_llm::regular_file;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The file in the directory of a bank.
pub const RESULTS_FILE: &str = "results.jsonl";

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// A trial began.
    Trial {
        /// Its number, from 1.
        trial: u32,
        candidate: SkillRef,
        is_retirement: bool,
        /// Its design, as JSON.
        design: String,
    },
    /// What a trial has admitted is measured on further groups.
    AfterAdmission {
        /// The number of the trial.
        trial: u32,
        skill: SkillRef,
        /// That of the trial, with more groups.
        design: String,
        /// The first place behind those of the trial.
        first: u64,
    },
    /// What an episode came to.
    Result {
        episode: String,
        item: ItemId,
        /// The version that it was shown.
        skill_version: String,
        /// As the trainer has it.
        reward: f64,
        outcome: TrialResult,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trial: Option<TrialPlace>,
    },
}

/// The file, open to be appended to.
pub(super) struct ResultsFile {
    path: PathBuf,
    /// None for a bank that is not ours to change.
    file: Option<File>,
}

impl ResultsFile {
    /// Opens the file of a bank, and reads its lines. A line that was under way when a process was killed is cut off.
    pub(super) fn open(bank: &Path) -> Result<(Self, Vec<Line>), OutsideError> {
        let path = bank.join(RESULTS_FILE);
        if !is_bank(bank) {
            return Ok((Self { path, file: None }, Vec::new()));
        }
        let text = match regular_file::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(source) => return Err(Self::failed("read", &path)(source)),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.get(..whole).unwrap_or_default().lines()) {
            lines.push(serde_json::from_str(line).map_err(|error| corrupt(&path, number, &error))?);
        }
        let file =
            File::options().create(true).append(true).open(&path).map_err(Self::failed("write", &path))?;
        if whole < text.len() {
            let bytes = u64::try_from(whole).unwrap_or(u64::MAX);
            file.set_len(bytes).map_err(Self::failed("write", &path))?;
        }
        Ok((Self { path, file: Some(file) }, lines))
    }

    /// Adds a line. It is the system's then, and outlives this process.
    pub(super) fn append(&mut self, line: &Line) -> Result<(), OutsideError> {
        let Some(file) = &mut self.file else {
            let path = self.path.parent().unwrap_or(&self.path).to_owned();
            return Err(OutsideError::ReadOnly { path });
        };
        // Rewards are finite, and nothing else could not be written.
        let mut text = serde_json::to_string(line).expect("a line serializes");
        text.push('\n');
        file.write_all(text.as_bytes()).map_err(Self::failed("write", &self.path))
    }

    /// The error of a line, numbered from 1.
    pub(super) fn corrupt(&self, number: u64, error: &dyn std::error::Error) -> OutsideError {
        corrupt(&self.path, number, error)
    }

    fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> OutsideError {
        let failed = atomic::failed(action, path);
        move |source| failed(source).into()
    }
}

fn corrupt(path: &Path, number: u64, error: &dyn std::error::Error) -> OutsideError {
    let message = format!("line {number}: {error}");
    PipelineError::Corrupt { path: path.to_owned(), message }.into()
}
