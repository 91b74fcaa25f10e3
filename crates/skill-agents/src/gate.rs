//! Whether a new description takes the place of the current one.
//!
//! A query's value is the share of its runs in which the right skill, and no other of those that are trained, was
//! loaded. The gate is the paired permutation test of the values of held-out queries.

use crate::measure::Measured;
use crate::query::{HELDOUT_TENTHS, Query};
use crate::report::stratum;
use serde::{Deserialize, Serialize};
use skill_core::stats::sign_flip_p;
use std::collections::BTreeMap;

/// The level of the test.
pub const ALPHA: f64 = 0.05;

/// A comparison on held-out queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Queries that both have a value for.
    pub queries: usize,
    /// The mean value of the current description.
    pub current: f64,
    /// That of the candidate.
    pub candidate: f64,
    /// The one-sided p-value of the test.
    pub p: f64,
    /// Queries of other skills are not answered worse.
    pub others_keep: bool,
    /// The candidate is accepted.
    pub is_accepted: bool,
}

/// The value of each query that has runs: how often it came out right.
///
/// For a query of a skill of `skills` that is its load; for any other that none of them is loaded.
pub fn values(queries: &[Query], skills: &[&str], measured: &Measured) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    for query in queries {
        let wanted = query.skill.as_deref().filter(|skill| skills.contains(skill));
        let strata: Vec<(bool, _)> =
            skills.iter().map(|skill| (Some(*skill) == wanted, stratum(query, skill, measured))).collect();
        let shares: Vec<f64> = strata
            .iter()
            .filter(|(_, stratum)| stratum.n > 0)
            .map(|(is_wanted, stratum)| {
                let share = stratum.hits as f64 / stratum.n as f64;
                if *is_wanted { share } else { 1.0 - share }
            })
            .collect();
        if let Some(least) = shares.into_iter().reduce(f64::min) {
            values.insert(query.id.clone(), least);
        }
    }
    values
}

/// Compares a candidate with the current description on queries that neither was made from.
///
/// `skill` is the one whose description is trained; queries of others must not come out significantly worse, nor worse
/// by more than a tenth in the mean.
pub fn compare(
    queries: &[Query],
    skill: &str,
    current: &BTreeMap<String, f64>,
    candidate: &BTreeMap<String, f64>,
    seed: u64,
) -> Comparison {
    const MOST_LOST: f64 = 0.1;
    let pairs: Vec<(&Query, f64, f64)> = queries
        .iter()
        .filter_map(|query| Some((query, *current.get(&query.id)?, *candidate.get(&query.id)?)))
        .collect();
    let mean = |values: Vec<f64>| {
        if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
    };
    let differences: Vec<f64> = pairs.iter().map(|(_, current, candidate)| candidate - current).collect();
    let p = sign_flip_p(&differences, seed);
    let is_of_others = |query: &Query| query.skill.as_deref().is_some_and(|name| name != skill);
    let lost: Vec<f64> = pairs
        .iter()
        .filter(|(query, ..)| is_of_others(query))
        .map(|(_, current, candidate)| current - candidate)
        .collect();
    let others_keep = lost.is_empty() || (sign_flip_p(&lost, seed) > ALPHA && mean(lost) <= MOST_LOST);
    let gain = mean(differences);
    Comparison {
        queries: pairs.len(),
        current: mean(pairs.iter().map(|(_, current, _)| *current).collect()),
        candidate: mean(pairs.iter().map(|(_, _, candidate)| *candidate).collect()),
        p,
        others_keep,
        is_accepted: gain > 0.0 && p <= ALPHA && others_keep,
    }
}

/// What a better description can gain on held-out queries, as they come out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Held-out queries of the skill, and of none, that come out wrong in some run.
    pub n_wrong: usize,
    /// Those that were measured.
    pub n_measured: usize,
}

impl Room {
    /// The room that these values leave; queries of other skills can only speak against a description.
    pub fn of(queries: &[Query], skill: &str, current: &BTreeMap<String, f64>) -> Self {
        let is_for = |query: &&Query| query.skill.as_deref().is_none_or(|name| name == skill);
        let values = queries.iter().filter(is_for).filter_map(|query| current.get(&query.id));
        let (mut n_wrong, mut n_measured) = (0, 0);
        for value in values {
            n_measured += 1;
            n_wrong += usize::from(*value < 1.0);
        }
        Self { n_wrong, n_measured }
    }

    /// True if no description can be accepted, though some queries come out wrong.
    pub fn is_too_small(self) -> bool {
        self.n_wrong > 0 && self.n_wrong < least_queries()
    }

    /// How many queries like these have to be added so that enough of the held-out ones come out wrong.
    pub fn n_to_add(self) -> usize {
        let missing = least_queries().saturating_sub(self.n_wrong);
        let share = self.n_wrong.max(1) as f64 / self.n_measured.max(1) as f64;
        let heldout = missing as f64 / share;
        (heldout * 10.0 / HELDOUT_TENTHS as f64).ceil() as usize
    }
}

/// The fewest held-out queries with which anything can be accepted: all must come out better.
pub fn least_queries() -> usize {
    (1..64).find(|n| 0.5_f64.powi(*n) <= ALPHA).map_or(usize::MAX, |n| n.unsigned_abs() as usize)
}
