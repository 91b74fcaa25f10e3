//! `skillrl train`: from a configuration to a better skill.

mod grid;

use super::before_train::served_name;
use super::data_start::{self, DataStart, Use, has_answered_call};
use super::{CommandError, before_train, dry_run};
use crate::args::skill::AgentArgs;
use crate::args::{Start, TrainArgs};
use crate::consent::is_new_address;
use crate::progress::Show;
use crate::run_text::summary::{bank_lines, next_of_bank, next_of_document, summary_lines, verdict_text};
use crate::start::{load_start, simulated_line};
use before_train::{Baseline, Beginning, Consent};
use clap::Parser as _;
use skillrl::Failure;
use skillrl::config::{LoadedConfig, ModelRole, TrainMode};
use skillrl::pipeline::run_dir::forget_unanswered;
use skillrl::reports::Verdict;
use std::path::Path;

pub(crate) fn run(args: &TrainArgs) -> crate::Result {
    let mut start = Start { is_training: true, agrees: args.yes, ..args.config.start() };
    // Before what was set by hand, which counts.
    start.overrides.splice(0..0, args.settings());
    let used = if args.dry_run { Use::Plans } else { Use::Trains };
    let data = data_start::resolve(&args.data, start, used, args.quiet)?;
    if args.is_grid() {
        return grid::run(&data, args);
    }
    if args.dry_run {
        return dry_run::show(&data.start, args.json);
    }
    let outcome = train(&data, args, args.yes);
    if let (Err(_), Some(written)) = (&outcome, &data.written) {
        written.remove_if_unused();
    }
    outcome
}

/// The arguments of `train` by themselves, whose defaults other commands start from.
#[derive(clap::Parser)]
struct Plain {
    #[command(flatten)]
    args: TrainArgs,
}

/// Trains by a configuration that a command has made, and about which it has asked.
pub(super) fn run_made(start: Start, common: &AgentArgs, agrees: bool) -> crate::Result {
    let plain = Plain::try_parse_from(["train"]).map_err(|error| CommandError::new(error.to_string()))?;
    let args = TrainArgs { json: common.json, quiet: common.quiet, yes: agrees, ..plain.args };
    train(&DataStart { start, written: None, is_data: false }, &args, agrees)
}

/// Trains one run; `agrees` says whether to begin is agreed to already.
fn train(data: &DataStart, args: &TrainArgs, agrees: bool) -> crate::Result {
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
    let warnings = before_train::say_and_ask(&loaded, consent)?;
    // What the baseline shows is asked about in each run of a grid.
    let baseline = || Baseline::of(Consent { agrees: args.yes, ..consent });
    before_train::check_known_baseline(&loaded, baseline())?;
    let beginning = || Beginning { warnings: warnings.clone(), baseline: baseline() };
    match trained(&loaded, start, beginning(), args) {
        Err(error) if is_other_run(&error) && !has_answered_call(&loaded.run_dir()) => {
            // Nothing was answered, so nothing is lost.
            if !forget_unanswered(&loaded.run_dir())? {
                return Err(error);
            }
            if !args.quiet {
                super::say("no call of the run was answered yet: it starts again with these settings");
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
        let (summary, dir) = super::train_bank(loaded, show)?;
        if args.json {
            return Ok(());
        }
        let sent = skillrl::report::overview(&dir).ok();
        let lines = bank_lines(&summary, sent.as_ref().map(|run| run.calls), &dir);
        let verdict = verdict_of(&dir).map(|verdict| {
            let next = next_of_bank(verdict.outcome, &dir);
            verdict_text(&verdict, sent.and_then(|run| run.money), &next)
        });
        return super::print_wrapped(&format!("{lines}{simulated}{}", verdict.unwrap_or_default()));
    }
    let (summary, spent, dir) = super::train(loaded, show, args.new_journal, beginning)?;
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
    super::print_wrapped(&lines)
}

/// The verdict on a run that has ended; a report that cannot be read takes nothing from the run.
pub(super) fn verdict_of(dir: &Path) -> Option<Verdict> {
    skillrl::report::verdict(dir)
        .inspect_err(|error| tracing::warn!(%error, "the verdict on the run cannot be read"))
        .ok()
}

/// Weights and bank, phase by phase.
mod phased {
    use crate::args::TrainArgs;
    use crate::progress::Show;
    use skillrl::config::LoadedConfig;

    #[cfg(not(feature = "weights"))]
    pub(super) fn run(_: &LoadedConfig, _: &TrainArgs, _: Show, _: &str) -> crate::Result {
        Err(crate::command::not_built_in("local models"))
    }

    #[cfg(feature = "weights")]
    pub(super) fn run(loaded: &LoadedConfig, args: &TrainArgs, show: Show, simulated: &str) -> crate::Result {
        use crate::command::{block_on, print_wrapped};
        use crate::progress::Progress;
        use crate::run_report::write_after_phases;
        use crate::run_text::fact_lines;
        use crate::run_text::summary::verdict_text;
        use skillrl::phased::PhasedTrainer;
        use skillrl::pipeline::StopSignal;
        use skillrl::pipeline::records::phases::Phase;
        use skillrl::reports::RunOverview;
        use std::sync::Arc;

        let (out, stop) = (loaded.run_dir(), StopSignal::default());
        let trainer = PhasedTrainer::new(loaded.clone(), &out, Arc::new(Progress::new(show)), stop.clone())
            .with_reuse(args.reuse.clone());
        let stopping = "stopping after the step under way; press Ctrl-C again to stop at once";
        let outcome = block_on(stop, stopping, trainer.train())?;
        write_after_phases(&out);
        outcome?;
        if args.json {
            return Ok(());
        }
        let found = skillrl::report::overview(&out).ok();
        let phases = found.as_ref().and_then(RunOverview::phases);
        let mut text = phases.map(|phases| fact_lines(&phases.results(), "")).unwrap_or_default();
        let verdict = super::verdict_of(&out);
        let rl = Phase::Rl.dir(&out);
        let (policy, bank) = (rl.join("policy"), rl.join("bank"));
        let (policy, bank) = (policy.display(), bank.display());
        text.push_str(&format!("the policy is {policy}, its bank {bank}\n{simulated}"));
        let next = format!("`skillrl eval --policy {policy} --bank {bank}` measures both");
        text.push_str(
            &verdict.map_or_else(|| format!("next: {next}\n"), |verdict| verdict_text(&verdict, None, &next)),
        );
        print_wrapped(&text)
    }
}
