//! Spans around a run and its steps, for whoever traces them.

use super::run::StepPlan;
use crate::run_dir::format::StepRecord;
use skill_llm::telemetry;
use std::path::Path;
use tracing::Span;
use tracing::field::Empty;

/// Around what one process does for a run.
pub(super) fn of_run(dir: &Path, env: &str, total_steps: u32) -> Span {
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
pub(super) fn of_step(plan: &StepPlan) -> Span {
    tracing::trace_span!(
        telemetry::STEP,
        { telemetry::NAME } = %format_args!("step {}", plan.step),
        { telemetry::STEP_NUMBER } = plan.step.0,
        { telemetry::STEP_EPOCH } = plan.epoch.0,
        { telemetry::STEP_ACTION } = Empty,
        { telemetry::STEP_SCORE_BEFORE } = Empty,
        { telemetry::STEP_SCORE } = Empty,
    )
}

/// Says in the span of a step, which is the current one, what the step came to.
pub(super) fn tell(record: &StepRecord) {
    let span = Span::current();
    span.record(telemetry::STEP_ACTION, record.action.as_str());
    span.record(telemetry::STEP_SCORE_BEFORE, record.score_before);
    if let Some(score) = record.candidate_gate_score {
        span.record(telemetry::STEP_SCORE, score);
    }
}

/// Says in the span of a run that it did not come to its end.
pub(super) fn fail(span: &Span) {
    span.record(telemetry::STATUS, telemetry::FAILED);
}
