//! `skillrl journal`: requests, replies, tokens and cost of each call; also while the run is in progress.

mod list;
mod prune;
mod show;
mod stats;

use crate::args::as_word;
use crate::args::journal::{FilterArgs, JournalCommand, JournalExportArgs};
use crate::error::OfFile as _;
use skillrl::llm::ErrorClass;
use skillrl::llm::journal::{CallFilter, JournalError, JournalReader};
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::kind::has_phases;
use skillrl::pipeline::records::phases::Phase;
use skillrl::pipeline::run_dir::JOURNAL_FILE;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// What `--outcome` takes besides the classes of failures.
const OUTCOMES: [&str; 2] = ["reply", "failed"];

pub(crate) fn run(command: &JournalCommand) -> crate::Result {
    match command {
        JournalCommand::List(args) => list::run(args),
        JournalCommand::Show(args) => show::run(args),
        JournalCommand::Export(args) => export(args),
        JournalCommand::Prune(args) => prune::run(args),
        JournalCommand::Stats(args) => stats::run(args),
    }
}

fn export(args: &JournalExportArgs) -> crate::Result {
    let (filter, reader) = (filter(&args.filter)?, open(&args.run.run)?);
    let Some(path) = &args.out else {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let written = reader.export(&filter, &mut out).map_err(of_journal)?;
        return written.and_then(|_| out.flush()).map_err(crate::CliError::Output);
    };
    super::check_absent(path, args.force)?;
    let n_lines = crate::whole_file::write(path, |mut out| {
        reader.export(&filter, &mut out).map_err(of_journal)?.writing(path)
    })?;
    let lines = crate::table::counted(n_lines, "line");
    super::say(&format!("wrote {lines} to {}", path.display()));
    Ok(())
}

/// Where the journal of a run is.
fn path(run: &Path) -> PathBuf {
    if run.is_dir() { run.join(JOURNAL_FILE) } else { run.to_owned() }
}

fn open(run: &Path) -> crate::Result<JournalReader> {
    if skillrl::import::is_imported(run) && !path(run).exists() {
        let message = format!("the run in {} was imported, and its calls were not recorded", run.display());
        let hint = "its results are in its files: skillrl report, skillrl blame";
        return Err(super::CommandError::new(message).with_hint(hint).into());
    }
    if has_phases(run) && !path(run).exists() {
        let message = format!("{} is a run of phases, each with calls of its own", run.display());
        let journals = journals_of_phases(run);
        let hint = match journals.is_empty() {
            true => "no phase has made a call".to_owned(),
            false => format!("name one of them: {}", journals.join(", ")),
        };
        return Err(super::CommandError::new(message).with_hint(hint).into());
    }
    Ok(JournalReader::open(&path(run)).map_err(of_journal)?)
}

/// The directories with a journal in a run of phases.
fn journals_of_phases(run: &Path) -> Vec<String> {
    let has_journal = |dir: &Path| dir.join(JOURNAL_FILE).is_file();
    let mut found: Vec<PathBuf> = Vec::new();
    for phase in Phase::ALL {
        let dir = phase.dir(run);
        let beside = run.join(format!("{}.calls", phase.as_str()));
        let inside = std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut of_phase: Vec<PathBuf> = inside.filter(|path| has_journal(path)).collect();
        of_phase.sort();
        found.extend(of_phase);
        found.extend([beside, dir].into_iter().filter(|dir| has_journal(dir)));
    }
    found.iter().map(|dir| as_word(&dir.display().to_string())).collect()
}

fn of_journal(error: JournalError) -> skillrl::Error {
    PipelineError::Journal(error).into()
}

/// The filter that was asked for; an outcome that no call can have is an error.
fn filter(args: &FilterArgs) -> crate::Result<CallFilter> {
    let FilterArgs { place, model, outcome } = args;
    if let Some(outcome) = outcome {
        let is_known = OUTCOMES.contains(&outcome.as_str()) || ErrorClass::parse(outcome).is_some();
        if !is_known {
            let classes = ErrorClass::ALL.map(ErrorClass::as_str).join(", ");
            let message = format!("no call has the outcome `{outcome}`");
            let hint = format!("name `reply`, `failed`, or a class of failure: {classes}");
            return Err(super::CommandError::new(message).with_hint(hint).into());
        }
    }
    Ok(CallFilter { place: place.clone(), model: model.clone(), outcome: outcome.clone(), last: None })
}
