//! Reports on runs: what a run came to and why, as data and as one self-contained HTML page.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants to show runs in a way of their own: [`AnyReport::read`] gathers from a run directory everything that
//! a person asks about a run, and [`page`] is one way to show it. To have it shown, take the program `skillrl`.
//!
//! ```no_run
//! use skill_pipeline::RunReader;
//! use skill_report::{AnyReport, ReportOptions, page};
//!
//! let run = RunReader::open("runs/my-task".as_ref())?;
//! let report = AnyReport::read(&run, &ReportOptions::default())?;
//! std::fs::write("report.html", page(&report)?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A report is made from the run directory alone, while the run is in progress too. It holds no markup: what a model
//! or a data set says is text, and the page escapes it.
//!
//! # Invariants
//!
//! - A page has a limit whatever the run is like, and says what it leaves out. Held by
//!   `a_page_does_not_grow_with_the_run`, `a_page_of_a_large_bank_says_what_it_leaves_out`.
//! - A file of a run that is missing or half written is named, and nothing that reads runs panics. Held by
//!   `a_file_that_is_missing_or_half_written_is_named_and_nothing_panics`.

mod chart;
mod data;
mod html;
pub mod lines;
pub mod matrix;
mod runs;
mod tensorboard;
mod verdict;
mod view;
pub mod watch;
pub mod words;

pub use data::any::AnyReport;
pub use data::arms::ArmRow;
pub use data::bank::{
    BankBrief, BankComparison, BankItem, BankItemOutcome, BankItems, BankMeasurement, BankReport, BankRound,
    BankScore, BankSkill, BankTrial, BankVersion, SkillCounts, TrialCounts, TrialPhase, VerdictCounts,
    records as bank_records,
};
pub use data::compare::{
    ComparedArm, PairedItem, PairedOutcome, RunComparison, RunSide, SettingDifference, TrainedKind, flattened,
};
pub use data::conversation::{Trajectories, TrajectoryTurn, TrajectoryView};
pub use data::epochs::{EpochRow, SlowUpdateRow};
pub use data::front::FrontRow;
pub use data::headline::{Comparison, Headline};
pub use data::items::{ItemOutcome, ItemRow, Items};
pub use data::labels::{ClassRow, Classes, DoubtfulLabel, MissingRule};
pub use data::notes::NoteRow;
pub use data::overview::{Brief, RunOverview, runs_in};
pub use data::phases::{GainVerdict, PhaseBrief, PhaseGain, PhaseState, PhasesBrief, PhasesReport};
pub use data::rl::{NOT_COMPUTED, RL_METRICS, RlBankReport, RlBrief, RlMetric, RlReport, RlRow, RlTaskType};
pub use data::setup::Setup;
pub use data::sft::{SftBrief, SftReport};
pub use data::standing::RunPhase;
pub use data::steps::{DiffLine, EditLine, StepRow, difference, whole_lines};
pub use data::{Report, ReportOptions, ScorePoint, SkillLine, StageRow, models};
pub use html::{
    SCRIPT, STYLE, comparison_content, comparison_page, content, matrix_page, page, runs_content, runs_page,
    triggers_page,
};
pub use matrix::{Matrix, MatrixCell, TransferRow};
pub use runs::{
    CoursePoint, GroupDifference, MAX_PAIRED_RUNS, Mean, PairedBy, RunColumn, RunGroup, RunRow, RunsTable,
    TextTable,
};
pub use skill_agents::kept::Kept;
pub use tensorboard::TENSORBOARD_FILE;
pub use verdict::{Arms, Caution, CautionKind, MissingArm, Outcome, TestArm, Verdict, Versus, arm_title};
pub use view::{
    Chart, Fact, Look, RunView, Series, TriggersRow, TriggersTable, TriggersView, ViewRow, fate_in_words,
    metric_words, training_of, triggers_at,
};

/// The confidence level of all intervals.
pub const LEVEL: f64 = 0.95;

/// A report that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file of the run cannot be read, or is not what it should be.
    #[error(transparent)]
    Run(#[from] skill_pipeline::PipelineError),
    /// A run that trains weights has no skill and no bank to compare.
    #[error("{name} trains the weights of a model, and runs of skills and banks are compared")]
    NotCompared {
        /// The name of the run.
        name: String,
    },
    /// A run that trains no weights has no curves of training.
    #[error("{name} trains no weights, and only curves of such training are written for TensorBoard")]
    NoCurves {
        /// The name of the run.
        name: String,
    },
    /// No run has a setting of a name by which runs are to be grouped.
    #[error("no run has the setting `{name}`{}", settings_in_words(.settings))]
    UnknownGroup {
        /// The name.
        name: String,
        /// The settings that differ between the runs.
        settings: Vec<String>,
    },
    /// Runs of a coding agent cannot be read.
    #[error(transparent)]
    Measurement(#[from] skill_agents::measure::StoreError),
    /// The page's template does not fit its data.
    #[error("the page cannot be rendered")]
    Page(#[from] minijinja::Error),
}

/// The settings by which runs can be grouped, after the name of one that does not exist.
fn settings_in_words(settings: &[String]) -> String {
    match settings {
        [] => ", and none differs between them".to_owned(),
        settings => format!("; these differ: {}", settings.join(", ")),
    }
}
