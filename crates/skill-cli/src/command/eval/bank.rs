//! `skillrl eval --bank`: the tasks of a split with a bank and without it.

use crate::args::{EvalArgs, MeasurementArgs, Start};
use crate::command::CommandError;
use crate::consent::agree_to_address;
use crate::measuring::described_spend;
use crate::measuring::{
    score_words, unkept, warn_of_missing_hashes, warn_of_other_data, warn_of_replies, warn_of_test_split,
};
use crate::progress::{Progress, Show};
use crate::start::{load_start, simulated_line};
use crate::table::{counted, harmless};
use skillrl::config::ModelRole;
use skillrl::engine::Engine;
use skillrl::measurement::bank::{BankEvaluation, BankMeasurement, ShownSkills};
use skillrl::pipeline::StopSignal;
use skillrl::pipeline::bank_dir::read_bank;
use skillrl::pipeline::records::evaluation::Evaluation;
use skillrl::reports::words::{measured, percent};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Tasks of this many types are named at most.
const MAX_NAMED: usize = 12;

pub(crate) fn run(args: &EvalArgs, bank_path: &Path) -> crate::Result {
    let start = Start { agrees: args.yes, ..args.config.start() };
    let loaded = crate::command::with_policy(load_start(&start, args.quiet)?, args.policy.as_deref())?;
    let split = crate::measuring::split_of(args)?;
    let MeasurementArgs { out, force, against, .. } = &args.measurement;
    if against.is_some() {
        let message = "a bank is compared with no bank; `--against` is for skills";
        return Err(CommandError::new(message).with_hint("leave out `--against` or `--bank`").into());
    }
    let mut engine = Engine::new(&loaded);
    let named = (bank_path, args.skill.as_deref());
    let mut measurement = BankMeasurement::new(&loaded, &mut engine, split, named)?;
    for note in measurement.notes.iter().filter(|note| note.is_of_log()) {
        crate::command::say(&format!("note: {}", harmless(&note.to_string())));
    }
    agree_to_address(&start, &loaded)?;
    warn_of_test_split(&loaded, split);
    warn_of_other_data(&loaded, split, &measurement.settings);
    if let Some(out) = out {
        if !force {
            warn_of_missing_hashes(out);
        }
        measurement.keep_in(out, *force, &engine)?;
    }
    let n_before = engine.budget().spent().calls;
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let measuring = measurement.measure((&progress, &stop));
    let evaluation = crate::command::block_on(stop.clone(), "stopping", measuring)?
        .map_err(|error| unkept(error, out.is_some()))?;
    warn_of_replies(&evaluation.with.results);
    if read_bank(bank_path).map_or(true, |now| now.bank.view().version() != measurement.view.version()) {
        crate::command::say(&format!(
            "warning: {} has changed since this measurement began, which is of the bank as it was then",
            bank_path.display()
        ));
    }
    let value = measurement.to_json(bank_path, &evaluation);
    if let Some(out) = out {
        BankMeasurement::write(out, &value)?;
    }
    if args.json {
        return crate::command::print(&format!("{value}\n"));
    }
    let n_skills = measurement.view.skills().len() as u64;
    let mut text = format!(
        "bank    {}: {} active, {}\nsplit   {split}, {}\n",
        bank_path.display(),
        counted(n_skills, "skill"),
        measured(n_skills, measurement.n_unmeasured() as u64),
        counted(measurement.env.items(split).len() as u64, "item"),
    );
    text.push_str(&described(&evaluation));
    if out.is_some() {
        let _ = writeln!(text, "{}", described_spend(&loaded, &engine, n_before));
    }
    text.push_str(&simulated_line(&start, &loaded, &[ModelRole::Target]));
    crate::command::print_wrapped(&text)
}

/// Scores with and without the bank, by type too, and what was shown.
fn described(evaluation: &BankEvaluation) -> String {
    let mut text = String::new();
    for (label, arm) in [("without", &evaluation.without), ("with   ", &evaluation.with)] {
        let words = score_words(arm.score.hard, arm.score.soft, arm.results.len());
        let _ = writeln!(text, "{label} {words}");
    }
    for (task_type, [before, after, n]) in
        by_type(&evaluation.without, &evaluation.with).into_iter().take(MAX_NAMED)
    {
        let name = if task_type.is_empty() { "without a type" } else { &task_type };
        let _ = writeln!(text, "  {name}: {} without, {} with, {n} items", percent(before), percent(after));
    }
    if let Some(compared) = &evaluation.difference {
        text.push_str(&crate::against::describe(compared));
    }
    let ShownSkills { counts, n_unknown, types_without_skills, .. } = &evaluation.shown;
    let _ = writeln!(text, "shown   {} of the bank to these items", counted(counts.len() as u64, "skill"));
    if *n_unknown > 0 {
        let _ = writeln!(
            text,
            "warning: {} of no type that the bank knows; they are shown general skills alone",
            counted(*n_unknown as u64, "item")
        );
    }
    if !types_without_skills.is_empty() {
        let names: Vec<&str> = types_without_skills.iter().map(String::as_str).collect();
        let _ = writeln!(text, "warning: the bank has no skills for the types {}", names.join(", "));
    }
    text
}

fn by_type(without: &Evaluation, with: &Evaluation) -> BTreeMap<String, [f64; 3]> {
    let mut sums: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for (before, after) in without.results.iter().zip(&with.results) {
        let [one, other, n] = sums.entry(before.task_type.clone()).or_default();
        *one += before.hard;
        *other += after.hard;
        *n += 1.0;
    }
    for [one, other, n] in sums.values_mut() {
        *one /= *n;
        *other /= *n;
    }
    sums
}
