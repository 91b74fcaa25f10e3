//! The tasks of a run in four sets: what the teacher reads, what trials are made on, what decides, what is claimed.

use crate::error::PipelineError;
use skill_bank::episode::{ItemSets, TestItems, TrainItems, TrialItems, ValidationItems};
use skill_core::random::Dice;
use skill_envs::{Env, Item, Split};
use std::collections::BTreeMap;

/// Splits the training items of an environment by type, so that this share of each is for trials.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] where one of the two would be empty.
pub(crate) fn item_sets(env: &dyn Env, trial_share: f64, seed: u64) -> Result<ItemSets, PipelineError> {
    let train = env.items(Split::Train);
    let dice = Dice::new(seed, &["trial set"]);
    let mut by_type: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
    for item in train {
        by_type.entry(&item.task_type).or_default().push(item);
    }
    let (mut taught, mut tried) = (Vec::new(), Vec::new());
    for items in by_type.values_mut() {
        items.sort_by(|one, other| {
            let lot = |item: &Item| dice.unit(item.id.as_str());
            lot(one).total_cmp(&lot(other)).then_with(|| one.id.cmp(&other.id))
        });
        // With one item of a type there is nothing to try on: the teacher comes first.
        let n_tried = ((items.len() as f64) * trial_share).floor() as usize;
        let (for_trials, for_teacher) = items.split_at(n_tried.min(items.len().saturating_sub(1)));
        tried.extend(for_trials.iter().map(|item| item.id.clone()));
        taught.extend(for_teacher.iter().map(|item| item.id.clone()));
    }
    if tried.is_empty() {
        return Err(PipelineError::EmptySplit { env: env.name().to_owned(), split: Split::Train });
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

/// The items of a set, in the order of the data.
pub(crate) fn chosen(env: &dyn Env, contains: impl Fn(&skill_core::ItemId) -> bool) -> Vec<&Item> {
    env.items(Split::Train).iter().filter(|item| contains(&item.id)).collect()
}

/// How many training items the teacher reads, and how many are for trials.
///
/// # Errors
///
/// [`PipelineError::EmptySplit`] where there are too few to be divided.
pub fn n_items_of_sets(env: &dyn Env, trial_share: f64, seed: u64) -> Result<[u64; 2], PipelineError> {
    let sets = item_sets(env, trial_share, seed)?;
    Ok([sets.train().items().len() as u64, sets.trial().items().len() as u64])
}
