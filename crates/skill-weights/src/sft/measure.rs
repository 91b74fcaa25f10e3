//! The cost of training on this machine: memory, and one measured step.

use super::data::SftData;
use super::trainer::{batch_of, rows_of};
use crate::policy::{micro_batches, weights_error};
use serde::Serialize;
use skill_pipeline::error::PipelineError;
use skill_pipeline::settings::SftSettings;
use skill_train::seam::{AdamSettings, CallId, ForwardBackward, Loss, OptimStep, Pass, TrainBackend};
use std::sync::Arc;
use std::time::Instant;

/// One measured step, and what a run of this length would take.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepCost {
    /// Seconds of the step.
    pub step_seconds: f64,
    /// Tokens of its batch.
    pub step_tokens: u64,
    /// The loss before it.
    pub loss: f64,
    /// Steps of the whole run.
    pub steps: u64,
    /// Tokens of the whole run, each as often as it is trained on.
    pub tokens: u64,
    /// Seconds of the whole run at the measured rate, with its validations.
    pub seconds: f64,
    /// The most memory that this process has used, in bytes; `None` where the system does not tell.
    pub peak_memory: Option<u64>,
}

/// Trains one step on the first batch and scales its time up to the whole run. The weights of the back end are changed
/// by it.
///
/// # Errors
///
/// [`PipelineError::Weights`] where the step fails.
pub async fn measured_step(
    backend: &Arc<dyn TrainBackend>,
    data: &SftData,
    settings: &SftSettings,
) -> Result<StepCost, PipelineError> {
    let failed = weights_error(1, settings.total_steps(data.train.len()));
    let batch = batch_of(&data.train, settings, 1);
    let denominator: usize = batch.iter().map(|example| example.n_targets()).sum();
    let step_tokens: u64 = batch.iter().map(|example| example.tokens.len() as u64).sum();
    let began = Instant::now();
    let (mut sequence, mut loss) = (0, 0.0);
    for rows in micro_batches(rows_of(&batch), settings.micro_batch_tokens) {
        let pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator: denominator as f64 };
        let call = CallId::new("measured step", 0, sequence);
        let request = ForwardBackward { call, rows, temperature: 1.0, pass };
        loss += backend.forward_backward(request).await.map_err(&failed)?.metrics.loss;
        sequence += 1;
    }
    let call = CallId::new("measured step", 0, sequence);
    let step = OptimStep { call, settings: AdamSettings { learning_rate: 0.0, ..AdamSettings::default() } };
    backend.optim_step(step).await.map_err(&failed)?;
    let step_seconds = began.elapsed().as_secs_f64();
    let [tokens_of_epoch, _] = data.n_tokens();
    let tokens = tokens_of_epoch.saturating_mul(u64::from(settings.epochs));
    let steps = settings.total_steps(data.train.len());
    let per_token = step_seconds / (step_tokens.max(1) as f64);
    // A forward pass takes about a third of a step.
    let of_validation: u64 = data.validation.iter().map(|example| example.tokens.len() as u64).sum();
    let n_validations = if data.validation.is_empty() { 0 } else { steps / settings.validation_interval + 1 };
    let seconds = per_token * (tokens as f64 + of_validation as f64 * n_validations as f64 / 3.0);
    Ok(StepCost { step_seconds, step_tokens, loss, steps, tokens, seconds, peak_memory: peak_memory() })
}

/// The most memory that this process has used so far, in bytes; `None` where the system does not tell.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}
