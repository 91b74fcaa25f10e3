//! A bank's run in short, for lists of runs and for those who look on while it works: no results of single items are
//! read.

use super::measured::BankScore;
use super::{SkillCounts, bank_of, records, tokens};
use serde::Serialize;
use skill_bank::{Bank, BankEvent, Occasion, TrialVerdict};
use skill_core::MeanScore;
use skill_pipeline::records::StageTokens;
use skill_pipeline::records::bank::RoundRecord;
use skill_pipeline::run_dir::{EvaluationDir, read_bank_summary};
use skill_pipeline::{PipelineError, RunReader};

/// A bank's run in short.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[non_exhaustive]
pub struct BankBrief {
    /// The last finished round, where 0 is the distillation; `None` before that is finished.
    pub last_round: Option<u32>,
    /// True if the run has come to its end.
    pub is_finished: bool,
    /// The validation split without skills of the bank, once it is measured.
    pub baseline: Option<BankScore>,
    /// The validation split with the bank, as it was measured last.
    pub validation: Option<BankScore>,
    /// The round after which that was.
    pub validation_round: Option<u32>,
    /// The test split without the bank and with it, once they are measured.
    pub test: Option<[BankScore; 2]>,
    /// Trials by what became of the candidate, those of the round under way too.
    pub trials: VerdictCounts,
    /// Rollouts of the trials of finished rounds.
    pub trial_rollouts: u64,
    /// Skills by state.
    pub skills: SkillCounts,
    /// Calls and tokens of finished rounds.
    pub used: StageTokens,
}

/// Trials by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct VerdictCounts {
    /// The candidate became active, or an active skill was kept.
    pub admitted: usize,
    /// It was retired.
    pub rejected: usize,
    /// It stays as it is.
    pub undecided: usize,
}

impl VerdictCounts {
    /// The trials in the log of a bank.
    pub fn of(bank: &Bank) -> Self {
        let mut counts = Self::default();
        for record in bank.log() {
            if let BankEvent::Measured { occasion: Occasion::Trial, verdict: Some(verdict), .. } =
                &record.event
            {
                match verdict {
                    TrialVerdict::Admit => counts.admitted += 1,
                    TrialVerdict::Reject => counts.rejected += 1,
                    TrialVerdict::Undecided => counts.undecided += 1,
                }
            }
        }
        counts
    }

    /// All of them.
    pub fn total(self) -> usize {
        self.admitted + self.rejected + self.undecided
    }
}

impl BankBrief {
    /// Reads a run that trains a bank.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. Files that do not exist yet are not errors.
    pub fn read(run: &RunReader) -> Result<Self, PipelineError> {
        let (summary, records) = (read_bank_summary(run.path())?, records(run.path())?);
        let bank = bank_of(run.path(), summary.is_some() || !records.is_empty())?;
        let baseline = match &summary {
            Some(summary) => Some(BankScore::of(summary.baseline, summary.n_items[0])),
            None => {
                let measured = run.evaluation_summary(EvaluationDir::Baseline)?;
                measured.map(|measured| {
                    BankScore::of(MeanScore { hard: measured.hard, soft: measured.soft }, measured.n)
                })
            }
        };
        let last = records.iter().rev().find_map(|record| Some((record.round, record.validation.as_ref()?)));
        let test = summary.as_ref().and_then(|summary| {
            let n_items = summary.n_items[1];
            Some([summary.test_baseline?, summary.test?].map(|score| BankScore::of(score, n_items)))
        });
        let trials = |record: &RoundRecord| record.trials.iter().map(|trial| trial.rollouts).sum::<u64>();
        Ok(Self {
            last_round: records.last().map(|record| record.round),
            is_finished: summary.is_some(),
            baseline,
            validation: last.map(|(_, validation)| BankScore::of(validation.score, validation.n)),
            validation_round: last.map(|(round, _)| round),
            test,
            trials: VerdictCounts::of(&bank),
            trial_rollouts: records.iter().map(trials).sum(),
            skills: SkillCounts::of(&bank),
            used: StageTokens::of_all(&tokens(run, &records, summary.as_ref())?),
        })
    }
}
