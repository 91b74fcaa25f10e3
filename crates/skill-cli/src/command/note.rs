//! `skillrl note`: what a person says of a run, read by the next step.

use super::CommandError;
use crate::args::NoteArgs;
use crate::table::{Column, harmless, table, terminal_width};
use skillrl::core::{ItemId, StepIdx};
use skillrl::pipeline::RunReader;
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::run_dir::notes::{
    Held, NoteAbout, NoteKind, NoteRequest, RunNote, add_note, read_notes,
};

pub(crate) fn run(args: &NoteArgs) -> crate::Result {
    let run = RunReader::open(&args.run)?;
    if args.list {
        return list(&run, args.json);
    }
    let note = add_note(&run, &request(args)?)?;
    if args.json {
        return super::print_pretty_json(&note);
    }
    let number = note.number;
    super::print(&match note.kind {
        NoteKind::Note => format!("note {number} is read by the analysts of the next step that begins\n"),
        NoteKind::Pin => format!(
            "pin {number} holds from the next step that begins; `skillrl note RUN --withdraw {number}` takes it back\n"
        ),
        NoteKind::Forbid => format!(
            "ban {number} holds from the next step that begins; `skillrl note RUN --withdraw {number}` takes it back\n"
        ),
        NoteKind::Withdraw => {
            format!(
                "note {} does not count from the next step that begins\n",
                note.withdraws.unwrap_or_default()
            )
        }
    })
}

fn request(args: &NoteArgs) -> crate::Result<NoteRequest> {
    if let Some(number) = args.withdraw {
        return Ok(NoteRequest::Withdraw { number });
    }
    let text = args.text.clone().unwrap_or_default();
    let place = args.step.map(StepIdx).zip(args.edit);
    if !args.pin && !args.forbid {
        let about = match (&args.item, args.step, place) {
            (Some(item), _, _) => NoteAbout::Item(ItemId::new(item.as_str())),
            (None, _, Some((step, edit))) => NoteAbout::Edit { step, edit },
            (None, Some(step), None) => NoteAbout::Step(StepIdx(step)),
            (None, None, None) => NoteAbout::Run,
        };
        return Ok(NoteRequest::Note { about, text });
    }
    let held = match (place, args.step) {
        (Some(_), _) if args.text.is_some() => {
            let message = "an edit is pinned or forbidden as it is: leave the text out, or --step and --edit";
            return Err(CommandError::new(message).into());
        }
        (Some((step, edit)), _) => Held::Edit { step, edit },
        (None, Some(_)) => {
            return Err(CommandError::new("--pin and --forbid take a text, or --step with --edit").into());
        }
        (None, None) => Held::Text(text),
    };
    Ok(if args.pin { NoteRequest::Pin(held) } else { NoteRequest::Forbid(held) })
}

fn list(run: &RunReader, is_json: bool) -> crate::Result {
    let notes = read_notes(run.path())?;
    if is_json {
        return super::print_pretty_json(&notes);
    }
    if notes.is_empty() {
        return super::print("the run has no notes\n");
    }
    let history = run.history()?;
    let rows: Vec<Vec<String>> = notes.iter().map(|note| row(note, &notes, &history)).collect();
    let columns = [
        Column::number("number"),
        Column::text("kind"),
        Column::text("about"),
        Column::text("read by"),
        Column::text("text"),
    ];
    super::print(&table(&columns, &rows, terminal_width()))
}

fn row(note: &RunNote, notes: &[RunNote], history: &[StepRecord]) -> Vec<String> {
    let about = match (&note.item, note.step, note.edit) {
        (Some(item), _, _) => format!("item {item}"),
        (None, Some(step), Some(edit)) => format!("step {step}, edit {edit}"),
        (None, Some(step), None) => format!("step {step}"),
        (None, None, _) => "the run".to_owned(),
    };
    let read = history.iter().find(|record| record.n_notes_read.is_some_and(|n_read| n_read >= note.number));
    let read_by = read.map_or_else(|| "not yet".to_owned(), |record| format!("step {}", record.step));
    let is_withdrawn = notes.iter().any(|other| other.withdraws == Some(note.number));
    let kind = format!("{}{}", note.kind.as_str(), if is_withdrawn { ", withdrawn" } else { "" });
    let text = match (&note.forbidden, note.withdraws) {
        (Some(forbidden), _) => forbidden.text().to_owned(),
        (None, Some(number)) => format!("note {number}"),
        (None, None) => note.text.clone(),
    };
    vec![note.number.to_string(), kind, about, read_by, harmless(&text)]
}
