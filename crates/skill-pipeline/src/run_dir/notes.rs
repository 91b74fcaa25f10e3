//! `notes.jsonl`: what people say of a run while it is trained.
//!
//! The file is in the run directory, and grows by lines that are never changed. A step reads it when it begins: the
//! notes that no step before it has read are shown to its analysts, and what is pinned or forbidden holds for its edits
//! ([`StepNotes`]). How many lines it has read is in its record, and what they say in `notes.json` of its directory. A
//! line that comes later belongs to the next step, also where the step is made again after a stop: the log of events says
//! how many lines there were when it began.
//!
//! Lines hold times, so the file is none that two equal runs have in common; what a step has read of it is.
//!
//! # Invariants
//!
//! - A step reads the notes that existed when it first began, however often it is resumed; a run without notes has
//!   no file for them. Held by `a_note_that_comes_while_a_step_is_made_belongs_to_the_next_one_whatever_stops_it`,
//!   `a_run_that_is_made_again_reads_each_note_in_the_step_that_has_read_it`,
//!   `a_run_without_notes_has_no_file_of_them`.
//! - Notes about tasks outside the training split are refused. Held by
//!   `notes_on_what_does_not_exist_are_refused_with_what_does_and_leave_no_file`.

mod add;

pub use add::{Held, NoteAbout, NoteRequest, add_note};

use super::atomic::failed;
use super::line_log::whole_lines;
use super::read::read_bytes;
use super::reader::RunReader;
use crate::error::PipelineError;
use crate::records::FORMAT_VERSION;
use crate::text::{clip, one_line};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::constraints::{EditConstraints, Forbidden};
use skill_core::{ItemId, StepIdx};
use std::collections::BTreeSet;
use std::path::Path;

/// The name of the file in the directory of a run.
pub const NOTES_FILE: &str = "notes.jsonl";

/// The name of the file in the directory of a step.
pub(crate) const STEP_NOTES_FILE: &str = "notes.json";

/// The most characters of a text.
pub const MAX_NOTE_CHARS: usize = 2_000;

/// The most characters of what a step is told of notes; of more, the newest count.
const MAX_TOLD_CHARS: usize = 12_000;

/// The most texts that are pinned, and edits that are forbidden, at a time.
pub(crate) const MAX_CONSTRAINTS: usize = 100;

skill_core::named_enum! {
    /// What a line of the file is.
    #[derive(Default)]
    pub enum NoteKind {
        /// Something that the next step's analysts read.
        #[default]
        Note = "note",
        /// A text of the skill that stays.
        Pin = "pin",
        /// An edit that is not made again.
        Forbid = "forbid",
        /// Takes an earlier line back.
        Withdraw = "withdraw",
    }
}

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunNote {
    /// Its number, from 1.
    pub number: usize,
    /// What it is.
    pub kind: NoteKind,
    /// The item that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<ItemId>,
    /// The step that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepIdx>,
    /// The number of the edit in that step, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<usize>,
    /// What that edit did, and what became of it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What is said, or pinned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What is forbidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forbidden: Option<Forbidden>,
    /// The number of the line that is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraws: Option<usize>,
    /// The first step that may read it; without one, the next that begins. Replays set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<StepIdx>,
    /// When it was written, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix_ms: Option<u64>,
}

/// The notes of a run, in order; none where there is no file. A last line without an end is one that is being written.
///
/// # Errors
///
/// A file that cannot be read, and a line that is not a note.
pub fn read_notes(run: &Path) -> Result<Vec<RunNote>, PipelineError> {
    let path = run.join(NOTES_FILE);
    let Some(bytes) = read_bytes(&path)? else { return Ok(Vec::new()) };
    let lines = whole_lines(&bytes).zip(1_usize..);
    let read = lines.map(|(line, number)| {
        let damaged = |message| PipelineError::Corrupt { path: path.clone(), message };
        let note: RunNote = serde_json::from_slice(line)
            .map_err(|error| damaged(format!("line {number} is not a note: {error}")))?;
        match note.number == number {
            true => Ok(note),
            false => Err(damaged(format!("line {number} holds note {}: lines are missing", note.number))),
        }
    });
    read.collect()
}

/// What a step knows of the notes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepNotes {
    /// Lines of the file that it has read, those of earlier steps included.
    pub n_read: usize,
    /// What its analysts are shown.
    pub unread: Vec<RunNote>,
    /// What holds for its edits.
    pub constraints: EditConstraints,
}

/// `steps/step_0001/notes.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepNotesFile {
    /// See [`FORMAT_VERSION`].
    pub format_version: String,
    /// Lines of `notes.jsonl` that the step and those before it have read.
    pub n_read: usize,
    /// The notes that the step's analysts were shown, without times.
    pub notes: Vec<RunNote>,
    /// The texts that were pinned.
    pub pinned: Vec<String>,
    /// The edits that were forbidden.
    pub forbidden: Vec<Forbidden>,
}

impl StepNotes {
    /// What a step knows that has read the first `n_read` lines, of which an earlier one had read the first `n_before`.
    pub fn of(notes: &[RunNote], n_before: usize, n_read: usize) -> Self {
        let read = notes.get(..n_read).unwrap_or(notes);
        let withdrawn: BTreeSet<usize> = read.iter().filter_map(|note| note.withdraws).collect();
        let standing = || read.iter().filter(|note| !withdrawn.contains(&note.number));
        let pinned = standing().filter(|note| note.kind == NoteKind::Pin).map(|note| note.text.clone());
        Self {
            n_read: read.len(),
            unread: standing()
                .filter(|note| note.kind == NoteKind::Note && note.number > n_before)
                .map(|note| RunNote { unix_ms: None, from_step: None, ..note.clone() })
                .collect(),
            constraints: EditConstraints {
                pinned: pinned.collect(),
                forbidden: standing().filter_map(|note| note.forbidden.clone()).collect(),
            },
        }
    }

    /// What the optimizer is told; empty if nothing is to be said.
    pub fn told(&self) -> String {
        let mut left = MAX_TOLD_CHARS;
        let newest = self.unread.iter().rev().map(line_of).take_while(|line| {
            let n_chars = line.chars().count();
            let has_room = n_chars <= left;
            left = left.saturating_sub(n_chars);
            has_room
        });
        let mut lines: Vec<String> = newest.collect();
        lines.reverse();
        let mut parts = Vec::new();
        if !lines.is_empty() {
            parts.push(format!("Notes of people who look on at the training:\n{}", lines.join("\n")));
        }
        let EditConstraints { pinned, forbidden } = &self.constraints;
        if !pinned.is_empty() {
            let lines: Vec<String> = pinned.iter().map(|text| quoted(text)).collect();
            parts.push(format!(
                "Lines of the skill that stay as they are; an edit that changes one is not applied:\n{}",
                lines.join("\n")
            ));
        }
        if !forbidden.is_empty() {
            let lines: Vec<String> = forbidden
                .iter()
                .map(|forbidden| match forbidden {
                    Forbidden::Content { text } => format!("{} is not added", quoted(text)),
                    Forbidden::Deletion { text } => format!("{} is not deleted", quoted(text)),
                })
                .collect();
            parts.push(format!("Edits that people do not want; they are not applied:\n{}", lines.join("\n")));
        }
        parts.join("\n\n")
    }

    /// What the directory of the step keeps; `None` if there was nothing to read.
    pub fn file(&self) -> Option<StepNotesFile> {
        (self.n_read > 0).then(|| StepNotesFile {
            format_version: FORMAT_VERSION.to_owned(),
            n_read: self.n_read,
            notes: self.unread.clone(),
            pinned: self.constraints.pinned.clone(),
            forbidden: self.constraints.forbidden.clone(),
        })
    }
}

fn quoted(text: &str) -> String {
    format!("- {}", Value::from(clip(&one_line(text), MAX_NOTE_CHARS).as_ref()))
}

/// A note as the analysts read it.
fn line_of(note: &RunNote) -> String {
    let about = match (&note.item, note.step, note.edit) {
        (Some(item), _, _) => format!("On the task {}: ", one_line(item.as_str())),
        (None, Some(step), Some(edit)) => {
            let did = note.about.as_deref().map(|about| format!(" ({about})")).unwrap_or_default();
            format!("On edit {edit} of step {step}{did}: ")
        }
        (None, Some(step), None) => format!("On step {step}: "),
        (None, None, _) => String::new(),
    };
    format!("- {about}{}", one_line(&note.text))
}

/// The notes of a recorded run for a run that makes it again: each line names the step that has read it first.
///
/// # Errors
///
/// A file that cannot be read or written.
pub fn copy_notes_for_replay(recorded: &RunReader, into: &Path) -> Result<(), PipelineError> {
    let notes = read_notes(recorded.path())?;
    let path = into.join(NOTES_FILE);
    if notes.is_empty() || path.exists() {
        return Ok(());
    }
    let history = recorded.history()?;
    let reader_of = |number: usize| {
        history.iter().find(|record| record.n_notes_read.is_some_and(|n_read| n_read >= number))
    };
    let mut lines = Vec::new();
    for note in notes {
        // What no finished step has read is not part of what is made again.
        let Some(record) = reader_of(note.number) else { break };
        let line = RunNote { from_step: Some(record.step), ..note };
        lines.extend(serde_json::to_vec(&line).map_err(|error| failed("write", &path)(error.into()))?);
        lines.push(b'\n');
    }
    if lines.is_empty() {
        return Ok(());
    }
    super::atomic::create_dir(into)?;
    super::atomic::write(&path, &lines)
}

/// How many lines of the notes a step read when it began in an earlier process, by the log of events; `None` if it has not
/// begun before.
///
/// # Errors
///
/// A log that cannot be read, and a damaged line behind the last start of a step, which may be that of this one.
pub(crate) fn read_at_an_earlier_start(run: &Path, step: StepIdx) -> Result<Option<usize>, PipelineError> {
    let path = run.join("events.jsonl");
    let Some(bytes) = read_bytes(&path)? else { return Ok(None) };
    let (mut n_read, mut damaged) = (None, None);
    for (number, line) in (1_u64..).zip(whole_lines(&bytes)) {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            damaged = Some(number);
            continue;
        };
        if event.get("event").and_then(Value::as_str) != Some("step_started") {
            continue;
        }
        damaged = None;
        if event.get("step").and_then(Value::as_u64) == Some(u64::from(step.0)) {
            n_read = Some(event.get("n_notes").and_then(Value::as_u64).unwrap_or_default());
        }
    }
    if let Some(number) = damaged {
        let message = format!(
            "line {number} is damaged, and may say which notes step {step} reads; without that line it reads all of them"
        );
        return Err(PipelineError::Corrupt { path, message });
    }
    Ok(n_read.map(|n_read| usize::try_from(n_read).unwrap_or(usize::MAX)))
}

/// How many lines a step reads that begins now: all, or those that are meant for a step up to this one.
pub(crate) fn to_read(notes: &[RunNote], step: StepIdx) -> usize {
    notes.iter().take_while(|note| note.from_step.is_none_or(|from| from <= step)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "{\"event\":\"step_started\",\"step\":2,\"n_notes\":3}\n";
    const DAMAGED: &str = "{\"event\":\"step_st\n";

    /// What step 2 has read; an error names the damaged line.
    #[track_caller]
    fn check(events: &str, expect: Result<Option<usize>, u64>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("events.jsonl"), events).unwrap();
        let read = read_at_an_earlier_start(dir.path(), StepIdx(2)).map_err(|error| match error {
            PipelineError::Corrupt { message, .. } => {
                message.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap()
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(read, expect);
    }

    #[test]
    fn a_damaged_line_that_may_be_the_start_of_a_step_is_no_missing_start() {
        let first = START.replace(":2,", ":1,");
        check("", Ok(None));
        check(&first, Ok(None));
        check(START, Ok(Some(3)));
        check(&format!("{first}{DAMAGED}"), Err(2));
        check(&format!("{START}{DAMAGED}"), Err(2));
        check(&format!("{DAMAGED}{START}"), Ok(Some(3)));
        check(&format!("{DAMAGED}{first}"), Ok(None));
        // A line without its end is one that is being written.
        check(&format!("{first}{}", DAMAGED.trim_end()), Ok(None));
    }
}
