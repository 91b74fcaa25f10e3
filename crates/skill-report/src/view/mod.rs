//! The view model of a run: read once from its files for each kind of run, and rendered by each medium.

mod charts;
mod facts;
mod rows;
mod triggers;

pub use charts::{Chart, Look, Series};
pub use facts::{Fact, metric_words};
pub use rows::ViewRow;
pub use triggers::{TriggersRow, TriggersTable, TriggersView, fate_in_words, training_of, triggers_at};

use crate::ReportError;
use crate::data::bank::records;
use crate::data::overview::{Brief, RunOverview};
use crate::data::rl::RlReport;
use crate::data::sft::SftReport;
use crate::lines::step::StepTotal;
use skill_bank::Bank;
use skill_pipeline::RunReader;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::records::bank::{BANK_DIR, RoundRecord};
use skill_pipeline::records::document::StepRecord;

/// The most warnings that are kept.
const MAX_WARNINGS: usize = 100;

/// A run with its results so far, its curves, and a row for each step.
#[derive(Debug, Clone)]
pub struct RunView {
    /// The state of the run; a live view replaces its `live` part.
    pub overview: RunOverview,
    /// Its curves.
    pub charts: Vec<Chart>,
    /// What the rows are of.
    pub rows_title: &'static str,
    rows: Vec<ViewRow>,
    /// The last round whose trials are in the rows.
    last_round: Option<u32>,
    /// The skills of a bank below the names of their columns; empty for other runs.
    pub skills: Vec<ViewRow>,
    /// Warnings, the latest first.
    pub warnings: Vec<String>,
}

impl RunView {
    /// Reads a run, also one in progress.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be.
    pub fn read(run: &RunReader, overview: RunOverview) -> Result<Self, ReportError> {
        Ok(match overview.brief {
            Some(Brief::Bank(_)) => {
                let bank = read_bank(&run.path().join(BANK_DIR))?.bank;
                Self::of_bank(overview, &records(run.path())?, &bank)
            }
            Some(Brief::Sft(_)) => {
                let report = SftReport::read(run)?;
                let rows = report.steps.iter().map(rows::of_sft_step).collect();
                Self { charts: report.charts(), ..Self::with_rows(overview, rows) }
            }
            Some(Brief::Rl(_)) => {
                let report = RlReport::read(run)?;
                let rows = report.iterations.iter().map(rows::of_iteration).collect();
                Self { charts: report.charts(), rows_title: "iterations", ..Self::with_rows(overview, rows) }
            }
            Some(Brief::Phases(_)) | None => Self::of_document(overview, &run.history()?),
        })
    }

    fn with_rows(overview: RunOverview, rows: Vec<ViewRow>) -> Self {
        Self {
            overview,
            charts: Vec::new(),
            rows_title: "steps",
            rows,
            last_round: None,
            skills: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A run that trains a document.
    pub fn of_document(overview: RunOverview, history: &[StepRecord]) -> Self {
        let total_steps = StepTotal::Exactly(overview.total_steps.unwrap_or(overview.n_steps));
        let notes = history
            .iter()
            .rev()
            .flat_map(|record| record.notes.iter().map(move |note| format!("step {}: {note}", record.step)));
        Self {
            charts: charts::of_document(history, overview.total_steps),
            warnings: notes.take(MAX_WARNINGS).collect(),
            ..Self::with_rows(
                overview,
                history.iter().map(|record| rows::of_step(record, total_steps)).collect(),
            )
        }
    }

    /// A run that trains a bank.
    pub fn of_bank(overview: RunOverview, rounds: &[RoundRecord], bank: &Bank) -> Self {
        let rows = rounds.iter().flat_map(|record| {
            let trials = record.trials.iter().map(|trial| rows::of_trial(record.round, trial));
            trials.chain([rows::of_round(record)])
        });
        Self {
            charts: charts::of_bank(rounds, overview.total_steps),
            rows_title: "trials and rounds",
            last_round: rounds.last().map(|record| record.round),
            skills: rows::of_skills(bank, rounds),
            ..Self::with_rows(overview, rows.collect())
        }
    }

    /// A row for each finished step, and for each trial of the round under way.
    pub fn rows(&self) -> Vec<ViewRow> {
        let now = self.overview.live.as_ref().and_then(|live| live.bank.as_ref());
        // The record of a round is written a moment before the event that ends it.
        let is_new = |round: &u32| self.last_round.is_none_or(|last| *round > last);
        let trials = now
            .and_then(|now| Some((now.round.filter(is_new)?, &now.trials)))
            .into_iter()
            .flat_map(|(round, trials)| trials.iter().map(move |trial| rows::of_trial(round, trial)));
        self.rows.iter().cloned().chain(trials).collect()
    }
}
