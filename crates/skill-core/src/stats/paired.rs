//! Two skills on the same items: wins, losses, ties, and the difference on each item.

use crate::exact::ExactSum;
use crate::gate::{Gate, ItemScore};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// On how many items a candidate scored above, below and the same as the skill it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct PairedCounts {
    /// Items on which the candidate scored higher.
    pub wins: usize,
    /// Items on which it scored lower.
    pub losses: usize,
    /// Items on which both scored the same, to the last digit.
    pub ties: usize,
}

impl PairedCounts {
    /// Items that say something: wins and losses.
    pub(crate) fn discordant(self) -> usize {
        self.wins.saturating_add(self.losses)
    }

    /// All items.
    pub fn n_items(self) -> usize {
        self.discordant().saturating_add(self.ties)
    }

    pub(crate) fn add(&mut self, ordering: Ordering) {
        let count = match ordering {
            Ordering::Greater => &mut self.wins,
            Ordering::Less => &mut self.losses,
            Ordering::Equal => &mut self.ties,
        };
        *count = count.saturating_add(1);
    }
}

/// A candidate against another skill on the same items.
///
/// ```
/// use skill_core::stats::{Paired, PairedCounts};
/// use skill_core::{Gate, ItemScore};
/// use std::cmp::Ordering;
///
/// let scores = |hard: [f64; 4]| hard.map(|hard| ItemScore { hard, soft: 0.0 });
/// let (candidate, current) = (scores([1.0, 1.0, 0.0, 1.0]), scores([0.0, 0.0, 1.0, 1.0]));
/// let paired = Paired::of(Gate::default(), 1, &candidate, &current).unwrap();
/// assert_eq!(paired.counts, PairedCounts { wins: 2, losses: 1, ties: 1 });
/// assert_eq!((paired.ordering, paired.mean()), (Ordering::Greater, 0.25));
///
/// // Two items of two draws each: what counts is an item's sum.
/// let pooled = Paired::of(Gate::default(), 2, &candidate, &current).unwrap();
/// assert_eq!(pooled.counts, PairedCounts { wins: 1, losses: 1, ties: 0 });
/// assert_eq!(pooled.differences, [1.0, -0.5]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// Wins, losses and ties; compared exactly.
    pub counts: PairedCounts,
    /// What the candidate scored more than the other skill on each item, in [-1, 1] and in the order of the items.
    pub differences: Vec<f64>,
    /// The candidate's whole score against that of the other skill, compared exactly.
    pub ordering: Ordering,
}

impl Paired {
    /// Compares what both skills scored by this gate's metric.
    ///
    /// With several draws per item, those of an item stand side by side, and an item's score is their mean. Lists that
    /// are not of the same whole items cannot be compared.
    pub fn of(gate: Gate, repeats: usize, candidate: &[ItemScore], other: &[ItemScore]) -> Option<Self> {
        let repeats = repeats.max(1);
        if candidate.len() != other.len() || !candidate.len().is_multiple_of(repeats) {
            return None;
        }
        let mut counts = PairedCounts::default();
        let mut differences = Vec::with_capacity(candidate.len() / repeats);
        for (ours, theirs) in candidate.chunks(repeats).zip(other.chunks(repeats)) {
            let (ours, theirs) = (gate.total(ours), gate.total(theirs));
            counts.add(ours.cmp(&theirs));
            differences.push(difference(&ours, &theirs, repeats));
        }
        Some(Self { counts, differences, ordering: gate.total(candidate).cmp(&gate.total(other)) })
    }

    /// The mean difference; 0 without items.
    pub fn mean(&self) -> f64 {
        match self.differences.len() {
            0 => 0.0,
            n_items => self.sum() / n_items as f64,
        }
    }

    /// The sum of the differences.
    pub fn sum(&self) -> f64 {
        self.differences.iter().sum()
    }

    /// The sum of their squares.
    pub fn sum_of_squares(&self) -> f64 {
        self.differences.iter().map(|difference| difference * difference).sum()
    }

    /// The standard error of the mean difference, `sd / sqrt(n)` with `n - 1` in the standard deviation; `None` for
    /// fewer than 2 items.
    pub fn standard_error(&self) -> Option<f64> {
        let n_items = self.differences.len();
        if n_items < 2 {
            return None;
        }
        let (n, mean) = (n_items as f64, self.mean());
        let squares: f64 = self.differences.iter().map(|difference| (difference - mean).powi(2)).sum();
        Some((squares / (n - 1.0) / n).sqrt())
    }

    /// Whether the differences are more than wins, losses and ties: whether sizes count.
    pub fn is_graded(&self) -> bool {
        self.differences.iter().any(|difference| !matches!(difference.abs(), 0.0 | 1.0))
    }
}

/// How much higher one item's score is, as a mean over its draws.
pub(crate) fn difference(ours: &ExactSum, theirs: &ExactSum, repeats: usize) -> f64 {
    ((ours.to_f64() - theirs.to_f64()) / repeats as f64).clamp(-1.0, 1.0)
}

/// The share of items that one of two passes solves and the other does not; 0 without items, or if the passes are not
/// of the same items.
///
/// Of one skill measured twice it is the noise of the target: what an edit without effect would change.
pub fn flip_rate(first: &[ItemScore], second: &[ItemScore]) -> f64 {
    if first.is_empty() || first.len() != second.len() {
        return 0.0;
    }
    let n_flips =
        first.iter().zip(second).filter(|(one, other)| one.is_success() != other.is_success()).count();
    n_flips as f64 / first.len() as f64
}
