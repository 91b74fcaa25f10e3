//! A run that trains a bank, gathered from its directory, also while it is in progress.

mod brief;
mod items;
mod measured;
mod rounds;
mod skills;
mod trials;
pub(super) mod verdict;

pub use brief::{BankBrief, VerdictCounts};
pub use items::{BankItem, BankItemOutcome, BankItems};
pub use measured::{BankComparison, BankMeasurement, BankScore};
pub use rounds::BankRound;
pub use skills::{BankSkill, BankVersion};
pub use trials::{BankTrial, TrialPhase};

use super::conversation::{Trajectories, choose};
use super::setup::Setup;
use super::standing::{RunPhase, Standing, total_steps};
use super::{ReportOptions, SentRow, StageRow, name_of, simulated, stages, total, uncounted};
use crate::ReportError;
use crate::verdict::Verdict;
use indexmap::IndexMap;
use measured::Evaluations;
use serde::Serialize;
use skill_bank::{Bank, BankEvent, Basis, State, TokenCompression};
use skill_pipeline::bank::read_record;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::records::TokensByStage;
use skill_pipeline::records::bank::{BANK_DIR, BankSummary, RECORD_FILE, ROUNDS_DIR, RoundRecord};
use skill_pipeline::run_dir::live::LiveState;
use skill_pipeline::run_dir::{EvaluationDir, Sent, is_stop_requested, read_bank_summary};
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;

/// The most characters of a title in lists.
pub(super) const MAX_TITLE_CHARACTERS: usize = 200;

/// A run that trains a bank: what it came to, its rounds, its trials and its skills.
///
/// Everything is read from the files of the run. While the run is in progress, the round under way is known by the log
/// of the bank alone: its trials are here without the numbers that only the record of a round has.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BankReport {
    /// The name of the run's directory.
    pub name: String,
    /// The environment.
    pub env: String,
    /// What the run is doing.
    pub phase: RunPhase,
    /// What stopped or interrupted it, where that is known; a provider's words may be among it.
    pub reason: Option<String>,
    /// What can be done about it, where its process said so.
    pub hint: Option<String>,
    /// What the process that works on it is doing.
    pub live: Option<LiveState>,
    /// True if somebody has asked that process to stop.
    pub is_stop_requested: bool,
    /// Rounds of evolution after round 0, if that is known.
    pub total_rounds: Option<u32>,
    /// When it began, how long it worked, and what it was asked to do.
    pub setup: Setup,
    /// What the run came to, with what to know before the numbers are trusted.
    pub verdict: Verdict,
    /// The validation split without the bank; `None` before it is measured.
    pub baseline: Option<BankScore>,
    /// The validation split without the bank and with the bank of the last validation; `None` before that.
    pub selection: Option<BankComparison>,
    /// The test split without the bank and with the last bank; `None` where it was not measured.
    pub test: Option<BankComparison>,
    /// The finished rounds, in order; round 0 is the distillation.
    pub rounds: Vec<BankRound>,
    /// The trials in order, those of the round under way too; the last ones, if they are too many.
    pub trials: Vec<BankTrial>,
    /// How many trials are left out for their number.
    pub n_trials_left_out: usize,
    /// The skills, in the order of the bank.
    pub skills: Vec<BankSkill>,
    /// How many skills are left out for their number: retired ones first, then those that wait.
    pub n_skills_left_out: usize,
    /// The measured items, with the skills that each was shown.
    pub items: BankItems,
    /// What the agent did on items of the final evaluation with the bank, against the evaluation without it.
    pub trajectories: Trajectories,
    /// Skills by state: active, of these never measured, waiting (candidates and those in a trial), retired.
    pub counts: SkillCounts,
    /// Tokens of the episodes against those of the active skills; `None` if either is unknown.
    pub compression: Option<TokenCompression>,
    /// Trials by outcome.
    pub tried: TrialCounts,
    /// Rollouts of all trials of finished rounds.
    pub trial_rollouts: u64,
    /// Calls, tokens and money by stage: what the results of the run are made from.
    pub stages: Vec<StageRow>,
    /// All stages together.
    pub total: Option<StageRow>,
    /// What the run has sent.
    pub sent: SentRow,
}

/// The skills of a bank by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct SkillCounts {
    /// Agents are shown them.
    pub active: usize,
    /// Of these, those that were never measured.
    pub unmeasured: usize,
    /// Candidates, those in a trial too.
    pub waiting: usize,
    /// No longer shown.
    pub retired: usize,
    /// Kept as they are by a person.
    pub pinned: usize,
    /// Of the active ones, those that are recorded episodes and not skills.
    #[serde(skip_serializing_if = "is_zero")]
    pub episodes: usize,
}

/// The trials of a run by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct TrialCounts {
    /// All of them.
    pub all: usize,
    /// Those that admitted a skill, or kept one whose retirement was tried.
    pub admitted: usize,
    /// Those that rejected a skill, or retired one.
    pub rejected: usize,
    /// Those that decided nothing.
    pub undecided: usize,
    /// Those for which no task was found.
    pub not_tried: usize,
}

impl TrialCounts {
    fn of(trials: &[BankTrial]) -> Self {
        let n = |phase: TrialPhase| trials.iter().filter(|trial| trial.phase == phase).count();
        Self {
            all: trials.len(),
            admitted: n(TrialPhase::Admitted),
            rejected: n(TrialPhase::Rejected),
            undecided: n(TrialPhase::Undecided),
            not_tried: n(TrialPhase::NotTried),
        }
    }
}

impl BankReport {
    /// Reads a run that trains a bank.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be, and a run that does not train a bank
    /// ([`PipelineError::Bank`]). Files that do not exist yet are not errors.
    pub fn read(run: &RunReader, options: &ReportOptions) -> Result<Self, ReportError> {
        let (summary, records) = (read_bank_summary(run.path())?, records(run.path())?);
        let bank = bank_of(run.path(), summary.is_some() || !records.is_empty())?;
        let evaluations = Evaluations::read(run, &records, summary.as_ref())?;
        let Standing { phase, reason, hint } = Standing::of(run.path(), summary.is_some());
        let live = run.live();
        let tokens = tokens(run, &records, summary.as_ref())?;
        let stages = stages(&tokens);
        let sent = sent(run, tokens)?;
        let selection = evaluations.selection(&records, summary.as_ref());
        let test = evaluations.test(summary.as_ref());
        let baseline = evaluations.baseline(summary.as_ref());
        let mut trials = trials::of(&bank, &records);
        let tried = TrialCounts::of(&trials);
        let n_trials_left_out = trials.len().saturating_sub(options.max_trials);
        trials.drain(..n_trials_left_out);
        let skills = skills::of(&bank, &records, &evaluations, options);
        let counts = SkillCounts::of(&bank);
        let trajectories = match (&evaluations.test, &evaluations.selection) {
            (Some([before, after]), _) => choose("test", before, after, options),
            (None, Some([before, after])) => choose("selection", before, after, options),
            (None, None) => Trajectories::default(),
        };
        let env = run.config().config.pointer("/env/kind").and_then(|kind| kind.as_str());
        let has_unmeasured = bank
            .log()
            .iter()
            .any(|record| matches!(record.event, BankEvent::Admitted { basis: Basis::Unmeasured, .. }));
        Ok(Self {
            name: name_of(run.path()),
            env: env.unwrap_or_default().to_owned(),
            phase,
            reason,
            hint,
            total_rounds: summary
                .as_ref()
                .map(|summary| summary.rounds)
                .or(live.as_ref().map(|live| live.total_steps))
                .or_else(|| total_steps(run, None)),
            live,
            is_stop_requested: phase == RunPhase::Training && is_stop_requested(run.path()),
            setup: Setup::read(run, sent.seconds())?,
            verdict: verdict::of_scores(phase, [test.as_ref(), selection.as_ref()], &counts).with_cautions(
                verdict::cautions(phase, test.as_ref(), &tried, &counts, has_unmeasured)
                    .into_iter()
                    .chain(simulated(run))
                    .chain(uncounted(&sent))
                    .chain(verdict::left_out(run)),
            ),
            items: items::of(&evaluations, &records, options.max_items),
            baseline,
            selection,
            test,
            rounds: records.iter().map(|record| BankRound::of(record, baseline)).collect(),
            trial_rollouts: records
                .iter()
                .flat_map(|record| &record.trials)
                .map(|trial| trial.rollouts)
                .fold(0, u64::saturating_add),
            n_trials_left_out,
            trials,
            compression: TokenCompression::new(
                records.iter().filter_map(|record| record.episode_tokens).sum(),
                bank.skills().filter_map(|skill| skill.active()),
            ),
            tried,
            n_skills_left_out: bank.skills().len().saturating_sub(skills.len()),
            skills,
            trajectories,
            counts,
            total: total(&stages),
            stages,
            sent: sent.into(),
        })
    }

    /// Prices the stages by what each cost; the total is that of the stages that have a price.
    pub fn price(&mut self, costs: &IndexMap<String, f64>) {
        for stage in &mut self.stages {
            stage.money = costs.get(&stage.stage).copied();
        }
        self.total = total(&self.stages);
    }

    /// The skill of this id.
    pub fn skill(&self, id: &str) -> Option<&BankSkill> {
        self.skills.iter().find(|skill| skill.id.as_str() == id)
    }

    /// A line for each active skill: its tier and its texts.
    pub(crate) fn active_lines(&self) -> String {
        let active = self.skills.iter().filter(|skill| skill.state == State::Active);
        let line = |skill: &BankSkill| {
            let version = skill.versions.iter().find(|version| version.number == skill.version);
            let texts = version.into_iter().flat_map(|version| &version.texts);
            let texts: Vec<String> = texts.map(|(_, text)| text.replace('\n', " ")).collect();
            format!("{}: {}\n", skill.tier_name, texts.join(" · "))
        };
        active.map(line).collect()
    }

    /// The trial that is under way.
    pub fn open_trial(&self) -> Option<&BankTrial> {
        self.trials.iter().rev().find(|trial| trial.phase == TrialPhase::Open)
    }

    /// The last validation: its round and the score of the bank on the validation split.
    pub fn last_validation(&self) -> Option<(u32, BankScore)> {
        self.rounds.iter().rev().find_map(|round| Some((round.round, round.validation?)))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl SkillCounts {
    /// The skills of a bank by state.
    pub fn of(bank: &Bank) -> Self {
        let mut counts = Self::default();
        for skill in bank.skills() {
            match skill.state() {
                State::Active => counts.active += 1,
                State::Candidate | State::Trial => counts.waiting += 1,
                State::Retired => counts.retired += 1,
            }
            counts.unmeasured += usize::from(skill.active().is_some_and(|version| version.utility.is_none()));
            counts.pinned += usize::from(skill.is_pinned);
            counts.episodes +=
                usize::from(skill.active().is_some_and(|version| version.content.is_episode()));
        }
        counts
    }
}

/// The records of the finished rounds, in order.
///
/// # Errors
///
/// A record that cannot be read or is not what it should be.
pub fn records(run: &Path) -> Result<Vec<RoundRecord>, PipelineError> {
    let dir = run.join(ROUNDS_DIR);
    (0_u32..)
        .map(|round| dir.join(format!("round_{round:04}")).join(RECORD_FILE))
        .take_while(|path| path.is_file())
        .map(|path| read_record(&path))
        .collect()
}

/// The bank of a run, which has none before its first event.
fn bank_of(run: &Path, has_records: bool) -> Result<Bank, PipelineError> {
    let dir = run.join(BANK_DIR);
    if dir.exists() || has_records { Ok(read_bank(&dir)?.bank) } else { Ok(Bank::new()) }
}

/// Calls and tokens by stage: those of the summary, or of the finished rounds.
fn tokens(
    run: &RunReader,
    records: &[RoundRecord],
    summary: Option<&BankSummary>,
) -> Result<TokensByStage, PipelineError> {
    if let Some(summary) = summary {
        return Ok(summary.tokens.clone());
    }
    let mut tokens = TokensByStage::default();
    for (stage, used) in records.iter().flat_map(|record| &record.tokens) {
        *tokens.entry(stage.clone()).or_default() += *used;
    }
    if records.is_empty()
        && let Some(baseline) = run.evaluation_summary(EvaluationDir::Baseline)?
    {
        tokens.insert("baseline".to_owned(), baseline.tokens);
    }
    Ok(tokens)
}

/// What the run has sent: by its journal, or else by these calls of its records.
fn sent(run: &RunReader, tokens: TokensByStage) -> Result<Sent, PipelineError> {
    Ok(match Sent::of(run)? {
        Sent::Files(_) => Sent::Files(tokens),
        Sent::Partial { problem, .. } => Sent::Partial { counted: Box::new(Sent::Files(tokens)), problem },
        sent @ Sent::Journal { .. } => sent,
    })
}
