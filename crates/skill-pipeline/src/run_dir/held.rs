//! A run directory that a process holds: what it writes there, and reads back when it goes on.

use super::atomic;
use super::by_hand::SKILL_FILE_STEMS;
use super::epoch_format::EpochRecords;
use super::format::{ConfigFile, RuntimeState, StepRecord, Summary};
use super::live;
use super::path::{
    CARRIED_DIR, LOCK_FILE, SUMMARY_FILE, epoch_snapshot_path, meta_skill_path, slow_update_path,
    snapshot_path, step_path,
};
use super::read::{read_config, read_epoch_end, read_history, read_json, read_versioned};
use super::unflushed::Unflushed;
use crate::error::PipelineError;
use crate::memory::MemoryEntry;
use serde::Serialize;
use serde::de::IgnoredAny;
use skill_core::package::SkillPackage;
use skill_core::{EpochIdx, SkillDoc, SkillHash, StepIdx};
use skill_llm::journal::JOURNAL_FILE;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a lock that is held is tried again, and how long is waited in between: whoever looks whether somebody works
/// on a run holds the lock for a moment.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What a run writes after its `config.json`: a directory that has one of these without that is no run.
pub(super) const RUN_FILES: [&str; 10] = [
    "best_skill.md",
    "current_skill.md",
    "history.json",
    "runtime_state.json",
    SUMMARY_FILE,
    "config.toml",
    "skills",
    "steps",
    "slow_update",
    "meta_skill",
];

/// A run directory that this process holds: a second process that wants it is refused.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    unflushed: Unflushed,
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
        let lock_path = path.join(LOCK_FILE);
        let locking = |source| PipelineError::RunDir { action: "lock", path: lock_path.clone(), source };
        let lock =
            File::options().create(true).truncate(false).write(true).open(&lock_path).map_err(locking)?;
        for attempt in 1.. {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => thread::sleep(LOCK_PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(PipelineError::Locked { path: path.to_owned(), holder: live::holder(path) });
                }
                Err(TryLockError::Error(source)) => return Err(locking(source)),
            }
        }
        atomic::remove_half_written(path)?;
        Ok(Self { path: path.to_owned(), unflushed: Unflushed::default(), _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of a step, of an epoch's end or of an evaluation whole; it is on the disk before a state is that
    /// [`RunDir::write_progress`] writes later.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
        atomic::write_unflushed(path, bytes)?;
        self.unflushed.add(path);
        Ok(())
    }

    /// As [`RunDir::put`], with the source text of a skill.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn put_skill(&self, path: &Path, skill: &SkillDoc) -> Result<(), PipelineError> {
        self.put(path, skill.source_text().as_bytes())
    }

    /// As [`RunDir::put`], with a value as indented JSON.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn put_json(&self, path: &Path, value: &impl Serialize) -> Result<(), PipelineError> {
        self.put(path, &atomic::json_bytes(path, value)?)
    }

    /// The journal of the run.
    pub fn journal_path(&self) -> PathBuf {
        self.path.join(JOURNAL_FILE)
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
    /// A file that cannot be read, is not JSON, or is of a newer format, and one that is gone although steps are
    /// finished.
    pub fn read_state(&self) -> Result<Option<RuntimeState>, PipelineError> {
        let path = self.path.join("runtime_state.json");
        let state: Option<RuntimeState> = read_versioned(&path)?;
        if state.is_none() {
            // With the first state the history is there, and empty.
            let history: Option<Vec<IgnoredAny>> = read_json(&self.path.join("history.json"))?;
            let n_steps = history.map_or(0, |history| history.len());
            if n_steps > 0 {
                let message = format!(
                    "is missing, but history.json goes to step {n_steps}; with neither of the two, the run is made again from its journal"
                );
                return Err(PipelineError::Corrupt { path, message });
            }
        }
        Ok(state)
    }

    /// The records of the steps up to `last`, in order.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or lacks a step.
    pub fn read_history(&self, last: StepIdx) -> Result<Vec<StepRecord>, PipelineError> {
        read_history(&self.path, last)
    }

    /// Writes `current_skill.md`, `best_skill.md` and `history.json`, and then `runtime_state.json`: where it is on the
    /// disk, what it names is done, and all of these and all that was put before are on the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, one of these or one that was put before; the state is the old one then.
    pub fn write_progress(
        &self,
        current: &SkillDoc,
        best: &SkillDoc,
        history: &[StepRecord],
        state: &RuntimeState,
    ) -> Result<(), PipelineError> {
        let [current_path, best_path] = self.skill_paths();
        let [history_path, state_path] =
            ["history.json", "runtime_state.json"].map(|name| self.path.join(name));
        let history = atomic::json_bytes(&history_path, &history)?;
        let state = atomic::json_bytes(&state_path, state)?;
        let files = [
            (current_path.as_path(), current.source_text().as_bytes()),
            (&best_path, best.source_text().as_bytes()),
            (&history_path, &history),
        ];
        atomic::write_all_before((&state_path, &state), &files, &self.unflushed.take())
    }

    /// Writes what a step leaves for the optimizer to know.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_digest(&self, digest: &MemoryEntry) -> Result<(), PipelineError> {
        self.put_json(&self.digest_path(digest.step), digest)
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
        self.put_skill(&self.snapshot_path(step), skill)
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
        self.put_skill(&self.epoch_snapshot_path(epoch), skill)
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
        let [current_path, best_path] = self.skill_paths();
        atomic::write_all(&[
            (&current_path, current.source_text().as_bytes()),
            (&best_path, best.source_text().as_bytes()),
        ])
    }

    fn skill_paths(&self) -> [PathBuf; 2] {
        SKILL_FILE_STEMS.map(|name| self.path.join(format!("{name}.md")))
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

    /// Writes `summary.json` of the run: it is finished, and all that was put before is on the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, this one or one that was put before.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), PipelineError> {
        let path = self.path.join(SUMMARY_FILE);
        let summary = atomic::json_bytes(&path, summary)?;
        atomic::write_all_before((&path, &summary), &[], &self.unflushed.take())
    }

    /// Takes the run's `summary.json` away: a run that goes on is not finished.
    ///
    /// # Errors
    ///
    /// A file that cannot be removed.
    pub fn remove_summary(&self) -> Result<(), PipelineError> {
        atomic::remove_file(&self.path.join(SUMMARY_FILE))
    }
}
