//! What a command is about: the run that is named, that of a configuration that is named, or the newest here; and the
//! command for a path that is something else.

use crate::args::journal::{JournalCommand, JournalStatsArgs, RunArg};
use crate::args::{Command, DiffArgs, NEWEST, StatusArgs, as_word};
use crate::error::{CommandError, OfFile as _};
use crate::kinds::{self, Takes};
use crate::outcomes::outcomes_in;
use crate::table::counted;
use skillrl::config::{Config, ConfigError, FILE_NAME};
use skillrl::core::package::MAIN_FILE;
use skillrl::identify::{PathError, PathKind, identify};
use skillrl::llm::error::with_causes;
use skillrl::llm::regular_file;
use skillrl::pipeline::bank_dir::is_bank;
use skillrl::pipeline::run_dir::{RunStatus, is_run, run_status};
use skillrl::reports::runs_in;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How every SQLite database begins.
const SQLITE_MAGIC: [u8; 16] = *b"SQLite format 3\0";
/// Where `skillrl train` puts runs.
const RUNS: &str = "runs";
/// Files whose times tell when a run was worked on.
const TIMED: [&str; 2] = ["events.jsonl", "config.json"];

/// Puts the newest run in the place of one that is not named, and the run of a configuration in the place of that; says
/// which it is. `show` and `inspect` of a journal or a directory of runs become the commands for these.
///
/// # Errors
///
/// No run in `./runs`, none of `./skillrl.toml`, and this directory is none. A path that is something else than a run,
/// for a command that takes nothing else.
pub(crate) fn fill(command: &mut Command) -> crate::Result {
    match command {
        Command::Report(args) => {
            run_at(&mut args.run)?;
            if args.doubtful.is_some() { for_kinds(&args.run, Takes::Documents) } else { Ok(()) }
        }
        // What is checked of an archive is unpacked for the time of the command.
        Command::Check(args) if skillrl::bundle::is_bundle(&args.run) => Ok(()),
        Command::Check(args) => run_at(&mut args.run),
        Command::Show(args) => {
            named(&mut args.run)?;
            if args.step.is_some() || args.item.is_some() {
                return for_kinds(&args.run, Takes::DocumentsAndBanks);
            }
            let is_other = run_status(&args.run) == RunStatus::Absent && outcomes_in(&args.run)?.is_empty();
            if let Some(other) = is_other.then(|| instead_of_show(&args.run, args.json)).flatten() {
                *command = other;
            }
            Ok(())
        }
        Command::Inspect(args) => {
            if let Some(other) = instead_of_show(&args.path, args.json) {
                *command = other;
            }
            Ok(())
        }
        Command::Watch(args) => run_at(&mut args.run),
        Command::Stop(args) => run_at(&mut args.run),
        Command::Blame(args) => {
            named(&mut args.path)?;
            for_kinds(args.run.as_ref().unwrap_or(&args.path), Takes::DocumentsAndBanks)
        }
        Command::Replay(args) => {
            unpacked(&mut args.run)?;
            run_at(&mut args.run)?;
            for_kinds(&args.run, Takes::DocumentsAndBanks)
        }
        Command::Export(args) if args.bundle.is_some() => run_at(&mut args.from),
        // A run, or the folder of a policy.
        Command::Export(args) if args.policy.is_some() => named(&mut args.from),
        Command::Export(args) => {
            named(&mut args.from)?;
            for_kinds(&args.from, Takes::Documents)
        }
        Command::Lint(args) => {
            named(&mut args.path)?;
            for_kinds(&args.path, Takes::Documents)
        }
        Command::Journal(args) => run_at(args.run_mut()),
        // Of more than two, a row says what is wrong with one.
        Command::Compare(args) if args.runs.len() > 2 => Ok(()),
        Command::Compare(args) => {
            let is_one = |path: &&mut PathBuf| {
                path.as_path() == Path::new(NEWEST) || runs_in(path).is_ok_and(|found| found.len() < 2)
            };
            args.runs.iter_mut().filter(is_one).try_for_each(run_at)
        }
        // These read a configuration and the skill of its run; without a configuration they use the newest run.
        Command::Eval(args) => {
            run_without_config(args.config.unnamed())?;
            kinds::measure_result(args).map_err(Into::into)
        }
        Command::Prune(args) => {
            run_without_config(args.config.unnamed())?;
            match args.config.start().file.filter(|_| args.skill.is_none()) {
                Some(run) => for_kinds(&run, Takes::Documents),
                None => Ok(()),
            }
        }
        Command::Try(args) => run_without_config(args.config.unnamed()),
        Command::Diff(args) => run_of_diff(args),
        Command::Note(args) => {
            // `skillrl note TEXT`: a sentence is no run.
            let is_sentence = args.run != Path::new(NEWEST) && args.text.is_none() && !args.run.is_dir();
            if is_sentence && !args.list && args.withdraw.is_none() {
                args.text =
                    Some(std::mem::replace(&mut args.run, PathBuf::from(NEWEST)).display().to_string());
            }
            run_at(&mut args.run)
        }
        // These name no run, or what may be something else.
        Command::Train(_)
        | Command::Sft(_)
        | Command::Rl(_)
        | Command::TrainServer(_)
        | Command::Collect(_)
        | Command::Distill(_)
        | Command::Doctor(_)
        | Command::Estimate(_)
        | Command::Init(_)
        | Command::Demo(_)
        | Command::Config(_)
        | Command::Serve(_)
        | Command::Mcp(_)
        | Command::Worker(_)
        | Command::Status(_)
        | Command::Env(_)
        | Command::Import(_)
        | Command::Skill(_)
        | Command::Bank(_)
        | Command::Help(_)
        | Command::Completions { .. }
        | Command::Man { .. }
        | Command::Reference { .. } => Ok(()),
    }
}

/// The run of `skillrl diff`, whose first word may be a version.
fn run_of_diff(args: &mut DiffArgs) -> crate::Result {
    // `skillrl diff 3 5`: the first word is no run, so all are one place further.
    if args.run != Path::new(NEWEST) && !args.run.exists() && is_version(&args.run) {
        let first = std::mem::replace(&mut args.run, PathBuf::from(NEWEST)).display().to_string();
        let second = std::mem::replace(&mut args.from, first);
        if second != crate::args::FIRST_VERSION {
            args.to = second;
        }
    }
    run_at(&mut args.run)?;
    for_kinds(&args.run, Takes::DocumentsAndBanks)
}

/// The command in the place of `show` or `inspect`, for a journal or a directory of runs.
fn instead_of_show(path: &Path, json: bool) -> Option<Command> {
    if is_database(path) {
        let run = RunArg { run: path.to_owned() };
        return Some(Command::Journal(JournalCommand::Stats(JournalStatsArgs { run, json })));
    }
    let is_skill_or_bank = path.join(MAIN_FILE).is_file() || is_bank(path);
    let is_of_runs = path.is_dir() && (is_run(path) || !is_skill_or_bank);
    is_of_runs.then(|| Command::Status(StatusArgs { dir: path.to_owned(), json, csv: false }))
}

/// True for an SQLite database, as journals are.
fn is_database(path: &Path) -> bool {
    let mut start = [0; SQLITE_MAGIC.len()];
    regular_file::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == SQLITE_MAGIC
}

fn for_kinds(run: &Path, takes: Takes) -> crate::Result {
    Ok(kinds::check(run, takes)?)
}

/// The newest run here.
///
/// # Errors
///
/// There is none, or `./runs` cannot be read.
pub(crate) fn newest() -> crate::Result<PathBuf> {
    let (configured, mistake) = match configured() {
        Ok(configured) => (configured, None),
        Err(error) => (None, Some(error)),
    };
    match (newest_of(configured)?, mistake) {
        (Some(run), None) => Ok(run),
        (Some(run), Some(error)) => {
            // The run of the configuration may be newer than those in `./runs`.
            let error = with_causes(&error);
            crate::output::say(&format!("warning: the run of ./{FILE_NAME} is not known: {error}"));
            Ok(run)
        }
        (None, Some(error)) => Err(error.into()),
        (None, None) => {
            let message = format!("found no run in ./{RUNS}, and no ./{FILE_NAME} that names one");
            let hint = "name the directory of a run; `skillrl train` makes one";
            Err(CommandError::new(message).with_hint(hint).into())
        }
    }
}

/// The run directory configured in `./skillrl.toml`; `None` if the file does not exist.
fn configured() -> Result<Option<PathBuf>, ConfigError> {
    match Path::new(FILE_NAME).exists() {
        true => Ok(Some(Config::load(Path::new(FILE_NAME), &[])?.run_dir())),
        false => Ok(None),
    }
}

/// The newest among the runs here and that of a configuration; `None` if none of them exists.
fn newest_of(configured: Option<PathBuf>) -> crate::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    match std::fs::read_dir(RUNS) {
        Ok(entries) => {
            for entry in entries {
                found.push(entry.reading(RUNS)?.path());
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).reading(RUNS),
    }
    found.extend(configured);
    found.push(PathBuf::from("."));
    found.retain(|path| is_run(path));
    found.sort_by_key(|path| std::cmp::Reverse((worked_on(path), path.clone())));
    // A replay is a copy of another run, which is meant.
    let is_replay = |path: &Path| skillrl::report::overview(path).is_ok_and(|run| run.is_replay);
    Ok(found.iter().find(|path| !is_replay(path)).or(found.first()).cloned())
}

/// As [`named`], for a command that takes runs alone: of a configuration, its run is taken.
fn run_at(run: &mut PathBuf) -> crate::Result {
    named(run)?;
    // A path of no known kind may still be a journal; otherwise the reader of runs reports it.
    let Ok(kind) = identify(run) else { return none_of_several(run) };
    let hint = match kind {
        PathKind::Run => return Ok(()),
        // Such a directory may be a run that is damaged, or that begins: the reader of runs knows.
        PathKind::Config | PathKind::Data if run.is_dir() => return Ok(()),
        PathKind::Config => {
            let found = Config::load(run, &[])?.run_dir();
            if is_run(&found) {
                *run = found;
                crate::output::say(&format!("run: {}", run.display()));
                return Ok(());
            }
            format!("`skillrl train {}` makes a run of it", word(run))
        }
        PathKind::Data => format!("`skillrl train {} --answer FIELD` makes a run of it", word(run)),
        PathKind::Skill => format!("`skillrl show {}` shows a skill", word(run)),
        PathKind::Bank => format!("`skillrl bank show {}` shows a bank", word(run)),
        PathKind::Session => crate::start::instead_of(run, kind),
        PathKind::Tasks | PathKind::Evals => "name the directory of a run".to_owned(),
    };
    let error = PathError::Other { path: run.clone(), kind, expected: "a run", hint };
    Err(skillrl::Error::Path(error).into())
}

/// The newest run in the place of a configuration that is neither named nor there; without a run the command says that the
/// configuration is missing.
fn run_without_config(place: Option<&mut Option<PathBuf>>) -> crate::Result {
    let Some(place) = place.filter(|_| !Path::new(FILE_NAME).exists()) else { return Ok(()) };
    if let Some(run) = newest_of(None)? {
        crate::output::say(&format!("run: {}", run.display()));
        *place = Some(run);
    }
    Ok(())
}

/// A directory of runs is none itself.
fn none_of_several(dir: &Path) -> crate::Result {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| is_run(path)).collect();
    runs.sort();
    let Some(first) = runs.first().filter(|_| !is_run(dir)) else { return Ok(()) };
    let message = format!(
        "{} is a directory with {}, and a run is needed",
        dir.display(),
        counted(runs.len() as u64, "run")
    );
    Err(CommandError::new(message).with_hint(format!("name one of them, such as {}", word(first))).into())
}

fn word(path: &Path) -> String {
    as_word(&path.display().to_string())
}

/// The run of a bundle, which is unpacked beside it.
fn unpacked(run: &mut PathBuf) -> crate::Result {
    if skillrl::bundle::is_bundle(run) {
        *run = skillrl::bundle::unpack(run)?;
        crate::output::say(&format!("run: {}", run.display()));
    }
    Ok(())
}

fn named(run: &mut PathBuf) -> crate::Result {
    if run == Path::new(NEWEST) && !run.exists() {
        *run = newest()?;
        crate::output::say(&format!("run: {}", run.display()));
    }
    Ok(())
}

fn worked_on(run: &Path) -> Option<SystemTime> {
    TIMED.iter().filter_map(|name| std::fs::metadata(run.join(name)).ok()?.modified().ok()).max()
}

/// True for the words that `skillrl diff` has for a skill of a run.
fn is_version(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "best"
        || is_number(text)
        || ["candidate-", "round-"].iter().any(|start| text.strip_prefix(start).is_some_and(is_number))
}
