//! A run that trains a bank, gathered from its directory, also while it is in progress.

mod brief;
mod items;
mod measured;
mod rounds;
mod skills;
mod trials;

pub use brief::{BankBrief, VerdictCounts};
pub use items::{BankItem, BankItemOutcome, BankItems};
pub use measured::{BankComparison, BankMeasurement, BankScore};
pub use rounds::BankRound;
pub use skills::{BankSkill, BankVersion};
pub use trials::{BankTrial, TrialPhase};

use super::conversation::{Trajectories, choose};
use super::standing::{RunPhase, Standing, total_steps};
use super::{ReportOptions, SentRow, StageRow, name_of, stages, total, unfinished};
use crate::ReportError;
use indexmap::IndexMap;
use measured::Evaluations;
use serde::Serialize;
use skill_bank::{Bank, BankEvent, Basis, State};
use skill_pipeline::bank::read_record;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::records::TokensByStage;
use skill_pipeline::records::bank::{BANK_DIR, BankSummary, RECORD_FILE, ROUNDS_DIR, RoundRecord};
use skill_pipeline::run_dir::live::LiveState;
use skill_pipeline::run_dir::{EvaluationDir, Sent, is_stop_requested, read_bank_summary};
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;

/// The most characters of a title in lists.
const MAX_TITLE_CHARACTERS: usize = 200;

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
    /// What the run came to, in one sentence; `None` before a bank is measured.
    pub sentence: Option<String>,
    /// The selection split without the bank; `None` before it is measured.
    pub baseline: Option<BankScore>,
    /// The selection split without the bank and with the bank of the last validation; `None` before that.
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
    /// What was not measured, and what the numbers do not say, one sentence each.
    pub not_measured: Vec<String>,
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
            sentence: sentence(test.as_ref(), selection.as_ref(), &counts),
            not_measured: not_measured(phase, test.as_ref(), &tried, &counts, has_unmeasured)
                .into_iter()
                .chain(left_out(run))
                .collect(),
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
            tried,
            n_skills_left_out: bank.skills().len().saturating_sub(skills.len()),
            skills,
            trajectories,
            counts,
            total: total(&stages),
            stages,
            sent: sent(run, tokens)?.into(),
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

    /// The last validation: its round and the score of the bank on the selection split.
    pub fn last_validation(&self) -> Option<(u32, BankScore)> {
        self.rounds.iter().rev().find_map(|round| Some((round.round, round.validation?)))
    }
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
        sent @ Sent::Journal { .. } => sent,
    })
}

fn sentence(
    test: Option<&BankComparison>,
    selection: Option<&BankComparison>,
    counts: &SkillCounts,
) -> Option<String> {
    let bank = match counts.active {
        0 => return Some("No skill is active, so the bank changes nothing.".to_owned()),
        1 => "the bank of 1 skill".to_owned(),
        active => format!("the bank of {active} skills"),
    };
    match (test, selection) {
        (Some(test), _) => Some(format!("On {} {bank} {}", test.items_in_words("test"), test.in_words())),
        (None, Some(selection)) => Some(format!(
            "On {} {bank} {} The test split was not read.",
            selection.items_in_words("selection"),
            selection.in_words()
        )),
        (None, None) => None,
    }
}

/// What a reader should know before believing the numbers.
/// The phases that a run of simulated models in a built-in world could have had.
fn left_out(run: &RunReader) -> Option<String> {
    let kind = run.config().config.pointer("/env/kind").and_then(serde_json::Value::as_str)?;
    let is_simulated = run.config().simulated_models.iter().any(|role| role == "target");
    match (is_simulated, kind) {
        (true, "alfworld") => Some(
            "No weights were trained: fine-tuning and GRPO are left out. `train.mode = \"weights\"` has them, in a program \
             built with `--features full`."
                .to_owned(),
        ),
        (true, "webshop") => Some(
            "No weights were trained: fine-tuning and GRPO are left out, since the policy that comes with the program \
             plays households only."
                .to_owned(),
        ),
        _ => None,
    }
}

fn not_measured(
    phase: RunPhase,
    test: Option<&BankComparison>,
    tried: &TrialCounts,
    counts: &SkillCounts,
    has_unmeasured: bool,
) -> Vec<String> {
    let mut said: Vec<String> = unfinished(phase).into_iter().collect();
    match test {
        Some(_) => {}
        None if phase == RunPhase::Finished => said.push(
            "The test split was not read, so nothing is known about tasks that took no part in training."
                .to_owned(),
        ),
        None => said.push("The test split is read once, at the end.".to_owned()),
    }
    if test.is_some_and(|test| test.paired.is_none()) {
        said.push(
            "The run was made by a version that kept no results of single items: the difference on the test split has \
             no interval."
                .to_owned(),
        );
    }
    if has_unmeasured {
        said.push(
            "Skills were admitted without a trial (`bank.admit = \"unmeasured\"`, or an initial bank): nothing shows \
             that they help."
                .to_owned(),
        );
    }
    if counts.unmeasured > 0 {
        said.push(format!("{} of {} active skills were never measured.", counts.unmeasured, counts.active));
    }
    if tried.undecided > 0 {
        said.push(format!(
            "{} of {} trials decided nothing: their rollouts could not tell whether the skill helps.",
            tried.undecided, tried.all
        ));
    }
    if tried.admitted > 0 {
        said.push(
            "The measurement that admits a skill is too good on average; the one after admission is not."
                .to_owned(),
        );
    }
    said
}
