//! Programs that workers need: they are installed there by people, and held against the driver's.

use crate::config::{ConfigPath, EnvConfig, LoadedConfig, ModelConfig};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use skill_llm::process::file_hash;
use std::io;
use std::path::{Path, PathBuf};

/// A program as the driver has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProgramFacts {
    /// The setting that names it.
    pub(super) key: String,
    /// Its words.
    pub(super) command: Vec<String>,
    /// The directory that it runs in, as it was written; `None` for that of the configuration.
    pub(super) directory: Option<String>,
    /// For each word that names a file there or in the search path, the hash of its content.
    pub(super) files: Vec<Option<String>>,
}

/// The programs of a configuration that rollouts start.
///
/// # Errors
///
/// A file of a program that cannot be read: no worker could be held against it.
pub(super) fn of(loaded: &LoadedConfig) -> Result<Vec<ProgramFacts>, Error> {
    let mut programs = Vec::new();
    let mut add = |key: &str, command: &[String], directory: Option<&ConfigPath>| {
        if command.is_empty() {
            return Ok(());
        }
        let place = directory.map_or_else(|| loaded.program_dir(), ConfigPath::to_path);
        let files = hashes(command, &place).into_iter().collect::<Result<_, _>>();
        let files =
            files.map_err(|Unreadable { path, source }| Error::Read { what: "program", path, source })?;
        let directory = directory.map(|dir| dir.as_str().to_owned());
        programs.push(ProgramFacts { key: key.to_owned(), command: command.to_vec(), directory, files });
        Ok::<_, Error>(())
    };
    match &loaded.config.env {
        EnvConfig::Exec(asked) => add("env.program", &asked.program, asked.program_dir.as_ref())?,
        EnvConfig::Tasks(asked) => add("env.command", &asked.command, None)?,
        // Python and LibreOffice are the worker's own, and its sandbox says what is missing.
        EnvConfig::SearchAgent(asked) => add("env.retriever_command", &asked.retriever_command, None)?,
        EnvConfig::Qa(_)
        | EnvConfig::Alfworld(_)
        | EnvConfig::Webshop(_)
        | EnvConfig::Spreadsheet(_)
        | EnvConfig::Evals(_) => {}
    }
    for (role, model) in super::setup::models_of(&loaded.config) {
        if let ModelConfig::Agent(agent) = model
            && let Some(command) = &agent.command
        {
            add(&format!("models.{role}.command"), command, None)?;
        }
    }
    Ok(programs)
}

/// A file that is there and cannot be read.
#[derive(Debug)]
struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

/// The hash of each word that is a file: the first one of the search path, the others of the directory.
fn hashes(command: &[String], directory: &Path) -> Vec<Result<Option<String>, Unreadable>> {
    let hash = |(index, word): (usize, &String)| {
        let found = if index == 0 { find(word, directory) } else { Some(directory.join(word)) };
        let Some(path) = found else { return Ok(None) };
        file_hash(&path).map_err(|source| Unreadable { path, source })
    };
    command.iter().enumerate().map(hash).collect()
}

/// The file of a program: a path from the directory, or a name in the search path.
fn find(word: &str, directory: &Path) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(directory.join(word)).filter(|path| path.is_file());
    }
    let places = std::env::var_os("PATH")?;
    std::env::split_paths(&places).map(|place| place.join(word)).find(|path| path.is_file())
}

/// How this machine differs from the driver's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Differences {
    /// What is missing, or would come to other results.
    pub(super) problems: Vec<String>,
    /// Programs of another version.
    pub(super) versions: Vec<String>,
}

impl ProgramFacts {
    /// Holds the program of this machine against the driver's; `base` takes the place of the configuration's directory.
    pub(super) fn compare(&self, base: &Path, found: &mut Differences) {
        let place = self.directory.as_ref().map_or_else(|| base.to_owned(), |dir| base.join(dir));
        if self.directory.is_some() && !place.is_dir() {
            found.problems.push(format!("`{}`: directory not found: {}", self.key, place.display()));
            return;
        }
        let here = hashes(&self.command, &place);
        for (index, ((word, there), here)) in self.command.iter().zip(&self.files).zip(&here).enumerate() {
            let Some(there) = there else { continue };
            let short = |hash: &str| hash.chars().take(12).collect::<String>();
            let here = match here {
                Ok(here) => here.as_ref(),
                Err(Unreadable { path, source }) => {
                    found.problems.push(format!("`{}`: cannot read {}: {source}", self.key, path.display()));
                    continue;
                }
            };
            match here {
                None if index == 0 => {
                    found.problems.push(format!("`{}`: the program {word} is not installed", self.key));
                }
                None => {
                    let message = format!("`{}`: file {word} not found in {}", self.key, place.display());
                    found.problems.push(message);
                }
                Some(here) if here == there => {}
                Some(here) if index == 0 && !word.contains('/') => found.versions.push(format!(
                    "`{}`: {word} is of another version than the driver's (sha256 {} here, {} there)",
                    self.key,
                    short(here),
                    short(there)
                )),
                Some(here) => found.problems.push(format!(
                    "`{}`: the file {word} differs from the driver's (sha256 {} here, {} there)",
                    self.key,
                    short(here),
                    short(there)
                )),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(dir: &Path, command: &[&str]) -> ProgramFacts {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let files = hashes(&command, dir).into_iter().map(Result::unwrap).collect();
        ProgramFacts { key: "env.program".to_owned(), command, directory: None, files }
    }

    #[test]
    fn what_is_missing_and_what_differs_is_named() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (dir, script) in [(&there, "print(1)"), (&here, "print(2)")] {
            std::fs::write(dir.path().join("same.py"), "same").unwrap();
            std::fs::write(dir.path().join("env.py"), script).unwrap();
        }
        std::fs::write(there.path().join("gone.py"), "x").unwrap();
        std::fs::write(there.path().join("tool"), "x").unwrap();
        let compared = |command: &[&str]| {
            let mut found = Differences::default();
            facts(there.path(), command).compare(here.path(), &mut found);
            (found.problems.len(), found.versions.len())
        };
        assert_eq!(compared(&["sh", "same.py", "--fast", "no-file"]), (0, 0));
        assert_eq!(compared(&["sh", "env.py"]), (1, 0));
        assert_eq!(compared(&["sh", "gone.py"]), (1, 0));
        assert_eq!(compared(&["./tool"]), (1, 0));
        // A file that is there and cannot be read is not one that is not compared.
        #[cfg(unix)]
        {
            let circle = here.path().join("circle.py");
            std::os::unix::fs::symlink(&circle, &circle).unwrap();
            std::fs::write(there.path().join("circle.py"), "x").unwrap();
            assert_eq!(compared(&["sh", "circle.py"]), (1, 0));
            assert!(hashes(&["sh".to_owned(), "circle.py".to_owned()], here.path())[1].is_err());
        }
        let mut other = facts(there.path(), &["sh"]);
        other.files = vec![Some("0".repeat(64))];
        let mut found = Differences::default();
        other.compare(here.path(), &mut found);
        assert_eq!((found.problems.len(), found.versions.len()), (0, 1));
    }
}
