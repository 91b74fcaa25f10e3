//! Runs of documents: the state says which lines of `files.jsonl` hold.

use super::{Checking, Fault, Recorded, Remedy, logs};
use crate::error::PipelineError;
use crate::records::document::{RuntimeState, StepRecord};
use crate::records::summary::Summary;
use crate::run_dir::files::{self, FILES_FILE, RunPart};
use crate::run_dir::history::{self, STEP_RECORD, is_hash_of, lacks_a_step};
use crate::run_dir::line_log::whole_lines;
use crate::run_dir::path::{HISTORY_FILE, HISTORY_LOG, STATE_FILE, SUMMARY_FILE};
use crate::run_dir::read::read_bytes;
use crate::run_dir::whole::damaged_files;
use skill_core::StepIdx;

impl Checking<'_> {
    /// All files but the configuration.
    pub(super) fn document(&mut self) -> Result<(), PipelineError> {
        let state: Option<RuntimeState> = self.versioned(STATE_FILE, Remedy::Rebuild)?;
        let is_state_there = self.run.join(STATE_FILE).exists();
        if !is_state_there && (self.run.join(HISTORY_FILE).exists() || self.has_lines(HISTORY_LOG)) {
            self.damaged(STATE_FILE, Fault::Missing, Remedy::Rebuild);
        }
        let has_ended = logs::has_ended(self.run);
        let summary: Option<Summary> = self.versioned(SUMMARY_FILE, Remedy::Resume)?;
        let n_lines = match &state {
            Some(state) => state.files_lines,
            // Without a state that can be read all lines are taken for those that it would name.
            None => is_state_there.then_some(u64::MAX),
        };
        let recorded = n_lines.map(|n_lines| self.recorded(n_lines)).unwrap_or_default();
        for (name, hash) in &recorded.hashes {
            // A process that was killed before it wrote the summary is not one whose summary was lost.
            if name == SUMMARY_FILE && !has_ended && !self.run.join(name).exists() {
                continue;
            }
            if !self.is_known(name) {
                self.hashed(name, hash);
            }
        }
        if summary.is_some()
            && state.as_ref().is_some_and(|state| state.files_lines.is_some())
            && !recorded.has(&RunPart::End)
            && !self.check.is_training
            && !self.is_known(FILES_FILE)
        {
            self.files_changed("the line of the end is missing");
        }
        if let Some(state) = &state {
            self.check.finished_steps = state.last_completed_step.0;
            self.histories(state, &recorded)?;
            self.skills(state, summary.as_ref());
        }
        self.logs(state.as_ref().is_some_and(|state| state.files_lines.is_some()), has_ended)?;
        self.journal(self.has_trained() && state.is_some())
    }

    /// The records of steps, and the files of those that have no hashes.
    fn histories(&mut self, state: &RuntimeState, recorded: &Recorded) -> Result<(), PipelineError> {
        let last = state.last_completed_step;
        let is_recorded = |step: StepIdx| {
            recorded.hashes.get(&format!("steps/step_{:04}/{STEP_RECORD}", step.0)).map(String::as_str)
        };
        let has_log = self.run.join(HISTORY_LOG).exists();
        let name = if has_log || state.files_lines.is_some() { HISTORY_LOG } else { HISTORY_FILE };
        if last == StepIdx(0) {
            return Ok(());
        }
        if !self.run.join(name).exists() {
            self.damaged(name, Fault::Missing, Remedy::Resume);
            return Ok(());
        }
        let mut history: Vec<StepRecord> = Vec::new();
        let mut changed = None;
        let read = history::for_each(self.run, |record: StepRecord| {
            let step = StepIdx(u32::try_from(history.len()).unwrap_or(u32::MAX).saturating_add(1));
            let is_whole = record.step == step
                && is_recorded(step).is_none_or(|hash| is_hash_of(self.run, &record, hash));
            if !is_whole {
                changed = Some(step);
            }
            history.push(record);
            changed.is_none() && step < last
        });
        let found = match (read, changed) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(step)) => {
                let message = format!("is not the record of step {step} at its place");
                Err(PipelineError::Corrupt { path: self.run.join(name), message })
            }
            (Ok(path), None) if history.len() < last.0 as usize => Err(lacks_a_step(path, last)),
            (Ok(_), None) => Ok(()),
        };
        let is_over = recorded.has(&RunPart::End) && name == HISTORY_LOG && self.is_summed_up();
        match found {
            Ok(()) if is_over && self.has_more_lines(name, last)? => {
                let detail = Some("has more than the records of its steps");
                self.damage_of(name, Fault::Changed, Remedy::Resume, detail);
            }
            Ok(()) => self.whole(name),
            Err(error) => self.unreadable(name, &error, Remedy::Resume),
        }
        history.retain(|record| record.step <= last && is_recorded(record.step).is_none());
        // A damaged state may name any number of steps; the hashes are as many as there are.
        let of_steps = recorded.hashes.keys().filter_map(|name| files::step_of_record(name));
        let n_recorded = of_steps.filter(|step| *step <= last).count();
        let n_recorded = u32::try_from(n_recorded).unwrap_or(u32::MAX);
        self.check.n_unrecorded_steps = last.0.saturating_sub(n_recorded);
        if self.has_trained() {
            self.unrecorded(&history, recorded);
        }
        Ok(())
    }

    /// True of a run that is not being extended.
    fn is_summed_up(&self) -> bool {
        !self.check.is_training && self.run.join(SUMMARY_FILE).exists()
    }

    /// True if a file holds anything behind so many lines.
    fn has_more_lines(&self, name: &str, n_lines: StepIdx) -> Result<bool, PipelineError> {
        let bytes = read_bytes(&self.run.join(name))?.unwrap_or_default();
        Ok(!bytes.ends_with(b"\n") || whole_lines(&bytes).count() != n_lines.0 as usize)
    }

    /// Looks at the files of steps without hashes: what is there can be read, and what has to be there is.
    fn unrecorded(&mut self, history: &[StepRecord], recorded: &Recorded) {
        for path in damaged_files(self.run, history) {
            let Some(name) = files::name_below(self.run, &path) else { continue };
            if recorded.hashes.contains_key(&name) || self.is_known(&name) {
                continue;
            }
            let fault = match path.metadata() {
                Ok(file) if file.len() == 0 => Fault::Empty,
                Ok(_) => Fault::Changed,
                Err(_) => Fault::Missing,
            };
            self.damaged(&name, fault, Remedy::Rebuild);
        }
    }
}
