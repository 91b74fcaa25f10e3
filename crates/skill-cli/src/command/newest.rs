//! The run that a command is about where nobody names one: the newest here.

use super::UsageError;
use crate::args::{Command, NEWEST};
use skillrl::config::{Config, FILE_NAME};
use skillrl::pipeline::run_dir::is_run;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where `skillrl train` puts runs.
const RUNS: &str = "runs";
/// Files whose times tell when a run was worked on.
const TIMED: [&str; 2] = ["events.jsonl", "config.json"];

/// Puts the newest run in the place of one that is not named, and says which it is.
///
/// # Errors
///
/// No run in `./runs`, none of `./skillrl.toml`, and this directory is none.
pub(crate) fn fill(command: &mut Command) -> anyhow::Result<()> {
    match command {
        Command::Report(args) => named(&mut args.run),
        Command::Check(args) => named(&mut args.run),
        Command::Show(args) => named(&mut args.run),
        Command::Watch(args) => named(&mut args.run),
        Command::Stop(args) => named(&mut args.run),
        Command::Blame(args) => named(&mut args.path),
        Command::Replay(args) => named(&mut args.run),
        Command::Export(args) => named(&mut args.from),
        Command::Lint(args) => named(&mut args.path),
        Command::Journal(args) => named(args.run_mut()),
        Command::Diff(args) => {
            // `skillrl diff 3 5`: the first word is no run, so all are one place further.
            if args.run != Path::new(NEWEST) && !args.run.exists() && is_version(&args.run) {
                let first = std::mem::replace(&mut args.run, PathBuf::from(NEWEST)).display().to_string();
                let second = std::mem::replace(&mut args.from, first);
                if second != crate::args::FIRST_VERSION {
                    args.to = second;
                }
            }
            named(&mut args.run)
        }
        Command::Note(args) => {
            // `skillrl note TEXT`: a sentence is no run.
            let is_sentence = args.run != Path::new(NEWEST) && args.text.is_none() && !args.run.is_dir();
            if is_sentence && !args.list && args.withdraw.is_none() {
                args.text =
                    Some(std::mem::replace(&mut args.run, PathBuf::from(NEWEST)).display().to_string());
            }
            named(&mut args.run)
        }
        _ => Ok(()),
    }
}

/// The newest run here.
///
/// # Errors
///
/// There is none.
pub(super) fn newest() -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(RUNS).into_iter().flatten().flatten().map(|entry| entry.path());
    let configured = Config::load(Path::new(FILE_NAME), &[]).ok().map(|loaded| loaded.run_dir());
    let here = PathBuf::from(".");
    let found = entries.chain(configured).chain([here]).filter(|path| is_run(path));
    let newest = found.max_by_key(|path| (worked_on(path), path.clone()));
    newest.ok_or_else(|| {
        UsageError::new(format!("there is no run in ./{RUNS}, and no ./{FILE_NAME} names one"))
            .with_hint("name the directory of a run; `skillrl train` makes one")
            .into()
    })
}

fn named(run: &mut PathBuf) -> anyhow::Result<()> {
    if run == Path::new(NEWEST) && !run.exists() {
        *run = newest()?;
        super::say(&format!("run: {}", run.display()));
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
