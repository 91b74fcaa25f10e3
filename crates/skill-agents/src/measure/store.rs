//! The runs of a measurement on the disk: one folder for each query and repetition, and one line for each start.
//!
//! A start is on record before the agent is started, so a cap counts it whatever happens afterwards.

use crate::loads::RunUsage;
use crate::outcome::TriggerOutcome;
use crate::query::Query;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The version of records.
const VERSION: u32 = 1;
const SETTINGS: &str = "settings.json";
const STARTS: &str = "starts.jsonl";
const COSTS: &str = "costs.jsonl";
const LOCK: &str = "lock";
const RUNS: &str = "runs";
const RECORD: &str = "record.json";
const STREAM: &str = "stream.jsonl";
const STDERR: &str = "stderr.txt";

/// What a run is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The skills, by their hash.
    pub skills: String,
    /// The query.
    pub query: String,
    /// The hash of its text, so that another text under the same name is another run.
    pub text: String,
    /// The repetition, from 1.
    pub repetition: usize,
}

impl Key {
    /// A run of a query with skills of this hash.
    pub fn new(skills: &str, query: &Query, repetition: usize) -> Self {
        let text = crate::skill::text_hash(&query.query);
        Self { skills: skills.to_owned(), query: query.id.clone(), text, repetition }
    }
}

/// What starts have cost until now, as far as the agent reports it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StartCosts {
    /// US dollars that are known.
    pub known: f64,
    /// The most that one start cost.
    pub largest: f64,
    /// Starts whose cost is not known: killed ones, and those without a report. Each may have cost as much as the largest.
    pub n_unknown: usize,
}

impl StartCosts {
    /// US dollars, with the largest cost for each start whose cost is not known.
    pub fn total(&self) -> f64 {
        self.known + self.largest * self.n_unknown as f64
    }

    pub(crate) fn add(&mut self, cost: Option<f64>) {
        match cost {
            Some(cost) => {
                self.known += cost;
                self.largest = self.largest.max(cost);
            }
            None => self.n_unknown += 1,
        }
    }
}

/// A run that came to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this form.
    pub version: u32,
    /// The query.
    pub query: String,
    /// The repetition, from 1.
    pub repetition: usize,
    /// The agent's version, as its records say it.
    pub agent_version: Option<String>,
    /// The model, as they say it.
    pub model: Option<String>,
    /// What became of each skill.
    pub outcomes: BTreeMap<String, TriggerOutcome>,
    /// Skills that were loaded by the model, each with the turn of its first load.
    pub loaded: BTreeMap<String, usize>,
    /// Replies of the model.
    pub replies: usize,
    /// Calls of tools.
    pub calls: usize,
    /// Why it failed; `None` if it did not.
    pub failed: Option<String>,
    /// The HTTP status behind a failure.
    pub status: Option<u16>,
    /// What the program said about it.
    pub message: String,
    /// The turn limit ended it.
    pub at_turn_limit: bool,
    /// Tokens of prompts.
    pub input: Option<u64>,
    /// Tokens of replies.
    pub output: Option<u64>,
    /// US dollars, where the agent reports them.
    pub cost: Option<f64>,
    /// How long it took.
    pub milliseconds: u64,
}

impl Record {
    /// A record without a result.
    pub fn new(query: &str, repetition: usize) -> Self {
        Self {
            version: VERSION,
            query: query.to_owned(),
            repetition,
            agent_version: None,
            model: None,
            outcomes: BTreeMap::new(),
            loaded: BTreeMap::new(),
            replies: 0,
            calls: 0,
            failed: None,
            status: None,
            message: String::new(),
            at_turn_limit: false,
            input: None,
            output: None,
            cost: None,
            milliseconds: 0,
        }
    }

    pub(crate) fn take_usage(&mut self, usage: Option<RunUsage>) {
        (self.input, self.output) =
            (usage.map(|usage| usage.tokens.input), usage.map(|usage| usage.tokens.output));
    }
}

/// A directory of runs.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// Held while runs are made.
    lock: Option<File>,
}

/// A directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file was not written by this program.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another process makes runs in it.
    #[error("{} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has runs with other settings.
    #[error("{} holds runs with other settings: {}", path.display(), differences.join(", "))]
    OtherSettings {
        /// The directory.
        path: PathBuf,
        /// The names of those that differ.
        differences: Vec<String>,
    },
}

impl StoreError {
    /// The file or directory that it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::File { path, .. }
            | Self::Damaged { path, .. }
            | Self::InUse { path }
            | Self::OtherSettings { path, .. } => path,
        }
    }
}

impl Store {
    /// Opens a directory, or makes it; runs of one directory have the same settings.
    ///
    /// # Errors
    ///
    /// A directory with other settings, and files that cannot be used.
    pub fn open(directory: &Path, settings: &BTreeMap<String, String>) -> Result<Self, StoreError> {
        let store = Self::to_read(directory);
        let known: Option<BTreeMap<String, String>> = store.json(SETTINGS)?;
        if known.as_ref() == Some(settings) {
            return Ok(store);
        }
        // A draft alone holds nobody to its settings.
        if let Some(known) = known.filter(|_| directory.join(RUNS).exists()) {
            let names: BTreeSet<&String> = known.keys().chain(settings.keys()).collect();
            let differing = names.into_iter().filter(|name| known.get(*name) != settings.get(*name));
            let differences: Vec<String> = differing.cloned().collect();
            return Err(StoreError::OtherSettings { path: directory.to_owned(), differences });
        }
        store.keep_json(SETTINGS, settings)?;
        Ok(store)
    }

    /// A directory whose runs are read.
    pub(crate) fn to_read(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), lock: None }
    }

    /// The value in a file of the directory; `None` where it is not there.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        read_json(&self.directory.join(name))
    }

    pub(crate) fn keep_json(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        self.write_json(&self.directory.join(name), value)
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string_pretty(value).map_err(|error| damaged(path, &error))?;
        self.write(path, text.as_bytes())
    }

    /// Takes the directory for this process, which then may make runs.
    ///
    /// # Errors
    ///
    /// [`StoreError::InUse`], and a lock file that cannot be made.
    pub fn claim(&mut self) -> Result<(), StoreError> {
        let path = self.directory.join(LOCK);
        let fault = |source| StoreError::File { path: path.clone(), source };
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(fault)?;
        match lock.try_lock() {
            Ok(()) => self.lock = Some(lock),
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse { path: self.directory.clone() }),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        Ok(())
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The folder of a run.
    pub fn folder(&self, key: &Key) -> PathBuf {
        let skills: String = key.skills.chars().take(12).collect();
        let text: String = key.text.chars().take(8).collect();
        self.directory.join(RUNS).join(skills).join(format!("{}-{text}-{}", key.query, key.repetition))
    }

    /// The record of a run that came to its end.
    ///
    /// # Errors
    ///
    /// A damaged record.
    pub fn record(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let path = self.folder(key).join(RECORD);
        match read_json::<Record>(&path)? {
            Some(Record { version, .. }) if version != VERSION => {
                Err(StoreError::Damaged { path, what: format!("it has the version {version}") })
            }
            record => Ok(record),
        }
    }

    /// When the record of a run was kept, where the file system says it.
    pub(crate) fn kept_at(&self, key: &Key) -> Option<SystemTime> {
        std::fs::metadata(self.folder(key).join(RECORD)).and_then(|metadata| metadata.modified()).ok()
    }

    /// What the program printed in a run that is on record.
    ///
    /// # Errors
    ///
    /// A stream that cannot be read.
    pub fn stream(&self, key: &Key) -> Result<String, StoreError> {
        let path = self.folder(key).join(STREAM);
        let bytes = std::fs::read(&path).map_err(|source| StoreError::File { path, source })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Keeps a run: what was printed first, then its record.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn keep(&self, key: &Key, stdout: &str, stderr: &str, record: &Record) -> Result<(), StoreError> {
        let folder = self.folder(key);
        self.write(&folder.join(STREAM), stdout.as_bytes())?;
        if !stderr.is_empty() {
            self.write(&folder.join(STDERR), stderr.as_bytes())?;
        }
        self.write_json(&folder.join(RECORD), record)
    }

    /// Writes a start down, before it is made.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn note_start(&self, what: &str) -> Result<(), StoreError> {
        self.append(STARTS, &serde_json::json!({ "start": what }))
    }

    /// Writes down what a start has cost, as far as the agent reports it.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub(crate) fn note_cost(&self, what: &str, cost: Option<f64>) -> Result<(), StoreError> {
        self.append(COSTS, &serde_json::json!({ "start": what, "cost": cost }))
    }

    fn append(&self, name: &str, line: &serde_json::Value) -> Result<(), StoreError> {
        let path = self.directory.join(name);
        let fault = |source| StoreError::File { path: path.clone(), source };
        let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(fault)?;
        file.write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_data()).map_err(fault)
    }

    /// The starts of all processes until now.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn n_starts(&self) -> Result<usize, StoreError> {
        Ok(self.lines(STARTS)?.iter().filter(|byte| **byte == b'\n').count())
    }

    /// What the starts of all processes have cost until now.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn spending(&self) -> Result<StartCosts, StoreError> {
        let mut spending = StartCosts::default();
        let bytes = self.lines(COSTS)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut n_known = 0;
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if let Some(cost) = line.get("cost").and_then(serde_json::Value::as_f64) {
                spending.add(Some(cost));
                n_known += 1;
            }
        }
        spending.n_unknown = self.n_starts()?.saturating_sub(n_known);
        Ok(spending)
    }

    fn lines(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        Ok(read(&self.directory.join(name))?.unwrap_or_default())
    }

    /// Writes a file whole or not at all.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let fault = |source| StoreError::File { path: path.to_owned(), source };
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(fault)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(fault)?;
        file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(fault)?;
        file.persist(path).map_err(|error| fault(error.error))?;
        Ok(())
    }
}

/// The bytes of a file; `None` where it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(StoreError::File { path: path.to_owned(), source }),
    }
}

/// The value in a file; `None` where it is not there.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(path, &error))
}

fn damaged(path: &Path, error: &serde_json::Error) -> StoreError {
    StoreError::Damaged { path: path.to_owned(), what: error.to_string() }
}
