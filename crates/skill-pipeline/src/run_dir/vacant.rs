//! Whether a directory may become that of a run: what lies there already is a person's, or another run's.

use super::held::RUN_FILES;
use super::path::LOCK_FILE;
use super::read::is_run;
use super::stop::STOP_FILE;
use crate::error::PipelineError;
use std::fs;
use std::path::Path;

/// What may lie there before there is a run: what a process leaves that ends before it has written `config.json`, and
/// what is measured or tried before training. Names with these beginnings count, since SQLite adds its endings.
const OURS: [&str; 4] = [LOCK_FILE, "journal.sqlite", "agent_traces", STOP_FILE];

/// What systems leave in directories, besides hidden files.
const OF_SYSTEMS: [&str; 2] = ["Thumbs.db", "desktop.ini"];

/// So many names are told.
const MAX_NAMED: usize = 3;

/// Refuses a directory that holds no run and is not empty; hidden files do not count.
///
/// # Errors
///
/// A directory with other files in it, which are named.
pub fn check_vacant(dir: &Path) -> Result<(), PipelineError> {
    // What cannot be listed is for those to say who make the directory; that of a run is looked at with its lock.
    let Ok(entries) = fs::read_dir(dir) else { return Ok(()) };
    if dir.join("config.json").exists() {
        return Ok(());
    }
    if let Some(found) = RUN_FILES.into_iter().find(|name| dir.join(name).exists()) {
        return Err(PipelineError::NotARun { path: dir.to_owned(), found });
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
    Err(PipelineError::NotVacant { path: dir.to_owned(), found })
}

fn is_of_no_account(name: &str) -> bool {
    name.starts_with('.') || OF_SYSTEMS.contains(&name) || OURS.iter().any(|ours| name.starts_with(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a directory with these files.
    fn said(files: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}").unwrap();
        }
        let said = check_vacant(dir.path()).err().map(|error| error.to_string()).unwrap_or_default();
        said.replace(&dir.path().display().to_string(), "DIR")
    }

    #[test]
    fn what_lies_in_a_directory_that_is_no_run_is_named() {
        for vacant in [
            &[][..],
            &[".gitignore", ".DS_Store", "Thumbs.db"],
            &["run.lock", "journal.sqlite", "journal.sqlite-wal", "agent_traces/a.jsonl"],
            &["config.json", "data.jsonl"],
        ] {
            assert_eq!(said(vacant), "", "{vacant:?}");
        }
        assert_eq!(said(&["train.jsonl"]), "DIR is not empty and is no run: it holds train.jsonl");
        assert_eq!(
            said(&["b/config.json", "b/events.jsonl", "c", "a/x", "d", "e"]),
            "DIR is not empty and is no run: it holds a, the run b, c and 2 more"
        );
        let damaged = said(&["history.json", "x"]);
        assert_eq!(damaged, "DIR has history.json, but no config.json: it is not a run, or a damaged one");
    }

    #[test]
    fn a_directory_that_is_not_there_is_vacant() {
        check_vacant(&tempfile::tempdir().unwrap().path().join("runs/a")).unwrap();
    }
}
