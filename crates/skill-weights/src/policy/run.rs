//! Passes over rows, faults of the model, and the folder of the trained policy.

use async_trait::async_trait;
use skill_llm::error::with_causes;
use skill_pipeline::error::{PipelineError, file_hint};
use skill_pipeline::records::sft::POLICY_DIR;
use skill_pipeline::run_dir::policy_hashes::{HASHES_FILE, hashes_text};
use skill_pipeline::run_dir::{RunDir, atomic};
use skill_pipeline::settings::GROUP_SIZE;
use skill_train::TrainError;
use skill_train::seam::Row;
use std::fs;

/// A file of the trained model: its name and its content.
pub type PolicyFile = (String, Vec<u8>);

/// Writes the weights of a back end in the form that other programs load.
#[async_trait]
pub trait PolicyWriter: Send + Sync {
    /// The files of the model with the weights that the back end has now.
    ///
    /// # Errors
    ///
    /// Weights that cannot be read, and files of the base model that are missing.
    async fn files(&self) -> Result<Vec<PolicyFile>, TrainError>;
}

/// The rows of each forward pass, in their order: as many as the limit of tokens has room for, and at least one.
pub(crate) fn micro_batches(rows: impl IntoIterator<Item = Row>, max_tokens: usize) -> Vec<Vec<Row>> {
    let mut batches: Vec<Vec<Row>> = Vec::new();
    let mut n_tokens = 0;
    for row in rows {
        n_tokens += row.tokens.len();
        match batches.last_mut() {
            Some(batch) if n_tokens <= max_tokens => batch.push(row),
            Some(_) | None => {
                n_tokens = row.tokens.len();
                batches.push(vec![row]);
            }
        }
    }
    batches
}

/// What a failure of the model is at this step of so many.
pub(crate) fn weights_error(step: u64, total_steps: u64) -> impl Fn(TrainError) -> PipelineError {
    move |source| PipelineError::Weights {
        step,
        total_steps,
        hint: weights_hint(&source),
        source: Box::new(source),
    }
}

/// What can be done about a failure of a model under training.
fn weights_hint(error: &TrainError) -> &'static str {
    match error {
        TrainError::Io { source, .. } => file_hint(source),
        TrainError::NotFinite { .. } => {
            "the last checkpoint is kept: lower the learning rate, or clip gradients harder, in another directory"
        }
        TrainError::State { .. } => {
            "restore the file of the checkpoint, or start a new run in another directory"
        }
        TrainError::Request { field, .. } if field == GROUP_SIZE => {
            "take larger groups: half of a group may be the trial of a skill, and a baseline needs several episodes"
        }
        TrainError::Request { .. } => "shorten the examples, or take a model with a longer context",
        _ => "check the files of the model",
    }
}

/// Replaces the folder of the trained policy by these files and their hashes; a process that is killed leaves the old one
/// or the new.
pub(crate) fn write_policy(run: &RunDir, mut files: Vec<PolicyFile>) -> Result<(), PipelineError> {
    run.check_not_moved()?;
    files.sort();
    files.push((HASHES_FILE.to_owned(), hashes_text(&files).into_bytes()));
    let policy = run.path().join(POLICY_DIR);
    for (name, bytes) in &files {
        run.note(&policy.join(name), bytes)?;
    }
    if files.iter().all(|(name, bytes)| fs::read(policy.join(name)).is_ok_and(|found| found == *bytes)) {
        return Ok(());
    }
    let beside = run.path().join(format!("{POLICY_DIR}.new"));
    atomic::remove_dir(&beside)?;
    for (name, bytes) in files {
        atomic::write(&beside.join(name), &bytes)?;
    }
    atomic::remove_dir(&policy)?;
    fs::rename(&beside, &policy).map_err(atomic::failed("write", &policy))
}

/// A fault that several episodes share.
pub(crate) fn shared_fault(fault: &TrainError) -> TrainError {
    match fault {
        TrainError::NotFinite { quantity } => TrainError::NotFinite { quantity: quantity.clone() },
        TrainError::Cancelled => TrainError::Cancelled,
        other => TrainError::Compute { what: "a reply", source: with_causes(other).into() },
    }
}
