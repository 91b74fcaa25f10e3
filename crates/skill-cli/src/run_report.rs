//! What several commands report: the page of a run that ends or stops, and runs of a coding agent.

use crate::error::Result as CommandResult;
use crate::output::{print_pretty_json, print_wrapped};
use serde_json::json;
use skillrl::pipeline::kind::KindSummary;
#[cfg(feature = "weights")]
use skillrl::pipeline::kind::{has_phases, trains_weights};
#[cfg(feature = "weights")]
use skillrl::pipeline::records::phases::Phase;
use skillrl::pipeline::{PipelineError, RunReader, Summary};
use skillrl::reports::{Kept, TriggersView, Verdict};
use std::path::Path;

/// As [`write_after_document`], for a bank or weights run, if the directory holds one of this kind.
pub(crate) fn write_after<T: KindSummary>(dir: &Path, outcome: &Result<T, PipelineError>) {
    if is_own(outcome) && T::KIND.is_at(dir) {
        write_or_warn(dir);
    }
}

/// As [`write_after_document`], for a run of several phases, and for those of its phases that are runs.
#[cfg(feature = "weights")]
pub(crate) fn write_after_phases(dir: &Path) {
    for phase in [Phase::Sft, Phase::Rl].map(|phase| phase.dir(dir)) {
        if trains_weights(&phase) {
            write_or_warn(&phase);
        }
    }
    if has_phases(dir) {
        write_or_warn(dir);
    }
}

/// Writes the report of a run that has ended, or stopped; a report that cannot be written takes nothing from the run.
pub(crate) fn write_after_document(dir: &Path, outcome: &Result<Summary, PipelineError>) {
    // A run that is not this one's, or has nothing to show, is left alone.
    let has_begun = || RunReader::open(dir).and_then(|run| run.state()).is_ok_and(|state| state.is_some());
    if is_own(outcome) && has_begun() {
        write_or_warn(dir);
    }
}

/// True if the outcome is of the run in the directory, and not of a directory that it was refused.
fn is_own<T>(outcome: &Result<T, PipelineError>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            error.is_stop()
                || matches!(
                    error,
                    PipelineError::Rollout { .. }
                        | PipelineError::Optimizer { .. }
                        | PipelineError::SftCapped { .. }
                )
        }
    }
}

fn write_or_warn(dir: &Path) {
    if let Err(error) = skillrl::report::write(dir, None) {
        tracing::warn!(%error, "the report of the run could not be written; `skillrl report` writes it");
    }
}

/// Which skills an agent loads, and the training of their descriptions.
pub(crate) fn print_triggers(kept: &Kept, is_json: bool) -> CommandResult {
    if is_json {
        let shown = json!({ "triggers": kept.report(), "training": kept.training, "starts": kept.n_starts });
        return print_pretty_json(&shown);
    }
    print_wrapped(&TriggersView::read(kept).text())
}

/// The verdict on a run that has ended; a report that cannot be read takes nothing from the run.
pub(crate) fn verdict_of(dir: &Path) -> Option<Verdict> {
    skillrl::report::verdict(dir)
        .inspect_err(|error| tracing::warn!(%error, "the verdict on the run cannot be read"))
        .ok()
}
