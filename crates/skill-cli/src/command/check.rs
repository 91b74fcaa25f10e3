//! `skillrl check`: verifies that every file of a run or a measurement is as the run wrote it.

use crate::CliError;
use crate::args::{CheckArgs, as_word};
use crate::exit_code;
use crate::table::harmless;
use skillrl::pipeline::run_dir::check::{Damage, Remedy, RunCheck, check};
use std::fmt::Write as _;

/// The most files that a line names.
const MAX_NAMED: usize = 3;

pub(crate) fn run(args: &CheckArgs) -> crate::Result {
    let found = check(&args.run)?;
    if args.json {
        super::print_json(&found)?;
    } else {
        super::print_wrapped(&described(&found))?;
    }
    if found.damage.is_empty() { Ok(()) } else { Err(CliError::Reported { code: exit_code::DAMAGED }) }
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
