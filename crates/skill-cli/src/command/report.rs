//! `skillrl report`: what a run came to and why, as one HTML page.

use crate::args::ReportArgs;
use skillrl::pipeline::{PipelineError, RunReader, Summary};
use std::path::Path;

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<()> {
    super::bank_run::refuse(&args.run, "report")?;
    if args.json {
        let report = skillrl::report::read(&args.run)?;
        return super::print(&format!("{}\n", serde_json::to_string_pretty(&report)?));
    }
    let path = skillrl::report::write(&args.run, args.output.as_deref())?;
    super::print(&format!("{}\n", path.display()))
}

/// Writes the report of a run that has ended, or stopped; a report that cannot be written takes nothing from the run.
pub(super) fn write_after_run(dir: &Path, outcome: &Result<Summary, PipelineError>) {
    // A run that is not this one's, or has nothing to show, is left alone.
    let has_begun = || RunReader::open(dir).and_then(|run| run.state()).is_ok_and(|state| state.is_some());
    let is_ours = match outcome {
        Ok(_) => true,
        Err(error) => {
            error.is_stop()
                || matches!(error, PipelineError::Rollout { .. } | PipelineError::Optimizer { .. })
        }
    };
    if is_ours
        && has_begun()
        && let Err(error) = skillrl::report::write(dir, None)
    {
        tracing::warn!(%error, "the report of the run could not be written; `skillrl report` writes it");
    }
}
