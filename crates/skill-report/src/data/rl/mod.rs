//! A run of reinforcement learning as data: its course, its settings and what it came to.
//!
//! The files are read as they are, with no part of the program that trains: every build shows every run.

mod brief;
mod metrics;

pub use brief::RlBrief;
pub use metrics::{NOT_COMPUTED, RL_METRICS, RlMetric};

use super::games::of_games;
use super::setup::Setup;
use super::standing::{RunPhase, Standing};
use super::weights_files::{MAX_FILE_BYTES, lines, open, whole};
use super::{SentRow, name_of, simulated, uncounted, unfinished};
use crate::ReportError;
use crate::verdict::{Caution, CautionKind, Outcome, Verdict};
use crate::words::{counted, sentence};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use skill_pipeline::records::rl::{
    ITERATIONS_FILE, RlBankIteration, RlBankSummary, RlIteration, RlMeasured, RlSummary, RlTimes,
    RlValidation, SUMMARY_FILE, TIMES_FILE, VALIDATION_FILE,
};
use skill_pipeline::records::sft::POLICY_DIR;
use skill_pipeline::records::signs::{RlFinding, signs_of};
use skill_pipeline::run_dir::Sent;
use skill_pipeline::run_dir::atomic::failed;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Everything that a page shows of a run of reinforcement learning.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlReport {
    /// The name of its directory.
    pub name: String,
    /// The environment, if it is known.
    pub env: String,
    /// What it is doing.
    pub phase: RunPhase,
    /// What stopped or interrupted it.
    pub reason: Option<String>,
    /// What can be done about it.
    pub hint: Option<String>,
    /// When it began, how long it worked, and what it was asked to do.
    pub setup: Setup,
    /// What it has sent to providers.
    pub sent: SentRow,
    /// What the run came to, with what to know before the numbers are trusted.
    pub verdict: Verdict,
    /// Where it is.
    pub brief: RlBrief,
    /// Every finished iteration, in order.
    pub iterations: Vec<RlRow>,
    /// Types of tasks, with the share of won episodes by iteration.
    pub task_types: Vec<RlTaskType>,
    /// Every time that games were played, in order.
    pub validations: Vec<RlValidation>,
    /// Signs of a run that goes wrong which iterations have shown, also those that hold no longer.
    pub signs: Vec<RlFinding>,
    /// The bank in the loop, where there is one.
    pub bank: Option<RlBankReport>,
    /// Settings that decide the weights, by name.
    pub settings: Vec<(String, String)>,
    /// The directory with the trained model, once there is one.
    pub policy: Option<String>,
}

/// The bank in the loop of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlBankReport {
    /// Active skills after the last iteration.
    pub active: usize,
    /// Skills that became active, that were retired, and those of the latter that the policy no longer needs.
    pub changes: [usize; 3],
    /// The bank at the end, once the run is finished.
    pub summary: Option<RlBankSummary>,
    /// Measurements of active skills with the iteration in which they ended.
    pub measured: Vec<(u64, RlMeasured)>,
}

impl RlBankReport {
    fn new(files: &RlFiles) -> Option<Self> {
        let records =
            || files.iterations.iter().filter_map(|record| Some((record.iteration, record.bank.as_ref()?)));
        let (_, last) = records().next_back()?;
        let total =
            |of: fn(&RlBankIteration) -> &Vec<String>| records().map(|(_, bank)| of(bank).len()).sum();
        let measured = records().flat_map(|(iteration, bank)| {
            bank.measured.iter().map(move |measured| (iteration, measured.clone()))
        });
        Some(Self {
            active: last.active,
            changes: [
                total(|bank| &bank.admitted),
                total(|bank| &bank.retired),
                total(|bank| &bank.internalized),
            ],
            summary: files.summary.as_ref().and_then(|summary| summary.bank.clone()),
            measured: measured.collect(),
        })
    }
}

/// A finished iteration, with what follows from its record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlRow {
    /// The line of `iterations.jsonl`.
    pub record: RlIteration,
    /// The share of episodes that solved their task.
    pub won: f64,
    /// The mean number of sampled tokens of an episode.
    pub reply_tokens: f64,
    /// The mean number of invalid actions of an episode.
    pub invalid_actions: f64,
    /// When it ended, in milliseconds since 1970, where the events of the run have it.
    pub unix_ms: Option<u64>,
    /// How long the iteration took in seconds, where the events of the run have it.
    pub seconds: Option<f64>,
    /// Sampled tokens per second of the whole iteration.
    pub tokens_per_second: Option<f64>,
}

impl RlRow {
    pub(crate) fn new(record: RlIteration, seconds: Option<f64>) -> Self {
        let per_episode = |number: f64| number / record.episodes.max(1) as f64;
        Self {
            won: per_episode(record.won as f64),
            reply_tokens: per_episode(record.sampled_tokens as f64),
            invalid_actions: per_episode(record.invalid_actions as f64),
            unix_ms: None,
            seconds,
            tokens_per_second: seconds
                .filter(|seconds| *seconds > 0.0)
                .map(|seconds| record.sampled_tokens as f64 / seconds),
            record,
        }
    }
}

/// A type of task over the course of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlTaskType {
    /// Its name.
    pub name: String,
    /// Won and played episodes of the first iteration that played it.
    pub first: [usize; 2],
    /// Those of the last one.
    pub last: [usize; 2],
    /// Those of all iterations together.
    pub all: [usize; 2],
    /// The share of won episodes, by iterations that played it.
    pub won: Vec<(u64, f64)>,
}

impl RlReport {
    /// Reads a run, also one in progress.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be. Files that do not exist yet are not errors.
    pub fn read(run: &RunReader) -> Result<Self, ReportError> {
        let path = run.path();
        let files = RlFiles::read(path)?;
        let config = run.config();
        let env = config.config.pointer("/env/kind").and_then(serde_json::Value::as_str);
        let brief = RlBrief::of(run, &files);
        let Standing { phase, reason, hint } = Standing::of(path, brief.is_finished);
        let settings = config.identity.iter().filter(|(name, _)| {
            ["rl.", "run.seed", "models.policy", "skills"].iter().any(|prefix| name.starts_with(prefix))
        });
        let (policy, sent) = (path.join(POLICY_DIR), Sent::of(run)?);
        let signs = brief.signs.iter().map(|found| {
            let words = sentence(&format!("{}; {}.", found.message, found.advice));
            Caution::new(CautionKind::Sign, words)
        });
        let signs: Vec<Caution> = signs.collect();
        let mut finished = finished_iterations(path)?;
        Ok(Self {
            name: name_of(path),
            env: env.unwrap_or_default().to_owned(),
            phase,
            reason,
            hint,
            setup: Setup::read(run, brief.seconds)?,
            verdict: verdict(files.summary.as_ref().filter(|_| brief.is_finished), &files.iterations)
                .with_cautions(
                    unfinished(phase).into_iter().chain(simulated(run)).chain(uncounted(&sent)).chain(signs),
                ),
            sent: sent.into(),
            brief,
            settings: settings.map(|(name, value)| (name.clone(), value.to_string())).collect(),
            policy: policy.is_dir().then(|| policy.display().to_string()),
            bank: RlBankReport::new(&files),
            task_types: task_types(&files.iterations),
            signs: signs_of(&files.iterations),
            iterations: files
                .iterations
                .into_iter()
                .map(|record| {
                    let finished = finished.remove(&record.iteration);
                    let seconds = finished.as_ref().map(|finished| finished.seconds);
                    let unix_ms = finished.and_then(|finished| finished.unix_ms);
                    RlRow { unix_ms, ..RlRow::new(record, seconds) }
                })
                .collect(),
            validations: files.validations,
        })
    }
}

/// The files of a run.
struct RlFiles {
    iterations: Vec<RlIteration>,
    validations: Vec<RlValidation>,
    summary: Option<RlSummary>,
    times: Option<RlTimes>,
}

impl RlFiles {
    fn read(path: &Path) -> Result<Self, PipelineError> {
        Ok(Self {
            iterations: lines(&path.join(ITERATIONS_FILE))?,
            validations: lines(&path.join(VALIDATION_FILE))?,
            summary: whole(&path.join(SUMMARY_FILE))?,
            times: whole(&path.join(TIMES_FILE))?,
        })
    }
}

fn task_types(iterations: &[RlIteration]) -> Vec<RlTaskType> {
    let mut types: IndexMap<&str, RlTaskType> = IndexMap::new();
    for record in iterations {
        for (name, [won, played]) in &record.by_task_type {
            let found = types.entry(name).or_insert_with(|| RlTaskType {
                name: name.clone(),
                first: [*won, *played],
                last: [0, 0],
                all: [0, 0],
                won: Vec::new(),
            });
            found.last = [*won, *played];
            found.all = [found.all[0] + won, found.all[1] + played];
            found.won.push((record.iteration, *won as f64 / (*played).max(1) as f64));
        }
    }
    types.sort_keys();
    types.into_values().collect()
}

/// The line of an event that says how long an iteration took.
#[derive(Deserialize)]
struct Finished {
    record: Numbered,
    seconds: f64,
    unix_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Numbered {
    iteration: u64,
}

/// How long each iteration took, by the events of the run: of one that was done again, the last time counts.
fn finished_iterations(path: &Path) -> Result<BTreeMap<u64, Finished>, PipelineError> {
    let path = path.join("events.jsonl");
    let mut found = BTreeMap::new();
    let Some(file) = open(&path)? else { return Ok(found) };
    let mut reader = BufReader::new(file.take(MAX_FILE_BYTES));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).map_err(failed("read", &path))? > 0 {
        // Most events are others, and a line that is still being written is none.
        let is_meant = line.windows(EVENT.len()).any(|part| part == EVENT);
        if let (true, Ok(event)) = (is_meant, serde_json::from_slice::<Finished>(&line)) {
            found.insert(event.record.iteration, event);
        }
        line.clear();
    }
    Ok(found)
}

const EVENT: &[u8] = b"\"rl_iteration_finished\"";

/// The verdict on a finished run.
pub(super) fn verdict_of(path: &Path) -> Result<Verdict, PipelineError> {
    let files = RlFiles::read(path)?;
    Ok(verdict(files.summary.as_ref(), &files.iterations))
}

/// The games or the episodes won, before and after.
fn verdict(summary: Option<&RlSummary>, iterations: &[RlIteration]) -> Verdict {
    let n_won: usize = iterations.iter().map(|record| record.won).sum();
    let n_played: usize = iterations.iter().map(|record| record.episodes).sum();
    let n_steps: u64 = iterations.iter().map(|record| record.steps).sum();
    let Some(summary) = summary else {
        return Verdict::new(Outcome::Unfinished, format!("{n_won} of {n_played} episodes won so far"));
    };
    if n_steps == 0 {
        let why = match n_won {
            0 => "no episode was won, so no weight changed".to_owned(),
            _ => "all episodes of each group had the same return, so no weight changed".to_owned(),
        };
        return Verdict::new(
            Outcome::NothingLearned,
            format!(
                "{why} ({n_won} of {n_played} episodes won in {})",
                counted(summary.iterations, "iteration")
            ),
        );
    }
    if let (Some(before), Some(after)) = (summary.before, summary.after) {
        return of_games(before, after);
    }
    let words = match (iterations.first(), iterations.last()) {
        (Some(first), Some(last)) => format!(
            "{} of {} sampled episodes won in the last iteration and {} of {} in the first",
            last.won, last.episodes, first.won, first.episodes
        ),
        _ => counted(summary.iterations, "iteration"),
    };
    Verdict::new(
        Outcome::Trained,
        format!("{words}; no games were played, so what that is worth is not known"),
    )
}
