//! Whether a directory may become that of a run: what lies there already is a person's, or another run's.

use super::checks::CHECKS_FILE;
use super::held::RUN_FILES;
use super::notes::NOTES_FILE;
use super::path::{INITIAL_POLICY_DIR, LOCK_FILE};
use super::read::is_run;
use super::stop::STOP_FILE;
use crate::error::PipelineError;
use crate::kind::has_phases;
use crate::records::phases::Phase;
use skill_llm::journal::JOURNAL_FILE;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// What may lie there before there is a run: what a process leaves that ends before it has written `config.json`, and
/// what is measured or tried before training, and what adapters in Python write in their setup. Names with these beginnings count, since SQLite adds its endings.
const OURS: [&str; 8] = [
    LOCK_FILE,
    JOURNAL_FILE,
    "agent_traces",
    STOP_FILE,
    NOTES_FILE,
    INITIAL_POLICY_DIR,
    CHECKS_FILE,
    "adapter_files",
];

/// What systems leave in directories, besides hidden files.
const OF_SYSTEMS: [&str; 2] = ["Thumbs.db", "desktop.ini"];

/// So many names are told.
const MAX_NAMED: usize = 3;

/// Refuses a directory that holds no run and is not empty; hidden files do not count.
///
/// # Errors
///
/// A directory with other files in it, which are named.
pub fn check_vacant(asked: &Path) -> Result<(), PipelineError> {
    let whole = plain(asked);
    // Phases of a run are runs of their own.
    let is_of_others = |above: &&Path| is_run(above) && !is_phase_of(&whole, above);
    if let Some(run) = whole.ancestors().skip(1).find(is_of_others) {
        return Err(PipelineError::InsideARun { path: asked.to_owned(), run: run.to_owned() });
    }
    let dir = whole.as_path();
    // What cannot be listed is for those to say who make the directory; that of a run is looked at with its lock.
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    if dir.join("config.json").exists() {
        return Ok(());
    }
    if let Some(found) = RUN_FILES.into_iter().find(|name| dir.join(name).exists()) {
        return Err(PipelineError::NotARun { path: asked.to_owned(), found });
    }
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !is_of_no_account(name)).collect();
    names.sort();
    if names.is_empty() {
        return Ok(());
    }
    let found = names.iter().take(MAX_NAMED).map(|name| match is_run(&dir.join(name)) {
        true => format!("the run {name}"),
        false => name.clone(),
    });
    let n_more = names.len().saturating_sub(MAX_NAMED);
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    let found = format!("{}{more}", found.collect::<Vec<_>>().join(", "));
    Err(PipelineError::NotVacant { path: asked.to_owned(), found })
}

fn is_phase_of(dir: &Path, run: &Path) -> bool {
    has_phases(run) && Phase::ALL.into_iter().any(|phase| dir == phase.dir(run))
}

/// The whole path, without the parts that lead back: what is not there yet can only be told by its name.
fn plain(dir: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()).components() {
        match component {
            Component::ParentDir => {
                // Behind a link `..` is somewhere else.
                plain = plain.canonicalize().unwrap_or(plain);
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(component),
        }
    }
    plain
}

fn is_of_no_account(name: &str) -> bool {
    name.starts_with('.') || OF_SYSTEMS.contains(&name) || OURS.iter().any(|ours| name.starts_with(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`check_vacant`] finds in a directory with these files.
    fn found(files: &[&str]) -> Result<(), PipelineError> {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        check_vacant(dir.path())
    }

    #[test]
    fn what_lies_in_a_directory_that_is_no_run_is_named() {
        for vacant in [
            &[][..],
            &[".gitignore", ".DS_Store", "Thumbs.db"],
            &[
                "run.lock",
                "journal.sqlite",
                "journal.sqlite-wal",
                "journal.sqlite-sent",
                "agent_traces/a.jsonl",
            ],
            &["config.json", "data.jsonl"],
        ] {
            assert!(found(vacant).is_ok(), "{vacant:?}");
        }
        let names = |files: &[&str]| match found(files) {
            Err(PipelineError::NotVacant { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(names(&["train.jsonl"]), "train.jsonl");
        insta::assert_snapshot!(
            names(&["b/config.json", "b/events.jsonl", "c", "a/x", "d", "e"]),
            @"a, the run b, c and 2 more"
        );
        let damaged = found(&["history.json", "x"]);
        assert!(matches!(damaged, Err(PipelineError::NotARun { found: "history.json", .. })), "{damaged:?}");
    }

    #[test]
    fn no_run_lies_in_another_by_whatever_way() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir_all(run.join("steps")).unwrap();
        for file in ["config.json", "events.jsonl", "steps/x"] {
            fs::write(run.join(file), "{}").unwrap();
        }
        for inside in ["run/steps", "run/a/b", "nowhere/../run/steps", "run/../run/steps/new"] {
            let error = check_vacant(&dir.path().join(inside)).unwrap_err();
            assert!(matches!(error, PipelineError::InsideARun { .. }), "{inside}: {error}");
        }
        check_vacant(&dir.path().join("run/../other")).unwrap();
        check_vacant(&run).unwrap();
    }

    #[test]
    fn a_directory_that_is_not_there_is_vacant() {
        check_vacant(&tempfile::tempdir().unwrap().path().join("runs/a")).unwrap();
    }
}
