//! A note is checked against what the run has, and added to the file.

use super::{MAX_CONSTRAINTS, MAX_NOTE_CHARS, NOTES_FILE, NoteKind, RunNote, StepNotes, read_notes};
use crate::error::{NoteRefusal, PipelineError};
use crate::event::Stage;
use crate::kind::trains_bank;
use crate::records::document::StepAction;
use crate::run_dir::atomic::failed;
use crate::run_dir::event_log::{cut_half_a_line, unix_millis};
use crate::run_dir::reader::RunReader;
use crate::run_dir::{EvaluationDir, JOURNAL_FILE};
use crate::text::{clip, one_line};
use skill_core::constraints::{Forbidden, is_in};
use skill_core::{Edit, EditOp, ItemId, StepIdx};
use skill_envs::Split;
use skill_llm::journal::JournalReader;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;

/// How many of the last rollouts of the journal are looked at for those of the step under way.
const LAST_ROLLOUTS: u32 = 4_096;
/// The most characters of an edit in a note about it.
const EDIT_CHARS: usize = 200;

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteAbout {
    /// The run as a whole; or a text of the skill that is pinned or forbidden.
    Run,
    /// A training item with a rollout in the run.
    Item(ItemId),
    /// A finished step.
    Step(StepIdx),
    /// An edit of a finished step, from 1.
    Edit {
        /// The step.
        step: StepIdx,
        /// The edit.
        edit: usize,
    },
}

/// A note that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteRequest {
    /// Something that the next step's analysts read.
    Note {
        /// What it is about.
        about: NoteAbout,
        /// What it says.
        text: String,
    },
    /// A text of the current skill that stays, or that of an edit.
    Pin(Held),
    /// A text that is not added again, or an edit that is not made again.
    Forbid(Held),
    /// An earlier note does not count any longer.
    Withdraw {
        /// Its number.
        number: usize,
    },
}

/// What is pinned or forbidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// A text.
    Text(String),
    /// What an edit of a finished step did.
    Edit {
        /// The step.
        step: StepIdx,
        /// The edit, from 1.
        edit: usize,
    },
}

/// Adds a note to a run; returns the line that was written.
///
/// The run may be at work: the next step that begins reads it.
///
/// # Errors
///
/// [`PipelineError::Note`] for a note that is about something that does not exist or says nothing, and a file that cannot
/// be read or written. Then nothing is written.
pub fn add_note(run: &RunReader, asked: &NoteRequest) -> Result<RunNote, PipelineError> {
    let is_document = run.config().config.pointer("/train/mode").is_none_or(|mode| mode == "document");
    if trains_bank(run.path()) || !is_document {
        return Err(NoteRefusal::NoDocument.into());
    }
    // What is refused leaves no file behind.
    checked(run, &read_notes(run.path())?, asked)?;
    let path = run.path().join(NOTES_FILE);
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .append(true)
        .open(&path)
        .map_err(failed("write", &path))?;
    // Numbers follow from the lines, so that two who write at once wait for each other.
    file.lock().map_err(failed("lock", &path))?;
    let notes = read_notes(run.path())?;
    let written = checked(run, &notes, asked)?;
    let note = RunNote { number: notes.len() + 1, unix_ms: Some(unix_millis()), ..written };
    let mut line = serde_json::to_vec(&note).map_err(|error| failed("write", &path)(error.into()))?;
    line.push(b'\n');
    // A process that was killed while it wrote has left a line without an end, which nobody has read.
    cut_half_a_line(&mut file)
        .and_then(|()| file.write_all(&line))
        .and_then(|()| file.sync_data())
        .map_err(failed("write", &path))?;
    Ok(note)
}

fn checked(run: &RunReader, notes: &[RunNote], asked: &NoteRequest) -> Result<RunNote, PipelineError> {
    match asked {
        NoteRequest::Note { about, text } => {
            let note = RunNote { text: said(text)?, ..RunNote::default() };
            match about {
                NoteAbout::Run => Ok(note),
                NoteAbout::Item(item) => {
                    check_item(run, item)?;
                    Ok(RunNote { item: Some(item.clone()), ..note })
                }
                NoteAbout::Step(step) => {
                    check_step(run, *step)?;
                    Ok(RunNote { step: Some(*step), ..note })
                }
                NoteAbout::Edit { step, edit } => {
                    let about = Some(words_of(run, *step, *edit)?);
                    Ok(RunNote { step: Some(*step), edit: Some(*edit), about, ..note })
                }
            }
        }
        NoteRequest::Pin(held) => pinned(run, held, notes),
        NoteRequest::Forbid(held) => forbidden(run, held, notes),
        NoteRequest::Withdraw { number } => {
            let is_withdrawn = notes.iter().any(|note| note.withdraws == Some(*number));
            let is_there = notes.iter().any(|note| note.number == *number && note.withdraws.is_none());
            match is_there && !is_withdrawn {
                true => {
                    Ok(RunNote { kind: NoteKind::Withdraw, withdraws: Some(*number), ..RunNote::default() })
                }
                false => Err(NoteRefusal::NoNote { number: *number, n_notes: notes.len() }.into()),
            }
        }
    }
}

fn pinned(run: &RunReader, held: &Held, notes: &[RunNote]) -> Result<RunNote, PipelineError> {
    check_room(notes)?;
    let note = match held {
        Held::Text(text) => RunNote { text: said(text)?, ..RunNote::default() },
        Held::Edit { step, edit } => {
            let found = edit_of(run, *step, *edit)?;
            let adds = matches!(found.op, EditOp::Append | EditOp::InsertAfter | EditOp::Replace);
            if !adds || found.content.trim().is_empty() {
                return Err(nothing_to_hold(*step, *edit, &found, "pin"));
            }
            let text = found.content.trim().to_owned();
            RunNote { step: Some(*step), edit: Some(*edit), text, ..RunNote::default() }
        }
    };
    let last = run.state()?.map_or(StepIdx(0), |state| state.last_completed_step);
    if !is_in(&run.skill_after(last)?, &note.text) {
        return Err(
            NoteRefusal::NotInSkill { text: clip(&one_line(&note.text), EDIT_CHARS).into_owned() }.into()
        );
    }
    Ok(RunNote { kind: NoteKind::Pin, ..note })
}

fn forbidden(run: &RunReader, held: &Held, notes: &[RunNote]) -> Result<RunNote, PipelineError> {
    check_room(notes)?;
    let note = RunNote { kind: NoteKind::Forbid, ..RunNote::default() };
    match held {
        Held::Text(text) => Ok(RunNote { forbidden: Some(Forbidden::Content { text: said(text)? }), ..note }),
        Held::Edit { step, edit } => {
            let found = edit_of(run, *step, *edit)?;
            let forbidden = Forbidden::of(&found);
            match forbidden {
                Some(_) => Ok(RunNote { step: Some(*step), edit: Some(*edit), forbidden, ..note }),
                None => Err(nothing_to_hold(*step, *edit, &found, "forbid")),
            }
        }
    }
}

fn nothing_to_hold(step: StepIdx, edit: usize, found: &Edit, what: &'static str) -> PipelineError {
    NoteRefusal::NothingToHold { step, edit, op: found.op.as_str().to_owned(), what }.into()
}

fn check_room(notes: &[RunNote]) -> Result<(), PipelineError> {
    let constraints = StepNotes::of(notes, notes.len(), notes.len()).constraints;
    match constraints.pinned.len() + constraints.forbidden.len() < MAX_CONSTRAINTS {
        true => Ok(()),
        false => Err(NoteRefusal::TooMany { most: MAX_CONSTRAINTS }.into()),
    }
}

/// A text that may be written.
fn said(text: &str) -> Result<String, PipelineError> {
    let text = text.trim();
    let chars = text.chars().count();
    match chars {
        0 => Err(NoteRefusal::Empty.into()),
        chars if chars > MAX_NOTE_CHARS => Err(NoteRefusal::TooLong { chars, most: MAX_NOTE_CHARS }.into()),
        _ => Ok(text.to_owned()),
    }
}

/// A note is of a training item that the run has a rollout of.
fn check_item(run: &RunReader, item: &ItemId) -> Result<(), PipelineError> {
    let history = run.history()?;
    let mut known: BTreeSet<ItemId> =
        history.iter().flat_map(|record| record.batch_item_ids.iter().cloned()).collect();
    if known.contains(item) {
        return Ok(());
    }
    let last = history.last().map_or(0, |record| record.step.0);
    known.extend(items_of_step(run, StepIdx(last.saturating_add(1)))?);
    if known.contains(item) {
        return Ok(());
    }
    for (split, place) in [(Split::Val, EvaluationDir::Baseline), (Split::Test, EvaluationDir::TestBaseline)]
    {
        let is_there = run.scores(place)?.is_some_and(|scores| scores.iter().any(|(id, _)| id == item));
        if is_there {
            return Err(NoteRefusal::HeldOut { item: item.clone(), split }.into());
        }
    }
    Err(NoteRefusal::NoItem { item: item.clone(), known: known.into_iter().collect() }.into())
}

/// The items of a step under way that have a rollout, by the journal.
fn items_of_step(run: &RunReader, step: StepIdx) -> Result<Vec<ItemId>, PipelineError> {
    let path = run.path().join(JOURNAL_FILE);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let rows = JournalReader::open(&path)?.last_results(0, LAST_ROLLOUTS)?;
    let place = format!("step {step} / {}", Stage::Rollout.as_str());
    let of_step = rows.into_iter().filter(|row| row.place.starts_with(&place));
    Ok(of_step.map(|row| ItemId::new(row.subject)).collect())
}

fn check_step(run: &RunReader, step: StepIdx) -> Result<StepAction, PipelineError> {
    let history = run.history()?;
    let found = history.iter().find(|record| record.step == step);
    let last = history.last().map_or(StepIdx(0), |record| record.step);
    found.map(|record| record.action).ok_or_else(|| NoteRefusal::NoStep { step, last }.into())
}

fn edit_of(run: &RunReader, step: StepIdx, edit: usize) -> Result<Edit, PipelineError> {
    check_step(run, step)?;
    let edits = run.ranked_patch(step)?.unwrap_or_default().edits;
    let found = edit.checked_sub(1).and_then(|place| edits.get(place));
    found.cloned().ok_or_else(|| NoteRefusal::NoEdit { step, edit, n_edits: edits.len() }.into())
}

/// An edit, and what became of its step, in words: `append "- Be exact."; accept_new_best`.
fn words_of(run: &RunReader, step: StepIdx, edit: usize) -> Result<String, PipelineError> {
    let action = check_step(run, step)?;
    let found = edit_of(run, step, edit)?;
    let quoted = |text: &str| serde_json::Value::from(clip(&one_line(text), EDIT_CHARS).as_ref()).to_string();
    let did = match &found.op {
        EditOp::Append | EditOp::InsertAfter => format!("{} {}", found.op.as_str(), quoted(&found.content)),
        EditOp::Replace => format!("replace {} by {}", quoted(&found.target), quoted(&found.content)),
        EditOp::Delete => format!("delete {}", quoted(&found.target)),
        EditOp::Unknown(op) => one_line(op),
    };
    Ok(format!("{did}; the step: {}", action.as_str().replace('_', " ")))
}
