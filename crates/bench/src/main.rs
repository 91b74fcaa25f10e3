//! The benchmark: skillrl against a bare HTTP loop and against its own critical path, as a table.
//!
//! The server is the program `mock-openai`, which stands beside this one. Whatever is measured runs in a process of
//! its own, so that no measurement sees the memory, the connections or the threads of another; repetitions of what is
//! compared take turns, since the machine may be shared. The program asserts nothing about time.

#![expect(clippy::print_stdout, reason = "the results of the program")]
#![expect(clippy::print_stderr, reason = "progress, for the person who waits")]

mod calls;
mod machine;
mod measure;
mod process;
mod server;
mod table;
mod training;
mod waves;

use clap::{Parser, Subcommand};
use serde::Serialize;

/// Why a measurement could not be made.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures skillrl and prints a table.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Measures everything once and briefly: shows that the benchmark works, not how fast skillrl is.
    #[arg(long)]
    quick: bool,
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
}

fn main() -> Result<(), Failure> {
    let cli = Cli::parse();
    // The runtime is that of the command `skillrl`, for whatever is measured.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match &cli.command {
            Some(Command::Calls(args)) => print_json(&calls::run(args).await?),
            Some(Command::Train(args)) => print_json(&training::run(args).await?),
            None => {
                let plan = if cli.quick { measure::Plan::quick() } else { measure::Plan::full() };
                println!("{}", table::markdown(&machine::describe(), &plan, &measure::run(&plan).await?));
                Ok(())
            }
        }
    })
}

fn print_json(report: &impl Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
