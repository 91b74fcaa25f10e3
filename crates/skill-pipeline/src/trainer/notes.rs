//! What people have noted, as a step reads it.

use super::TrainState;
use super::run::Run;
use crate::error::PipelineError;
use crate::run_dir::notes::{NOTES_FILE, StepNotes, read_at_an_earlier_start, read_notes, to_read};
use skill_core::StepIdx;

impl Run<'_> {
    /// What a step knows of the notes that begins now: a step that has begun before knows what it knew then.
    pub(super) fn notes_at_start(
        &self,
        state: &TrainState,
        step: StepIdx,
    ) -> Result<StepNotes, PipelineError> {
        let notes = read_notes(self.dir.path())?;
        let n_before = state.history.iter().rev().find_map(|record| record.n_notes_read).unwrap_or_default();
        if notes.len() < n_before {
            let message =
                format!("has {} lines, of which step {} has read {n_before}", notes.len(), state.last_step);
            return Err(PipelineError::Corrupt { path: self.dir.path().join(NOTES_FILE), message });
        }
        if notes.is_empty() {
            return Ok(StepNotes::default());
        }
        let n_read = match read_at_an_earlier_start(self.dir.path(), step)? {
            Some(n_read) => n_read.clamp(n_before, notes.len()),
            None => to_read(&notes, step).max(n_before),
        };
        Ok(StepNotes::of(&notes, n_before, n_read))
    }
}
