//! One module per command.

pub(crate) mod bank;
mod bank_run;
mod before_train;
pub(crate) mod blame;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod compare;
pub(crate) mod config;
mod data_start;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod distill;
pub(crate) mod doctor;
mod dry_run;
pub(crate) mod env;
pub(crate) mod estimate;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod journal;
mod kinds;
pub(crate) mod lint;
pub(crate) mod mcp;
pub(crate) mod newest;
mod noise;
pub(crate) mod note;
pub(crate) mod prompts;
pub(crate) mod prune;
pub(crate) mod reference;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rl;
pub(crate) mod serve;
pub(crate) mod sft;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod skill;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod train;
pub(crate) mod train_server;
pub(crate) mod try_item;
pub(crate) mod watch;
pub(crate) mod worker;

pub(crate) use crate::error::CommandError;
#[cfg(not(all(
    feature = "mcp",
    feature = "nats",
    feature = "openenv",
    feature = "parquet",
    feature = "weights"
)))]
pub(crate) use crate::error::not_built_in;
pub(crate) use crate::files::{check_absent, is_there_already, write_files, write_with_parents};
pub(crate) use crate::output::{json, pretty_json, print, print_json, print_pretty_json, print_wrapped, say};
use crate::progress::{Progress, Show};
pub(crate) use crate::runtime::{block_on, block_on_unwarned};
#[cfg(any(feature = "mcp", feature = "nats", feature = "weights"))]
pub(crate) use crate::runtime::{heeding_signals, runtime};
use before_train::{Beginning, Watched};
use skillrl::config::LoadedConfig;
use skillrl::core::usage::dollars;
use skillrl::llm::Spent;
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::records::bank::BankSummary;
#[cfg(feature = "weights")]
use skillrl::pipeline::run_dir::policy_hashes::HASHES_FILE;
use skillrl::pipeline::{StopSignal, Summary};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the first Ctrl-C of a run is answered with.
const STOPPING_RUN: &str =
    "stopping when the calls under way are answered; press Ctrl-C again to stop at once";

/// The configuration with a trained policy as its target, where one is named.
#[cfg(feature = "weights")]
pub(crate) fn with_policy(loaded: LoadedConfig, policy: Option<&Path>) -> crate::Result<LoadedConfig> {
    let Some(policy) = policy else { return Ok(loaded) };
    let loaded = skillrl::policy::with_policy(&loaded, policy)?;
    if !policy.join(HASHES_FILE).exists() {
        say(&format!("note: {} has no {HASHES_FILE}, so its files are not verified", policy.display()));
    }
    Ok(loaded)
}

/// The configuration, in a program that can run no policy.
#[cfg(not(feature = "weights"))]
pub(crate) fn with_policy(loaded: LoadedConfig, policy: Option<&Path>) -> crate::Result<LoadedConfig> {
    match policy {
        Some(_) => Err(not_built_in("local models")),
        None => Ok(loaded),
    }
}

/// Trains as configured; returns the summary, what the run has spent over all its processes, and its directory.
fn train(
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
pub(crate) fn train_bank(loaded: &LoadedConfig, show: Show) -> crate::Result<(BankSummary, PathBuf)> {
    let stop = StopSignal::default();
    let (trainer, dir) = skillrl::trainer::bank(loaded, Arc::new(Progress::new(show)), stop.clone())?;
    let outcome = block_on(stop, STOPPING_RUN, trainer.train(&dir))?;
    crate::run_report::write_after(&dir, RunKind::Bank, &outcome);
    Ok((outcome?, dir))
}

/// What a command has sent, for its last line.
fn described_spend(loaded: &LoadedConfig, engine: &skillrl::engine::Engine<'_>, n_before: u64) -> String {
    let spent = engine.budget().spent();
    let n_sent = spent.calls.saturating_sub(n_before);
    let money = skillrl::cost::has_prices(&loaded.config.models.target).then_some(spent.money);
    let money = money.map(|money| format!(", {} in all", dollars(money))).unwrap_or_default();
    match n_sent {
        0 => "no request was sent now, all replies were kept".to_owned(),
        1 => format!("1 request was sent now{money}"),
        n_sent => format!("{n_sent} requests were sent now{money}"),
    }
}
