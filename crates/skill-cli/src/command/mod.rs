//! One module per command.

pub(crate) mod bank;
pub(crate) mod blame;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod env;
pub(crate) mod estimate;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod journal;
pub(crate) mod lint;
pub(crate) mod mcp;
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
pub(crate) use crate::files::{check_absent, write_files, write_with_parents};
pub(crate) use crate::output::{json, pretty_json, print, print_json, print_pretty_json, print_wrapped, say};
pub(crate) use crate::runtime::{block_on, block_on_unwarned};
#[cfg(any(feature = "mcp", feature = "nats", feature = "weights"))]
pub(crate) use crate::runtime::{heeding_signals, runtime};
use skillrl::config::LoadedConfig;
#[cfg(feature = "weights")]
use skillrl::pipeline::run_dir::policy_hashes::HASHES_FILE;
use std::path::Path;

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
