//! Where a run is, in short: for lists of runs, and for those who look on while it works.

use super::bank::{BankBrief, BankScore};
use super::kinds::row_of;
use super::phases::PhasesBrief;
use super::rl::RlBrief;
use super::sft::SftBrief;
use super::standing::{RunPhase, Standing, total_steps};
use super::verdict::n_unread;
use super::{models, name_of, uncounted};
use crate::verdict::Verdict;
use serde::Serialize;
use serde_json::Value;
use skill_core::GateMetric;
use skill_llm::error::with_causes;
use skill_pipeline::records::StageTokens;
use skill_pipeline::records::summary::ProposalCounts;
use skill_pipeline::run_dir::atomic::failed;
use skill_pipeline::run_dir::live::LiveState;
use skill_pipeline::run_dir::{EvaluationDir, Sent, is_run, is_stop_requested};
use skill_pipeline::settings::Protocol;
use skill_pipeline::{PipelineError, RunReader, Summary};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where a run is.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunOverview {
    /// The name of its directory.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// What it is doing.
    pub phase: RunPhase,
    /// The environment, if it is known.
    pub env: String,
    /// Steps that are finished.
    pub n_steps: u32,
    /// Steps of the whole run, if that is known.
    pub total_steps: Option<u32>,
    /// The gate's score of the initial skill.
    pub baseline: Option<f64>,
    /// The gate's score of the current skill.
    pub current: Option<f64>,
    /// The gate's score of the best skill.
    pub best: Option<f64>,
    /// The step that made the best skill; 0 is the first one.
    pub best_step: Option<u32>,
    /// The models by their part in it, such as `target`.
    pub models: Vec<(String, String)>,
    /// Candidates that were accepted; of a bank those that trials admitted.
    pub n_accepted: usize,
    /// Candidates that were measured and not accepted.
    pub n_rejected: usize,
    /// Counts of the proposals of a planned search; `None` for any other run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposals: Option<ProposalCounts>,
    /// Steps without an evaluation; of a bank the trials that decided nothing.
    pub n_skipped: usize,
    /// The score on the test split of the first and of the best skill, once it is measured.
    pub test: Option<[f64; 2]>,
    /// What it came to, once it has come to its end; without cautions.
    pub verdict: Option<Verdict>,
    /// The metric of all these scores: the gate's.
    pub metric: GateMetric,
    /// Whether `best_skill.md` is not as the run left it.
    pub is_best_changed: bool,
    /// What the finished steps and evaluations used.
    pub used: StageTokens,
    /// Requests that were sent, by [`Sent`]; without a journal, the calls that its results are made from.
    pub calls: u64,
    /// Tokens of the same, prompts and replies.
    pub tokens: u64,
    /// What they cost by the prices of the configuration, where they were asked for and it has any.
    pub money: Option<f64>,
    /// True if nothing was sent for the replies of the run: a replay, for example.
    pub is_replay: bool,
    /// The models of the requests, to price them by; `None` where its files cannot be read.
    #[serde(skip)]
    pub sent: Option<Sent>,
    /// What the process that works on it is doing.
    pub live: Option<LiveState>,
    /// Whether somebody has asked that process to stop.
    pub is_stop_requested: bool,
    /// What stopped or interrupted it, or what is wrong with its files.
    pub reason: Option<String>,
    /// What can be done about it, as the process said that was stopped by it.
    pub hint: Option<String>,
    /// Numbers that are missing or incomplete since a file cannot be read, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// What only runs of its kind have; `None` for a run that trains a document. In JSON a field of the kind's name.
    #[serde(flatten)]
    pub brief: Option<Brief>,
}

/// Where a run is that trains something else than a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Brief {
    /// A bank: rounds are the steps of the overview, and its scores are those without the bank and with the bank of the
    /// last validation.
    Bank(Box<BankBrief>),
    /// Fine-tuning, whose optimizer steps are the steps of the overview; it has none of its scores.
    Sft(Box<SftBrief>),
    /// Several phases, which are the steps of the overview.
    Phases(Box<PhasesBrief>),
    /// Reinforcement learning, whose iterations are the steps of the overview; it has none of its scores.
    Rl(Box<RlBrief>),
}

/// The verdict on a finished run that trains a document.
pub(super) fn of_document(run: &RunReader) -> Result<Option<Verdict>, PipelineError> {
    let Some(summary) = run.summary()? else { return Ok(None) };
    let test = run.evaluation_summary(EvaluationDir::TestBaseline)?;
    let has_candidate = summary.total_accepts + summary.total_rejects + summary.total_indecisive > 0;
    let n_unread = if has_candidate { 0 } else { n_unread(&run.history()?) };
    Ok(Some(Verdict::of_finished(&summary, test.map(|test| test.n), n_unread)))
}

impl RunOverview {
    /// Reads where a run is. What cannot be read makes it [`RunPhase::Damaged`], with what is wrong.
    ///
    /// # Errors
    ///
    /// A directory without a run.
    pub fn read(path: &Path) -> Result<Self, PipelineError> {
        match Self::of_files(path).and_then(Self::with_process) {
            Err(error @ PipelineError::NoRun { .. }) => Err(error),
            Err(error) => Ok(Self { reason: Some(with_causes(&error)), ..Self::unknown(path) }),
            Ok(status) => Ok(status),
        }
    }

    /// Reads what the files of a run say, without what its process is doing and what it has sent.
    ///
    /// # Errors
    ///
    /// A directory without a run, and a file that cannot be read or is not what it should be.
    pub fn of_files(path: &Path) -> Result<Self, PipelineError> {
        let run = RunReader::open(path)?;
        let files = status(&run)?;
        let kind = row_of(path);
        let overview = (kind.brief)(files, &run)?;
        let is_finished = overview.phase == RunPhase::Finished;
        let verdict = if is_finished { (kind.verdict)(&overview, &run)? } else { None };
        Ok(Self { verdict, ..overview })
    }

    /// Adds what the process of the run is doing, and what was sent.
    fn with_process(mut self) -> Result<Self, PipelineError> {
        let run = RunReader::open(&self.path)?;
        let sent = Sent::of(&run)?;
        self.live = run.live();
        self.calls = sent.requests();
        self.is_replay = sent.is_replay();
        match self.brief {
            Some(Brief::Sft(_) | Brief::Rl(_)) => {}
            Some(Brief::Bank(_) | Brief::Phases(_)) | None => self.tokens = sent.tokens(),
        }
        if let Some(live) =
            self.live.as_ref().filter(|_| self.phase != RunPhase::Finished && !self.trains_weights())
        {
            self.total_steps = Some(live.total_steps);
        }
        self.cautions.extend(uncounted(&sent).map(|caution| caution.words));
        self.sent = Some(sent);
        Ok(self)
    }

    pub(super) fn with_bank(self, bank: BankBrief) -> Self {
        let hard = |score: Option<BankScore>| score.map(|score| score.hard);
        let last = hard(bank.validation);
        Self {
            n_steps: bank.last_round.unwrap_or_default(),
            baseline: hard(bank.baseline),
            current: last,
            best: last,
            n_accepted: bank.trials.admitted,
            n_rejected: bank.trials.rejected,
            n_skipped: bank.trials.undecided,
            used: bank.used,
            test: bank.test.map(|scores| scores.map(|score| score.hard)),
            metric: GateMetric::Hard,
            brief: Some(Brief::Bank(Box::new(bank))),
            ..self
        }
    }

    pub(super) fn with_phases(self, phases: PhasesBrief) -> Self {
        let steps = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
        let Standing { phase, reason, hint } = Standing::of(&self.path, phases.is_finished);
        Self {
            phase,
            reason,
            hint,
            is_stop_requested: phase == RunPhase::Training && self.is_stop_requested,
            n_steps: steps(phases.n_finished()),
            total_steps: Some(steps(phases.phases.len())),
            test: phases.first_and_last().map(|found| found.map(|found| found.games.score)),
            brief: Some(Brief::Phases(Box::new(phases))),
            ..self
        }
    }

    pub(super) fn with_sft(self, sft: SftBrief) -> Self {
        let steps = |steps: u64| u32::try_from(steps).unwrap_or(u32::MAX);
        Self {
            n_steps: steps(sft.step),
            total_steps: sft.total_steps.map(steps),
            tokens: sft.tokens,
            brief: Some(Brief::Sft(Box::new(sft))),
            ..self
        }
    }

    pub(super) fn with_rl(self, rl: RlBrief) -> Self {
        let steps = |steps: u64| u32::try_from(steps).unwrap_or(u32::MAX);
        // That it is finished is in a summary of its own.
        let Standing { phase, reason, hint } = Standing::of(&self.path, rl.is_finished);
        Self {
            phase,
            reason,
            hint,
            is_stop_requested: phase == RunPhase::Training && self.is_stop_requested,
            n_steps: steps(rl.iteration),
            total_steps: rl.total_iterations.map(steps),
            tokens: rl.tokens,
            brief: Some(Brief::Rl(Box::new(rl))),
            ..self
        }
    }

    /// A run of which nothing is known; it is [`RunPhase::Damaged`].
    pub fn unknown(path: &Path) -> Self {
        Self { name: name_of(path), path: path.to_owned(), ..Self::default() }
    }
}

impl RunOverview {
    /// The bank, for a run that trains one and no weights.
    pub fn bank(&self) -> Option<&BankBrief> {
        if let Some(Brief::Bank(bank)) = &self.brief { Some(bank) } else { None }
    }

    /// The course of a run that fine-tunes.
    pub fn sft(&self) -> Option<&SftBrief> {
        if let Some(Brief::Sft(sft)) = &self.brief { Some(sft) } else { None }
    }

    /// The phases of a run that goes through several.
    pub fn phases(&self) -> Option<&PhasesBrief> {
        if let Some(Brief::Phases(phases)) = &self.brief { Some(phases) } else { None }
    }

    /// The course of a run of reinforcement learning.
    pub fn rl(&self) -> Option<&RlBrief> {
        if let Some(Brief::Rl(rl)) = &self.brief { Some(rl) } else { None }
    }

    /// True if the run recorded what it sent. A run with steps and without a call did not, unless it is a replay: it was
    /// imported from a program that does not count, or its stages were answered without counts.
    pub fn knows_calls(&self) -> bool {
        self.calls > 0 || self.n_steps == 0 || self.is_replay
    }

    /// True if the run recorded its tokens, see [`Self::knows_calls`].
    pub fn knows_tokens(&self) -> bool {
        self.tokens > 0 || self.calls == 0 && self.n_steps == 0 || self.is_replay
    }
}

/// The runs in a directory: the directory itself, or those at most two levels below it, by path.
///
/// Links are not followed, so that nothing outside the directory is found. A path at which no directory is has no runs,
/// and a directory below that cannot be read is passed over with a warning in the log.
///
/// # Errors
///
/// A directory that cannot be read.
pub fn runs_in(dir: &Path) -> Result<Vec<PathBuf>, PipelineError> {
    let mut found = Vec::new();
    match collect(dir, 2, &mut found) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Err(failed("read", dir)(error));
        }
        Ok(()) | Err(_) => {}
    }
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, levels: u32, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if is_run(dir) {
        found.push(dir.to_owned());
        return Ok(());
    }
    let Some(levels) = levels.checked_sub(1) else { return Ok(()) };
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if let Err(error) = collect(&entry.path(), levels, found) {
            tracing::warn!(%error, dir = %entry.path().display(), "a directory cannot be read");
        }
    }
    Ok(())
}

/// Counts of the proposals of a planned search so far; `None` for any other run.
fn proposals(run: &RunReader) -> Result<Option<ProposalCounts>, PipelineError> {
    let protocol = run.config().config.pointer("/train/protocol").and_then(Value::as_str);
    match protocol.and_then(Protocol::parse) {
        Some(Protocol::Auto) => {
            Ok(Some(ProposalCounts::of(&run.history()?)).filter(|counts| counts.made > 0))
        }
        Some(Protocol::Paper) | None => Ok(None),
    }
}

fn status(run: &RunReader) -> Result<RunOverview, PipelineError> {
    let (state, totals, summary) = (run.state()?, run.totals()?, run.summary()?);
    let Standing { phase, reason, hint } = Standing::of(run.path(), summary.is_some());
    // That of an imported run is in its summary alone.
    let of_config = || run.config().config.pointer("/env/kind")?.as_str().map(str::to_owned);
    let metric_of_config = run.gate()?.map(|gate| gate.metric);
    let env = summary.as_ref().map(|summary| summary.env.clone()).or_else(of_config);
    let test = summary.as_ref().and_then(Summary::test);
    Ok(RunOverview {
        phase,
        env: env.unwrap_or_default(),
        n_steps: state.as_ref().map_or(0, |state| state.last_completed_step.0),
        total_steps: total_steps(run, summary.as_ref().map(|summary| summary.total_steps)),
        baseline: totals.first_score.or(state.as_ref().map(|state| state.best_score)),
        current: state.as_ref().map(|state| state.current_score),
        best: state.as_ref().map(|state| state.best_score),
        best_step: state.as_ref().map(|state| state.best_step.0),
        models: models(run),
        n_accepted: totals.n_accepted,
        n_rejected: totals.n_rejected,
        proposals: proposals(run)?,
        n_skipped: totals.n_skipped,
        used: StageTokens::of_all(summary.as_ref().map_or(&totals.tokens, |summary| &summary.token_summary)),
        test,
        metric: summary.as_ref().map(Summary::test_metric).or(metric_of_config).unwrap_or_default(),
        is_best_changed: matches!(run.best_skill(), Err(PipelineError::ChangedSkill { .. })),
        reason,
        hint,
        is_stop_requested: phase == RunPhase::Training && is_stop_requested(run.path()),
        ..RunOverview::unknown(run.path())
    })
}
