//! `skillrl show`: what a run or one of its steps came to, in the terminal.

pub(crate) mod inspect;

use crate::args::ShowArgs;
use crate::error::CommandError;
use crate::item::{all_items, print_item};
use crate::outcomes::outcomes_in;
use crate::run_report::print_triggers;
use crate::run_text::described;
use crate::run_text::provenance::{seen, step_lines};
use crate::run_text::summary::used_words;
use crate::table::{harmless, terminal_width};
use crate::wrap::wrapped;
use crate::{bank_run, banks};
use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use skillrl::core::{MeanScore, StepIdx};
use skillrl::pipeline::RunReader;
use skillrl::pipeline::kind::trains_bank;
use skillrl::pipeline::provenance::{EditEvidence, StepEvidence};
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use skillrl::reports::lines::scores;
use skillrl::reports::lines::step::compared_words;
use skillrl::reports::{DiffLine, EditLine, ItemRow, Report, StepRow};
use std::fmt::Write as _;

pub(crate) fn run(args: &ShowArgs) -> crate::Result {
    if let Some(kept) = skillrl::report::triggers(&args.run)? {
        return print_triggers(&kept, args.json);
    }
    let outcomes = outcomes_in(&args.run)?;
    if !outcomes.is_empty() {
        return show_outcomes(&outcomes, args.json);
    }
    if args.run.exists()
        && run_status(&args.run) == RunStatus::Absent
        && args.step.is_none()
        && args.item.is_none()
    {
        return inspect::say_what_it_is(&args.run, args.json);
    }
    let is_bank = trains_bank(&args.run);
    let run = RunReader::open(&args.run)?;
    match (args.step, &args.item) {
        (Some(round), _) if is_bank => bank_run::show_round(args, round),
        (None, Some(item)) if is_bank => bank_run::show_item(args, item),
        (Some(step), _) => step_of(&run, StepIdx(step), args.json),
        (None, Some(item)) => item_of(args, item),
        (None, None) => whole(args, &run),
    }
}

/// What coding agents came to on the cases of a skill.
fn show_outcomes(outcomes: &[Value], is_json: bool) -> crate::Result {
    if is_json {
        let agents: Vec<&Value> = outcomes.iter().map(|kept| &kept["outcome"]).collect();
        return super::print_json(&json!({ "agents": agents }));
    }
    let texts: Vec<&str> = outcomes.iter().filter_map(|kept| kept["text"].as_str()).collect();
    super::print_wrapped(&texts.join("\n"))
}

/// The run: status, results, a line for each step, and the skills of its bank.
fn whole(args: &ShowArgs, run: &RunReader) -> crate::Result {
    let view = skillrl::report::view(&args.run)?;
    let overview = &view.overview;
    let is_bank = overview.bank().is_some();
    if args.json && is_bank {
        let report = skillrl::report::bank(&args.run)?;
        return super::print_pretty_json(&report);
    }
    if args.json {
        let history = run.history()?;
        let shown = json!({ "status": overview, "history": history });
        return super::print_pretty_json(&shown);
    }
    let mut text = described(overview);
    let verdict = skillrl::report::verdict(&args.run)?;
    if overview.verdict.is_none() {
        let _ = writeln!(text, "\n{}", verdict.line());
    }
    let arms = verdict.arms_text();
    if !arms.is_empty() {
        let _ = write!(text, "\n{arms}");
    }
    if !verdict.cautions.is_empty() {
        text.push_str("\nBefore you trust these numbers:\n");
    }
    for caution in &verdict.cautions {
        let _ = writeln!(text, "- {}", harmless(&caution.words));
    }
    if !overview.trains_weights() {
        let rows = view.rows();
        text.push_str(if rows.is_empty() { "" } else { "\n" });
        rows.iter().for_each(|row| text.push_str(&format!("{}\n", row.text)));
    }
    super::print_wrapped(&text)?;
    if is_bank {
        super::print(&format!("\n{}", banks::listed::listed(&bank_run::bank_of(&args.run)?)))?;
    }
    Ok(())
}

fn step_of(run: &RunReader, step: StepIdx, is_json: bool) -> crate::Result {
    let history = run.history()?;
    let Some(record) = history.iter().find(|record| record.step == step) else {
        let message = format!("step {step} of {} is not finished, or there is none", run.path().display());
        let hint = format!("finished steps are 1 to {}", history.len());
        return Err(CommandError::new(message).with_hint(hint).into());
    };
    let row = StepRow::read(run, record)?;
    let evidence = StepEvidence::read(run, step)?;
    if is_json {
        let shown = json!({ "record": record, "evidence": evidence, "diff": row.diff });
        return super::print_pretty_json(&shown);
    }
    super::print(&step_text(record, &row, &evidence))
}

fn step_text(record: &StepRecord, row: &StepRow, evidence: &StepEvidence) -> String {
    let ids: Vec<String> = record.batch_item_ids.iter().map(|id| harmless(id.as_str())).collect();
    let mut text = match &record.comparison {
        Some(comparison) => format!("compares {} with the current skill\n", compared_words(comparison)),
        None => format!(
            "epoch {}, batch of {} items: {}\n  {}\n",
            record.epoch,
            record.rollout_n,
            scores(MeanScore { hard: record.rollout_hard, soft: record.rollout_soft }, None),
            ids.join(", ")
        ),
    };
    // Its edits follow one by one, with what they say.
    text.push_str(&step_lines(evidence, &[], false));
    for (edit, line) in evidence.edits.iter().zip(&row.edits) {
        edit_text(&mut text, edit, line);
    }
    for note in &row.notes {
        let _ = writeln!(text, "  note: {}", harmless(note));
    }
    let width = terminal_width();
    let mut text = wrapped(&text, width);
    if !row.diff.is_empty() {
        text.push('\n');
        text.push_str(&diff_text(&row.diff));
    }
    if !record.tokens.is_empty() {
        text.push('\n');
        for (stage, used) in &record.tokens {
            let line = format!("{stage}: {}\n", used_words(*used, used.has_counts()));
            text.push_str(&wrapped(&line, width));
        }
    }
    text
}

fn edit_text(text: &mut String, edit: &EditEvidence, line: &EditLine) {
    let note = line.note.as_deref().map(|note| format!(": {}", harmless(note))).unwrap_or_default();
    let _ = writeln!(text, "  edit {} ({}){note}", edit.index, line.status);
    for (sign, said) in [("at", &edit.edit.target), ("put", &edit.edit.content)] {
        if !said.trim().is_empty() {
            let _ = writeln!(text, "    {sign:<4} {}", harmless(said.trim()).replace('\n', "\n         "));
        }
    }
    for source in &edit.sources {
        let _ = writeln!(text, "    {}", seen(source, true));
    }
}

fn diff_text(lines: &[DiffLine]) -> String {
    let mut text = String::new();
    for line in lines {
        let style = match line.sign {
            '-' => Style::new().fg_color(Some(AnsiColor::Red.into())),
            '+' => Style::new().fg_color(Some(AnsiColor::Green.into())),
            _ => Style::new(),
        };
        let shown = if line.sign == '@' {
            "…".to_owned()
        } else {
            format!("{}{}", line.sign, harmless(&line.text))
        };
        let _ = writeln!(text, "{style}{shown}{style:#}");
    }
    text
}

/// An item over all skills that were measured, and what the best one's agent did on it.
fn item_of(args: &ShowArgs, id: &str) -> crate::Result {
    let report = skillrl::report::read_with(&args.run, all_items())?;
    let row = report.items.rows.iter().find(|row| row.id == id);
    let row = row.map(|row| (row, item_text(&report, row)));
    let shown_if = "an item is shown if it is of the validation split, or if it improved, regressed or failed with the best skill on the test split";
    print_item((args, id), (&report.items.columns, row), &report.trajectories, ("the best skill", shown_if))
}

fn item_text(report: &Report, row: &ItemRow) -> String {
    let mut text = format!("{}  {}\n", harmless(&row.id), harmless(&row.task_type));
    let accepted = report.items.is_accepted.iter();
    for ((maker, is_accepted), cell) in report.items.columns.iter().zip(accepted).zip(row.cells.chars()) {
        let skill = if *is_accepted { maker.clone() } else { format!("{maker}, rejected") };
        let outcome = match cell {
            '+' => "solved",
            '-' => "failed",
            '~' => "some draws",
            _ => "not measured",
        };
        let _ = writeln!(text, "  {outcome:<12}  {skill}");
    }
    text
}
