//! A run directory for those who only look: without its lock, while the run is in progress too.

use super::epoch_format::{EpochRecords, PairRecord};
use super::evaluation::{EvaluationDir, evaluation_path};
use super::format::{
    ConfigFile, EvaluationSummary, RuntimeState, StepAction, StepRecord, Summary, TokensByStage,
};
use super::live::{self, LiveState};
use super::path::{COMPARISON_PAIRS, epoch_snapshot_path, slow_update_path, snapshot_path, step_path};
use super::read::{
    from_value, read_config, read_epoch_end, read_history, read_summary, read_value, read_versioned,
};
use crate::error::PipelineError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use skill_core::{EditRow, EpochIdx, Patch, RawPatch, RolloutResult, SkillDoc, StepIdx};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// The file of a step's, or an epoch's, directory that holds what its edits, or its guidance, made of the skill.
const CANDIDATE_SKILL: &str = "candidate_skill.md";

/// Reads the files of a run; what is not there yet is `None` or empty, what is not what it should be an error.
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
    /// Calls and tokens by stage, those of the baseline among them.
    pub tokens: TokensByStage,
}

/// As much of a step's record as its totals need.
#[derive(Deserialize)]
struct StepBrief {
    step: StepIdx,
    action: StepAction,
    tokens: TokensByStage,
}

impl RunReader {
    /// Opens a run directory.
    ///
    /// # Errors
    ///
    /// A directory without a run, and a `config.json` that cannot be read or is of a newer format.
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

    /// Where the run stands; `None` before its baseline is measured.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of a newer format.
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
        live::read(&self.path)
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
        let finished =
            self.step_briefs()?.into_iter().filter(|brief| brief.step <= state.last_completed_step);
        let mut last = StepIdx(0);
        for brief in finished {
            if brief.step.0 != last.0.saturating_add(1) {
                break;
            }
            last = brief.step;
            match (brief.action.is_accept(), brief.action.is_skip()) {
                (true, _) => totals.n_accepted += 1,
                (false, true) => totals.n_skipped += 1,
                (false, false) => totals.n_rejected += 1,
            }
            for (stage, used) in brief.tokens {
                *totals.tokens.entry(stage).or_default() += used;
            }
        }
        for (stage, used) in self.epoch_ends()?.iter().flat_map(EpochRecords::tokens).flatten() {
            *totals.tokens.entry(stage.clone()).or_default() += *used;
        }
        if last != state.last_completed_step {
            let message = format!("does not hold each of the steps 1 to {} once", state.last_completed_step);
            return Err(PipelineError::Corrupt { path: self.path.join("history.json"), message });
        }
        Ok(totals)
    }

    fn step_briefs(&self) -> Result<Vec<StepBrief>, PipelineError> {
        let path = self.path.join("history.json");
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(PipelineError::RunDir { action: "read", path, source }),
        };
        serde_json::from_reader(BufReader::new(file)).map_err(|error| {
            let what = if error.is_data() { "is not of the expected form" } else { "is not JSON" };
            PipelineError::Corrupt { path, message: format!("{what}: {error}") }
        })
    }

    /// The skill that was current after a step, and after the end of its epoch if the step was the last of it and the
    /// end is done; 0 is the initial skill.
    ///
    /// # Errors
    ///
    /// A file that is not there or cannot be read.
    pub fn skill_after(&self, step: StepIdx) -> Result<SkillDoc, PipelineError> {
        self.skill_of(step, self.epoch_ended_by(step)?)
    }

    /// The skill that was current after a step, before the end of its epoch; or after that, if an epoch is named.
    ///
    /// # Errors
    ///
    /// A file that is not there or cannot be read.
    pub fn skill_of(&self, step: StepIdx, end_of: Option<EpochIdx>) -> Result<SkillDoc, PipelineError> {
        read_skill(match end_of {
            Some(epoch) => epoch_snapshot_path(&self.path, epoch),
            None => snapshot_path(&self.path, step),
        })
    }

    /// The best skill so far: what is deployed.
    ///
    /// # Errors
    ///
    /// A file that is not there or cannot be read.
    pub fn best_skill(&self) -> Result<SkillDoc, PipelineError> {
        read_skill(self.path.join("best_skill.md"))
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

    /// The epoch whose end, done by now, follows this step.
    fn epoch_ended_by(&self, step: StepIdx) -> Result<Option<EpochIdx>, PipelineError> {
        let Some(end) = self.state()?.and_then(|state| state.epoch_end) else { return Ok(None) };
        let history = self.history()?;
        let epoch_of =
            |step: StepIdx| history.iter().find(|record| record.step == step).map(|record| record.epoch);
        let epoch = epoch_of(step).filter(|epoch| *epoch <= end.epoch);
        Ok(epoch.filter(|epoch| epoch_of(StepIdx(step.0.saturating_add(1))) != Some(*epoch)))
    }

    /// What the analysts of a step proposed, all micro-batches in order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is not what it should be.
    pub fn raw_patches(&self, step: StepIdx) -> Result<Vec<RawPatch>, PipelineError> {
        const NAME: &str = "raw_patches.json";
        let dir = step_path(&self.path, step);
        if let Some(patches) = read_json(&dir.join(NAME))? {
            return Ok(patches);
        }
        let mut all: Vec<RawPatch> = Vec::new();
        for batch_idx in 0.. {
            match read_json::<Vec<RawPatch>>(&dir.join(format!("batch_{batch_idx}")).join(NAME))? {
                Some(patches) => all.extend(patches),
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

    /// What a step's edits made of the skill; `None` if there were none.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn candidate(&self, step: StepIdx) -> Result<Option<SkillDoc>, PipelineError> {
        read_skill_if_there(step_path(&self.path, step).join(CANDIDATE_SKILL))
    }

    /// The current skill with the guidance of an epoch's end; `None` if there was none.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn guided_candidate(&self, epoch: EpochIdx) -> Result<Option<SkillDoc>, PipelineError> {
        read_skill_if_there(slow_update_path(&self.path, epoch).join(CANDIDATE_SKILL))
    }

    /// The summary of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`state`](Self::state).
    pub fn evaluation_summary(&self, dir: EvaluationDir) -> Result<Option<EvaluationSummary>, PipelineError> {
        read_versioned(&evaluation_path(&self.path, dir).join("summary.json"))
    }

    /// The results of an evaluation; `None` if it was not made.
    ///
    /// # Errors
    ///
    /// As for [`raw_patches`](Self::raw_patches).
    pub fn results(&self, dir: EvaluationDir) -> Result<Option<Vec<RolloutResult>>, PipelineError> {
        read_json(&evaluation_path(&self.path, dir).join("results.json"))
    }
}

fn read_skill(path: PathBuf) -> Result<SkillDoc, PipelineError> {
    let text = std::fs::read_to_string(&path).map_err(|source| PipelineError::RunDir {
        action: "read",
        path,
        source,
    })?;
    Ok(SkillDoc::new(text))
}

fn read_skill_if_there(path: PathBuf) -> Result<Option<SkillDoc>, PipelineError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(SkillDoc::new(text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PipelineError::RunDir { action: "read", path, source }),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PipelineError> {
    read_value(path)?.map(|value| from_value(path, value)).transpose()
}
