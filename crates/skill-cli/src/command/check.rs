//! `skillrl check`: verifies that every file of a run or a measurement is as the run wrote it.

use crate::CliError;
use crate::args::{CheckArgs, as_word};
use crate::error::OfFile as _;
use crate::exit_code;
use crate::table::harmless;
use serde_json::{Value, json};
use skill_agents::kept::{Kept, is_measurement as is_triggers};
use skillrl::llm::error::with_causes;
use skillrl::llm::regular_file;
use skillrl::pipeline::PipelineError;
use skillrl::pipeline::run_dir::check::{Damage, Fault, Remedy, RunCheck, check};
use skillrl::pipeline::run_dir::is_run;
use skillrl::pipeline::run_dir::measurement::is_measurement;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// The most files that a line names.
const MAX_NAMED: usize = 3;

/// How deep runs and measurements lie in a directory of several: those of agents are in `AGENT/ARM`.
const MAX_DEPTH: usize = 2;

pub(crate) fn run(args: &CheckArgs) -> crate::Result {
    if skillrl::bundle::is_bundle(&args.run) {
        let dir = tempfile::tempdir().trying_to("make a directory for the archive's files")?;
        let mut found = checked(&skillrl::bundle::unpack_in(&args.run, dir.path())?)?;
        found.path.clone_from(&args.run);
        return report(&[found], args.json);
    }
    let found = match checked(&args.run) {
        Ok(found) => vec![found],
        Err(error) if !args.run.is_dir() => return Err(error.into()),
        Err(error) => {
            let mut found = Vec::new();
            below(&args.run, MAX_DEPTH, &mut found)?;
            if found.is_empty() {
                return Err(error.into());
            }
            found
        }
    };
    report(&found, args.json)
}

fn report(found: &[RunCheck], is_json: bool) -> crate::Result {
    match (is_json, found) {
        (true, [only]) => super::print_json(only)?,
        (true, several) => super::print_json(&json!({ "checked": several }))?,
        (false, several) => {
            super::print_wrapped(&several.iter().map(described).collect::<String>())?;
        }
    }
    let is_whole = found.iter().all(|found| found.damage.is_empty());
    if is_whole { Ok(()) } else { Err(CliError::Reported { code: exit_code::DAMAGED }) }
}

fn checked(dir: &Path) -> Result<RunCheck, PipelineError> {
    if is_triggers(dir) { Ok(of_triggers(dir)) } else { check(dir) }
}

/// Checks the runs and measurements in a directory that is none, in the order of their names. Folders that cannot be
/// read may be such, so they are damaged.
fn below(dir: &Path, depth: usize, found: &mut Vec<RunCheck>) -> Result<(), PipelineError> {
    let folders = match folders_in(dir) {
        Ok(folders) => folders,
        Err(error) => {
            let mut unreadable = RunCheck::of(dir);
            unreadable.damage.push(Damage {
                file: ".".to_owned(),
                fault: Fault::Unreadable,
                detail: Some(error.to_string()),
                remedy: Remedy::OnlyCopy,
            });
            found.push(unreadable);
            return Ok(());
        }
    };
    if depth == 0 {
        return Ok(());
    }
    for folder in folders {
        if is_run(&folder) || is_measurement(&folder) || is_triggers(&folder) {
            found.push(checked(&folder)?);
        } else {
            below(&folder, depth - 1, found)?;
        }
    }
    Ok(())
}

fn folders_in(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// The runs of a coding agent on queries: each record can be read, and the report is that of the records.
fn of_triggers(dir: &Path) -> RunCheck {
    const REPORT: &str = "triggers.json";
    let damage = |file: &str, fault: Fault, detail: Option<String>, remedy: Remedy| Damage {
        file: file.to_owned(),
        fault,
        detail,
        remedy,
    };
    let mut found = RunCheck::of(dir);
    match Kept::read(dir) {
        Ok(kept) => {
            found.n_whole = kept.measured.records.len();
            let own = serde_json::to_value(kept.report()).expect("it is written as JSON");
            match regular_file::read_if_there(&dir.join(REPORT)) {
                Ok(None) => {}
                Ok(Some(bytes)) => match serde_json::from_slice::<Value>(&bytes) {
                    Ok(report) if report == own => found.n_whole += 1,
                    Ok(_) | Err(_) => {
                        found.damage.push(damage(REPORT, Fault::Changed, None, Remedy::Resume));
                    }
                },
                Err(error) => {
                    let detail = Some(error.to_string());
                    found.damage.push(damage(REPORT, Fault::Unreadable, detail, Remedy::Resume));
                }
            }
        }
        Err(error) => {
            let file = error.path().strip_prefix(dir).unwrap_or_else(|_| error.path()).display().to_string();
            let detail = Some(with_causes(&error));
            found.damage.push(damage(&file, Fault::Unreadable, detail, Remedy::OnlyCopy));
        }
    }
    found
}

fn described(found: &RunCheck) -> String {
    let run = found.path.display();
    let mut text = match found.damage.len() {
        0 => format!("{run}: all {} files are whole", found.n_whole),
        n_damaged => format!("{run}: {n_damaged} of {} files are damaged", found.n_whole + n_damaged),
    };
    text.push_str(if found.is_training { " (in progress: of the finished steps)\n" } else { "\n" });
    for damage in &found.damage {
        let detail = damage.detail.as_deref().map(|detail| format!(": {}", harmless(detail)));
        let _ = writeln!(
            text,
            "  {:<10}  {}{}",
            damage.fault.as_str(),
            harmless(&damage.file),
            detail.unwrap_or_default()
        );
    }
    if found.n_unrecorded_steps > 0 {
        let _ = writeln!(
            text,
            "note: {} of {} steps have no recorded hashes; their files can be read",
            found.n_unrecorded_steps, found.finished_steps
        );
    }
    if found.is_unrecorded {
        text.push_str(
            "note: an earlier version made this run and recorded no hashes; the same command adds them\n",
        );
    }
    if !found.not_checked.is_empty() {
        let names: Vec<String> = found.not_checked.iter().map(|name| harmless(name)).collect();
        let _ = writeln!(text, "not checked: {}", few_of(&names));
    }
    for remedy in [
        Remedy::Resume,
        Remedy::Rebuild,
        Remedy::Copy,
        Remedy::OnlyCopy,
        Remedy::Remeasure,
        Remedy::Report,
        Remedy::NotNeeded,
    ] {
        let files: Vec<&Damage> = found.damage.iter().filter(|damage| damage.remedy == remedy).collect();
        if !files.is_empty() {
            let _ = writeln!(text, "{}", advice(found, remedy, &files));
        }
    }
    text
}

/// The first names, and how many more there are.
fn few_of(names: &[String]) -> String {
    let mut few = names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
    if names.len() > MAX_NAMED {
        few.push(format!("{} more", names.len() - MAX_NAMED));
    }
    few.join(", ")
}

/// What brings files back.
fn advice(found: &RunCheck, remedy: Remedy, files: &[&Damage]) -> String {
    let names: Vec<String> = files.iter().map(|damage| harmless(&damage.file)).collect();
    let names = few_of(&names);
    let run = as_word(&found.path.display().to_string());
    let has_config = found.damage.iter().all(|damage| damage.file != "config.json");
    match remedy {
        Remedy::Resume => format!(
            "{names}: the command that started the run writes them again, and keeps a changed skill beside its own"
        ),
        Remedy::Rebuild if !found.is_journal_whole => {
            format!("{names}: only a copy brings them back, as the journal is not whole")
        }
        Remedy::Rebuild if !has_config => format!(
            "{names}: rebuilt from the journal without paying again: copy journal.sqlite, with -wal and -sent if they \
             exist, into an empty directory, and start the same command with it as `run.dir`"
        ),
        Remedy::Rebuild => format!(
            "{names}: rebuilt from the journal without paying again: remove runtime_state.json, history.jsonl and \
             history.json, then start the same command"
        ),
        Remedy::Copy => format!(
            "{names}: restore it from a copy, with its -wal file; without one, `skillrl train {run} --new-journal` \
             resumes the run"
        ),
        Remedy::OnlyCopy => {
            format!("{names}: only a copy brings it back; without one, start in another directory")
        }
        Remedy::Remeasure => format!(
            "{names}: the `skillrl eval` that measured, with `--force`, writes it again from the calls that are kept"
        ),
        Remedy::Report => format!("{names}: `skillrl report {run}` writes it again"),
        Remedy::NotNeeded => format!("{names}: cannot be rebuilt; no result depends on it"),
    }
}
