//! `skillrl train`: from a configuration to a better skill.

use super::UsageError;
use super::start::{load_start, simulated_line};
use crate::args::TrainArgs;
use crate::bank_line::bank_lines;
use crate::progress::Show;
use crate::report_line::summary_lines;
use skillrl::assemble::ModelRole;
use skillrl::config::TrainMode;

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let start = args.config.start();
    let loaded = load_start(&start, args.quiet)?;
    let simulated = simulated_line(&start, &loaded, &ModelRole::of_training(&loaded.config));
    let show = match (args.json, args.quiet) {
        (true, _) => Show::Json,
        (false, true) => Show::Quiet,
        (false, false) => Show::Progress,
    };
    if loaded.config.train.mode == TrainMode::Bank {
        if args.new_journal {
            let message = "`--new-journal` is for runs that train a skill: what a bank holds follows from replies that only its journal has";
            let hint = "bring journal.sqlite back from a copy, with its -wal file, or name another directory as `run.dir`";
            return Err(UsageError::new(message).with_hint(hint).into());
        }
        let (summary, dir) = super::train_bank(&loaded, show)?;
        if !args.json {
            super::print_wrapped(&(bank_lines(&summary, &dir) + &simulated))?;
        }
        return Ok(());
    }
    let (summary, spent, dir) = super::train(&loaded, show, args.new_journal)?;
    if args.json {
        return Ok(());
    }
    let cost = skillrl::cost::run_cost(&loaded.config, &summary.token_summary, &dir);
    let lines = format!("{}\n{simulated}", summary_lines(&summary, cost, spent, &dir));
    super::print_wrapped(&lines)
}
