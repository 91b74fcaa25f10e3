//! What people have noted on a run.

use serde::Serialize;
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::run_dir::notes::{RunNote, read_notes};
use skill_pipeline::{PipelineError, RunReader};

/// The most notes that a report shows: the newest.
const MAX_NOTES: usize = 200;

/// A note, a pin or a ban.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoteRow {
    /// Its number.
    pub number: usize,
    /// `note`, `pin`, `forbid` or `withdraw`.
    pub kind: &'static str,
    /// What it is about, in words.
    pub about: String,
    /// What it says.
    pub text: String,
    /// The step that has read it first, if one has.
    pub read_by: Option<u32>,
    /// Whether it was taken back.
    pub is_withdrawn: bool,
}

pub(super) fn read(run: &RunReader, history: &[StepRecord]) -> Result<Vec<NoteRow>, PipelineError> {
    let notes = read_notes(run.path())?;
    let rows = notes.iter().skip(notes.len().saturating_sub(MAX_NOTES));
    Ok(rows.map(|note| row(note, &notes, history)).collect())
}

fn row(note: &RunNote, notes: &[RunNote], history: &[StepRecord]) -> NoteRow {
    let about = match (&note.item, note.step, note.edit) {
        (Some(item), _, _) => format!("item {item}"),
        (None, Some(step), Some(edit)) => format!("edit {edit} of step {step}"),
        (None, Some(step), None) => format!("step {step}"),
        (None, None, _) => "the run".to_owned(),
    };
    let text = match (&note.forbidden, note.withdraws) {
        (Some(forbidden), _) => forbidden.text().to_owned(),
        (None, Some(number)) => format!("takes note {number} back"),
        (None, None) => note.text.clone(),
    };
    let reader =
        history.iter().find(|record| record.n_notes_read.is_some_and(|n_read| n_read >= note.number));
    NoteRow {
        number: note.number,
        kind: note.kind.as_str(),
        about,
        text,
        read_by: reader.map(|record| record.step.0),
        is_withdrawn: notes.iter().any(|other| other.withdraws == Some(note.number)),
    }
}
