//! A run that fine-tunes, as data: its course, its settings and what it came to.
//!
//! The files are read as they are, with no part of the program that trains: every build shows every run.

mod brief;

pub use brief::SftBrief;

use super::ending::last_event;
use super::games::of_games;
use super::setup::Setup;
use super::standing::{RunPhase, Standing};
use super::weights_files::{lines, whole};
use super::{SentRow, name_of, simulated, uncounted, unfinished};
use crate::ReportError;
use crate::verdict::{Outcome, Verdict};
use serde::Serialize;
use skill_pipeline::records::sft::POLICY_DIR;
use skill_pipeline::records::sft::{
    STEPS_FILE, SUMMARY_FILE, SftCounts, SftStep, SftSummary, SftTimes, SftValidation, TIMES_FILE,
    VALIDATION_FILE,
};
use skill_pipeline::run_dir::Sent;
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
    /// When it began, how long it worked, and what it was asked to do.
    pub setup: Setup,
    /// What it has sent to providers.
    pub sent: SentRow,
    /// What the run came to, with what to know before the numbers are trusted.
    pub verdict: Verdict,
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
        let (policy, sent) = (path.join(POLICY_DIR), Sent::of(run)?);
        Ok(Self {
            name: name_of(path),
            env: env.unwrap_or_default().to_owned(),
            phase,
            reason,
            hint,
            setup: Setup::read(run, brief.seconds)?,
            verdict: verdict(files.summary.as_ref())
                .with_cautions(unfinished(phase).into_iter().chain(simulated(run)).chain(uncounted(&sent))),
            sent: sent.into(),
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

/// The verdict on a finished run.
pub(super) fn verdict_of(path: &Path) -> Result<Verdict, PipelineError> {
    Ok(verdict(whole(&path.join(SUMMARY_FILE))?.as_ref()))
}

/// The games won, or the validation loss where none were played, before and after.
fn verdict(summary: Option<&SftSummary>) -> Verdict {
    let Some(summary) = summary else {
        return Verdict::new(Outcome::Unfinished, "the model is being fine-tuned");
    };
    let loss = |validation: &Option<SftValidation>| validation.as_ref().and_then(|found| found.loss);
    let loss = match (loss(&summary.before), loss(&summary.after)) {
        (Some(before), Some(after)) => format!("validation loss {before:.4} → {after:.4} nats per token"),
        _ => {
            let [first, last] = summary.loss;
            format!("training loss {first:.4} → {last:.4} nats per token")
        }
    };
    let games = |validation: &Option<SftValidation>| validation.as_ref().and_then(|found| found.games);
    match (games(&summary.before), games(&summary.after)) {
        (Some(before), Some(after)) => {
            let verdict = of_games(before, after);
            Verdict { words: format!("{}; {loss}", verdict.words), ..verdict }
        }
        _ => Verdict::new(
            Outcome::Trained,
            format!("{loss}; no games were played, so what that is worth is not known"),
        ),
    }
}
