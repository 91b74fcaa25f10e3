//! The tasks of a trial.

use super::error::TrialError;
use crate::skill::{Evidence, SkillRef};
use serde::{Deserialize, Serialize};
use skill_core::ItemId;
use skill_core::random::Dice;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A task whose retrieval would show the candidate, with what is known of its success rate without the candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemRate {
    /// The task.
    pub item: ItemId,
    /// Rollouts that succeeded.
    pub successes: u32,
    /// Rollouts that were made; 0 where nothing is known.
    pub rollouts: u32,
}

impl ItemRate {
    /// A task of which nothing is known.
    pub fn unknown(item: ItemId) -> Self {
        Self { item, successes: 0, rollouts: 0 }
    }

    /// How much a group of this task tells on average, as a fraction: the posterior mean of `p (1 - p)` for a success
    /// rate `p` that was uniform before. A task with a rate near 1/2 comes first, one that is always or never solved
    /// comes after one of which nothing is known.
    fn worth(&self) -> [u128; 2] {
        let successes = u128::from(self.successes.min(self.rollouts));
        let (rollouts, failures) = (u128::from(self.rollouts), u128::from(self.rollouts) - successes);
        [(successes + 1) * (failures + 1), (rollouts + 2) * (rollouts + 3)]
    }
}

/// Successes and rollouts of tasks whose agents were shown no candidate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskRates(BTreeMap<ItemId, [u32; 2]>);

impl TaskRates {
    /// Counts a rollout.
    pub fn count(&mut self, item: &ItemId, is_success: bool) {
        let [successes, rollouts] = self.0.entry(item.clone()).or_default();
        *successes += u32::from(is_success);
        *rollouts += 1;
    }

    /// What is known of a task.
    pub fn of(&self, item: &ItemId) -> ItemRate {
        let [successes, rollouts] = self.0.get(item).copied().unwrap_or_default();
        ItemRate { item: item.clone(), successes, rollouts }
    }
}

/// The tasks of a trial, in the order in which they are run: each once, and none among the candidate's evidence.
///
/// Tasks that the teacher read are left out, since a skill can hold their answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct TriedItems(Vec<ItemId>);

impl TriedItems {
    /// Chooses at most so many of the tasks whose retrieval would show the candidate: those whose success rates are
    /// near 1/2 first, since a group in which all or none succeed is uninformative; equal ones in an order that the seed
    /// decides.
    ///
    /// # Errors
    ///
    /// [`TrialError::NoItems`] if all tasks are among the evidence, and [`TrialError::DuplicateItem`].
    pub fn choose(
        candidate: &SkillRef,
        evidence: &Evidence,
        eligible: &[ItemRate],
        most: usize,
        seed: u64,
    ) -> Result<Self, TrialError> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = eligible.iter().find(|rate| !seen.insert(&rate.item)) {
            return Err(TrialError::DuplicateItem { item: twice.item.clone() });
        }
        let was_read: BTreeSet<&ItemId> = evidence.items.iter().collect();
        let mut usable: Vec<&ItemRate> =
            eligible.iter().filter(|rate| !was_read.contains(&rate.item)).collect();
        if usable.is_empty() || most == 0 {
            return Err(TrialError::NoItems {
                skill: candidate.clone(),
                n_eligible: eligible.len(),
                n_evidence: eligible.len() - usable.len(),
            });
        }
        let dice = Dice::new(seed, &["trial items", &candidate.to_string()]);
        let lot = |rate: &ItemRate| dice.unit(rate.item.as_str()).to_bits();
        usable.sort_by(|one, other| {
            let ([a, b], [c, d]) = (one.worth(), other.worth());
            let by_worth = Reverse(a * d).cmp(&Reverse(c * b));
            by_worth.then_with(|| lot(one).cmp(&lot(other))).then_with(|| one.item.cmp(&other.item))
        });
        Ok(Self(usable.into_iter().take(most).map(|rate| rate.item.clone()).collect()))
    }

    /// These tasks, in this order: for designs that were decided before.
    ///
    /// # Errors
    ///
    /// [`TrialError::EvidenceItem`], [`TrialError::DuplicateItem`] and, without tasks, [`TrialError::NoItems`].
    pub fn these(candidate: &SkillRef, evidence: &Evidence, items: Vec<ItemId>) -> Result<Self, TrialError> {
        if let Some(item) = items.iter().find(|item| evidence.items.contains(item)) {
            return Err(TrialError::EvidenceItem { skill: candidate.clone(), item: item.clone() });
        }
        let mut seen = BTreeSet::new();
        if let Some(item) = items.iter().find(|item| !seen.insert(*item)) {
            return Err(TrialError::DuplicateItem { item: item.clone() });
        }
        if items.is_empty() {
            return Err(TrialError::NoItems { skill: candidate.clone(), n_eligible: 0, n_evidence: 0 });
        }
        Ok(Self(items))
    }

    /// The tasks.
    pub fn as_slice(&self) -> &[ItemId] {
        &self.0
    }
}
