//! What reports know of each kind of run: a new kind is one more row here.

use super::any::AnyReport;
use super::bank::{self, BankBrief, BankReport};
use super::overview::{RunOverview, of_document};
use super::phases::{self, PhasesBrief, PhasesReport};
use super::rl::{self, RlBrief, RlReport};
use super::sft::{self, SftBrief, SftReport};
use super::{Report, ReportOptions};
use crate::ReportError;
use crate::verdict::Verdict;
use skill_pipeline::kind::RunKind;
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;

/// A kind of run as reports see it.
pub(crate) struct KindRow {
    /// Adds what only runs of this kind have.
    pub(crate) brief: fn(RunOverview, &RunReader) -> Result<RunOverview, PipelineError>,
    /// What a finished run came to.
    pub(crate) verdict: fn(&RunOverview, &RunReader) -> Result<Option<Verdict>, PipelineError>,
    /// Its report.
    pub(crate) report: fn(&RunReader, &ReportOptions) -> Result<AnyReport, ReportError>,
}

/// The row of the run in a directory; that of a document where its kind is not known.
pub(crate) fn row_of(run: &Path) -> KindRow {
    match RunKind::of(run) {
        None | Some(RunKind::Document) => KindRow {
            brief: |overview, _| Ok(overview),
            verdict: |_, run| of_document(run),
            report: |run, options| Ok(Report::read(run, options)?.into()),
        },
        Some(RunKind::Bank) => KindRow {
            brief: |overview, run| Ok(overview.with_bank(BankBrief::read(run)?)),
            verdict: |_, run| bank::verdict::of_run(run),
            report: |run, options| Ok(BankReport::read(run, options)?.into()),
        },
        Some(RunKind::Sft) => KindRow {
            brief: |overview, run| Ok(overview.with_sft(SftBrief::read(run)?)),
            verdict: |_, run| Ok(Some(sft::verdict_of(run.path())?)),
            report: |run, _| Ok(AnyReport::Sft(Box::new(SftReport::read(run)?))),
        },
        Some(RunKind::Rl) => KindRow {
            brief: |overview, run| Ok(overview.with_rl(RlBrief::read(run)?)),
            verdict: |_, run| Ok(Some(rl::verdict_of(run.path())?)),
            report: |run, _| Ok(AnyReport::Rl(Box::new(RlReport::read(run)?))),
        },
        Some(RunKind::Phases) => KindRow {
            brief: |overview, run| Ok(overview.with_phases(PhasesBrief::read(run)?)),
            verdict: |overview, _| Ok(overview.phases().map(phases::verdict)),
            report: |run, _| Ok(AnyReport::Phases(Box::new(PhasesReport::read(run)?))),
        },
    }
}
