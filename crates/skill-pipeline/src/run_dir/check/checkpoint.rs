//! The checkpoint of a run that trains weights, what it relies on, and the policy.

use super::{Checking, Fault, Recorded, Remedy};
use crate::error::PipelineError;
use crate::records::bank;
use crate::records::sft::{CHECKPOINTS_DIR, POLICY_DIR};
use crate::run_dir::files::RunPart;
use crate::run_dir::line_log::LogMark;
use crate::run_dir::policy_hashes::{HASHES_FILE, parse_hashes};
use crate::run_dir::read::{parse, read_bytes, read_times};
use serde::Deserialize;
use serde::de::IgnoredAny;
use skill_core::canonical::hex_sha256;
use std::collections::BTreeMap;

/// As much of a checkpoint as says what has to be there.
#[derive(Deserialize)]
struct Position {
    /// Finished steps, or finished iterations.
    #[serde(alias = "iteration")]
    step: u64,
    state: String,
    best: Option<BestState>,
    bank: Option<IgnoredAny>,
    #[serde(default)]
    logs: BTreeMap<String, LogMark>,
}

#[derive(Deserialize)]
struct BestState {
    state: String,
}

/// As much of the manifest of a state as names its files.
#[derive(Deserialize)]
struct Manifest {
    files: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    hash: String,
}

/// The time that a run has taken up to its last checkpoint.
#[derive(Deserialize, Default)]
struct Times {
    seconds: f64,
}

impl Checking<'_> {
    /// The checkpoint with its lines, its weights and its bank; returns true if there is one, or was.
    pub(super) fn checkpoint(
        &mut self,
        (file, times_file): (&str, &str),
        is_finished: bool,
        recorded: &Recorded,
    ) -> Result<bool, PipelineError> {
        let position: Option<Position> = self.versioned(file, Remedy::OnlyCopy)?;
        let read: Result<Times, PipelineError> = read_times(&self.run.join(times_file));
        let times = match read {
            Ok(read) => read,
            Err(error) => {
                self.unreadable(times_file, &error, Remedy::NotNeeded);
                Times::default()
            }
        };
        if is_finished && !self.run.join(times_file).exists() {
            self.damaged(times_file, Fault::Missing, Remedy::NotNeeded);
        }
        let has_worked = is_finished || times.seconds > 0.0 || recorded.has(&RunPart::End);
        let Some(position) = position else {
            if has_worked && !self.run.join(file).exists() {
                self.damaged(file, Fault::Missing, Remedy::OnlyCopy);
            }
            return Ok(has_worked);
        };
        self.check.finished_steps = u32::try_from(position.step).unwrap_or(u32::MAX);
        for (name, mark) in &position.logs {
            self.log_of_lines(name, mark, is_finished);
        }
        if let Some(_events) = position.bank {
            self.bank(bank::BANK_DIR, is_finished, true);
        }
        // A process that works replaces the states of one checkpoint by those of the next.
        if !self.check.is_training {
            let best = position.best.map(|best| best.state);
            for state in [position.state].into_iter().chain(best) {
                self.state(file, &state);
            }
        }
        Ok(true)
    }

    /// A file of lines: as far as the checkpoint relies on it, and behind that nothing once the run is finished.
    fn log_of_lines(&mut self, name: &str, mark: &LogMark, is_finished: bool) {
        let bytes = match read_bytes(&self.run.join(name)) {
            Ok(bytes) => bytes,
            Err(error) => return self.unreadable(name, &error, Remedy::OnlyCopy),
        };
        let Some(bytes) = bytes else {
            // What a teacher has read is removed behind the next checkpoint.
            if mark.lines > 0 && !(self.check.is_training && name.contains('/')) {
                self.damaged(name, Fault::Missing, Remedy::OnlyCopy);
            }
            return;
        };
        let beginning = mark.of_beginning(&bytes);
        let is_exact = is_finished && !self.check.is_training;
        match beginning {
            Some(beginning) if !is_exact || beginning.len() == bytes.len() => self.whole(name),
            None if bytes.is_empty() => self.damaged(name, Fault::Empty, Remedy::OnlyCopy),
            Some(_) | None => self.damaged(name, Fault::Changed, Remedy::OnlyCopy),
        }
    }

    /// A saved state, named in the file `named_in`, and its files, which are named by their hashes.
    fn state(&mut self, named_in: &str, hash: &str) {
        let Some((name, manifest)) = self.addressed(named_in, "states", hash) else { return };
        let files = match parse(&self.run.join(&name), &manifest) {
            Ok(Manifest { files }) => files,
            Err(error) => return self.unreadable(&name, &error, Remedy::OnlyCopy),
        };
        for Object { hash } in files {
            self.addressed(&name, "objects", &hash);
        }
    }

    /// The name and the bytes of a file under the hash of its content; `None` if it is damaged, which is noted.
    fn addressed(&mut self, named_in: &str, dir: &str, hash: &str) -> Option<(String, Vec<u8>)> {
        if !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let detail = format!("names no hash of {dir}: {hash:?}");
            self.damage_of(named_in, Fault::Changed, Remedy::OnlyCopy, Some(&detail));
            return None;
        }
        let name = format!("{CHECKPOINTS_DIR}/{dir}/{hash}");
        if self.is_known(&name) {
            return None;
        }
        let bytes = self.file(&name, Remedy::OnlyCopy, |bytes| hex_sha256(bytes) == hash)?;
        Some((name, bytes))
    }

    /// The policy of a run, by the hashes in its folder.
    pub(super) fn policy(&mut self, is_finished: bool) -> Result<(), PipelineError> {
        let name = format!("{POLICY_DIR}/{HASHES_FILE}");
        // A process that works replaces the folder.
        if self.check.is_training || self.is_known(&name) {
            return Ok(());
        }
        let Some(bytes) = read_bytes(&self.run.join(&name))? else {
            let is_there = self.run.join(POLICY_DIR).exists();
            if !is_finished && !self.check.is_unrecorded && is_there {
                self.damaged(&name, Fault::Missing, Remedy::Resume);
            }
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes);
        let Some(files) = parse_hashes(&text) else {
            let fault = if bytes.is_empty() { Fault::Empty } else { Fault::Changed };
            self.damaged(&name, fault, Remedy::Resume);
            return Ok(());
        };
        self.whole(&name);
        for (file, hash) in files {
            let file = format!("{POLICY_DIR}/{file}");
            if !self.is_known(&file) {
                self.hashed_with(&file, hash, Remedy::Resume);
            }
        }
        Ok(())
    }
}
