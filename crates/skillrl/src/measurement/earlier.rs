//! An earlier measurement, to compare with item by item.

use super::{check_whole, measured_with};
use crate::config::LoadedConfig;
use crate::error::{Error, MeasurementError};
use crate::trainer;
use skill_core::{ItemId, RolloutResult};
use skill_envs::{Item, Split};
use skill_llm::regular_file;
use skill_pipeline::error::describe_changes;
use skill_pipeline::identity::scoring_changes;
use skill_pipeline::records::RunIdentity;
use skill_pipeline::run_dir::RESULTS_FILE;
use skill_report::Comparison;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The results of an earlier measurement.
pub struct Earlier {
    path: PathBuf,
    results: Vec<RolloutResult>,
    /// What it was made with, where that is recorded.
    settings: Option<RunIdentity>,
}

/// How deep measurements lie in a directory of several: those of a matrix are in `MODEL/SKILL`.
const MAX_DEPTH: usize = 2;

/// A measurement below a directory.
fn one_below(dir: &Path, depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    let own = folders.iter().find(|folder| folder.join(RESULTS_FILE).is_file()).cloned();
    own.or_else(|| folders.iter().filter(|_| depth > 1).find_map(|folder| one_below(folder, depth - 1)))
}

impl Earlier {
    /// Reads the directory of a measurement, or the file with its results.
    ///
    /// # Errors
    ///
    /// A damaged measurement, and a file that cannot be read or holds no results.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let path = if dir.is_dir() { dir.join(RESULTS_FILE) } else { dir.to_owned() };
        path.parent().map_or(Ok(()), check_whole)?;
        let bytes = regular_file::read(&path).map_err(|source| match one_below(dir, MAX_DEPTH) {
            Some(example) => MeasurementError::Several { path: dir.to_owned(), example },
            None => MeasurementError::Unread { path: path.clone(), source },
        })?;
        let results: Vec<RolloutResult> = serde_json::from_slice(&bytes)
            .map_err(|source| MeasurementError::NoResults { path: path.clone(), source })?;
        let results = results.into_iter().map(RolloutResult::without_trajectory).collect();
        let settings = path.parent().and_then(measured_with);
        Ok(Self { path, results, settings })
    }

    /// Looks whether there is anything to compare, before anything is paid for: the same items with the same labels, and
    /// the same scorer. An id alone does not make an item the same: in a data file it may be the number of a row.
    ///
    /// # Errors
    ///
    /// Other data, another scorer, or none of these items.
    pub fn check_items(
        &self,
        items: &[Item],
        settings: &RunIdentity,
        split: Split,
    ) -> Result<(), MeasurementError> {
        let asked: BTreeSet<&ItemId> = items.iter().map(|item| &item.id).collect();
        if !self.results.iter().any(|result| asked.contains(&result.id)) {
            return Err(self.no_item());
        }
        let changes =
            self.settings.as_ref().map(|earlier| scoring_changes(earlier, settings, split.as_str()));
        let why = match changes {
            Some(changes) if changes.is_empty() => return Ok(()),
            Some(changes) => describe_changes(&changes),
            None => "its data and its scorer are not recorded".to_owned(),
        };
        Err(MeasurementError::NotComparable { path: self.path.clone(), why })
    }

    /// Looks whether a loss of more than this share can be excluded at all, before anything is paid for: few items exclude
    /// no small loss, even if each comes out as before.
    ///
    /// # Errors
    ///
    /// Too few items, or none of them.
    pub fn check_loss(&self, loaded: &LoadedConfig, items: &[Item], most: f64) -> Result<(), Error> {
        let asked: BTreeSet<&ItemId> = items.iter().map(|item| &item.id).collect();
        let same: Vec<RolloutResult> =
            self.results.iter().filter(|result| asked.contains(&result.id)).cloned().collect();
        let [low, _] = self.compare(loaded, &same)?.difference_interval;
        if low >= -most {
            return Ok(());
        }
        Err(MeasurementError::FewItems { n: same.len(), most: 100.0 * most, possible: -100.0 * low }.into())
    }

    /// Looks whether each case was run as often as it will be now, before anything is paid for: only as many runs are
    /// paired.
    ///
    /// # Errors
    ///
    /// A case with another number of runs.
    pub fn check_runs(&self, now: usize) -> Result<(), MeasurementError> {
        let mut of_case: BTreeMap<&ItemId, usize> = BTreeMap::new();
        for result in &self.results {
            *of_case.entry(&result.id).or_default() += 1;
        }
        match of_case.into_values().find(|earlier| *earlier != now) {
            Some(earlier) => Err(MeasurementError::OtherRuns { earlier, now }),
            None => Ok(()),
        }
    }

    /// Compares item by item, by the metric of the configuration's gate.
    ///
    /// # Errors
    ///
    /// Results of other items.
    pub fn compare(&self, loaded: &LoadedConfig, now: &[RolloutResult]) -> Result<Comparison, Error> {
        let gate = trainer::settings(&loaded.config)?.gate;
        Comparison::of(gate, &self.results, now).ok_or_else(|| self.no_item().into())
    }

    fn no_item(&self) -> MeasurementError {
        MeasurementError::NoItem { path: self.path.clone() }
    }
}
