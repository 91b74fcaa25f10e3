//! `skillrl report`: what a run came to and why, as one HTML page.

use super::CommandError;
use crate::args::ReportArgs;
use crate::error::OfFile as _;
use crate::table::counted;
use skillrl::pipeline::kind::RunKind;
#[cfg(feature = "weights")]
use skillrl::pipeline::records::phases::Phase;
use skillrl::pipeline::{PipelineError, RunReader, Summary};
use skillrl::reports::DoubtfulLabel;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn run(args: &ReportArgs) -> crate::Result {
    if let Some(kept) = skillrl::report::triggers(&args.run)?
        && (args.json || args.tensorboard.is_some() || args.doubtful.is_some())
    {
        if args.json {
            return super::show::triggers(&kept, true);
        }
        let message = format!(
            "{} has runs of a coding agent, which have neither labels nor curves",
            args.run.display()
        );
        return Err(CommandError::new(message).with_hint("leave out --tensorboard and --doubtful").into());
    }
    if args.json {
        let report = super::pretty_json(&skillrl::report::any(&args.run)?);
        return super::print(&format!("{report}\n"));
    }
    if let Some(folder) = &args.tensorboard {
        let path = skillrl::report::write_tensorboard(&args.run, folder)?;
        return super::print(&format!("{}\n", path.display()));
    }
    if let Some(file) = &args.doubtful {
        let labels = skillrl::report::doubtful_labels(&args.run)?;
        std::fs::write(file, doubtful_csv(&labels)).writing(file)?;
        return super::print(&format!("{}: {}\n", file.display(), counted(labels.len() as u64, "label")));
    }
    let path = skillrl::report::write(&args.run, args.output.as_deref())?;
    super::print(&format!("{}\n", path.display()))
}

/// Doubtful labels as CSV, with the names of the columns first.
fn doubtful_csv(labels: &[DoubtfulLabel]) -> String {
    let mut text = "id,split,label,answered,n_answered,n_rollouts,text\n".to_owned();
    for label in labels {
        let numbers = [label.n_answered, label.n_rollouts].map(|number| number.to_string());
        let cells =
            [&*label.id, label.split, &label.label, &label.answered, &numbers[0], &numbers[1], &label.text];
        let _ = writeln!(text, "{}", cells.map(csv_cell).join(","));
    }
    text
}

/// A cell of a CSV file by RFC 4180: in double quotes where it needs them.
fn csv_cell(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

/// As [`write_after_document`], for a bank or weights run, if the directory holds one of this kind.
pub(super) fn write_after<T>(dir: &Path, kind: RunKind, outcome: &Result<T, PipelineError>) {
    if is_own(outcome) && kind.is_at(dir) {
        write_or_warn(dir);
    }
}

/// As [`write_after_document`], for a run of several phases, and for those of its phases that are runs.
#[cfg(feature = "weights")]
pub(super) fn write_after_phases(dir: &Path) {
    for phase in [Phase::Sft, Phase::Rl].map(|phase| phase.dir(dir)) {
        if matches!(RunKind::of(&phase), Some(RunKind::Sft | RunKind::Rl)) {
            write_or_warn(&phase);
        }
    }
    if RunKind::Phases.is_at(dir) {
        write_or_warn(dir);
    }
}

/// Writes the report of a run that has ended, or stopped; a report that cannot be written takes nothing from the run.
pub(super) fn write_after_document(dir: &Path, outcome: &Result<Summary, PipelineError>) {
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
