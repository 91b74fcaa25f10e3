//! The tasks of a run in four sets: what the teacher reads, what trials are made on, what decides, what is claimed.

use super::BankSettings;
use crate::error::PipelineError;
use crate::identity::check_not_empty;
use serde_json::{Value, json};
use skill_bank::episode::{ItemSets, TestItems, TrainItems, TrialItems, ValidationItems};
use skill_core::random::Dice;
use skill_envs::{Env, Item, Split};
use std::collections::BTreeMap;

/// Splits the training items of an environment by type: the share of each that the settings name is for trials, and at
/// least one task of each type that has two.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] without training items, and [`PipelineError::NoTrialTasks`] where nothing is left for the
/// trials that the settings want.
pub fn item_sets(env: &dyn Env, settings: &BankSettings, seed: u64) -> Result<ItemSets, PipelineError> {
    let dice = Dice::new(seed, &["trial set"]);
    let mut by_type = by_type(env);
    check_not_empty(env, Split::Train)?;
    let (mut taught, mut tried) = (Vec::new(), Vec::new());
    for items in by_type.values_mut() {
        items.sort_by(|one, other| {
            let lot = |item: &Item| dice.unit(item.id.as_str());
            lot(one).total_cmp(&lot(other)).then_with(|| one.id.cmp(&other.id))
        });
        let (for_trials, for_teacher) = items.split_at(n_tried(items.len(), settings.trial_share));
        tried.extend(for_trials.iter().map(|item| item.id.clone()));
        taught.extend(for_teacher.iter().map(|item| item.id.clone()));
    }
    if tried.is_empty() && settings.has_trials() {
        return Err(PipelineError::NoTrialTasks {
            env: env.name().to_owned(),
            trial_share: settings.trial_share,
            tasks: by_type.iter().map(|(name, items)| ((*name).to_owned(), items.len())).collect(),
        });
    }
    let ids = |split: Split| env.items(split).iter().map(|item| item.id.clone()).collect::<Vec<_>>();
    ItemSets::new(
        TrainItems::new(taught),
        TrialItems::new(tried),
        ValidationItems::new(ids(Split::Val)),
        TestItems::new(ids(Split::Test)),
    )
    .map_err(|error| PipelineError::DuplicateItem {
        id: error.item,
        first: Split::Train,
        second: Split::Val,
    })
}

fn by_type(env: &dyn Env) -> BTreeMap<&str, Vec<&Item>> {
    let mut by_type: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in env.items(Split::Train) {
        by_type.entry(&item.task_type).or_default().push(item);
    }
    by_type
}

/// The share of a type's tasks, rounded down.
fn share_of(n_items: usize, trial_share: f64) -> usize {
    ((n_items as f64) * trial_share).floor() as usize
}

/// The tasks of a type that are for trials. With one there is nothing to try on: the teacher comes first.
fn n_tried(n_items: usize, trial_share: f64) -> usize {
    share_of(n_items, trial_share).max(1).min(n_items.saturating_sub(1))
}

/// The name under which a run records [`gives_small_types_a_task`].
pub(crate) const SMALL_TYPES: &str = "bank.trial_share.least";

/// What decides the sets besides the share: the least of a type, where the share alone would give some type none. Earlier
/// versions gave it none.
pub fn gives_small_types_a_task(env: &dyn Env, settings: &BankSettings) -> Option<(String, Value)> {
    let is_small = |items: &Vec<&Item>| items.len() > 1 && share_of(items.len(), settings.trial_share) == 0;
    by_type(env).values().any(is_small).then(|| (SMALL_TYPES.to_owned(), json!(1)))
}

/// The types that have one training task: there is none to try their skills on.
pub(crate) fn types_without_trials(env: &dyn Env, settings: &BankSettings) -> Vec<String> {
    if !settings.has_trials() {
        return Vec::new();
    }
    let by_type = by_type(env);
    by_type.iter().filter(|(_, items)| items.len() == 1).map(|(name, _)| (*name).to_owned()).collect()
}

/// The items of a set, in the order of the data.
pub fn chosen(env: &dyn Env, contains: impl Fn(&skill_core::ItemId) -> bool) -> Vec<&Item> {
    env.items(Split::Train).iter().filter(|item| contains(&item.id)).collect()
}

/// How many training items the teacher reads, and how many are for trials.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] or [`PipelineError::NoTrialTasks`].
pub fn n_items_of_sets(env: &dyn Env, settings: &BankSettings, seed: u64) -> Result<[u64; 2], PipelineError> {
    let sets = item_sets(env, settings, seed)?;
    Ok([sets.train().items().len() as u64, sets.trial().items().len() as u64])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_with_two_tasks_has_one_for_trials_and_keeps_one_for_the_teacher() {
        for n_items in 2..=30 {
            for share in [0.0, 0.1, 0.34, 0.5, 0.9, 1.0] {
                let tried = n_tried(n_items, share);
                assert!((1..n_items).contains(&tried), "{n_items} {share}: {tried}");
                let share = share_of(n_items, share);
                assert!(share == 0 || tried == share.min(n_items - 1), "{n_items} {share}: {tried}");
            }
        }
        assert_eq!([n_tried(0, 0.5), n_tried(1, 0.9)], [0, 0]);
    }
}
