//! A run that fine-tunes in short, for lists of runs and for those who look on.

use super::{SftFiles, last_event};
use serde::Serialize;
use serde_json::Value;
use skill_pipeline::records::sft::{SftGames, SftSummary};
use skill_pipeline::{PipelineError, RunReader};

/// A run that fine-tunes in short. Losses are in nats per token.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct SftBrief {
    /// True if the run has come to its end.
    pub is_finished: bool,
    /// Finished steps.
    pub step: u64,
    /// Steps of the whole run, where that is known.
    pub total_steps: Option<u64>,
    /// The epoch of the last step, from 1.
    pub epoch: Option<u32>,
    /// The training loss of the first step.
    pub first_loss: Option<f64>,
    /// That of the last step.
    pub loss: Option<f64>,
    /// The learning rate of the last step.
    pub learning_rate: Option<f64>,
    /// The norm of the gradient of the last step, before clipping.
    pub grad_norm: Option<f64>,
    /// The validation loss before the first step.
    pub first_validation_loss: Option<f64>,
    /// The last one that was measured.
    pub validation_loss: Option<f64>,
    /// The lowest one after a step.
    pub best_validation_loss: Option<f64>,
    /// Games before the first step, where games are played.
    pub first_games: Option<SftGames>,
    /// Games with the last weights that were measured.
    pub games: Option<SftGames>,
    /// Tokens that were trained on.
    pub tokens: u64,
    /// Seconds of the last step.
    pub step_seconds: Option<f64>,
    /// Tokens per second of the last step.
    pub tokens_per_second: Option<f64>,
    /// The most memory that a process used, in bytes.
    pub peak_memory: Option<u64>,
    /// Seconds of work, up to the last checkpoint.
    pub seconds: Option<f64>,
    /// Seconds until the last step is done, while a process works on the run: from the steps that it has done, with
    /// their measurements.
    pub seconds_left: Option<f64>,
}

impl SftBrief {
    /// Reads a run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. Files that do not exist yet are not errors.
    pub fn read(run: &RunReader) -> Result<Self, PipelineError> {
        Ok(Self::of(run, &SftFiles::read(run.path())?))
    }

    pub(super) fn of(run: &RunReader, files: &SftFiles) -> Self {
        let SftFiles { steps, validations, summary, times } = files;
        let live = run.live();
        let (first, last) = (steps.first(), steps.last());
        let event = last_event(run.path(), "sft_step_finished");
        let number = |name: &str| event.as_ref()?.get(name).and_then(Value::as_f64);
        let tokens_of_event = event.as_ref().and_then(|event| event.pointer("/record/tokens")?.as_f64());
        let step_seconds = number("seconds").filter(|seconds| *seconds > 0.0);
        let total_of_summary = summary.as_ref().map(|summary: &SftSummary| summary.steps);
        let started = || {
            let event =
                last_event(run.path(), "step_started").or_else(|| last_event(run.path(), "run_started"));
            event?.get("total_steps")?.as_u64()
        };
        let peak_of_event = event.as_ref().and_then(|event| event.get("peak_memory")?.as_u64());
        let peak_of_times = times.map(|times| times.peak_memory).filter(|bytes| *bytes > 0);
        let losses = || validations.iter().filter(|found| found.step > 0).filter_map(|found| found.loss);
        Self {
            is_finished: summary.is_some(),
            step: last.map_or(0, |step| step.step),
            total_steps: total_of_summary
                .or(live.as_ref().map(|live| live.total_steps.into()))
                .or_else(started),
            epoch: last.map(|step| step.epoch),
            first_loss: first.map(|step| step.loss),
            loss: last.map(|step| step.loss),
            learning_rate: last.map(|step| step.learning_rate),
            grad_norm: last.map(|step| step.grad_norm),
            first_validation_loss: validations
                .first()
                .filter(|found| found.step == 0)
                .and_then(|found| found.loss),
            validation_loss: validations.iter().rev().find_map(|found| found.loss),
            best_validation_loss: losses().min_by(f64::total_cmp),
            first_games: validations.first().filter(|found| found.step == 0).and_then(|found| found.games),
            games: validations.iter().rev().find_map(|found| found.games),
            tokens: steps.iter().map(|step| step.tokens).sum(),
            step_seconds,
            tokens_per_second: tokens_of_event.zip(step_seconds).map(|(tokens, seconds)| tokens / seconds),
            peak_memory: peak_of_event.max(peak_of_times),
            seconds: times.map(|times| times.seconds),
            seconds_left: live.and_then(|live| live.run_seconds_left()),
        }
    }
}
