//! The report of a run, whatever it trains.

use super::bank::BankReport;
use super::kinds::row_of;
use super::phases::PhasesReport;
use super::rl::RlReport;
use super::sft::SftReport;
use super::standing::RunPhase;
use super::{Report, ReportOptions};
use crate::ReportError;
use crate::verdict::Verdict;
use serde::Serialize;
use skill_core::GateMetric;
use skill_pipeline::RunReader;

/// The report of a run, whatever it trains.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum AnyReport {
    /// Of a run that trains a skill document.
    Document(Box<Report>),
    /// Of a run that trains a bank.
    Bank(Box<BankReport>),
    /// Of a run that fine-tunes.
    Sft(Box<SftReport>),
    /// Of a run of reinforcement learning.
    Rl(Box<RlReport>),
    /// Of a run of several phases.
    Phases(Box<PhasesReport>),
}

impl AnyReport {
    /// Gathers a report from a run directory, also of one in progress.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. What does not exist yet is not an error.
    pub fn read(run: &RunReader, options: &ReportOptions) -> Result<Self, ReportError> {
        (row_of(run.path()).report)(run, options)
    }

    /// The name of the run's directory.
    pub fn name(&self) -> &str {
        match self {
            Self::Document(report) => &report.name,
            Self::Bank(report) => &report.name,
            Self::Sft(report) => &report.name,
            Self::Rl(report) => &report.name,
            Self::Phases(report) => &report.name,
        }
    }

    /// What the run is doing.
    pub fn phase(&self) -> RunPhase {
        match self {
            Self::Document(report) => report.phase,
            Self::Bank(report) => report.phase,
            Self::Sft(report) => report.phase,
            Self::Rl(report) => report.phase,
            Self::Phases(report) => report.phase,
        }
    }

    /// True if the run has come to its end.
    pub fn is_finished(&self) -> bool {
        self.phase() == RunPhase::Finished
    }

    /// What the run came to.
    pub fn verdict(&self) -> &Verdict {
        match self {
            Self::Document(report) => &report.verdict,
            Self::Bank(report) => &report.verdict,
            Self::Sft(report) => &report.verdict,
            Self::Rl(report) => &report.verdict,
            Self::Phases(report) => &report.verdict,
        }
    }

    /// The metric by which the run decided; trials of skills count successes. `None` before anything is measured, and
    /// where weights are trained.
    pub(crate) fn metric(&self) -> Option<GateMetric> {
        match self {
            Self::Document(report) => report.headline.as_ref().map(|headline| headline.metric),
            Self::Bank(_) => Some(GateMetric::Hard),
            Self::Sft(_) | Self::Rl(_) | Self::Phases(_) => None,
        }
    }

    /// The lines of the best skill, or a line for each active skill of the bank.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Document(report) => report.skill.iter().map(|line| format!("{}\n", line.text)).collect(),
            Self::Bank(report) => report.active_lines(),
            Self::Sft(_) | Self::Rl(_) | Self::Phases(_) => String::new(),
        }
    }
}

impl From<Report> for AnyReport {
    fn from(report: Report) -> Self {
        Self::Document(Box::new(report))
    }
}

impl From<BankReport> for AnyReport {
    fn from(report: BankReport) -> Self {
        Self::Bank(Box::new(report))
    }
}
