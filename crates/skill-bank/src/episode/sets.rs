//! The sets of tasks, a type each: what one is for is not open to another, which the compiler checks.

use super::Episode;
use skill_core::ItemId;
use std::collections::BTreeSet;
use std::ops::Deref;
use thiserror::Error;

/// Defines a set of items.
macro_rules! item_set {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name(BTreeSet<ItemId>);

        impl $name {
            /// The set of these items.
            pub fn new(items: impl IntoIterator<Item = ItemId>) -> Self {
                Self(items.into_iter().collect())
            }

            /// The items, in the order of their ids.
            pub fn items(&self) -> impl ExactSizeIterator<Item = &ItemId> {
                self.0.iter()
            }

            /// True if the item belongs to the set.
            pub fn contains(&self, item: &ItemId) -> bool {
                self.0.contains(item)
            }
        }
    };
}

item_set! {
    /// Tasks for training: a teacher may read their episodes.
    TrainItems
}
item_set! {
    /// Tasks for trials: only their scores are used.
    TrialItems
}
item_set! {
    /// Tasks for the choice of what is kept, and for reports.
    ValidationItems
}
item_set! {
    /// Tasks that are measured once, at the end.
    TestItems
}

/// An item of two sets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the task `{item}` is in two sets: {first} and {second}")]
pub struct SetError {
    /// The item.
    pub item: ItemId,
    /// One set.
    pub first: &'static str,
    /// The other one.
    pub second: &'static str,
}

/// The four sets, which share no item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemSets {
    train: TrainItems,
    trial: TrialItems,
    validation: ValidationItems,
    test: TestItems,
}

impl ItemSets {
    /// These sets.
    ///
    /// # Errors
    ///
    /// The first item that two of them share.
    pub fn new(
        train: TrainItems,
        trial: TrialItems,
        validation: ValidationItems,
        test: TestItems,
    ) -> Result<Self, SetError> {
        let named =
            [("train", &train.0), ("trial", &trial.0), ("validation", &validation.0), ("test", &test.0)];
        for (at, (first, items)) in named.iter().enumerate() {
            for (second, others) in named.iter().skip(at + 1) {
                if let Some(item) = items.intersection(others).next() {
                    return Err(SetError { item: item.clone(), first, second });
                }
            }
        }
        Ok(Self { train, trial, validation, test })
    }

    /// The tasks for training.
    pub fn train(&self) -> &TrainItems {
        &self.train
    }

    /// The tasks for trials.
    pub fn trial(&self) -> &TrialItems {
        &self.trial
    }

    /// The tasks for validation.
    pub fn validation(&self) -> &ValidationItems {
        &self.validation
    }

    /// The tasks for the test.
    pub fn test(&self) -> &TestItems {
        &self.test
    }
}

impl TrainItems {
    /// The tasks of a collection, all of which are for training.
    ///
    /// Make [`ItemSets`] of them to be sure that no other set has one of them.
    pub fn of_collection(episodes: &[Episode]) -> Self {
        Self::new(episodes.iter().map(|episode| episode.item.clone()))
    }

    /// The episodes of these tasks, as a teacher may read them, and those of other tasks.
    pub fn take(&self, episodes: Vec<Episode>) -> (Vec<TrainEpisode>, Vec<Episode>) {
        let (own, others): (Vec<Episode>, Vec<Episode>) =
            episodes.into_iter().partition(|episode| self.contains(&episode.item));
        (own.into_iter().map(TrainEpisode).collect(), others)
    }
}

/// An episode of a task for training: all that a teacher reads.
///
/// Only [`TrainItems::take`] makes one, so an episode of another set cannot be shown to a teacher:
///
/// ```compile_fail
/// use skill_bank::{Episode, TrainEpisode};
///
/// let episode = TrainEpisode(Episode::default());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TrainEpisode(Episode);

impl Deref for TrainEpisode {
    type Target = Episode;

    fn deref(&self) -> &Episode {
        &self.0
    }
}
