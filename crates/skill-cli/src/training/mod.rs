//! Training of one run: what is asked before it, what it prints, and its report.

mod before;
mod phased;

use crate::args::skill::AgentArgs;
use crate::args::{Start, TrainArgs};
use crate::consent::is_new_address;
use crate::data_start::{DataStart, has_answered_call};
use crate::error::CommandError;
use crate::output::{print_wrapped, say};
use crate::progress::{Progress, Show};
use crate::run_report::verdict_of;
use crate::run_text::summary::{bank_lines, next_of_bank, next_of_document, summary_lines, verdict_text};
use crate::runtime::{STOPPING_RUN, block_on};
use crate::start::{load_start, simulated_line};
use before::{Beginning, Consent, Watched, served_name};
use skillrl::Failure;
use skillrl::config::{LoadedConfig, ModelRole, TrainMode};
use skillrl::llm::Spent;
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::run_dir::forget_unanswered;
use skillrl::pipeline::{StopSignal, Summary};
use skillrl::reports::Verdict;
use std::path::PathBuf;
use std::sync::Arc;

/// Trains by a configuration that a command has made, and about which it has asked.
pub(crate) fn train_made(start: Start, common: &AgentArgs, agrees: bool) -> crate::Result {
    let args = TrainArgs { json: common.json, quiet: common.quiet, yes: agrees, ..TrainArgs::default() };
    train(&DataStart { start, written: None, is_data: false }, &args, agrees)
}

/// Trains one run; `agrees` says whether to begin is agreed to already.
pub(crate) fn train(data: &DataStart, args: &TrainArgs, agrees: bool) -> crate::Result {
    let start = &data.start;
    let loaded = load_start(start, args.quiet)?;
    let consent = Consent {
        agrees,
        is_data: data.is_data,
        is_new: data.is_data || is_new_address(start, &loaded),
        is_quiet: args.quiet || args.json,
        calls_option: match start.made.is_some() && !data.is_data {
            true => "--calls ",
            false => "--set budget.calls=",
        },
    };
    let warnings = before::say_and_ask(&loaded, consent)?;
    // What the baseline shows is asked about in each run of a grid.
    let asks_to_go_on = data.is_data && !args.yes;
    if asks_to_go_on {
        before::check_known_baseline(&loaded)?;
    }
    let beginning = || Beginning { warnings: warnings.clone(), asks_to_go_on };
    match trained(&loaded, start, beginning(), args) {
        Err(error) if is_other_run(&error) && !has_answered_call(&loaded.run_dir()) => {
            // Nothing was answered, so nothing is lost.
            if !forget_unanswered(&loaded.run_dir())? {
                return Err(error);
            }
            if !args.quiet {
                say("no call of the run was answered yet: it starts again with these settings");
            }
            trained(&loaded, start, beginning(), args)
        }
        outcome => outcome,
    }
}

fn is_other_run(error: &crate::CliError) -> bool {
    matches!(error, crate::CliError::Run(error) if error.failure() == Failure::OtherRun)
}

fn trained(loaded: &LoadedConfig, start: &Start, beginning: Beginning, args: &TrainArgs) -> crate::Result {
    let simulated = simulated_line(start, loaded, &ModelRole::of_training(&loaded.config));
    let show = Show::of(args.json, args.quiet);
    if loaded.config.train.mode == TrainMode::Weights {
        return phased::run(loaded, args, show, &simulated);
    }
    if let Some(run) = args.reuse.first() {
        let message = format!("--reuse {} is for runs whose `train.mode` is \"weights\"", run.display());
        return Err(CommandError::new(message).with_hint("leave it out, or set `train.mode`").into());
    }
    if loaded.config.train.mode == TrainMode::Bank {
        if args.new_journal {
            let message = "`--new-journal` is for runs that train a skill: what a bank holds follows from replies that only its journal has";
            let hint = "bring journal.sqlite back from a copy, with its -wal file, or name another directory as `run.dir`";
            return Err(CommandError::new(message).with_hint(hint).into());
        }
        let (summary, dir) = bank(loaded, show)?;
        if args.json {
            return Ok(());
        }
        let sent = skillrl::report::overview(&dir).ok();
        let lines = bank_lines(&summary, sent.as_ref().map(|run| run.calls), &dir);
        let verdict = verdict_of(&dir).map(|verdict| {
            let next = next_of_bank(verdict.outcome, &dir);
            verdict_text(&verdict, sent.and_then(|run| run.money), &next)
        });
        return print_wrapped(&format!("{lines}{simulated}{}", verdict.unwrap_or_default()));
    }
    let (summary, spent, dir) = document(loaded, show, args.new_journal, beginning)?;
    if args.json {
        return Ok(());
    }
    let cost = skillrl::cost::run_cost(&loaded.config, &summary.token_summary, &dir);
    let verdict = verdict_of(&dir).unwrap_or_else(|| Verdict::of_summary(&summary, None));
    let n_candidates = summary.total_accepts + summary.total_rejects + summary.total_indecisive;
    let paid = spent.map(|spent| spent.money).filter(|_| cost.is_some());
    let said = verdict_text(&verdict, paid, &next_of_document(verdict.outcome, n_candidates, &dir));
    // Cancelled calls of simulated models cost nothing.
    let is_served =
        ModelRole::of_training(&loaded.config).iter().any(|role| served_name(loaded, *role).is_some());
    let spent = spent.filter(|_| is_served);
    let lines = format!("{}\n{simulated}{said}", summary_lines(&summary, cost, spent, &dir));
    print_wrapped(&lines)
}

/// Trains as configured; returns the summary, what the run has spent over all its processes, and its directory.
fn document(
    loaded: &LoadedConfig,
    show: Show,
    new_journal: bool,
    beginning: Beginning,
) -> crate::Result<(Summary, Option<Spent>, PathBuf)> {
    let stop = StopSignal::default();
    let watched = Arc::new(Watched::new(Progress::new(show), beginning, stop.clone()));
    let (trainer, dir) = skillrl::trainer::document(loaded, Arc::clone(&watched) as _, stop.clone())?;
    let trainer = if new_journal { trainer.with_lost_journal() } else { trainer };
    let outcome = block_on(stop, STOPPING_RUN, trainer.train(&dir))?;
    crate::run_report::write_after_document(&dir, &outcome);
    if let (Err(error), Some(stopped)) = (&outcome, watched.stopped())
        && error.is_stop()
    {
        return Err(stopped.into());
    }
    Ok((outcome?, trainer.spent(), dir))
}

/// Trains a bank as configured; returns what the run came to, and its directory.
fn bank(loaded: &LoadedConfig, show: Show) -> crate::Result<(BankSummary, PathBuf)> {
    let stop = StopSignal::default();
    let (trainer, dir) = skillrl::trainer::bank(loaded, Arc::new(Progress::new(show)), stop.clone())?;
    let outcome = block_on(stop, STOPPING_RUN, trainer.train(&dir))?;
    crate::run_report::write_after(&dir, &outcome);
    Ok((outcome?, dir))
}
