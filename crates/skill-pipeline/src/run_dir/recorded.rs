//! The hashes of a run's files in the hands of the process that trains: noted when a file is written, and verified when
//! one is read back.

use super::atomic;
use super::evaluation::EvaluationDir;
use super::files::{FileHashes, RunPart, lines_of_state, name_below};
use super::held::RunDir;
use super::path::{INITIAL_POLICY_DIR, RESULTS_FILE, SUMMARY_FILE};
use super::read::read_bytes;
use crate::error::PipelineError;
use crate::records::document::{RuntimeState, StepRecord};
use crate::records::phases::Phase;
use parking_lot::MutexGuard;
use serde::Serialize;
use skill_core::StepIdx;
use skill_core::canonical::hex_sha256;
use std::path::{Path, PathBuf};
use std::{fs, io};

impl RunDir {
    pub(super) fn hashes(&self) -> Result<MutexGuard<'_, Option<FileHashes>>, PipelineError> {
        let mut hashes = self.hashes.lock();
        if hashes.is_none() {
            let n_lines = lines_of_state(self.path())?.unwrap_or_default();
            *hashes = Some(FileHashes::open(self.path(), n_lines)?);
        }
        Ok(hashes)
    }

    /// Notes the hash of a file that was written, if it is below the directory.
    pub fn note(&self, path: &Path, bytes: &[u8]) -> Result<(), PipelineError> {
        if let Some(name) = name_below(self.path(), path)
            && let Some(hashes) = self.hashes()?.as_mut()
        {
            hashes.note(name, hex_sha256(bytes));
        }
        Ok(())
    }

    /// Writes the line of a part; returns how many lines there are then.
    pub(super) fn commit(&self, part: RunPart) -> Result<u64, PipelineError> {
        let mut hashes = self.hashes()?;
        let Some(hashes) = hashes.as_mut() else { return Ok(0) };
        self.unflushed.add(hashes.path());
        hashes.commit(part)
    }

    /// Writes the line of a part that no state names, when all that was put before is on the disk, and waits until the
    /// line is there too.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn commit_part(&self, part: RunPart) -> Result<u64, PipelineError> {
        self.check_not_moved()?;
        atomic::flush(&self.unflushed.take())?;
        let n_lines = self.commit(part)?;
        atomic::flush(&self.unflushed.take())?;
        Ok(n_lines)
    }

    /// Writes the line of the beginning of a run, with the model that the program has brought along for it.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, and one of the model that was changed since.
    pub fn commit_start(&self) -> Result<(), PipelineError> {
        for path in files_below(&self.path().join(INITIAL_POLICY_DIR))? {
            let bytes = self.read_required(&path)?;
            self.note(&path, &bytes)?;
        }
        if self.hashes()?.as_ref().is_none_or(|hashes| hashes.n_lines() == 0) {
            self.commit_part(RunPart::Start)?;
        }
        Ok(())
    }

    /// Writes the line of a phase that is finished, with these files of it; returns how many lines there are then, for the
    /// state that says that it is finished.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written.
    pub fn commit_phase(&self, phase: Phase, files: &[PathBuf]) -> Result<u64, PipelineError> {
        for path in files {
            let bytes = read_bytes(path)?;
            let bytes = bytes.ok_or_else(|| PipelineError::missing(path.clone()))?;
            self.note(path, &bytes)?;
        }
        self.commit_part(RunPart::Phase { phase })
    }

    /// Writes the summary of a run: it is finished, and all that was put before is on the disk.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, this one or one that was put before.
    pub fn write_end(&self, name: &str, summary: &impl Serialize) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let path = self.path().join(name);
        let bytes = atomic::json_bytes(&path, summary)?;
        self.note(&path, &bytes)?;
        self.commit(RunPart::End)?;
        atomic::write_all_before((&path, &bytes), &[], &self.unflushed.take())
    }

    /// Takes away the summary of a run that goes on, if there is one, and before it the lines of `files.jsonl` that are
    /// not written again yet.
    ///
    /// # Errors
    ///
    /// A file that cannot be removed.
    pub fn remove_end(&self, name: &str) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let path = self.path().join(name);
        if !path.exists() {
            return Ok(());
        }
        if let Some(hashes) = self.hashes()?.as_mut() {
            hashes.cut()?;
        }
        atomic::remove_file(&path)
    }

    /// The hash that was recorded for a file.
    pub(super) fn recorded(&self, path: &Path) -> Result<Option<String>, PipelineError> {
        let Some(name) = name_below(self.path(), path) else { return Ok(None) };
        Ok(self.hashes()?.as_ref().and_then(|hashes| hashes.of(&name)).map(str::to_owned))
    }

    /// A file of the run; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, and one whose hash is not the recorded one.
    pub(super) fn read_recorded(&self, path: &Path) -> Result<Option<Vec<u8>>, PipelineError> {
        let Some(bytes) = read_bytes(path)? else { return Ok(None) };
        match self.recorded(path)? {
            Some(hash) if hash != hex_sha256(&bytes) => {
                Err(PipelineError::ChangedFile { path: path.to_owned() })
            }
            Some(_) | None => Ok(Some(bytes)),
        }
    }

    /// As [`read_recorded`](Self::read_recorded), of a file that was recorded or has to exist.
    pub(super) fn read_required(&self, path: &Path) -> Result<Vec<u8>, PipelineError> {
        self.read_recorded(path)?.ok_or_else(|| PipelineError::missing(path.to_owned()))
    }

    /// Writes the line of an evaluation after the last step, whose files were written.
    pub(super) fn commit_evaluation(&self, dir: EvaluationDir) -> Result<(), PipelineError> {
        let dir = name_below(self.path(), &self.evaluation_dir(dir))
            .expect("evaluations are below the run, under names that are text");
        self.commit(RunPart::Evaluation { dir })?;
        Ok(())
    }

    /// Takes over an evaluation after the last step that an earlier process made; returns whether it is all there.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, and one that has changed since.
    pub(crate) fn keep_evaluation(&self, dir: EvaluationDir) -> Result<bool, PipelineError> {
        self.check_not_moved()?;
        let paths = [RESULTS_FILE, SUMMARY_FILE].map(|name| self.evaluation_dir(dir).join(name));
        let [results, summary] = [self.read_recorded(&paths[0])?, self.read_recorded(&paths[1])?];
        let Some((results, summary)) = results.zip(summary) else { return Ok(false) };
        for (path, bytes) in paths.iter().zip([results, summary]) {
            self.note(path, &bytes)?;
        }
        self.commit_evaluation(dir)?;
        Ok(true)
    }

    /// Removes a step that is given up.
    ///
    /// # Errors
    ///
    /// A directory that cannot be removed.
    pub(crate) fn remove_step(&self, step: StepIdx) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        let dir = self.step_dir(step);
        self.unflushed.forget(&dir);
        if let Some(name) = name_below(self.path(), &dir)
            && let Some(hashes) = self.hashes()?.as_mut()
        {
            hashes.forget(&name);
        }
        atomic::remove_dir(&dir)
    }

    /// Removes what is left of evaluations after the last step: a run that is rebuilt does not build on them.
    ///
    /// # Errors
    ///
    /// A directory that cannot be removed.
    pub(crate) fn remove_last_evaluations(&self) -> Result<(), PipelineError> {
        self.check_not_moved()?;
        EvaluationDir::AFTER_LAST_STEP
            .iter()
            .try_for_each(|dir| atomic::remove_dir(&self.evaluation_dir(*dir)))
    }
}

/// All files below a directory, in the order of their paths; none of one that does not exist.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>, PipelineError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(atomic::failed("read", dir)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(atomic::failed("read", dir))?.path();
        if path.is_dir() { files.extend(files_below(&path)?) } else { files.push(path) }
    }
    files.sort_unstable();
    Ok(files)
}

/// The part of the run that a state commits.
pub(super) fn part_of(history: &[StepRecord], state: &RuntimeState) -> RunPart {
    match (&state.epoch_end, history.last()) {
        (Some(end), Some(last)) if end.epoch == last.epoch => RunPart::EpochEnd { epoch: end.epoch },
        (_, Some(last)) => RunPart::Step { step: last.step },
        (_, None) => RunPart::Baseline,
    }
}
