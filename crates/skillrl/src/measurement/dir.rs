//! The directory of one measurement.
//!
//! Beside the results lies [`MEASURED_WITH_FILE`]: what they were measured with, so that another measurement does not take
//! their place by accident.
//!
//! # Invariants
//!
//! - An evaluation keeps scores in memory and no trajectories; `eval --out` writes those out of the journal. Held
//!   by `an_evaluation_keeps_no_trajectories_in_memory`.

use crate::call_cache::count_spent_on;
use crate::config::LoadedConfig;
use crate::engine::Engine;
use crate::error::{Error, MeasurementError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use skill_core::canonical::{canonical_hash, canonical_list_hash};
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_envs::{Env, Item, Split};
use skill_llm::journal::requests_written;
use skill_llm::regular_file;
use skill_llm::{Journal, JournalOptions, ModelId};
use skill_pipeline::error::{SettingChange, describe_changes};
use skill_pipeline::identity::{check_identity, data_of};
use skill_pipeline::records::evaluation::EvaluationSummary;
use skill_pipeline::records::{FORMAT_VERSION, RunIdentity, is_supported};
use skill_pipeline::run_dir::measurement::{MEASURED_WITH_FILE, is_measurement, seal, unseal, verify};
use skill_pipeline::run_dir::policy_hashes::HASHES_FILE;
use skill_pipeline::run_dir::{JOURNAL_FILE, RESULTS_FILE, RunDir, SUMMARY_FILE, atomic, is_run};
use skill_pipeline::{PipelineError, RunReader};
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::Path;

/// The setting with the number of samples of each item.
pub const RUNS: &str = "eval.runs";

/// The item of a result.
#[derive(Deserialize)]
struct Named {
    id: ItemId,
}

/// Settings and item hashes of a measurement.
#[derive(Serialize, Deserialize)]
struct MeasuredWith {
    format_version: String,
    settings: RunIdentity,
    /// The hash of each measured item; empty in measurements of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    items: BTreeMap<String, String>,
}

/// The hashes of items by their ids.
fn hashes_of(items: &[Item]) -> BTreeMap<String, String> {
    items.iter().map(|item| (item.id.to_string(), hash_of(item))).collect()
}

fn hash_of(item: &Item) -> String {
    canonical_hash(&json!(item))
}

/// Settings that decide a score besides the skill: the models that answer and grade, the environment with its scorer, the
/// data.
pub fn identity(loaded: &LoadedConfig, env: &dyn Env, split: Split, target: &ModelId) -> RunIdentity {
    let decides = |(key, _): &(String, Value)| {
        ["models.target.", "models.judge.", "env."].iter().any(|section| key.starts_with(section))
    };
    let mut settings: RunIdentity = loaded.config.identity_entries().into_iter().filter(decides).collect();
    settings.insert("env.name".to_owned(), json!(env.name()));
    settings.insert("env.settings".to_owned(), env.settings());
    settings.insert("models.target".to_owned(), json!(target.to_string()));
    let items = env.items(split).iter().map(|item| json!(item));
    settings.insert(data_of(split.as_str()), json!(canonical_list_hash(items)));
    settings
}

/// The settings of the measurement in a directory: its own record, or that of the run whose evaluation it is.
pub fn measured_with(dir: &Path) -> Option<RunIdentity> {
    if let Ok(bytes) = regular_file::read(&dir.join(MEASURED_WITH_FILE)) {
        let with: MeasuredWith = serde_json::from_slice(&bytes).ok()?;
        return is_supported(&with.format_version).then_some(with.settings);
    }
    // The skills of `eval --targets` lie in the directory of a run too, and may be of later data.
    let is_of_run = dir.file_name().is_some_and(|name| name.to_string_lossy().contains("_eval"));
    let run = dir.ancestors().skip(1).find(|above| is_of_run && is_run(above))?;
    Some(RunReader::open(run).ok()?.config().identity.clone())
}

/// The directory, held, with the journal of its calls: what was measured there before is not measured again.
pub struct MeasurementDir {
    dir: RunDir,
    settings: RunIdentity,
    items: BTreeMap<String, String>,
    /// The journal of its calls.
    pub journal: Journal,
    /// The hash of what decides the results.
    work: String,
    /// True if the results of another measurement are there.
    replaces_other: bool,
}

impl MeasurementDir {
    /// Takes the directory, before anything is paid for.
    ///
    /// # Errors
    ///
    /// A directory that is a run's, or holds the measurement of another skill, of other items or with other settings,
    /// unless that is to be replaced; one that cannot be written.
    pub fn open(
        path: &Path,
        skill: &SkillDoc,
        items: &[Item],
        settings: RunIdentity,
        force: bool,
    ) -> Result<Self, Error> {
        if is_run(path) {
            return Err(MeasurementError::OfARun { path: path.to_owned() }.into());
        }
        let replaces_other = check_replaced(path, (skill, items, &settings), force)?;
        if [SUMMARY_FILE, RESULTS_FILE].iter().any(|name| path.join(name).exists()) && !force {
            let journal = path.join(JOURNAL_FILE);
            if requests_written(&journal).map_err(PipelineError::from)?.is_none() {
                return Err(MeasurementError::LostCalls { path: path.to_owned(), journal }.into());
            }
        }
        let dir = RunDir::open(path)?;
        let journal = dir.open_journal(JournalOptions::default(), false)?;
        let work = canonical_hash(&json!({"settings": settings, "skill": skill.hash()}));
        Ok(Self { dir, settings, items: hashes_of(items), journal, work, replaces_other })
    }

    /// Tells the caps what was spent on this measurement before, but for the calls of `free`, a control.
    pub fn count_spent(&self, engine: &Engine<'_>, free: Option<&ModelId>) -> Result<(), Error> {
        count_spent_on(&self.work, self.replaces_other, (self.dir.path(), &self.journal), engine, free)
    }

    /// Writes the measurement in the place of an earlier one.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and results that cannot be read.
    pub fn write(
        &self,
        results: impl Iterator<Item = Result<RolloutResult, PipelineError>>,
        summary: &EvaluationSummary,
    ) -> Result<(), PipelineError> {
        unseal(self.dir.path())?;
        self.dir.remove_summary()?;
        write(self.dir.path(), &self.settings, &self.items, results, summary)
    }
}

/// True if the directory holds another measurement, which `force` replaces.
///
/// # Errors
///
/// A damaged one, and another measurement without `force`.
pub fn check_replaced(
    path: &Path,
    (skill, items, settings): (&SkillDoc, &[Item], &RunIdentity),
    force: bool,
) -> Result<bool, Error> {
    if !force {
        check_whole(path)?;
    }
    let other = other_measurement(path, skill, items, settings);
    let replaces_other = other.is_some();
    if let Some(other) = other.filter(|_| !force) {
        return Err(MeasurementError::Other { path: path.to_owned(), what: other }.into());
    }
    Ok(replaces_other)
}

/// The items that are as they were when the measurement in a directory was made.
pub fn unchanged<'items>(
    dir: &Path,
    items: &'items [Item],
) -> impl Iterator<Item = &'items Item> + use<'items> {
    let with = regular_file::read(&dir.join(MEASURED_WITH_FILE)).ok();
    let with = with.and_then(|bytes| serde_json::from_slice::<MeasuredWith>(&bytes).ok());
    let then = with.map(|with| with.items).unwrap_or_default();
    items.iter().filter(move |item| then.get(item.id.as_str()) == Some(&hash_of(item)))
}

/// True if a directory holds another part of this measurement: the same skill with the same settings, on other ones of
/// these items than those that are measured now, or with fewer runs of each. Its calls answer for that part, so that only
/// the rest is paid for.
pub fn is_other_part_of(
    path: &Path,
    skill: &SkillDoc,
    (items, measured): (&[Item], &[Item]),
    settings: &RunIdentity,
) -> Result<bool, Error> {
    let read = |name: &str| regular_file::read(&path.join(name)).ok();
    let summary =
        read(SUMMARY_FILE).and_then(|bytes| serde_json::from_slice::<EvaluationSummary>(&bytes).ok());
    let results = read(RESULTS_FILE).and_then(|bytes| serde_json::from_slice::<Vec<Named>>(&bytes).ok());
    let with = read(MEASURED_WITH_FILE).and_then(|bytes| serde_json::from_slice::<MeasuredWith>(&bytes).ok());
    let (Some(summary), Some(results), Some(with)) = (summary, results, with) else { return Ok(false) };
    let hashes = hashes_of(items);
    let is_known = |id: &str| hashes.get(id).is_some_and(|hash| with.items.get(id) == Some(hash));
    let is_same =
        summary.skill_hash == skill.hash() && results.iter().all(|result| is_known(result.id.as_str()));
    let is_smaller = |change: &SettingChange| match change {
        SettingChange::Data { .. } => true,
        SettingChange::Value { name, was, is } if name == RUNS => {
            matches!((was.as_u64(), is.as_u64()), (Some(was), Some(is)) if was <= is)
        }
        _ => false,
    };
    let has_calls = results.is_empty()
        || requests_written(&path.join(JOURNAL_FILE)).map_err(PipelineError::from)?.is_some();
    if !is_same || !is_supported(&with.format_version) || !has_calls {
        return Ok(false);
    }
    check_whole(path)?;
    Ok(match check_identity(path, &with.settings, settings) {
        Err(PipelineError::Mismatch { changes, .. }) => changes.iter().all(is_smaller),
        Ok(()) => {
            let ids: BTreeSet<&ItemId> = results.iter().map(|result| &result.id).collect();
            ids != measured.iter().map(|item| &item.id).collect()
        }
        Err(_) => false,
    })
}

/// Writes a measurement in the place of an earlier one.
///
/// # Errors
///
/// As [`MeasurementDir::write`].
pub fn write(
    dir: &Path,
    settings: &RunIdentity,
    items: &BTreeMap<String, String>,
    results: impl Iterator<Item = Result<RolloutResult, PipelineError>>,
    summary: &EvaluationSummary,
) -> Result<(), PipelineError> {
    // Who is killed in between leaves results without these two, and not with those of something else.
    unseal(dir)?;
    atomic::remove_file(&dir.join(SUMMARY_FILE))?;
    atomic::remove_file(&dir.join(MEASURED_WITH_FILE))?;
    atomic::write_json_list(&dir.join(RESULTS_FILE), results)?;
    let with = MeasuredWith {
        format_version: FORMAT_VERSION.to_owned(),
        settings: settings.clone(),
        items: items.clone(),
    };
    atomic::write_json(&dir.join(MEASURED_WITH_FILE), &with)?;
    atomic::write_json(&dir.join(SUMMARY_FILE), summary)?;
    seal(dir)
}

/// Verifies the files of a measurement; one of an earlier version has no hashes and is accepted.
///
/// # Errors
///
/// A measurement whose files were changed.
pub fn check_whole(dir: &Path) -> Result<(), Error> {
    if is_measurement(dir) {
        verify(dir)?;
    }
    Ok(())
}

/// True for a measurement of an earlier version, whose files have no hashes.
pub fn lacks_hashes(dir: &Path) -> bool {
    is_measurement(dir) && !dir.join(HASHES_FILE).exists()
}

/// Contents of a directory that are not this measurement, in words.
fn other_measurement(
    path: &Path,
    skill: &SkillDoc,
    items: &[Item],
    settings: &RunIdentity,
) -> Option<String> {
    let read = |name: &str| match regular_file::read(&path.join(name)) {
        Ok(bytes) => Some(serde_json::from_slice::<Value>(&bytes).unwrap_or_default()),
        Err(_) => None,
    };
    if let Some(summary) = read(SUMMARY_FILE) {
        match summary.get("skill_hash").and_then(Value::as_str) {
            None => return Some(format!("a {SUMMARY_FILE} that is not a measurement")),
            Some(hash) if hash != skill.hash().as_str() => {
                return Some(format!("the measurement of another skill ({hash})"));
            }
            Some(_) => {}
        }
    }
    let results = regular_file::open(&path.join(RESULTS_FILE)).ok()?;
    // The trajectories are passed over as they are read.
    let Ok(results) = serde_json::from_reader::<_, Vec<Named>>(BufReader::new(results)) else {
        return Some(format!("a damaged {RESULTS_FILE}"));
    };
    let ids: BTreeSet<&str> = results.iter().map(|result| result.id.as_str()).collect();
    let asked: BTreeSet<&str> = items.iter().map(|item| item.id.as_str()).collect();
    if ids != asked {
        return Some("a measurement on other items".to_owned());
    }
    // An early version did not write it.
    let with = read(MEASURED_WITH_FILE)?;
    let Ok(with) = serde_json::from_value::<MeasuredWith>(with) else {
        return Some(format!("a damaged {MEASURED_WITH_FILE}"));
    };
    if !is_supported(&with.format_version) {
        return Some(format!(
            "a measurement in format {}, which this program does not read",
            with.format_version
        ));
    }
    match check_identity(path, &with.settings, settings) {
        Err(PipelineError::Mismatch { changes, .. }) => {
            Some(format!("a measurement with other settings ({})", describe_changes(&changes)))
        }
        Ok(()) | Err(_) => None,
    }
}
