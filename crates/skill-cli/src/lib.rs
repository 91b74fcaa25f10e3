//! The command `skillrl`: arguments, progress, exit codes. What it does is in the crates below it.
//!
//! # Who should depend on this crate
//!
//! A process that is to be the same program, such as the console script of the Python package, which so needs no second
//! copy of it. Programs that train use the crate `skillrl`.
//!
//! ```no_run
//! std::process::exit(skill_cli::run(std::env::args_os()).into());
//! ```
//!
//! # Invariants
//!
//! - A reader that has gone, a full disk and a narrow terminal are no failures of a run. Held by
//!   `tests/cli/output.rs` and `tests/cli/narrow.rs`.

mod against;
mod agent_cases;
mod args;
mod bank_run;
mod banks;
mod coding_agent;
mod command;
mod consent;
mod data_start;
mod dry_run;
mod error;
mod estimates;
mod exit_code;
mod files;
mod findings;
mod item;
mod kinds;
mod log;
mod measuring;
mod newest;
#[cfg(feature = "otel")]
mod otel;
mod outcomes;
mod output;
#[cfg(feature = "weights")]
mod phase;
mod progress;
mod progress_bar;
mod run_report;
mod run_text;
mod runtime;
mod served;
mod skill_diff;
mod start;
mod table;
mod traces_asked;
mod training;
mod whole_file;
mod wrap;

use args::{Cli, Command, ConfigCommand, EnvCommand, Shown};
use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use error::{CliError, CommandError, Result};
use std::ffi::OsString;
use std::io::Write as _;

/// Runs the program with these arguments, the first of which is its name, and returns the exit code.
///
/// The process is the program's own: it handles signals, and what it prints goes to the standard streams.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // First of all: no program that is started later may read the keys in the environment of this one.
    let hidden = skillrl::llm::process::hide_this_process();
    let arguments = args::skill::arranged(args::arranged(arguments));
    let code = match parsed(&arguments) {
        Ok(cli) => start(cli, hidden),
        Err(mut error) => {
            if let Some(moved) = moved(&error, &arguments) {
                return report(&moved.into());
            }
            leave_out_trailing(&mut error);
            // A closed stream leaves nobody to tell.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(exit_code::USAGE)
        }
    };
    // A process that is not Rust's own does not flush at its end.
    let _ = std::io::stdout().flush();
    code
}

fn parsed(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let command = taking_negative_numbers(args::grouped(Shown::BuiltIn));
    Cli::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// The command, where a number below 0 is the value of an option, which says what it takes, and no option itself.
fn taking_negative_numbers(command: clap::Command) -> clap::Command {
    let taking = |arg: clap::Arg| match arg.is_positional() || !arg.get_action().takes_values() {
        true => arg,
        false => arg.allow_negative_numbers(true),
    };
    command.mut_args(taking).mut_subcommands(taking_negative_numbers)
}

/// Leaves out the advice to pass an option as a value, which nobody means who mistypes one.
fn leave_out_trailing(error: &mut clap::Error) {
    let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) else { return };
    tips.retain(|tip| !tip.to_string().contains("as a value"));
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// The error for a command that has another name.
fn moved(error: &clap::Error, arguments: &[OsString]) -> Option<CommandError> {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let mut words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let name = words.find(|word| !word.starts_with('-'))?;
    let today = args::renamed(name)?;
    Some(CommandError::new(format!("`{name}` is not a command")).with_hint(format!("it is `{today}`")))
}

fn start(cli: Cli, hidden: std::io::Result<bool>) -> u8 {
    let log = log::start((cli.verbose, cli.log_format), cli.command.calls_models());
    if let Err(error) = hidden {
        tracing::warn!(%error, "programs that are started can read the environment of this process");
    }
    skillrl::llm::process::sweep();
    let code = dispatch(cli);
    log.finish();
    code
}

fn dispatch(cli: Cli) -> u8 {
    let mut command = cli.command;
    if let Err(error) = newest::fill(&mut command) {
        return report(&error);
    }
    let outcome = match command {
        Command::Train(args) => command::train::run(&args),
        Command::Rl(args) => command::rl::run(&args),
        Command::Sft(args) => command::sft::run(&args),
        Command::TrainServer(args) => command::train_server::run(&args),
        Command::Eval(args) => command::eval::run(&args),
        Command::Collect(args) => command::bank::collect::run(&args),
        Command::Distill(args) => command::bank::distill::run(&args),
        Command::Doctor(args) => command::doctor::run(&args),
        Command::Try(args) => command::try_item::run(&args),
        Command::Estimate(args) => command::estimate::run(&args),
        Command::Init(args) => command::init::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Config(ConfigCommand::Show(args)) => command::config::show(&args),
        Command::Env(EnvCommand::Check(args)) => command::env::check(&args),
        Command::Env(EnvCommand::Play(args)) => command::env::play(&args),
        Command::Env(EnvCommand::Export(args)) => command::env::export(&args),
        Command::Env(EnvCommand::Serve(args)) => command::env::serve(&args),
        Command::Journal(journal) => command::journal::run(&journal),
        Command::Skill(skill) => command::skill::run(&skill),
        Command::Bank(bank) => command::bank::run(&bank),
        Command::Blame(args) => command::blame::run(&args),
        Command::Report(args) => command::report::run(&args),
        Command::Status(args) => command::status::run(&args),
        Command::Check(args) => command::check::run(&args),
        Command::Watch(args) => command::watch::run(&args),
        Command::Show(args) => command::show::run(&args),
        Command::Diff(args) => command::diff::run(&args),
        Command::Compare(args) => command::compare::run(&args),
        Command::Inspect(args) => command::show::inspect::run(&args),
        Command::Completions { shell } => command::shell::completions(shell),
        Command::Config(ConfigCommand::Schema) => command::reference::schema(),
        Command::Reference { dir } => command::reference::write(&dir),
        Command::Man { dir } => command::shell::man_pages(&dir),
        Command::Serve(args) => command::serve::run(&args),
        Command::Mcp(args) => command::mcp::run(&args),
        Command::Worker(args) => command::worker::run(&args),
        Command::Note(args) => command::note::run(&args),
        Command::Stop(args) => command::stop::run(&args),
        Command::Replay(args) => command::replay::run(&args),
        Command::Export(args) => command::export::run(&args),
        Command::Prune(args) => command::prune::run(&args),
        Command::Import(args) => command::import::run(&args),
        Command::Lint(args) => command::lint::run(&args),
        Command::Config(ConfigCommand::Prompts { dir, force }) => command::prompts::export(&dir, force),
        Command::Help(args) => command::help::run(&args),
    };
    match outcome {
        Ok(()) => exit_code::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Says what went wrong, why, and what to do; returns the exit code.
fn report(error: &CliError) -> u8 {
    if let Some(text) = error.text().filter(|_| log::is_json()) {
        log::tell(&text);
    } else if let Some(text) = error.text() {
        let text = wrap::wrapped(&text, wrap::stderr_width());
        // Standard error may be closed; the exit code still says it.
        writeln!(anstream::stderr(), "{text}").unwrap_or_default();
    }
    error.code()
}
