//! Runs that train a bank: what the commands that look at runs say of them.

use crate::args::{DiffArgs, ShowArgs};
use crate::banks::{blame, diff};
use crate::error::CommandError;
use crate::item::{all_items, print_item};
use crate::run_text::summary::used_words;
use crate::table::{Column, harmless, table, terminal_width};
use skillrl::bank::Bank;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::bank_dir::read_bank;
use skillrl::pipeline::records::bank::{BANK_DIR, RoundRecord};
use skillrl::reports::lines::bank::{round_line, trial_line};
use skillrl::reports::words::split_name;
use skillrl::reports::{BankItem, BankReport, bank_records};
use std::fmt::Write as _;
use std::path::Path;

/// How the bank after a round is named.
const ROUND: &str = "round-";

/// `skillrl show RUN --step N`: one of the rounds.
pub(crate) fn show_round(args: &ShowArgs, round: u32) -> crate::Result {
    let records = bank_records(&args.run)?;
    let Some(record) = records.iter().find(|record| record.round == round) else {
        let message = format!("round {round} of {} is not finished, or does not exist", args.run.display());
        let hint = match records.last() {
            Some(last) => format!("finished rounds are 0 to {}", last.round),
            None => "no round is finished".to_owned(),
        };
        return Err(CommandError::new(message).with_hint(hint).into());
    };
    if args.json {
        return crate::output::print_pretty_json(record);
    }
    crate::output::print_wrapped(&round_text(record))
}

fn round_text(record: &RoundRecord) -> String {
    let mut text = format!("{}\n", round_line(record));
    for rate in &record.rates {
        let [low, high] = rate.interval.map(|bound| 100.0 * bound);
        let pooled = match rate.pooled.rollouts > rate.rollouts {
            true => format!(", {} of {} with earlier rounds", rate.pooled.successes, rate.pooled.rollouts),
            false => String::new(),
        };
        let _ = writeln!(
            text,
            "  {}: {} of {} training rollouts solved{pooled} (95 % interval {low:.1} to {high:.1} %){}",
            harmless(&rate.task_type),
            rate.successes,
            rate.rollouts,
            if rate.is_weak { ", weak" } else { "" }
        );
    }
    for trial in &record.trials {
        let _ = writeln!(text, "  {}", harmless(&trial_line(record.round, trial)));
    }
    for (what, said) in [("left out", &record.left_out), ("note", &record.notes)] {
        for said in said {
            let _ = writeln!(text, "  {what}: {}", harmless(said));
        }
    }
    for (stage, used) in &record.tokens {
        let _ = writeln!(text, "  {stage}: {}", used_words(*used, used.has_counts()));
    }
    text
}

/// `skillrl show RUN --item ID`: an item over all rounds that were validated, what it was shown, and what the agent did on it.
pub(crate) fn show_item(args: &ShowArgs, id: &str) -> crate::Result {
    let report = skillrl::report::bank_with(&args.run, &all_items())?;
    let row = report.items.rows.iter().find(|row| row.id.as_str() == id);
    let row = row.map(|row| (row, item_text(&report, row)));
    let shown_if =
        "an item is shown if it is of the validation split, or of the test split once that is measured";
    print_item((args, id), (&report.items.columns, row), &report.trajectories, ("the bank", shown_if))
}

fn item_text(report: &BankReport, row: &BankItem) -> String {
    let mut text = format!(
        "{}  {}  {} split\n",
        harmless(row.id.as_str()),
        harmless(&row.task_type),
        split_name(row.split)
    );
    let of_test = ["without".to_owned(), "with the bank".to_owned()];
    let columns = if row.split == "test" { &of_test[..] } else { &report.items.columns };
    for (column, cell) in columns.iter().zip(row.cells.chars()) {
        let outcome = match cell {
            '+' => "solved",
            '-' => "failed",
            _ => "not measured",
        };
        let _ = writeln!(text, "  {outcome:<12}  {column}");
    }
    let skills = row.shown.iter().map(|shown| {
        let id = shown.rsplit_once('@').map_or(shown.as_str(), |(id, _)| id);
        let title = report.skill(id).map(|skill| harmless(&skill.title)).unwrap_or_default();
        vec![harmless(shown), title]
    });
    let skills: Vec<Vec<String>> = skills.collect();
    if skills.is_empty() {
        text.push_str("no skill was shown\n");
    } else {
        text.push('\n');
        text.push_str(&table(&[Column::name("shown"), Column::text("title")], &skills, terminal_width()));
    }
    text
}

/// `skillrl blame RUN`: where each skill of the run's bank comes from.
pub(crate) fn blame(run: &Path, step: Option<u32>, is_json: bool) -> crate::Result {
    if step.is_some() {
        let message = format!("{} trains a bank, which has no skill after a step", run.display());
        let hint = format!("`skillrl blame {}` names the round of each skill", run.display());
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    blame::of_bank(&run.join(BANK_DIR), None, is_json)
}

/// `skillrl diff RUN [FROM] [TO]`: what changed between the bank at two moments, or between two versions of a skill.
pub(crate) fn diff(args: &DiffArgs) -> crate::Result {
    let bank = bank_of(&args.run)?;
    let path = args.run.join(BANK_DIR);
    match (moment(args, &bank, &args.from)?, moment(args, &bank, &args.to)?) {
        (Some(before), Some(after)) => diff::of_banks(&before, &after, false),
        (None, None) => diff::of_versions(&bank, &path, [&args.from, &args.to], false),
        (Some(_), None) | (None, Some(_)) => {
            let message = format!("`{}` and `{}` are a bank and a version of a skill", args.from, args.to);
            Err(CommandError::new(message).with_hint(MOMENTS).into())
        }
    }
}

const MOMENTS: &str = "name two moments of the bank: `0` (the beginning), `round-N` (after that round), `best` (as it is now); or \
                       two versions of a skill, such as gen_003@1 and gen_003@2";

/// The bank at a moment of the run; `None` for what is not the name of a moment.
fn moment(args: &DiffArgs, bank: &Bank, name: &str) -> crate::Result<Option<Bank>> {
    if name == "best" {
        return Ok(Some(bank.clone()));
    }
    if name == "0" {
        let run = RunReader::open(&args.run)?;
        let initial = run.config().config.pointer("/bank/initial").and_then(|initial| initial.as_str());
        let Some(initial) = initial.filter(|initial| !initial.is_empty()) else {
            return Ok(Some(Bank::new()));
        };
        let message = format!("the run began with the bank {initial}, of which it keeps no copy");
        let hint = format!("skillrl bank diff {initial} {}", args.run.join(BANK_DIR).display());
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    let Some(round) = name.strip_prefix(ROUND) else { return Ok(None) };
    let records = bank_records(&args.run)?;
    let round = round.parse::<u32>().ok().filter(|round| records.iter().any(|record| record.round == *round));
    let Some(round) = round else {
        let message = format!("`{name}` of {} is not finished, or does not exist", args.run.display());
        return Err(CommandError::new(message).with_hint(MOMENTS).into());
    };
    let mut then = Bank::new();
    // What a process does in one round stands together; what a person does counts from the next event on.
    let last = bank.log().iter().rposition(|record| record.round <= round).map_or(0, |last| last + 1);
    for record in bank.log().iter().take(last) {
        then.record(record.round, record.by, record.event.clone()).map_err(|error| {
            CommandError::new(format!("the log of the bank cannot be followed: {error}"))
                .with_code(crate::exit_code::RUN_DIR)
        })?;
    }
    Ok(Some(then))
}

pub(crate) fn bank_of(run: &Path) -> crate::Result<Bank> {
    Ok(read_bank(&run.join(BANK_DIR))?.bank)
}
