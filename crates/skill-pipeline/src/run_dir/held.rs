//! A run directory that a process holds: what it writes there, and reads back when it goes on.

use super::atomic;
use super::by_hand::SKILL_FILE_STEMS;
use super::dir_handle::DirHandle;
use super::files::{FILES_FILE, FileHashes};
use super::history::{self, HistoryLog};
use super::live;
use super::path::{
    CARRIED_DIR, CONFIG_FILE, HISTORY_FILE, HISTORY_LOG, LOCK_FILE, META_SKILL_RESULT, SLOW_RESULT,
    STATE_FILE, SUMMARY_FILE, epoch_snapshot_path, meta_skill_path, slow_update_path, snapshot_path,
    step_path,
};
use super::read::{parse_versioned, read_config, read_epoch_end, read_versioned};
use super::recorded::part_of;
use super::seal;
use super::unflushed::Unflushed;
use crate::error::PipelineError;
use crate::records::ConfigFile;
use crate::records::document::{RuntimeState, StepRecord};
use crate::records::epoch::EpochRecords;
use crate::records::memory::MemoryEntry;
use crate::records::summary::Summary;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::IgnoredAny;
use skill_core::package::SkillPackage;
use skill_core::{EpochIdx, SkillDoc, SkillHash, StepIdx};
use skill_llm::journal::JOURNAL_FILE;
use skill_llm::regular_file;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// How often a lock that is held is retried, and how long is waited in between: anyone who looks whether somebody works
/// on a run holds the lock for a moment.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// What a run writes after its `config.json`: a directory that has one of these without that is not a run.
pub(super) const RUN_FILES: [&str; 12] = [
    "best_skill.md",
    "current_skill.md",
    HISTORY_FILE,
    STATE_FILE,
    SUMMARY_FILE,
    "config.toml",
    "skills",
    "steps",
    "slow_update",
    "meta_skill",
    HISTORY_LOG,
    FILES_FILE,
];

/// A run directory that this process holds: a second process that wants it is refused.
#[derive(Debug)]
pub struct RunDir {
    dir: DirHandle,
    pub(super) unflushed: Unflushed,
    /// Read when the first file is written or read back.
    pub(super) hashes: Mutex<Option<FileHashes>>,
    history: Mutex<Option<HistoryLog>>,
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
        Ok(Self {
            dir: DirHandle::hold(path)?,
            unflushed: Unflushed::default(),
            hashes: Mutex::default(),
            history: Mutex::default(),
            _lock: lock,
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Checks that the name of the directory still means the one that was opened; everything that is written here is
    /// checked so before.
    ///
    /// # Errors
    ///
    /// [`PipelineError::MovedRunDir`].
    pub fn check_not_moved(&self) -> Result<(), PipelineError> {
        self.dir.check_not_moved()
    }

    /// Writes a file of a step, of an epoch's end or of an evaluation whole; it is on the disk before a state is that
    /// [`RunDir::write_progress`] writes later.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        atomic::write_unflushed(path, bytes)?;
        self.unflushed.add(path);
        self.note(path, bytes)
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
        self.path().join(JOURNAL_FILE)
    }

    /// The directory of a step's files.
    pub fn step_dir(&self, step: StepIdx) -> PathBuf {
        step_path(self.path(), step)
    }

    /// The directory of an epoch's slow update.
    pub(crate) fn slow_update_dir(&self, epoch: EpochIdx) -> PathBuf {
        slow_update_path(self.path(), epoch)
    }

    /// The directory of the notes that the optimizer wrote at an epoch's end.
    pub(crate) fn meta_skill_dir(&self, epoch: EpochIdx) -> PathBuf {
        meta_skill_path(self.path(), epoch)
    }

    fn epoch_snapshot_path(&self, epoch: EpochIdx) -> PathBuf {
        epoch_snapshot_path(self.path(), epoch)
    }

    fn snapshot_path(&self, step: StepIdx) -> PathBuf {
        snapshot_path(self.path(), step)
    }

    /// What was asked when the run was started or last resumed; `None` for a directory without a run.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of another format; a directory that has files of the names
    /// that a run writes and is none.
    pub fn read_config(&self) -> Result<Option<ConfigFile>, PipelineError> {
        let config = read_config(self.path())?;
        if config.is_none()
            && let Some(found) = RUN_FILES.into_iter().find(|name| self.path().join(name).exists())
        {
            return Err(PipelineError::NotARun { path: self.path().to_owned(), found });
        }
        Ok(config)
    }

    /// Writes `config.json` and, if there is a text of it, `config.toml`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_config(&self, config: &ConfigFile, source_text: Option<&str>) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let path = self.path().join(CONFIG_FILE);
        seal::write_sealed_json(&path, config)?;
        match source_text {
            Some(text) => atomic::write(&self.path().join("config.toml"), text.as_bytes()),
            None => Ok(()),
        }
    }

    /// The path of `runtime_state.json`.
    pub(crate) fn state_path(&self) -> PathBuf {
        self.path().join(STATE_FILE)
    }

    /// Where the run is; `None` if its baseline is not measured yet.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of another format, and one that is gone although steps are
    /// finished.
    pub fn read_state(&self) -> Result<Option<RuntimeState>, PipelineError> {
        let path = self.path().join(STATE_FILE);
        let state: Option<RuntimeState> = read_versioned(&path)?;
        if state.is_none() {
            let mut n_steps = 0_usize;
            let history = history::for_each(self.path(), |_: IgnoredAny| {
                n_steps += 1;
                true
            })?;
            if n_steps > 0 {
                let history = history.file_name().unwrap_or_default().display().to_string();
                let message = format!(
                    "is missing, but {history} goes to step {n_steps}; without runtime_state.json, history.jsonl and history.json the run is rebuilt from its journal"
                );
                return Err(PipelineError::Corrupt { path, message });
            }
        }
        Ok(state)
    }

    /// The records of the steps up to `last`, in order. One that is torn or changed in `history.jsonl` is taken from the
    /// directory of its step.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, lacks a step, or has changed since the run wrote it.
    pub fn read_history(&self, last: StepIdx) -> Result<Vec<StepRecord>, PipelineError> {
        match self.hashes()?.as_ref() {
            Some(hashes) => history::read_verified(self.path(), last, hashes),
            None => history::read_history(self.path(), last),
        }
    }

    /// Adds to `history.jsonl` and `files.jsonl`, writes `current_skill.md` and `best_skill.md`, and then
    /// `runtime_state.json`: where it is on the disk, what it names is done, and all of these and all that was put before
    /// are on the disk.
    ///
    /// The `history` of one process grows; what the state says of `files.jsonl` is filled in here.
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
        self.check_not_moved()?;
        let [current_path, best_path] = self.skill_paths();
        let state_path = self.path().join(STATE_FILE);
        self.append_history(history)?;
        let files_lines = Some(self.commit(part_of(history, state))?);
        let state = RuntimeState { files_lines, ..state.clone() };
        let state = seal::sealed_json_bytes(&state_path, &state)?;
        let files = [
            (current_path.as_path(), current.source_text().as_bytes()),
            (&best_path, best.source_text().as_bytes()),
        ];
        atomic::write_all_before((&state_path, &state), &files, &self.unflushed.take())
    }

    fn append_history(&self, history: &[StepRecord]) -> Result<(), PipelineError> {
        let mut log = self.history.lock();
        if log.is_none() {
            *log = Some(HistoryLog::open(self.path())?);
        }
        if let Some(log) = log.as_mut()
            && log.append(history)?
        {
            self.unflushed.add(log.path());
        }
        Ok(())
    }

    /// Writes `history.json`, which holds the records of all steps once the run is finished.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write_history(&self, history: &[StepRecord]) -> Result<(), PipelineError> {
        // Of a run that is summed up again the log may be damaged.
        self.append_history(history)?;
        self.put_json(&self.path().join(HISTORY_FILE), &history)
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
    pub(crate) fn read_digest(&self, step: StepIdx) -> Result<MemoryEntry, PipelineError> {
        let path = self.digest_path(step);
        parse_versioned(&path, &self.read_required(&path)?)
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
    pub(crate) fn write_epoch_snapshot(
        &self,
        epoch: EpochIdx,
        skill: &SkillDoc,
    ) -> Result<(), PipelineError> {
        self.put_skill(&self.epoch_snapshot_path(epoch), skill)
    }

    /// The skill that was current after the end of an epoch, if it is the one that the hash names.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or has been changed.
    pub(crate) fn read_epoch_snapshot(
        &self,
        epoch: EpochIdx,
        hash: &SkillHash,
    ) -> Result<SkillDoc, PipelineError> {
        Self::read_skill(self.epoch_snapshot_path(epoch), hash)
    }

    /// What the end of an epoch came to.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not JSON, or is of another format.
    pub(crate) fn read_epoch_end(&self, epoch: EpochIdx) -> Result<EpochRecords, PipelineError> {
        for path in [
            self.slow_update_dir(epoch).join(SLOW_RESULT),
            self.meta_skill_dir(epoch).join(META_SKILL_RESULT),
        ] {
            if self.recorded(&path)?.is_some() {
                self.read_required(&path)?;
            }
        }
        read_epoch_end(self.path(), epoch)
    }

    fn read_skill(path: PathBuf, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        let text = regular_file::read_to_string(&path).map_err(atomic::failed("read", &path))?;
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
    pub(crate) fn read_made_skill(&self, step: StepIdx, hash: &SkillHash) -> Result<SkillDoc, PipelineError> {
        let candidate =
            regular_file::read_to_string(&self.step_dir(step).join("candidate_skill.md")).map(SkillDoc::new);
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
    pub(crate) fn write_skills(&self, current: &SkillDoc, best: &SkillDoc) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let [current_path, best_path] = self.skill_paths();
        atomic::write_all(&[
            (&current_path, current.source_text().as_bytes()),
            (&best_path, best.source_text().as_bytes()),
        ])
    }

    fn skill_paths(&self) -> [PathBuf; 2] {
        SKILL_FILE_STEMS.map(|name| self.path().join(format!("{name}.md")))
    }

    /// Writes the folder `best_skill/`, if the skill is one or has front matter.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn write_best_folder(&self, best: &SkillDoc) -> Result<(), PipelineError> {
        let package = SkillPackage::of(best);
        if !package.is_folder() {
            return Ok(());
        }
        let dir = self.path().join("best_skill");
        self.check_not_moved()?;
        atomic::remove_dir(&dir)?;
        package.files().try_for_each(|(path, bytes, is_executable)| {
            self.put_member(&dir.join(path), bytes, is_executable)
        })
    }

    /// Writes what the initial skill carries along into the folder `skill_files/`: no step changes it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn write_carried(&self, initial: &SkillDoc) -> Result<(), PipelineError> {
        let dir = self.path().join(CARRIED_DIR);
        initial
            .carried()
            .iter()
            .try_for_each(|(path, file)| self.put_member(&dir.join(path), file.bytes(), file.is_executable()))
    }

    /// Writes a file of a folder, and notes its hash.
    fn put_member(&self, path: &Path, bytes: &[u8], is_executable: bool) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        atomic::write_with_mode(path, bytes, is_executable)?;
        self.note(path, bytes)
    }

    /// Writes `summary.json` of the run: it is finished, and all that was put before is on the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, this one or one that was put before.
    pub fn write_summary(&self, summary: &Summary) -> Result<(), PipelineError> {
        self.write_end(SUMMARY_FILE, summary)
    }

    /// Takes the run's `summary.json` away, and `history.json` where `history.jsonl` holds the same: a run that goes on
    /// is not finished.
    ///
    /// # Errors
    ///
    /// A file that cannot be removed.
    pub fn remove_summary(&self) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        // The lines about the end go first: what they name is about to go.
        if let Some(hashes) = self.hashes()?.as_mut() {
            hashes.cut()?;
        }
        if self.path().join(HISTORY_LOG).exists() {
            atomic::remove_file(&self.path().join(HISTORY_FILE))?;
        }
        atomic::remove_file(&self.path().join(SUMMARY_FILE))
    }
}
