//! Which seeds are for what: a choice made on one range is judged on another.

use std::ops::Range;

/// A range of seeds and its purpose.
#[derive(Debug, Clone)]
pub struct SeedSet {
    /// Its name on the command line.
    pub name: &'static str,
    /// The seeds.
    pub seeds: Range<u64>,
    /// What may be done with them.
    pub purpose: &'static str,
}

/// All seeds of the bench. Take new ones for a new judgement, and write them down here.
pub const SEED_SETS: [SeedSet; 5] = [
    SeedSet {
        name: "tuning",
        seeds: 10_000..10_150,
        purpose: "looked at as often as needed; constants of a search may be chosen on them",
    },
    SeedSet {
        name: "judged",
        seeds: 20_000..20_150,
        purpose: "the numbers of the documentation; no choice was made by them",
    },
    SeedSet {
        name: "check",
        seeds: 30_000..30_012,
        purpose: "the short comparison with stored scores of GEPA that fails when search becomes worse",
    },
    SeedSet {
        name: "judged-once",
        seeds: 40_000..40_150,
        purpose: "a second judgement of rounds of two proposals; run once",
    },
    SeedSet { name: "reserve", seeds: 50_010..50_160, purpose: "for the next judgement; never run yet" },
];

/// The set of this name.
pub fn seed_set(name: &str) -> Option<&'static SeedSet> {
    SEED_SETS.iter().find(|set| set.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_seed_is_for_two_purposes() {
        for (idx, set) in SEED_SETS.iter().enumerate() {
            for other in SEED_SETS.iter().skip(idx + 1) {
                assert!(set.seeds.end <= other.seeds.start || other.seeds.end <= set.seeds.start);
            }
        }
    }
}
