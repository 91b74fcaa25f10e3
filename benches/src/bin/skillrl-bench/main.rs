//! The benchmark: skillrl against a bare HTTP loop and against its own critical path, the worlds, and large runs, as a table.
//!
//! The server (`provider`) runs in a process of its own, and so does whatever is measured, so that no measurement sees the memory, the connections or the threads of another; repetitions of what is
//! compared take turns, since the machine may be shared. The program asserts nothing about time.

#![expect(clippy::print_stdout, reason = "the results of the program")]
#![expect(clippy::print_stderr, reason = "progress, for the person who waits")]

mod calls;
mod machine;
mod measure;
mod plan;
mod process;
mod provider;
mod row;
mod runs;
mod server;
mod table;
mod training;
mod waves;
mod worlds;

use clap::{Parser, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

/// Why a measurement could not be made.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures skillrl and prints a table.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Measures everything once and briefly: shows that the benchmark works, not how fast skillrl is.
    #[arg(long)]
    quick: bool,
    /// Measures the worlds alone.
    #[arg(long)]
    worlds: bool,
    /// Measures large runs and journals alone.
    #[arg(long, conflicts_with = "worlds")]
    runs: bool,
    /// A Python that has the packages alfworld and textworld: their engine is measured beside ours.
    #[arg(long, value_name = "PATH")]
    alfworld_python: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// One measurement, for the program itself to start in a process of its own; prints one line of JSON.
#[derive(Debug, Subcommand)]
enum Command {
    /// Calls through one of the stacks.
    Calls(calls::CallsArgs),
    /// A training run.
    Train(training::TrainArgs),
    /// A game of ALFWorld.
    Alfworld(worlds::alfworld::AlfworldArgs),
    /// A shop.
    Webshop(plan::WorldArgs),
    /// Rollouts of a simulated agent, on all cores and by one task.
    Rollouts(worlds::rollouts::RolloutArgs),
    /// A program that is stepped through.
    Exec(worlds::exec::ExecArgs),
    /// Plays the models until it is ended, and prints where it listens.
    Serve(provider::ServeArgs),
    /// Writes the data of the workload that `serve --workload` plays, for the environment `qa`.
    Data(provider::DataArgs),
    /// Writes a large run, to be looked at by a person; prints nothing.
    MakeRun {
        /// The directory, which is made.
        dir: PathBuf,
        /// Steps over a few items; without it, 40 steps and 15,000 rollouts.
        #[arg(long)]
        steps: Option<u32>,
    },
    /// Writes a large journal, to be looked at by a person; prints nothing.
    MakeJournal {
        /// The file, which is made if it is not there.
        path: PathBuf,
        /// About how large it becomes.
        #[arg(long, default_value_t = 1_000)]
        megabytes: u32,
    },
}

fn main() -> Result<(), Failure> {
    let cli = Cli::parse();
    if let Some(Command::Serve(args)) = &cli.command {
        return provider::serve(args);
    }
    // The runtime is that of the command `skillrl`, for whatever is measured.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &cli.command {
            Some(Command::Calls(args)) => print_json(&calls::run(args).await?),
            Some(Command::Train(args)) => print_json(&training::run(args).await?),
            Some(Command::Alfworld(args)) => print_json(&worlds::alfworld::run(args).await?),
            Some(Command::Webshop(args)) => print_json(&worlds::webshop::run(args).await?),
            Some(Command::Rollouts(args)) => print_json(&worlds::rollouts::run(args).await?),
            Some(Command::Exec(args)) => print_json(&worlds::exec::run(args).await?),
            Some(Command::MakeRun { dir, steps }) => runs::make(dir, *steps),
            Some(Command::MakeJournal { path, megabytes }) => runs::make_journal(path, *megabytes).await,
            Some(Command::Data(args)) => args.write(),
            Some(Command::Serve(_)) | None => {
                let plan = if cli.quick { plan::Plan::quick() } else { plan::Plan::full() };
                // First, since a Python that cannot play should be known at once.
                let worlds =
                    if cli.runs { None } else { Some(worlds::run(&plan, cli.alfworld_python.as_deref())?) };
                let is_all = !cli.worlds && !cli.runs;
                let engine = if is_all { Some(measure::engine(&plan).await?) } else { None };
                let runs = if cli.worlds { None } else { Some(runs::run(&plan).await?) };
                let measured = measure::Measured { engine, worlds, runs };
                println!("{}", table::markdown(&machine::describe(), &plan, &measured));
                Ok(())
            }
        }
    })
}

fn print_json(report: &impl Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
