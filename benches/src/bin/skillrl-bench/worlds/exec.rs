//! A program that is stepped through, with one process.

use crate::Failure;
use crate::plan::WorldArgs;
use crate::row::median;
use clap::Args;
use serde::{Deserialize, Serialize};
use skillrl::envs::exec::{ExecConfig, ExecProgram};
use skillrl::envs::{Split, World as _};
use std::time::Instant;

/// The action that is taken: one that no world understands, so that an episode goes on for ever.
const ACTION: &str = "look around";

/// Which program to step through, and how often.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    how_much: WorldArgs,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// What the program took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct ExecReport {
    pub(crate) steps_per_second: f64,
}

/// Steps through the program.
pub(crate) async fn run(args: &ExecArgs) -> Result<ExecReport, Failure> {
    let WorldArgs { rounds, steps, .. } = args.how_much;
    let mut config = ExecConfig::new(args.command.iter().cloned());
    config.processes = 1;
    let program = ExecProgram::start(config).await?;
    let world = program.world()?;
    let item = world.items(Split::Train).first().ok_or("the program has no items")?;
    let mut episode = world.episode(item)?;
    episode.reset().await?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        for _ in 0..steps {
            if episode.step(ACTION).await?.done {
                return Err("the episode is over".into());
            }
        }
        rates.push(f64::from(steps) / began.elapsed().as_secs_f64());
    }
    Ok(ExecReport { steps_per_second: median(rates) })
}
