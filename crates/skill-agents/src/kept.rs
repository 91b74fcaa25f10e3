//! What a directory of runs says by itself: its report is made again without skills, queries or an agent at hand.
//!
//! Main type: [`Kept`].

use crate::measure::{Key, Measured, Record, Setup, Store, StoreError, hash_of};
use crate::query::Query;
use crate::report::{TriggerReport, report};
use crate::train::TrainingRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

/// The version of the form.
const VERSION: u32 = 1;
const INPUTS: &str = "inputs.json";
const TRAINING: &str = "train.json";

/// What runs of a directory are of, written before the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    version: u32,
    /// The agent.
    pub agent: String,
    /// The model, as the agent names it; `None` for the one that it is set to.
    pub model: Option<String>,
    /// Repetitions of each query.
    pub repetitions: usize,
    /// The queries.
    pub queries: Vec<Query>,
    /// The listed name of each measured skill, with the characters of its entry in the listing.
    pub skills: BTreeMap<String, usize>,
    /// The description of each, as the agent lists it.
    #[serde(default)]
    pub descriptions: BTreeMap<String, String>,
    /// The hash of the skills and of what lies beside them.
    hash: String,
}

impl Inputs {
    /// The inputs of a measurement.
    pub fn new(setup: &Setup, queries: &[Query], repetitions: usize) -> Self {
        let entry = |skill: &crate::Skill| {
            let (name, text) = (skill.listed_name(setup.agent), skill.listed_text(setup.agent));
            (name.to_owned(), name.chars().count() + text.chars().count())
        };
        Self {
            version: VERSION,
            agent: setup.agent.name.clone(),
            model: setup.model.clone(),
            repetitions,
            queries: queries.to_vec(),
            skills: setup.skills.iter().map(entry).collect(),
            descriptions: setup
                .skills
                .iter()
                .map(|skill| (skill.listed_name(setup.agent).to_owned(), skill.listed_text(setup.agent)))
                .collect(),
            hash: hash_of(setup),
        }
    }

    /// The report of the measurement.
    pub fn report(&self, measured: &Measured) -> TriggerReport {
        report(&self.agent, &self.queries, self.repetitions, &self.skills, measured)
    }
}

/// A directory of runs, as far as they are on record.
#[derive(Debug, Clone)]
pub struct Kept {
    /// What they are of.
    pub inputs: Inputs,
    /// Their results.
    pub measured: Measured,
    /// When the last of them was kept.
    pub measured_at: Option<SystemTime>,
    /// Starts of the agent, those of drafts and proposals too.
    pub n_starts: usize,
    /// The training of descriptions, as far as it is; `None` where none has begun.
    pub training: Option<TrainingRecord>,
}

/// True if a directory has runs of an agent, or is meant for them.
pub fn is_measurement(directory: &Path) -> bool {
    directory.join(INPUTS).is_file()
}

impl Kept {
    /// Reads a directory of runs, also of those in progress.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is damaged.
    pub fn read(directory: &Path) -> Result<Self, StoreError> {
        let store = Store::to_read(directory);
        let inputs: Inputs = store.json(INPUTS)?.ok_or_else(|| StoreError::File {
            path: directory.join(INPUTS),
            source: std::io::ErrorKind::NotFound.into(),
        })?;
        let mut records: BTreeMap<(String, usize), Record> = BTreeMap::new();
        let mut measured_at = None;
        for query in &inputs.queries {
            for repetition in 1..=inputs.repetitions {
                let key = Key::new(&inputs.hash, query, repetition);
                if let Some(record) = store.record(&key)? {
                    measured_at = measured_at.max(store.kept_at(&key));
                    records.insert((query.id.clone(), repetition), record);
                }
            }
        }
        let n_planned = inputs.queries.len() * inputs.repetitions;
        Ok(Self {
            measured: Measured { records, stop: None, n_planned },
            measured_at,
            n_starts: store.n_starts()?,
            training: store.json(TRAINING)?,
            inputs,
        })
    }

    /// The report of what is on record.
    pub fn report(&self) -> TriggerReport {
        self.inputs.report(&self.measured)
    }
}

impl Store {
    /// Writes down what the runs are of.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn keep_inputs(&self, inputs: &Inputs) -> Result<(), StoreError> {
        self.keep_json(INPUTS, inputs)
    }

    /// Writes down how far a training of descriptions is.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn keep_training(&self, training: &TrainingRecord) -> Result<(), StoreError> {
        self.keep_json(TRAINING, training)
    }
}
