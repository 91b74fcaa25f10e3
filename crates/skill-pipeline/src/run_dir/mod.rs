//! The run directory: where the files of a run are, who holds it, and how it is read back.

pub mod atomic;
pub mod epoch_format;
pub mod event_log;
pub mod format;
pub mod live;
pub mod paired_format;
mod reader;
mod stop;

pub use reader::{RunReader, RunTotals};
pub use stop::{STOP_FILE, is_stop_requested, request_stop, withdraw_stop};

use crate::error::PipelineError;
use crate::memory::MemoryEntry;
use crate::stage::evaluate::{CandidateEvaluation, Evaluation};
use epoch_format::EpochRecords;
use format::{
    ConfigFile, EvaluationSummary, FORMAT_VERSION, PartialEvaluationSummary, RuntimeState, StageTokens,
    StepRecord, Summary, TaskTypeScore,
};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skill_core::package::SkillPackage;
use skill_core::{EpochIdx, MeanScore, RolloutResult, SkillDoc, SkillHash, StepIdx};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a lock that is held is tried again, and how long is waited in between: whoever looks whether somebody works
/// on a run holds the lock for a moment.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What a run writes after its `config.json`: a directory that has one of these without that is no run.
const RUN_FILES: [&str; 10] = [
    "best_skill.md",
    "current_skill.md",
    "history.json",
    "runtime_state.json",
    "summary.json",
    "config.toml",
    "skills",
    "steps",
    "slow_update",
    "meta_skill",
];

/// Where a run keeps the files that its skill carries along, for those that want all of a skill that was a step's.
pub const CARRIED_DIR: &str = "skill_files";

/// The file of a slow update's directory that says what it came to.
pub(crate) const SLOW_RESULT: &str = "slow_result.json";

/// The file that holds the tasks that the optimizer saw under two skills.
pub(crate) const COMPARISON_PAIRS: &str = "comparison_pairs.json";

/// The file that holds the optimizer's notes.
pub(crate) const META_SKILL_RESULT: &str = "meta_skill_result.json";

/// Where an evaluation's results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationDir {
    /// The initial skill on the selection split.
    Baseline,
    /// The candidate of a step on the selection split.
    Selection(StepIdx),
    /// The last skill on the selection split, where notes were added after it was measured.
    FinalSelection,
    /// The initial skill on the selection split once more.
    FreshBaseline,
    /// The best skill on the selection split once more.
    FreshBest,
    /// The skill with the guidance of an epoch's slow update on the selection split.
    SlowUpdate(EpochIdx),
    /// The initial skill on the test split.
    TestBaseline,
    /// The best skill on the test split.
    TestBest,
}

impl EvaluationDir {
    /// Where the selection results of a skill are: of the one that an epoch's slow update made, else of a step's.
    pub fn of_skill(step: StepIdx, slow_epoch: Option<EpochIdx>) -> Self {
        slow_epoch.map_or_else(|| Self::of_step(step), Self::SlowUpdate)
    }

    /// Where the selection results of a step's skill are; 0 is the baseline.
    pub fn of_step(step: StepIdx) -> Self {
        if step == StepIdx(0) { Self::Baseline } else { Self::Selection(step) }
    }
}

/// A run directory that this process holds: a second process that wants it is refused.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: File,
}

impl RunDir {
    /// Creates the directory if it is not there and takes its lock.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made or written, or one that another process holds.
    pub fn open(path: &Path) -> Result<Self, PipelineError> {
        atomic::create_dir(path)?;
        let lock_path = path.join("run.lock");
        let locking = |source| PipelineError::RunDir { action: "lock", path: lock_path.clone(), source };
        let lock =
            File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(locking)?;
        for attempt in 1.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(PipelineError::Locked { path: path.to_owned() });
                }
                Err(TryLockError::Error(source)) => return Err(locking(source)),
            }
        }
        atomic::remove_half_written(path)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal of the run.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join("journal.sqlite")
    }

    /// The directory of a step's files.
    pub fn step_dir(&self, step: StepIdx) -> PathBuf {
        step_path(&self.path, step)
    }

    /// The directory of an epoch's slow update.
    pub fn slow_update_dir(&self, epoch: EpochIdx) -> PathBuf {
        slow_update_path(&self.path, epoch)
    }

    /// The directory of the notes that the optimizer wrote at an epoch's end.
    pub fn meta_skill_dir(&self, epoch: EpochIdx) -> PathBuf {
        meta_skill_path(&self.path, epoch)
    }

    fn epoch_snapshot_path(&self, epoch: EpochIdx) -> PathBuf {
        epoch_snapshot_path(&self.path, epoch)
    }

    fn snapshot_path(&self, step: StepIdx) -> PathBuf {
        snapshot_path(&self.path, step)
    }

    pub(crate) fn evaluation_dir(&self, dir: EvaluationDir) -> PathBuf {
        evaluation_path(&self.path, dir)
    }

    /// What was asked when the run was started or last resumed; `None` for a directory without a run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format; a directory that has files of the names
    /// that a run writes and is none.
    pub fn read_config(&self) -> Result<Option<ConfigFile>, PipelineError> {
        let config = read_config(&self.path)?;
        if config.is_none()
            && let Some(found) = RUN_FILES.into_iter().find(|name| self.path.join(name).exists())
        {
            return Err(PipelineError::NotARun { path: self.path.clone(), found });
        }
        Ok(config)
    }

    /// Writes `config.json` and, if there is a text of it, `config.toml`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_config(&self, config: &ConfigFile, source_text: Option<&str>) -> Result<(), PipelineError> {
        atomic::write_json(&self.path.join("config.json"), config)?;
        match source_text {
            Some(text) => atomic::write(&self.path.join("config.toml"), text.as_bytes()),
            None => Ok(()),
        }
    }

    /// Where the run stands; `None` if its baseline is not measured yet.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format.
    pub fn read_state(&self) -> Result<Option<RuntimeState>, PipelineError> {
        read_versioned(&self.path.join("runtime_state.json"))
    }

    /// Writes `runtime_state.json`: what it names is done.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_state(&self, state: &RuntimeState) -> Result<(), PipelineError> {
        atomic::write_json(&self.path.join("runtime_state.json"), state)
    }

    /// The records of the steps up to `last`, in order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or lacks a step.
    pub fn read_history(&self, last: StepIdx) -> Result<Vec<StepRecord>, PipelineError> {
        read_history(&self.path, last)
    }

    /// Writes `history.json`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_history(&self, history: &[StepRecord]) -> Result<(), PipelineError> {
        atomic::write_json(&self.path.join("history.json"), &history)
    }

    /// Writes what a step leaves for the optimizer to know.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_digest(&self, digest: &MemoryEntry) -> Result<(), PipelineError> {
        atomic::write_json(&self.digest_path(digest.step), digest)
    }

    /// What a finished step left for the optimizer to know.
    ///
    /// # Errors
    ///
    /// A file that is not there, cannot be read, or is not what it should be.
    pub fn read_digest(&self, step: StepIdx) -> Result<MemoryEntry, PipelineError> {
        let path = self.digest_path(step);
        let message = || "is missing".to_owned();
        read_versioned(&path)?.ok_or_else(|| PipelineError::Corrupt { path, message: message() })
    }

    fn digest_path(&self, step: StepIdx) -> PathBuf {
        self.step_dir(step).join("trajectory_digest.json")
    }

    /// Writes the skill that is current after a step.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_snapshot(&self, step: StepIdx, skill: &SkillDoc) -> Result<(), PipelineError> {
        atomic::write(&self.snapshot_path(step), skill.text().as_bytes())
    }

    /// The skill that was current after a step, if it is the one that the hash names.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or has been changed.
    pub fn read_snapshot(&self, step: StepIdx, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        Self::read_skill(self.snapshot_path(step), hash)
    }

    /// Writes the skill that is current after the end of an epoch.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_epoch_snapshot(&self, epoch: EpochIdx, skill: &SkillDoc) -> Result<(), PipelineError> {
        atomic::write(&self.epoch_snapshot_path(epoch), skill.text().as_bytes())
    }

    /// The skill that was current after the end of an epoch, if it is the one that the hash names.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or has been changed.
    pub fn read_epoch_snapshot(&self, epoch: EpochIdx, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        Self::read_skill(self.epoch_snapshot_path(epoch), hash)
    }

    /// What the end of an epoch came to.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format.
    pub fn read_epoch_end(&self, epoch: EpochIdx) -> Result<EpochRecords, PipelineError> {
        read_epoch_end(&self.path, epoch)
    }

    fn read_skill(path: PathBuf, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        let text = fs::read_to_string(&path).map_err(|source| PipelineError::RunDir {
            action: "read",
            path: path.clone(),
            source,
        })?;
        let skill = SkillDoc::new(text);
        if skill.hash() == *hash {
            return Ok(skill);
        }
        let message = format!("has the hash {}, but the run left it with {hash}", skill.hash());
        Err(PipelineError::Corrupt { path, message })
    }

    /// The skill that a step made, if it is the one that the hash names: that after the step, or, where notes were
    /// added to that, the candidate itself.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or has been changed.
    pub fn read_made_skill(&self, step: StepIdx, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        let candidate = fs::read_to_string(self.step_dir(step).join("candidate_skill.md")).map(SkillDoc::new);
        match candidate {
            Ok(candidate) if candidate.hash() == *hash => Ok(candidate),
            Ok(_) | Err(_) => self.read_snapshot(step, hash),
        }
    }

    /// Writes `current_skill.md` and `best_skill.md`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_skills(&self, current: &SkillDoc, best: &SkillDoc) -> Result<(), PipelineError> {
        atomic::write(&self.path.join("current_skill.md"), current.text().as_bytes())?;
        atomic::write(&self.path.join("best_skill.md"), best.text().as_bytes())
    }

    /// Writes the folder `best_skill/`, if the skill is one or has front matter.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_best_folder(&self, best: &SkillDoc) -> Result<(), PipelineError> {
        let package = SkillPackage::of(best);
        if !package.is_folder() {
            return Ok(());
        }
        let dir = self.path.join("best_skill");
        atomic::remove_dir(&dir)?;
        package.files().try_for_each(|(path, bytes, is_executable)| {
            atomic::write_with_mode(&dir.join(path), bytes, is_executable)
        })
    }

    /// Writes what the initial skill carries along into the folder `skill_files/`: no step changes it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_carried(&self, initial: &SkillDoc) -> Result<(), PipelineError> {
        let dir = self.path.join(CARRIED_DIR);
        initial.carried().iter().try_for_each(|(path, file)| {
            atomic::write_with_mode(&dir.join(path), file.bytes(), file.is_executable())
        })
    }

    /// Writes `results.json` and `summary.json` of an evaluation.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_evaluation(
        &self,
        dir: EvaluationDir,
        skill: &SkillHash,
        evaluation: &Evaluation,
        tokens: StageTokens,
    ) -> Result<(), PipelineError> {
        let dir = self.evaluation_dir(dir);
        atomic::write_json(&dir.join("results.json"), &evaluation.results)?;
        atomic::write_json(&dir.join("summary.json"), &summarise(skill, evaluation, tokens))
    }

    /// Writes `results.json` and `summary.json` of the evaluation of a candidate.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_candidate_evaluation(
        &self,
        dir: EvaluationDir,
        skill: &SkillHash,
        evaluation: &CandidateEvaluation,
        n_items: usize,
        tokens: StageTokens,
    ) -> Result<(), PipelineError> {
        let Some(interval) = evaluation.left_out else {
            let whole = Evaluation::of(evaluation.results.clone());
            return self.write_evaluation(dir, skill, &whole, tokens);
        };
        let dir = self.evaluation_dir(dir);
        atomic::write_json(&dir.join("results.json"), &evaluation.results)?;
        let summary = PartialEvaluationSummary {
            format_version: FORMAT_VERSION.to_owned(),
            skill_hash: skill.clone(),
            n_seen: evaluation.results.len(),
            n: n_items,
            interval: [interval.low, interval.high],
            tokens,
        };
        atomic::write_json(&dir.join("summary.json"), &summary)
    }

    /// The summary of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format.
    pub fn read_evaluation(&self, dir: EvaluationDir) -> Result<Option<EvaluationSummary>, PipelineError> {
        read_versioned(&self.evaluation_dir(dir).join("summary.json"))
    }

    /// Writes `summary.json` of the run.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), PipelineError> {
        atomic::write_json(&self.path.join("summary.json"), summary)
    }

    /// Takes the run's `summary.json` away: a run that goes on is not finished.
    ///
    /// # Errors
    ///
    /// A file that cannot be removed.
    pub fn remove_summary(&self) -> Result<(), PipelineError> {
        let path = self.path.join("summary.json");
        match fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(PipelineError::RunDir { action: "write", path, source }),
        }
    }

    /// The results of an evaluation that was written.
    ///
    /// # Errors
    ///
    /// A file that is not there, cannot be read, or is not what it should be.
    pub fn read_results(&self, dir: EvaluationDir) -> Result<Vec<RolloutResult>, PipelineError> {
        let path = self.evaluation_dir(dir).join("results.json");
        match read_value(&path)? {
            Some(value) => from_value(&path, value),
            None => Err(PipelineError::Corrupt { path, message: "is missing".to_owned() }),
        }
    }
}

fn step_path(run: &Path, step: StepIdx) -> PathBuf {
    run.join("steps").join(format!("step_{:04}", step.0))
}

fn slow_update_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("slow_update").join(format!("epoch_{:02}", epoch.0))
}

fn meta_skill_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("meta_skill").join(format!("epoch_{:02}", epoch.0))
}

fn read_epoch_end(run: &Path, epoch: EpochIdx) -> Result<EpochRecords, PipelineError> {
    Ok(EpochRecords {
        slow_update: read_versioned(&slow_update_path(run, epoch).join(SLOW_RESULT))?,
        meta_skill: read_versioned(&meta_skill_path(run, epoch).join(META_SKILL_RESULT))?,
    })
}

fn epoch_snapshot_path(run: &Path, epoch: EpochIdx) -> PathBuf {
    run.join("skills").join(format!("skill_epoch_{:02}.md", epoch.0))
}

fn snapshot_path(run: &Path, step: StepIdx) -> PathBuf {
    run.join("skills").join(format!("skill_v{:04}.md", step.0))
}

fn evaluation_path(run: &Path, dir: EvaluationDir) -> PathBuf {
    match dir {
        EvaluationDir::Baseline => run.join("baseline_selection_eval"),
        EvaluationDir::Selection(step) => step_path(run, step).join("selection_eval"),
        EvaluationDir::FinalSelection => run.join("final_selection_eval"),
        EvaluationDir::FreshBaseline => run.join("fresh_eval_baseline"),
        EvaluationDir::FreshBest => run.join("fresh_eval_best"),
        EvaluationDir::SlowUpdate(epoch) => slow_update_path(run, epoch).join("selection_eval"),
        EvaluationDir::TestBaseline => run.join("test_eval_baseline"),
        EvaluationDir::TestBest => run.join("test_eval_best"),
    }
}

/// The summary of an evaluation, with the scores by task type.
pub fn summarise(skill: &SkillHash, evaluation: &Evaluation, tokens: StageTokens) -> EvaluationSummary {
    let mut groups: IndexMap<&str, Vec<(f64, f64)>> = IndexMap::new();
    for result in evaluation.results.iter().filter(|result| !result.task_type.is_empty()) {
        groups.entry(&result.task_type).or_default().push((result.hard, result.soft));
    }
    groups.sort_unstable_keys();
    let by_task_type = groups.into_iter().map(|(task_type, scores)| {
        let (n, mean) = (scores.len(), MeanScore::of(scores));
        (task_type.to_owned(), TaskTypeScore { hard: mean.hard, soft: mean.soft, n })
    });
    EvaluationSummary {
        format_version: FORMAT_VERSION.to_owned(),
        skill_hash: skill.clone(),
        hard: evaluation.score.hard,
        soft: evaluation.score.soft,
        n: evaluation.results.len(),
        by_task_type: by_task_type.collect(),
        tokens,
    }
}

/// How far a run has come, for those who only look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// There is no run.
    Absent,
    /// The run has begun and has no summary yet.
    Unfinished,
    /// The run is complete.
    Finished,
}

/// Looks at a run directory without taking its lock.
pub fn run_status(path: &Path) -> RunStatus {
    if path.join("summary.json").is_file() {
        RunStatus::Finished
    } else if path.join("config.json").is_file() {
        RunStatus::Unfinished
    } else {
        RunStatus::Absent
    }
}

/// Whether a process works on a run.
pub fn is_held(path: &Path) -> bool {
    let Ok(lock) = File::open(path.join("run.lock")) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// What a run was asked, without taking its lock; `None` if there is no run.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of a newer format.
pub fn read_config(path: &Path) -> Result<Option<ConfigFile>, PipelineError> {
    read_versioned(&path.join("config.json"))
}

/// What a run came to; `None` if it is not finished.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of a newer format.
pub fn read_summary(path: &Path) -> Result<Option<Summary>, PipelineError> {
    read_versioned(&path.join("summary.json"))
}

/// The last step of a run whose files are all written, without taking its lock; `None` before the baseline is
/// measured.
///
/// # Errors
///
/// A file that cannot be read, is not JSON, or is of a newer format.
pub fn read_finished_step(path: &Path) -> Result<Option<StepIdx>, PipelineError> {
    let state: Option<RuntimeState> = read_versioned(&path.join("runtime_state.json"))?;
    Ok(state.map(|state| state.last_completed_step))
}

fn read_history(run: &Path, last: StepIdx) -> Result<Vec<StepRecord>, PipelineError> {
    let path = run.join("history.json");
    let mut history: Vec<StepRecord> = match read_value(&path)? {
        Some(value) => from_value(&path, value)?,
        None => Vec::new(),
    };
    history.retain(|record| record.step <= last);
    let in_order = history.iter().zip(1..).all(|(record, step)| record.step == StepIdx(step));
    if !in_order || history.len() != last.0 as usize {
        let message = format!("does not hold each of the steps 1 to {last} once");
        return Err(PipelineError::Corrupt { path, message });
    }
    Ok(history)
}

fn read_value(path: &Path) -> Result<Option<Value>, PipelineError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(PipelineError::RunDir { action: "read", path: path.to_owned(), source }),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| PipelineError::Corrupt {
        path: path.to_owned(),
        message: format!("is not JSON: {error}"),
    })
}

fn from_value<T: DeserializeOwned>(path: &Path, value: Value) -> Result<T, PipelineError> {
    serde_json::from_value(value).map_err(|error| PipelineError::Corrupt {
        path: path.to_owned(),
        message: format!("is not of the expected form: {error}"),
    })
}

fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    let Some(value) = read_value(path)? else { return Ok(None) };
    let version = value.get("format_version").and_then(Value::as_str).unwrap_or_default();
    if version.is_empty() {
        let message = "has no `format_version`: it is not a file of this program".to_owned();
        return Err(PipelineError::Corrupt { path: path.to_owned(), message });
    }
    if !format::is_supported(version) {
        return Err(PipelineError::NewerFormat {
            path: path.to_owned(),
            found: version.to_owned(),
            supported: FORMAT_VERSION.to_owned(),
        });
    }
    from_value(path, value).map(Some)
}
