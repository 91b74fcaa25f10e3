//! Spans around a run, its steps, and the rounds and trials of a bank, for anyone who traces them.

use crate::records::bank::{RoundRecord, TrialRecord};
use crate::records::document::StepRecord;
use skill_core::{EpochIdx, StepIdx};
use skill_llm::telemetry;
use std::path::Path;
use tracing::Span;
use tracing::field::Empty;

/// Around what one process does for a run.
pub(crate) fn of_run(dir: &Path, env: &str, total_steps: u32) -> Span {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    tracing::trace_span!(
        telemetry::RUN,
        { telemetry::RUN_NAME } = name,
        { telemetry::RUN_ENV } = env,
        { telemetry::RUN_STEPS } = total_steps,
        { telemetry::STATUS } = Empty,
    )
}

/// Around a step.
pub(crate) fn of_step(step: StepIdx, epoch: EpochIdx) -> Span {
    tracing::trace_span!(
        telemetry::STEP,
        { telemetry::NAME } = %format_args!("step {}", step),
        { telemetry::STEP_NUMBER } = step.0,
        { telemetry::STEP_EPOCH } = epoch.0,
        { telemetry::STEP_ACTION } = Empty,
        { telemetry::STEP_SCORE_BEFORE } = Empty,
        { telemetry::STEP_SCORE } = Empty,
    )
}

/// Says in the span of a step, which is the current one, what the step came to.
pub(crate) fn tell(record: &StepRecord) {
    let span = Span::current();
    span.record(telemetry::STEP_ACTION, record.action.as_str());
    span.record(telemetry::STEP_SCORE_BEFORE, record.score_before);
    if let Some(score) = record.candidate_gate_score {
        span.record(telemetry::STEP_SCORE, score);
    }
}

/// Says in the span of a run that it did not come to its end.
pub(crate) fn fail(span: &Span) {
    span.record(telemetry::STATUS, telemetry::FAILED);
}

/// Around a round of a bank's training.
pub(crate) fn of_round(round: u32) -> Span {
    tracing::trace_span!(
        telemetry::ROUND,
        { telemetry::NAME } = %format_args!("round {round}"),
        { telemetry::ROUND_NUMBER } = round,
        { telemetry::ROUND_PROPOSED } = Empty,
        { telemetry::ROUND_ADMITTED } = Empty,
        { telemetry::ROUND_RETIRED } = Empty,
        { telemetry::ROUND_ACTIVE } = Empty,
        { telemetry::ROUND_SCORE } = Empty,
    )
}

/// Says in the span of a round what the round came to.
pub(crate) fn tell_round(span: &Span, record: &RoundRecord) {
    span.record(telemetry::ROUND_PROPOSED, record.proposed.len());
    span.record(telemetry::ROUND_ADMITTED, record.admitted.len());
    span.record(telemetry::ROUND_RETIRED, record.retired.len());
    span.record(telemetry::ROUND_ACTIVE, record.n_active);
    if let Some(validation) = &record.validation {
        span.record(telemetry::ROUND_SCORE, validation.score.hard);
    }
}

/// Around the trial of a bank's candidate.
pub(crate) fn of_trial() -> Span {
    tracing::trace_span!(
        telemetry::TRIAL,
        { telemetry::NAME } = Empty,
        { telemetry::TRIAL_NUMBER } = Empty,
        { telemetry::TRIAL_SKILL } = Empty,
        { telemetry::TRIAL_TIER } = Empty,
        { telemetry::TRIAL_ROLLOUTS } = Empty,
        { telemetry::TRIAL_MAX_ROLLOUTS } = Empty,
        { telemetry::TRIAL_VERDICT } = Empty,
        { telemetry::TRIAL_DIFFERENCE } = Empty,
        { telemetry::TRIAL_E_VALUE } = Empty,
        { telemetry::TRIAL_P_VALUE } = Empty,
    )
}

/// Says in the span of a trial, which is the current one, what is tried.
pub(crate) fn begin_trial(trial: &TrialRecord, max_rollouts: u64) {
    let span = Span::current();
    span.record(telemetry::NAME, tracing::field::display(format_args!("trial {}", trial.trial)));
    span.record(telemetry::TRIAL_NUMBER, trial.trial);
    span.record(telemetry::TRIAL_SKILL, tracing::field::display(&trial.skill));
    span.record(telemetry::TRIAL_TIER, trial.tier.as_str());
    span.record(telemetry::TRIAL_MAX_ROLLOUTS, max_rollouts);
}

/// Says in the span of a trial, which is the current one, what the trial came to.
pub(crate) fn tell_trial(trial: &TrialRecord) {
    let span = Span::current();
    span.record(telemetry::TRIAL_ROLLOUTS, trial.rollouts);
    if let Some(decision) = &trial.decision {
        span.record(telemetry::TRIAL_VERDICT, decision.verdict.as_str());
        span.record(telemetry::TRIAL_DIFFERENCE, decision.numbers.difference);
        span.record(telemetry::TRIAL_E_VALUE, decision.numbers.e_better);
        span.record(telemetry::TRIAL_P_VALUE, decision.numbers.p_better);
    }
}
