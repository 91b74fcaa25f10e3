//! A run that fine-tunes, as data: its course, its settings and what it came to.
//!
//! The files are read as they are, with no part of the program that trains: every build shows every run.

mod brief;

pub use brief::SftBrief;

use super::ending::last_event;
use super::name_of;
use super::standing::{RunPhase, Standing};
use super::weights_files::{lines, whole};
use crate::ReportError;
use serde::Serialize;
use skill_pipeline::records::sft::POLICY_DIR;
use skill_pipeline::records::sft::{
    STEPS_FILE, SUMMARY_FILE, SftCounts, SftStep, SftSummary, SftTimes, SftValidation, TIMES_FILE,
    VALIDATION_FILE,
};
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;

/// Everything that a page shows of a run that fine-tunes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SftReport {
    /// The name of its directory.
    pub name: String,
    /// The environment, if it is known.
    pub env: String,
    /// What it is doing.
    pub phase: RunPhase,
    /// What stopped or interrupted it.
    pub reason: Option<String>,
    /// What can be done about it.
    pub hint: Option<String>,
    /// The result in a sentence, once there is one.
    pub sentence: Option<String>,
    /// Where it is.
    pub brief: SftBrief,
    /// Every finished step, in order.
    pub steps: Vec<SftStep>,
    /// Every measurement, in order.
    pub validations: Vec<SftValidation>,
    /// Settings that decide the weights, by name.
    pub settings: Vec<(String, String)>,
    /// Examples of the training part and of the validation part, once the run is finished.
    pub examples: Option<[usize; 2]>,
    /// Demonstrations and examples by what became of them, once the run is finished.
    pub counts: Option<SftCounts>,
    /// The directory with the trained model, once there is one.
    pub policy: Option<String>,
}

impl SftReport {
    /// Reads a run, also one in progress.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. Files that do not exist yet are not errors.
    pub fn read(run: &RunReader) -> Result<Self, ReportError> {
        let path = run.path();
        let files = SftFiles::read(path)?;
        let config = run.config();
        let env = config.config.pointer("/env/kind").and_then(serde_json::Value::as_str);
        let brief = SftBrief::of(run, &files);
        let Standing { phase, reason, hint } = Standing::of(path, brief.is_finished);
        let settings = config.identity.iter().filter(|(name, _)| {
            ["sft.", "run.seed", "models.policy"].iter().any(|prefix| name.starts_with(prefix))
        });
        let policy = path.join(POLICY_DIR);
        Ok(Self {
            name: name_of(path),
            env: env.unwrap_or_default().to_owned(),
            phase,
            reason,
            hint,
            sentence: files.summary.as_ref().map(sentence),
            examples: files
                .summary
                .as_ref()
                .map(|summary| [summary.train_examples, summary.validation_examples]),
            counts: files.summary.as_ref().map(|summary| summary.counts),
            brief,
            settings: settings.map(|(name, value)| (name.clone(), value.to_string())).collect(),
            policy: policy.is_dir().then(|| policy.display().to_string()),
            steps: files.steps,
            validations: files.validations,
        })
    }
}

/// The files of a run.
struct SftFiles {
    steps: Vec<SftStep>,
    validations: Vec<SftValidation>,
    summary: Option<SftSummary>,
    times: Option<SftTimes>,
}

impl SftFiles {
    fn read(path: &Path) -> Result<Self, PipelineError> {
        Ok(Self {
            steps: lines(&path.join(STEPS_FILE))?,
            validations: lines(&path.join(VALIDATION_FILE))?,
            summary: whole(&path.join(SUMMARY_FILE))?,
            times: whole(&path.join(TIMES_FILE))?,
        })
    }
}

/// The validation loss and the games won, before and after.
fn sentence(summary: &SftSummary) -> String {
    let mut parts = Vec::new();
    let loss = |validation: &Option<SftValidation>| validation.as_ref().and_then(|found| found.loss);
    match (loss(&summary.before), loss(&summary.after)) {
        (Some(before), Some(after)) => {
            parts.push(format!("The validation loss went from {before:.4} to {after:.4} nats per token"));
        }
        _ => {
            let [first, last] = summary.loss;
            parts.push(format!("The training loss went from {first:.4} to {last:.4} nats per token"));
        }
    }
    let games = |validation: &Option<SftValidation>| validation.as_ref().and_then(|found| found.games);
    if let (Some(before), Some(after)) = (games(&summary.before), games(&summary.after)) {
        let [low, high] = after.interval.map(|share| share * 100.0);
        parts.push(format!(
            "the model won {} of {} games before and {} of {} after (95 % interval {low:.0} to {high:.0} %)",
            before.won, before.played, after.won, after.played
        ));
    }
    format!("{}; policy/ holds the weights after step {}.", parts.join("; "), summary.policy_step)
}
