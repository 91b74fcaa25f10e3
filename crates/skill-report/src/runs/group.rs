//! Groups of runs with equal settings: means over seeds, and differences between groups.

use super::row::{RunRow, have_same_items, paired_by_items};
use super::{MAX_SETTING_CHARACTERS, is_seed, value_of};
use crate::LEVEL;
use crate::RunPhase;
use crate::data::conversation::clip;
use indexmap::IndexMap;
use serde::Serialize;
use skill_core::stats::{mean_interval, means_interval};
use std::collections::{BTreeMap, BTreeSet};

/// Where differences of scores are.
const DIFFERENCES: [f64; 2] = [-1.0, 1.0];

/// A mean over runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// Runs with different seeds.
    pub n: usize,
    /// The mean.
    pub mean: f64,
    /// Its 95 % t interval over them; `None` for a single one.
    pub interval: Option<[f64; 2]>,
}

impl Mean {
    /// The mean of these values, which are between the ends of `range`; `None` without any.
    fn within(values: &[f64], [low, high]: [f64; 2]) -> Option<Self> {
        let found = Self::of(values)?;
        let interval = found.interval.map(|interval| interval.map(|end| end.clamp(low, high)));
        Some(Self { interval, ..found })
    }

    /// The mean of these values; `None` without any.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        (n > 0).then(|| Self { n, mean, interval: mean_interval(values, LEVEL) })
    }
}

skill_core::named_enum! {
    /// How the values of a difference are paired.
    pub enum PairedBy {
        /// Each item under two skills: the interval is about items.
        Items = "items",
        /// The runs of two groups with the same seed, on the same items: the interval is about seeds.
        Seeds = "seeds",
        /// Nothing: two groups of runs are compared by Welch's interval.
        Nothing = "nothing",
    }
}

/// The difference of a run or a group to another one on the test split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupDifference {
    /// The other one.
    pub against: String,
    /// What is paired.
    pub paired_by: PairedBy,
    /// Pairs; for unpaired groups the runs of both.
    pub n: usize,
    /// The mean difference.
    pub difference: f64,
    /// Its 95 % interval; `None` where there are too few runs.
    pub interval: Option<[f64; 2]>,
}

/// Runs of equal settings and of the same task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunGroup {
    /// The beginnings of the values of its settings, joined.
    pub name: String,
    /// The settings by which runs are grouped, with the values of this group.
    pub settings: IndexMap<String, String>,
    /// The number of its task.
    pub task: usize,
    /// The names of its runs.
    pub runs: Vec<String>,
    /// Their seeds, each once.
    pub seeds: Vec<u64>,
    /// The mean test score of the initial skills.
    pub test_before: Option<Mean>,
    /// The mean test score of the best skills.
    pub test: Option<Mean>,
    /// The difference of the two.
    pub gain: Option<Mean>,
    /// The mean validation score of the best skills, by which they were selected.
    pub validation: Option<Mean>,
    /// What a run costs.
    pub cost: Option<Mean>,
    /// Requests of a run.
    pub calls: Option<Mean>,
    /// How long a run takes, in seconds.
    pub seconds: Option<Mean>,
    /// The difference to the first group of the same task.
    pub versus_first: Option<GroupDifference>,
    /// The places of its runs in the table.
    #[serde(skip)]
    pub(crate) places: Vec<usize>,
}

/// The groups, in the order of their first runs. A run that is damaged, not finished, named again, or without any score is
/// in none: a run that stopped at its baseline would lower the mean of its settings.
pub(super) fn groups(runs: &[RunRow], group_by: &[String]) -> Vec<RunGroup> {
    let mut members: IndexMap<(usize, Vec<String>), Vec<usize>> = IndexMap::new();
    for (place, run) in runs.iter().enumerate() {
        let has_result = run.state == RunPhase::Finished && run.test.or(run.validation).is_some();
        if run.problem.is_some() || run.is_repeated || !has_result {
            continue;
        }
        let values = group_by.iter().map(|key| value_of(run, key)).collect();
        members.entry((run.task, values)).or_default().push(place);
    }
    let mut groups: Vec<(RunGroup, Vec<&RunRow>)> = Vec::new();
    for ((task, values), places) in members {
        let of: Vec<&RunRow> = places.iter().filter_map(|place| runs.get(*place)).collect();
        let mut group = group(task, group_by, values, places, &of);
        let first = groups.iter().find(|(first, _)| first.task == task);
        group.versus_first = first.and_then(|(first, others)| versus(first, others, &of, group_by));
        groups.push((group, of));
    }
    groups.into_iter().map(|(group, _)| group).collect()
}

fn group(
    task: usize,
    group_by: &[String],
    values: Vec<String>,
    places: Vec<usize>,
    runs: &[&RunRow],
) -> RunGroup {
    let mean = |of| Mean::of(&seed_means(runs, of));
    let share = |of| Mean::within(&seed_means(runs, of), [0.0, 1.0]);
    let seeds: BTreeSet<u64> = runs.iter().filter_map(|run| run.seed).collect();
    let name = match values[..] {
        [] => "all runs".to_owned(),
        _ => values.iter().map(|value| clip(value, MAX_SETTING_CHARACTERS)).collect::<Vec<_>>().join(", "),
    };
    RunGroup {
        name,
        settings: group_by.iter().cloned().zip(values).collect(),
        task,
        runs: runs.iter().map(|run| run.name.clone()).collect(),
        seeds: seeds.into_iter().collect(),
        test_before: share(|run| run.test_before),
        test: share(|run| run.test),
        gain: Mean::within(&seed_means(runs, |run| run.gain), DIFFERENCES),
        validation: share(|run| run.validation),
        cost: mean(|run| run.cost),
        calls: mean(|run| run.calls.map(|calls| calls as f64)),
        seconds: mean(|run| run.seconds),
        versus_first: None,
        places,
    }
}

/// The values of runs, one for each combination of seeds. Repeats of one seed are not independent samples: they count
/// once, by their mean.
fn seed_means(runs: &[&RunRow], of: fn(&RunRow) -> Option<f64>) -> Vec<f64> {
    let mut by_seeds: BTreeMap<Vec<(&str, String)>, Vec<f64>> = BTreeMap::new();
    for run in runs {
        let seeds = run.config.iter().filter(|(key, _)| is_seed(key));
        let seeds = seeds.map(|(key, value)| (key.as_str(), value.to_string())).collect();
        by_seeds.entry(seeds).or_default().extend(of(run));
    }
    by_seeds.values().filter_map(|values| Mean::of(values)).map(|mean| mean.mean).collect()
}

/// The difference of the second group to the first: paired by seed where both have the same seeds and items, by item where
/// each group is one run, else unpaired.
fn versus(
    first: &RunGroup,
    others: &[&RunRow],
    runs: &[&RunRow],
    group_by: &[String],
) -> Option<GroupDifference> {
    let against = first.name.clone();
    if let ([other], [run]) = (others, runs) {
        return paired_by_items(other, run).map(|found| GroupDifference { against, ..found });
    }
    if let Some(differences) = by_seed(others, runs, group_by) {
        let found = Mean::within(&differences, DIFFERENCES)?;
        return Some(GroupDifference {
            against,
            paired_by: PairedBy::Seeds,
            n: found.n,
            difference: found.mean,
            interval: found.interval,
        });
    }
    let [before, after] = [others, runs].map(|runs| seed_means(runs, |run| run.test));
    let difference = Mean::of(&after)?.mean - Mean::of(&before)?.mean;
    Some(GroupDifference {
        against,
        paired_by: PairedBy::Nothing,
        n: before.len() + after.len(),
        difference,
        interval: means_interval([&before, &after], LEVEL)
            .map(|interval| interval.map(|end| end.clamp(DIFFERENCES[0], DIFFERENCES[1]))),
    })
}

/// The differences of the runs of equal seeds; `None` unless both groups have the same seeds, each once, on equal items.
///
/// Seeds are the settings for chance that differ within a group, except those that make the groups.
fn by_seed(others: &[&RunRow], runs: &[&RunRow], group_by: &[String]) -> Option<Vec<f64>> {
    let differs = |key: &&String| {
        [others, runs].iter().any(|of| {
            of.iter().zip(of.iter().skip(1)).any(|(one, next)| one.config.get(*key) != next.config.get(*key))
        })
    };
    let keys = others.iter().chain(runs).flat_map(|run| run.config.keys());
    let seeds: BTreeSet<&String> =
        keys.filter(|key| is_seed(key) && !group_by.contains(key)).filter(differs).collect();
    let (others, runs) = (each_seed_once(others, &seeds)?, each_seed_once(runs, &seeds)?);
    if !others.keys().eq(runs.keys()) {
        return None;
    }
    let pairs = others.values().zip(runs.values());
    pairs
        .map(|(other, run)| {
            let difference = run.test? - other.test?;
            have_same_items(other, run).then_some(difference)
        })
        .collect()
}

/// The runs by the values of these seeds; `None` if two have the same ones, or one lacks a seed.
fn each_seed_once<'a>(
    runs: &[&'a RunRow],
    seeds: &BTreeSet<&String>,
) -> Option<BTreeMap<Vec<String>, &'a RunRow>> {
    let values = |run: &RunRow| {
        seeds.iter().map(|key| run.config.get(*key).map(ToString::to_string)).collect::<Option<Vec<String>>>()
    };
    let by_seed: BTreeMap<Vec<String>, &RunRow> =
        runs.iter().map(|run| Some((values(run)?, *run))).collect::<Option<_>>()?;
    (by_seed.len() == runs.len()).then_some(by_seed)
}
