//! A run directory for those who only look: without its lock, while the run is in progress too.

use super::evaluation::{EvaluationDir, ONE_SHOT_SKILL, evaluation_path};
use super::history::{self, history_path, lacks_a_step, read_history};
use super::live::{self, LiveState};
use super::path::{
    COMPARISON_PAIRS, CONFIG_FILE, RESULTS_FILE, ROLLOUTS_FILE, SUMMARY_FILE, slow_update_path, step_path,
};
use super::read::{is_held, read_config, read_epoch_end, read_json, read_summary, read_versioned};
use crate::error::PipelineError;
use crate::identity::IMPORTED_FROM;
use crate::records::document::{RuntimeState, StepAction, StepRecord};
use crate::records::epoch::{EpochRecords, PairRecord};
use crate::records::evaluation::EvaluationSummary;
use crate::records::summary::Summary;
use crate::records::{ConfigFile, TokensByStage};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skill_core::{
    EditRow, EpochIdx, Gate, GateMetric, ItemId, ItemScore, Patch, RawPatch, RolloutResult, SkillDoc,
    StepIdx, Usage,
};
use skill_llm::regular_file;
use std::path::{Path, PathBuf};

/// Reads the files of a run. Missing files read as `None` or empty; malformed files are errors.
///
/// It may be used while another process trains: a step is shown when all of its files are written.
#[derive(Debug, Clone)]
pub struct RunReader {
    path: PathBuf,
    config: ConfigFile,
}

/// What the finished steps of a run came to together.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunTotals {
    /// Steps whose candidate was accepted.
    pub n_accepted: usize,
    /// Steps whose candidate was measured and not accepted.
    pub n_rejected: usize,
    /// Steps without an evaluation.
    pub n_skipped: usize,
    /// The score of the current skill before the first step, if there is one.
    pub first_score: Option<f64>,
    /// Calls and tokens by stage, those of the baseline among them.
    pub tokens: TokensByStage,
}

/// As much of a step's record as its totals need.
#[derive(Deserialize)]
struct StepBrief {
    step: StepIdx,
    action: StepAction,
    score_before: f64,
    tokens: TokensByStage,
}

/// As much of a result as says how it was scored.
#[derive(Deserialize)]
struct ResultBrief {
    id: ItemId,
    hard: f64,
    soft: f64,
    #[serde(default)]
    usage: Usage,
}

/// Predicted and reference answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct AnswerBrief {
    /// The item.
    pub id: ItemId,
    /// The strict score.
    pub hard: f64,
    /// The answer that was scored; empty where there was none.
    #[serde(default)]
    pub predicted_answer: String,
    /// What a right answer looks like; empty where the environment does not tell.
    #[serde(default)]
    pub reference_text: String,
    /// The beginning of the question, where the task is one.
    #[serde(default, deserialize_with = "beginning")]
    question: String,
    /// The beginning of what the agent was asked to do, where that is not a question.
    #[serde(default, deserialize_with = "beginning")]
    task_description: String,
    /// The beginning of the user prompt.
    #[serde(default, deserialize_with = "beginning")]
    target_user_prompt: String,
}

impl AnswerBrief {
    /// The beginning of what the agent was asked: the question, or else the task, or else the prompt; up to
    /// 2,000 characters.
    pub fn asked(&self) -> &str {
        let texts = [&self.question, &self.task_description, &self.target_user_prompt];
        texts.into_iter().map(|text| text.trim()).find(|text| !text.is_empty()).unwrap_or_default()
    }
}

/// The most characters of a text that [`AnswerBrief`] keeps.
const MAX_ASKED: usize = 2_000;

/// The beginning of a text: the rest is not kept in memory.
fn beginning<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text = String::deserialize(deserializer)?;
    if let Some((end, _)) = text.char_indices().nth(MAX_ASKED) {
        text.truncate(end);
        text.shrink_to_fit();
    }
    Ok(text)
}

impl RunTotals {
    fn add(&mut self, brief: StepBrief) {
        match (brief.action.is_accept(), brief.action.is_skip()) {
            (true, _) => self.n_accepted += 1,
            (false, true) => self.n_skipped += 1,
            (false, false) => self.n_rejected += 1,
        }
        self.first_score.get_or_insert(brief.score_before);
        for (stage, used) in brief.tokens {
            *self.tokens.entry(stage).or_default() += used;
        }
    }
}

impl RunReader {
    /// Opens a run directory.
    ///
    /// # Errors
    ///
    /// A directory without a run, and a `config.json` that cannot be read or is of another format.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        match read_config(path)? {
            Some(config) => Ok(Self { path: path.to_owned(), config }),
            None => Err(PipelineError::NoRun { path: path.to_owned() }),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was asked when the run was started or last resumed.
    pub fn config(&self) -> &ConfigFile {
        &self.config
    }

    /// True for a run of another program that was imported: it has only the files that the other program kept.
    pub fn is_imported(&self) -> bool {
        self.config.identity.contains_key(IMPORTED_FROM)
    }

    /// The gate by which the run decides; `None` for a run that does not record it, such as an imported one.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Corrupt`] for a recorded metric or weight that is not one.
    pub fn gate(&self) -> Result<Option<Gate>, PipelineError> {
        let ConfigFile { config, identity, .. } = &self.config;
        let set = |name: &str, path: &str| identity.get(name).or_else(|| config.pointer(path));
        let corrupt = |name: &str, value: &Value| {
            let (path, message) = (self.path.join(CONFIG_FILE), format!("{name} is {value}"));
            PipelineError::Corrupt { path, message }
        };
        let mut gate = Gate::default();
        let Some(metric) = set("gate.metric", "/gate/metric") else { return Ok(None) };
        let parsed = metric.as_str().and_then(GateMetric::parse);
        gate.metric = parsed.ok_or_else(|| corrupt("the metric of the gate", metric))?;
        if let Some(weight) = set("gate.mixed_weight", "/gate/mixed_weight") {
            let parsed = weight.as_f64();
            gate.mixed_weight = parsed.ok_or_else(|| corrupt("the weight of the mixed metric", weight))?;
        }
        Ok(Some(gate))
    }

    /// Where the run is; `None` before its baseline is measured.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of another format.
    pub fn state(&self) -> Result<Option<RuntimeState>, PipelineError> {
        read_versioned(&self.path.join("runtime_state.json"))
    }

    /// What the run came to; `None` before its end.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn summary(&self) -> Result<Option<Summary>, PipelineError> {
        read_summary(&self.path)
    }

    /// What the process that works on the run is doing; `None` where there is none.
    pub fn live(&self) -> Option<LiveState> {
        // A process that was killed leaves its file, which is young for a while.
        live::read(&self.path).filter(|_| is_held(&self.path))
    }

    /// The records of the steps whose files are all written, in order.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state), and a history that lacks one of those steps.
    pub fn history(&self) -> Result<Vec<StepRecord>, PipelineError> {
        match self.state()? {
            Some(state) => read_history(&self.path, state.last_completed_step),
            None => Ok(Vec::new()),
        }
    }

    /// What the finished steps came to together; much less is kept in memory for it than for the [`history`].
    ///
    /// [`history`]: Self::history
    ///
    /// # Errors
    ///
    /// As for [`history`](Self::history).
    pub fn totals(&self) -> Result<RunTotals, PipelineError> {
        let (mut totals, Some(state)) = (RunTotals::default(), self.state()?) else {
            return Ok(RunTotals::default());
        };
        if let Some(baseline) = self.evaluation_summary(EvaluationDir::Baseline)? {
            totals.tokens.insert("baseline".to_owned(), baseline.tokens);
        }
        let last = self.add_history(&mut totals, state.last_completed_step)?;
        for (stage, used) in self.epoch_ends()?.iter().flat_map(EpochRecords::tokens).flatten() {
            *totals.tokens.entry(stage.clone()).or_default() += *used;
        }
        if last != state.last_completed_step {
            return Err(lacks_a_step(history_path(&self.path), state.last_completed_step));
        }
        Ok(totals)
    }

    /// Calls and tokens by stage that the results of the run are made from, those of its final evaluations too once it
    /// is finished.
    ///
    /// # Errors
    ///
    /// As for [`totals`](Self::totals), and a summary that cannot be read.
    pub fn used(&self) -> Result<TokensByStage, PipelineError> {
        match self.summary()? {
            Some(summary) => Ok(summary.token_summary),
            None => Ok(self.totals()?.tokens),
        }
    }

    /// Adds up the steps up to `finished` that are in order; returns the last of them.
    fn add_history(&self, totals: &mut RunTotals, finished: StepIdx) -> Result<StepIdx, PipelineError> {
        let (mut last, mut is_in_order) = (StepIdx(0), true);
        history::for_each(&self.path, |brief: StepBrief| {
            is_in_order &= brief.step > finished || brief.step.0 == last.0.saturating_add(1);
            if is_in_order && brief.step <= finished {
                last = brief.step;
                totals.add(brief);
            }
            last < finished
        })?;
        Ok(last)
    }

    /// What the ends of epochs that are done came to, in order; empty if they do nothing.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn epoch_ends(&self) -> Result<Vec<EpochRecords>, PipelineError> {
        let last = self.state()?.and_then(|state| state.epoch_end).map_or(0, |end| end.epoch.0);
        (1..=last).map(|epoch| read_epoch_end(&self.path, EpochIdx(epoch))).collect()
    }

    /// The tasks that the optimizer saw under two skills at an epoch's end; empty if it saw none.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn comparison_pairs(&self, epoch: EpochIdx) -> Result<Vec<PairRecord>, PipelineError> {
        let path = slow_update_path(&self.path, epoch).join(COMPARISON_PAIRS);
        Ok(read_json(&path)?.unwrap_or_default())
    }

    /// What the analysts of a step proposed, all micro-batches in order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be.
    pub fn raw_patches(&self, step: StepIdx) -> Result<Vec<RawPatch>, PipelineError> {
        self.of_batches(step, "raw_patches.json")
    }

    /// The rows of a file of a step, or of those of its micro-batches, in order; empty if there are none.
    fn of_batches<T: DeserializeOwned>(&self, step: StepIdx, name: &str) -> Result<Vec<T>, PipelineError> {
        let dir = step_path(&self.path, step);
        if let Some(rows) = read_json(&dir.join(name))? {
            return Ok(rows);
        }
        let mut all: Vec<T> = Vec::new();
        for batch_idx in 0.. {
            match read_json::<Vec<T>>(&dir.join(format!("batch_{batch_idx}")).join(name))? {
                Some(rows) => all.extend(rows),
                None => break,
            }
        }
        Ok(all)
    }

    /// The edits that a step applied; `None` if nobody proposed any.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn ranked_patch(&self, step: StepIdx) -> Result<Option<Patch>, PipelineError> {
        read_json(&step_path(&self.path, step).join("ranked_patch.json"))
    }

    /// What became of a step's edits; `None` if there were none.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn apply_report(&self, step: StepIdx) -> Result<Option<Vec<EditRow>>, PipelineError> {
        read_json(&step_path(&self.path, step).join("edit_apply_report.json"))
    }

    /// The summary of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn evaluation_summary(&self, dir: EvaluationDir) -> Result<Option<EvaluationSummary>, PipelineError> {
        read_versioned(&evaluation_path(&self.path, dir).join(SUMMARY_FILE))
    }

    /// The scores of an evaluation, the draws of an item side by side; `None` if it was not made.
    ///
    /// What the agent did is not kept in memory.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn scores(&self, dir: EvaluationDir) -> Result<Option<Vec<(ItemId, ItemScore)>>, PipelineError> {
        let briefs: Option<Vec<ResultBrief>> = self.results_as(dir)?;
        let scores = |brief: ResultBrief| (brief.id, ItemScore { hard: brief.hard, soft: brief.soft });
        Ok(briefs.map(|briefs| briefs.into_iter().map(scores).collect()))
    }

    /// The tokens of each result of an evaluation, prompts and replies, in the order of the split; 0 where they were not
    /// counted. `None` if the evaluation was not made.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn tokens(&self, dir: EvaluationDir) -> Result<Option<Vec<u64>>, PipelineError> {
        let briefs: Option<Vec<ResultBrief>> = self.results_as(dir)?;
        Ok(briefs.map(|briefs| briefs.iter().map(|brief| brief.usage.tokens()).collect()))
    }

    /// The answers of an evaluation, the samples of an item side by side; `None` if it was not made.
    ///
    /// As for [`scores`](Self::scores), what else the agent did is not kept in memory.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn answers(&self, dir: EvaluationDir) -> Result<Option<Vec<AnswerBrief>>, PipelineError> {
        self.results_as(dir)
    }

    /// The answers of a step's rollouts on the training split, all micro-batches in order.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn training_answers(&self, step: StepIdx) -> Result<Vec<AnswerBrief>, PipelineError> {
        self.of_batches(step, ROLLOUTS_FILE)
    }

    /// The skill of the one-shot arm; `None` if it was not made, or cannot be read.
    pub fn one_shot_skill(&self) -> Option<SkillDoc> {
        let path = evaluation_path(&self.path, EvaluationDir::TestOneShot).join(ONE_SHOT_SKILL);
        regular_file::read_to_string(&path).ok().map(SkillDoc::new)
    }

    /// The results of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn results(&self, dir: EvaluationDir) -> Result<Option<Vec<RolloutResult>>, PipelineError> {
        self.results_as(dir)
    }

    /// The results of an evaluation as these values; `None` if it was not made.
    fn results_as<T: DeserializeOwned>(&self, dir: EvaluationDir) -> Result<Option<Vec<T>>, PipelineError> {
        let dir = evaluation_path(&self.path, dir);
        let path = dir.join(RESULTS_FILE);
        match read_json(&path)? {
            // The summary is written behind the results.
            None if dir.join(SUMMARY_FILE).exists() => Err(PipelineError::missing(path)),
            results => Ok(results),
        }
    }

    /// Refuses a run that has lost the results of an evaluation that it has made. Those of an imported run may not have
    /// been kept.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Corrupt`] with the file.
    pub fn check_measured(&self, dir: EvaluationDir) -> Result<(), PipelineError> {
        let path = evaluation_path(&self.path, dir).join(RESULTS_FILE);
        match self.is_imported() || path.exists() {
            true => Ok(()),
            false => Err(PipelineError::missing(path)),
        }
    }
}
