//! One row for each run, appended to a file, so that a comparison goes on where it was stopped.

use crate::generator::{Parameters, Variant};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

/// What a run has asked for so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Calls of the target.
    pub target: u64,
    /// Calls of every other model.
    pub optimizer: u64,
    /// Validation and test tasks that were shown to the optimizer.
    pub leaks: u64,
}

impl Counts {
    /// Calls of all models.
    pub fn calls(self) -> u64 {
        self.target + self.optimizer
    }
}

/// What a search has left.
#[derive(Debug)]
pub struct Found {
    /// The skill.
    pub skill: String,
    /// The cap on calls of all models.
    pub cap: usize,
    /// The calls that were made.
    pub counts: Counts,
    /// How long it took.
    pub seconds: f64,
}

/// Which environment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// The name of a [`Variant`].
    pub variant: String,
    /// The seed of its parameters.
    pub seed: u64,
    /// Which rules and tasks with these parameters.
    pub repetition: u64,
}

impl Place {
    /// What it was sampled from.
    pub fn parameters(&self) -> Option<Parameters> {
        Variant::parse(&self.variant).map(|variant| Parameters::sample(self.seed, variant))
    }
}

/// What a search came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// The search and its calls.
    #[serde(flatten)]
    pub search: Search,
    /// The expected score of the skill over unseen tasks.
    pub score: f64,
    /// That of the initial skill.
    pub initial: f64,
    /// That of a skill with every rule that the training tasks show.
    pub knowable: f64,
    /// Lines of the skill.
    pub lines: u64,
}

impl Row {
    /// True if this is the result of such a run.
    pub fn is_of(&self, place: &Place, system: &str, version: &str) -> bool {
        self.place == *place && self.search.is_of(system, version)
    }
}

/// A search and its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Which way of searching.
    pub system: String,
    /// Which version of it.
    pub version: String,
    /// The cap on calls of all models.
    pub cap: u64,
    /// Calls of the target.
    pub target_calls: u64,
    /// Calls of all other models.
    pub optimizer_calls: u64,
    /// Validation and test tasks that the optimizer was shown.
    pub leaks: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Search {
    /// A search that has ended.
    pub fn of([system, version]: [&str; 2], found: &Found) -> Self {
        Self {
            system: system.to_owned(),
            version: version.to_owned(),
            cap: found.cap as u64,
            target_calls: found.counts.target,
            optimizer_calls: found.counts.optimizer,
            leaks: found.counts.leaks,
            seconds: found.seconds,
        }
    }

    /// Calls of all models.
    pub fn calls(&self) -> u64 {
        self.target_calls + self.optimizer_calls
    }

    /// True for this version of this system.
    pub fn is_of(&self, system: &str, version: &str) -> bool {
        self.system == system && self.version == version
    }
}

/// The rows of a file; none if it does not exist. A line that a stopped process left unfinished is left out.
///
/// # Errors
///
/// A file that cannot be read.
pub fn read<R: DeserializeOwned>(path: &Path) -> io::Result<Vec<R>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let lines = BufReader::new(file).lines().collect::<io::Result<Vec<String>>>()?;
    Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Appends a row.
///
/// # Errors
///
/// A file that cannot be written.
pub fn append(path: &Path, row: &impl Serialize) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // In one write, so that two processes may append to one file; on a line of its own, also behind a line that was cut.
    file.write_all(format!("\n{}\n", serde_json::to_string(row)?).as_bytes())
}

#[cfg(test)]
pub(crate) fn search(system: &str) -> Search {
    let counts = Counts { target: 80, optimizer: 10, leaks: 0 };
    Search::of([system, "1"], &Found { skill: String::new(), cap: 100, counts, seconds: 1.0 })
}

#[cfg(test)]
pub(crate) fn row(seed: u64, system: &str, score: f64) -> Row {
    Row {
        place: Place { variant: "base".to_owned(), seed, repetition: 0 },
        search: search(system),
        score,
        initial: 0.2,
        knowable: 0.8,
        lines: 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_and_an_unfinished_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.jsonl");
        assert_eq!(read::<Row>(&path).unwrap(), []);
        let rows = [row(1, "gepa", 0.5), row(2, "auto", 0.25)];
        rows.iter().for_each(|row| append(&path, row).unwrap());
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"variant\":\"ba").unwrap();
        assert_eq!(read::<Row>(&path).unwrap(), rows);
        append(&path, &rows[0]).unwrap();
        assert_eq!(read::<Row>(&path).unwrap().len(), 3);
        assert!(rows[0].is_of(&rows[0].place, "gepa", "1") && !rows[0].is_of(&rows[1].place, "gepa", "1"));
    }
}
