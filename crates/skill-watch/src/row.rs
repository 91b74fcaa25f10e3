//! One run in short: what a list of runs shows of it.

use crate::discover::Found;
use crate::log::last_known_length;
use crate::signature::changed_unix_ms;
use crate::spend::{Ledger, Spent};
use serde::Serialize;
use skill_core::gate::Gate;
use skill_pipeline::kind::RunKind;
use skill_pipeline::records::StageTokens;
use skill_pipeline::run_dir::live::WorkerPulse;
use skill_pipeline::run_dir::{RunTotals, is_stop_requested};
use skill_pipeline::{PipelineError, RunReader, Summary};
use skill_report::{BankBrief, BankScore, RlBrief, RunPhase, SftBrief, fine_tunes, reinforces};
use skillrl::spend::Spending;
use std::path::Path;

/// A run in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The way to it from the root directory.
    pub name: String,
    /// How it is.
    pub state: RunPhase,
    /// What is wrong with its files.
    pub problem: Option<String>,
    /// Somebody asked for a stop, and the process has not come to it yet.
    pub is_stop_requested: bool,
    /// What is in its files.
    pub files: Files,
    /// What it has spent; `None` where nobody can say.
    pub spent: Option<Spent>,
    /// The workers on other machines, while a process works on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerPulse>,
    /// When one of its files changed last, in milliseconds since 1970.
    pub changed_unix_ms: u64,
}

/// What is in the files of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Files {
    /// The run has come to its end.
    pub is_finished: bool,
    /// The environment's name.
    pub env: String,
    /// Its models by their part in it, such as `target`.
    pub models: Vec<(String, String)>,
    /// Steps that are finished.
    pub n_steps: u32,
    /// Steps of the whole run, where that is known.
    pub total_steps: Option<u32>,
    /// Steps whose candidate was accepted.
    pub n_accepted: usize,
    /// Steps whose candidate was measured and not accepted.
    pub n_rejected: usize,
    /// Steps without an evaluation.
    pub n_skipped: usize,
    /// The step that made the best skill; 0 is the initial one.
    pub best_step: u32,
    /// The score of the first skill on the selection split.
    pub baseline: Option<f64>,
    /// The score of the current skill there.
    pub current: Option<f64>,
    /// The score of the best skill there.
    pub best: Option<f64>,
    /// The score of the first skill on the test split, by the gate's metric.
    pub test_before: Option<f64>,
    /// That of the best skill.
    pub test_after: Option<f64>,
    /// What the finished steps and evaluations used.
    pub used: StageTokens,
    /// The bank, for a run that trains one: rounds are its steps, admissions what it accepted, and the scores those
    /// without the bank and with the bank of the last validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bank: Option<Box<BankBrief>>,
    /// The course of a run that fine-tunes: the optimizer's steps are its steps, and it has none of the scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sft: Option<Box<SftBrief>>,
    /// The course of a run of reinforcement learning: its iterations are its steps, and it has none of the scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rl: Option<Box<RlBrief>>,
}

impl Row {
    /// The row of a run, whose files may be known.
    pub(crate) fn of(found: &Found, files: Result<Files, String>, ledger: &Ledger) -> Self {
        let path = &found.path;
        let (files, problem) = match files {
            Ok(files) => (files, None),
            Err(problem) => (Files::default(), Some(problem)),
        };
        let state = match &problem {
            Some(_) => RunPhase::Damaged,
            None => RunPhase::of(path, files.is_finished),
        };
        let spent = match state {
            RunPhase::Damaged => None,
            RunPhase::Training => ledger.spent_now(path),
            RunPhase::Finished | RunPhase::Stopped | RunPhase::Interrupted => ledger.spent_at_rest(path),
        };
        let workers = match state {
            RunPhase::Training => workers_of(path),
            RunPhase::Damaged | RunPhase::Finished | RunPhase::Stopped | RunPhase::Interrupted => Vec::new(),
        };
        Self {
            name: found.name.clone(),
            state,
            problem,
            is_stop_requested: state == RunPhase::Training && is_stop_requested(path),
            files,
            spent,
            workers,
            changed_unix_ms: changed_unix_ms(path),
        }
    }
}

/// The workers of a run that a process works on.
fn workers_of(path: &Path) -> Vec<WorkerPulse> {
    let live = RunReader::open(path).ok().and_then(|reader| reader.live());
    live.map(|live| live.pulse.workers).unwrap_or_default()
}

impl Files {
    /// Reads them; what is wrong is said in words.
    pub(crate) fn read(found: &Found) -> Result<Self, String> {
        if let Some(link) = &found.leaving {
            return Err(format!(
                "{link} is a link that leaves the served directory; nothing of this run is read"
            ));
        }
        Self::of_run(&found.path).map_err(|error| found.problem(&error))
    }

    fn with_bank(self, bank: BankBrief) -> Self {
        let hard = |score: Option<BankScore>| score.map(|score| score.hard);
        let (last, test) = (hard(bank.validation), bank.test.map(|scores| scores.map(|score| score.hard)));
        Self {
            is_finished: bank.is_finished,
            n_steps: bank.last_round.unwrap_or_default(),
            n_accepted: bank.trials.admitted,
            n_rejected: bank.trials.rejected,
            n_skipped: bank.trials.undecided,
            baseline: hard(bank.baseline),
            current: last,
            best: last,
            test_before: test.map(|[before, _]| before),
            test_after: test.map(|[_, after]| after),
            used: bank.used,
            bank: Some(Box::new(bank)),
            ..self
        }
    }

    fn with_sft(self, sft: SftBrief) -> Self {
        let steps = |steps: u64| u32::try_from(steps).unwrap_or(u32::MAX);
        Self {
            is_finished: sft.is_finished,
            n_steps: steps(sft.step),
            total_steps: sft.total_steps.map(steps),
            sft: Some(Box::new(sft)),
            ..self
        }
    }

    fn with_rl(self, rl: RlBrief) -> Self {
        let steps = |steps: u64| u32::try_from(steps).unwrap_or(u32::MAX);
        Self {
            is_finished: rl.is_finished,
            n_steps: steps(rl.iteration),
            total_steps: rl.total_iterations.map(steps),
            rl: Some(Box::new(rl)),
            ..self
        }
    }

    fn of_run(path: &Path) -> Result<Self, PipelineError> {
        let run = RunReader::open(path)?;
        let (state, summary) = (run.state()?, run.summary()?);
        let env = summary.as_ref().map(|summary| summary.env.clone());
        let env = env.or_else(|| run.config().config.pointer("/env/kind")?.as_str().map(str::to_owned));
        let mut files = Self {
            is_finished: summary.is_some(),
            env: env.unwrap_or_default(),
            models: skill_report::models(&run),
            total_steps: last_known_length(path),
            ..Self::default()
        };
        if RunKind::Bank.is_at(path) {
            return Ok(files.with_bank(BankBrief::read(&run)?));
        }
        if fine_tunes(path) {
            return Ok(files.with_sft(SftBrief::read(&run)?));
        }
        if reinforces(path) {
            return Ok(files.with_rl(RlBrief::read(&run)?));
        }
        let Some(state) = state else { return Ok(files) };
        let RunTotals { n_accepted, n_rejected, n_skipped, tokens, .. } = run.totals()?;
        files.used = StageTokens::of_all(summary.as_ref().map_or(&tokens, |summary| &summary.token_summary));
        let spending = Spending::of(&run);
        let gate = spending.as_ref().map_or_else(Gate::default, Spending::gate);
        let n_steps = state.last_completed_step.0;
        let test = summary.as_ref().and_then(Summary::test);
        Ok(Self {
            n_steps,
            // A finished run has as many as it has; the log of an imported one says nothing.
            total_steps: if files.is_finished { Some(n_steps) } else { files.total_steps },
            n_accepted,
            n_rejected,
            n_skipped,
            best_step: state.best_step.0,
            baseline: Some(gate.score(state.baseline)),
            current: Some(state.current_score),
            best: Some(state.best_score),
            test_before: test.map(|[before, _]| before),
            test_after: test.map(|[_, after]| after),
            ..files
        })
    }
}
