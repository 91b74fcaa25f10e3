//! A table of runs: settings, scores, cost and time of each, and means over the seeds of equal settings.
//!
//! [`RunsTable::of`] makes it from a [`RunRow`] for each run; nothing else in this program puts runs beside each other,
//! but for [`crate::RunComparison`], which goes into the items of two.
//! A run that cannot be read or compared is a row that says so, and never an error of the table.

mod column;
mod group;
mod page;
mod row;
mod text;

pub use crate::data::course::CoursePoint;
pub use column::RunColumn;
pub use group::{GroupDifference, Mean, PairedBy, RunGroup};
pub(crate) use page::{Band, FinalScore, bands, final_scores, score_line};
pub use row::RunRow;
pub use text::TextTable;

use crate::ReportError;
use crate::data::compare::flattened;
use crate::words::counted;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use skill_pipeline::error::describe_changes;
use skill_pipeline::identity::scoring_changes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The most runs that are compared item by item with the first one.
pub const MAX_PAIRED_RUNS: usize = 200;
/// The most characters of a setting's value in names and cells for people; files have all of it.
const MAX_SETTING_CHARACTERS: usize = 40;

/// Runs in a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunsTable {
    /// The settings by which runs are grouped; without a request those that differ, except seeds.
    pub group_by: Vec<String>,
    /// The settings that are not the same in all runs, by name; seeds too.
    pub settings: Vec<String>,
    /// A row for each run, in the order in which they were named.
    pub runs: Vec<RunRow>,
    /// The groups in the order of their first runs; a run without a score is in none.
    pub groups: Vec<RunGroup>,
    /// How many different tasks the runs are measured on, by data, environment, scorer and metric.
    pub n_tasks: usize,
}

impl RunsTable {
    /// The table of these runs, grouped by the settings of these names; by those that differ, except seeds, without a name.
    ///
    /// A name is that of a setting, such as `models.target.model`, or its end, such as `model`, where no other setting
    /// that differs has it; `env`, `kind` and `seed` are columns of the table.
    ///
    /// # Errors
    ///
    /// [`ReportError::UnknownGroup`] for a name that no run has a setting of.
    pub fn of(mut runs: Vec<RunRow>, group_by: &[String]) -> Result<Self, ReportError> {
        name_runs(&mut runs);
        note_repeated(&mut runs);
        let n_tasks = mark_tasks(&mut runs);
        let settings = differing(&runs);
        for run in &mut runs {
            let values = settings.iter().filter_map(|key| Some((key.clone(), run.config.get(key)?.clone())));
            run.settings = values.collect();
        }
        let group_by = match group_by {
            [] => settings.iter().filter(|key| !is_seed(key)).cloned().collect(),
            names => named(names, &settings, &runs)?,
        };
        if runs.len() <= MAX_PAIRED_RUNS {
            row::compare_with_first(&mut runs);
        }
        let groups = group::groups(&runs, &group_by);
        Ok(Self { group_by, settings, runs, groups, n_tasks })
    }

    /// The runs by the names of all columns, null where a run has nothing.
    pub fn records(&self) -> Vec<IndexMap<String, Value>> {
        let columns = self.columns();
        let record = |run| columns.iter().map(|column| (column.name.clone(), column.value(run))).collect();
        self.runs.iter().map(record).collect()
    }

    /// The columns of the table, in their order.
    pub fn columns(&self) -> Vec<RunColumn> {
        column::columns(self)
    }
}

/// True for a setting that only changes chance.
pub(super) fn is_seed(key: &str) -> bool {
    key.rsplit('.').next().is_some_and(|name| name == "seed" || name.ends_with("_seed"))
}

/// Gives each run the end of its path that tells it from the others.
fn name_runs(runs: &mut [RunRow]) {
    let paths: Vec<PathBuf> = runs.iter().map(|run| whole_path(&run.path)).collect();
    let parts = |path: &Path| -> Vec<String> {
        let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
        names.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
    };
    let all: Vec<Vec<String>> = paths.iter().map(|path| parts(path)).collect();
    let distinct: BTreeSet<&Vec<String>> = all.iter().collect();
    let [first, last] = [distinct.first(), distinct.last()];
    let n_common = match (first, last) {
        (Some(first), Some(last)) if distinct.len() > 1 => {
            first.iter().zip(last.iter()).take_while(|(one, other)| one == other).count()
        }
        _ => return,
    };
    for (run, parts) in runs.iter_mut().zip(&all) {
        let mut name = parts.get(n_common..).unwrap_or_default();
        // A directory that is only called `run` has the name of what it lies in.
        if let Some((last, before)) = name.split_last()
            && last == "run"
            && !before.is_empty()
        {
            name = before;
        }
        if !name.is_empty() {
            run.name = name.join("/");
        }
    }
    let mut n_of: BTreeMap<String, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *n_of.entry(run.name.clone()).or_default() += 1);
    for (run, parts) in runs.iter_mut().zip(&all) {
        if n_of.get(&run.name).is_some_and(|n| *n > 1) {
            run.name = parts.get(n_common..).unwrap_or_default().join("/");
        }
    }
}

fn whole_path(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Marks a run that is named again: it counts once.
fn note_repeated(runs: &mut [RunRow]) {
    let mut seen = BTreeSet::new();
    for run in runs {
        if !seen.insert(whole_path(&run.path)) {
            run.is_repeated = true;
            run.notes.push("named before; it counts once".to_owned());
        }
    }
}

/// Numbers the tasks of the runs, and says of a run how its task differs from that of most; returns how many there are.
fn mark_tasks(runs: &mut [RunRow]) -> usize {
    // The first run of each task, with how many there are.
    let mut tasks: Vec<(usize, usize)> = Vec::new();
    for place in 0..runs.len() {
        let Some(run) = runs.get(place).filter(|run| run.problem.is_none()) else { continue };
        let known = tasks
            .iter()
            .position(|(first, _)| runs.get(*first).is_some_and(|first| row::have_same_task(first, run)));
        let task = known.unwrap_or(tasks.len());
        match tasks.get_mut(task) {
            Some((_, n)) => *n += 1,
            None => tasks.push((place, 1)),
        }
        if let Some(run) = runs.get_mut(place) {
            run.task = task;
        }
    }
    let most = tasks.iter().enumerate().max_by_key(|(task, (_, n))| (*n, std::cmp::Reverse(*task)));
    let Some((most, (first, _))) = most else { return 0 };
    let Some(usual) = runs.get(*first).cloned() else { return 0 };
    for run in runs.iter_mut().filter(|run| run.problem.is_none() && run.task != most) {
        let mut differs = Vec::new();
        if run.kind != usual.kind {
            differs.push(format!("it trains a {}", run.kind.unwrap_or("document")));
        }
        if run.metric != usual.metric {
            differs.push(format!("its metric is {}", run.metric.as_str()));
        }
        let changes = scoring_changes(&usual.identity, &run.identity, "test");
        if !changes.is_empty() {
            differs.push(describe_changes(&changes));
        }
        let name = &usual.name;
        run.notes.push(format!("not compared with {name}: {}", differs.join("; ")));
    }
    let versions: BTreeSet<&String> = runs.iter().filter_map(|run| run.version.as_ref()).collect();
    if versions.len() > 1
        && let Some(usual) = &usual.version
    {
        let others = runs.iter_mut().filter(|run| run.version.as_ref().is_some_and(|found| found != usual));
        others.for_each(|run| {
            let note = format!("written by version {}", run.version.as_deref().unwrap_or_default());
            run.notes.push(note);
        });
    }
    tasks.len()
}

/// The settings whose values differ between runs; a setting is compared only among runs of the kinds and environments that
/// have it.
fn differing(runs: &[RunRow]) -> Vec<String> {
    type Kind<'run> = (Option<&'run str>, &'run str);
    let read: Vec<&RunRow> = runs.iter().filter(|run| run.problem.is_none()).collect();
    fn kind(run: &RunRow) -> Kind<'_> {
        (run.kind, run.env.as_str())
    }
    let mut n_of_kind: BTreeMap<Kind<'_>, usize> = BTreeMap::new();
    read.iter().for_each(|run| *n_of_kind.entry(kind(run)).or_default() += 1);
    // The values of each key, and in how many runs of each kind it is there.
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut n_with: BTreeMap<(&str, Kind<'_>), usize> = BTreeMap::new();
    for run in &read {
        for (key, value) in &run.config {
            let known = values.entry(key).or_default();
            if known.len() < 2 {
                known.insert(value.to_string());
            }
            *n_with.entry((key, kind(run))).or_default() += 1;
        }
    }
    let is_partial = |key: &str| {
        let with = |kind: Kind<'_>| n_with.get(&(key, kind)).copied().unwrap_or_default();
        n_of_kind.iter().any(|(kind, n)| with(*kind) > 0 && with(*kind) < *n)
    };
    let differ = values.iter().filter(|(key, values)| values.len() > 1 || is_partial(key));
    differ.map(|(key, _)| (*key).to_owned()).collect()
}

/// The settings that these names mean.
fn named(names: &[String], settings: &[String], runs: &[RunRow]) -> Result<Vec<String>, ReportError> {
    let find = |name: &String| {
        if ["env", "kind", "seed"].contains(&name.as_str())
            || runs.iter().any(|run| run.config.contains_key(name))
        {
            return Ok(name.clone());
        }
        let ending = format!(".{name}");
        let mut ends = settings.iter().filter(|key| key.ends_with(&ending));
        match (ends.next(), ends.next()) {
            (Some(key), None) => Ok(key.clone()),
            _ => Err(ReportError::UnknownGroup { name: name.clone(), settings: settings.to_vec() }),
        }
    };
    names.iter().map(find).collect()
}

/// What a run has under this name, as text without quotes.
fn value_of(run: &RunRow, key: &str) -> String {
    match key {
        "env" => run.env.clone(),
        "kind" => run.kind.unwrap_or("document").to_owned(),
        "seed" => run.seed.map(|seed| seed.to_string()).unwrap_or_default(),
        key => run.config.get(key).map(in_words).unwrap_or_else(|| "not set".to_owned()),
    }
}

/// A value of a setting as text; a text without its quotes.
pub(crate) fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    }
}

/// The settings of a configuration by their names.
fn settings_of(config: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    flattened(config, "", &mut |key, value| {
        found.insert(key, value.clone());
    });
    found
}

/// The numbers of runs and groups of the table as text.
pub(crate) fn size_in_words(table: &RunsTable) -> String {
    let runs = counted(table.runs.len() as u64, "run");
    match table.groups.len() {
        0 | 1 => runs,
        n_groups => format!("{runs} in {}", counted(n_groups as u64, "group")),
    }
}

#[cfg(test)]
mod tests;
