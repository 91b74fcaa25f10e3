//! Rules of the gate that ask for more than a higher score: how large the evidence has to be.
//!
//! A [`GateRule`] is the [`Gate`] with a [`GateMode`]. Whatever the mode, a candidate that does not score strictly
//! higher than the current skill is never accepted, so that every mode accepts a part of what [`GateMode::Strict`]
//! accepts. A candidate that is ahead, but with too few items that differ to be significant whichever way they had
//! fallen, is [`GateAction::Indecisive`]: the current skill stays, and the record says that more items would be needed.
//!
//! Decisions are of whole evaluations. What may be decided earlier is in [`crate::early`].

use crate::gate::{Gate, GateAction, ItemScore};
use crate::stats::normal::upper_quantile;
use crate::stats::power::detectable_beyond;
use crate::stats::{Paired, PairedCounts, eprocess, ln_e_value_of, mcnemar, mcnemar_p, spent_alpha};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

crate::named_enum! {
    /// The modes of the gate, without their settings.
    pub enum GateKind {
        /// [`GateMode::Strict`].
        Strict = "strict",
        /// [`GateMode::Paired`].
        Paired = "paired",
        /// [`GateMode::Mcnemar`].
        Mcnemar = "mcnemar",
        /// [`GateMode::EProcess`].
        EProcess = "eprocess",
        /// [`GateMode::NoRegression`].
        NoRegression = "no_regression",
    }
}

/// The probability with which a gain has to be found where it is said to be findable.
const POWER: f64 = 0.8;

/// What a candidate must show to be accepted, besides a higher score.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum GateMode {
    /// Nothing: the gate of the paper.
    #[default]
    Strict,
    /// That the mean difference is more than so many of its standard errors.
    Paired {
        /// How many, 0 or more; 0 is [`Self::Strict`].
        standard_errors: f64,
    },
    /// That McNemar's exact one-sided p-value is at most `alpha`; see [`crate::stats::mcnemar`].
    Mcnemar {
        /// Between 0 and 1.
        alpha: f64,
    },
    /// That the e-value is at least `1 / alpha`; see [`crate::stats::eprocess`].
    EProcess {
        /// Between 0 and 1.
        alpha: f64,
    },
    /// That it scores lower on at most so many items, whatever it gains on others.
    NoRegression {
        /// How many items may be lost.
        max_losses: usize,
    },
}

impl GateMode {
    /// The mode without its settings.
    pub fn kind(self) -> GateKind {
        match self {
            Self::Strict => GateKind::Strict,
            Self::Paired { .. } => GateKind::Paired,
            Self::Mcnemar { .. } => GateKind::Mcnemar,
            Self::EProcess { .. } => GateKind::EProcess,
            Self::NoRegression { .. } => GateKind::NoRegression,
        }
    }

    /// The name used in configurations and files.
    pub fn as_str(self) -> &'static str {
        self.kind().as_str()
    }

    /// The probability with which a candidate that is no better may be accepted, in modes that hold one.
    pub fn alpha(self) -> Option<f64> {
        match self {
            Self::Mcnemar { alpha } | Self::EProcess { alpha } => Some(alpha),
            Self::Strict | Self::Paired { .. } | Self::NoRegression { .. } => None,
        }
    }

    /// The mode for one of several tests, counted from 1, so that all of them together hold `alpha`; see
    /// [`spent_alpha`]. Modes without an `alpha` stay as they are.
    #[must_use]
    pub fn at_test(self, test: u32) -> Self {
        match self {
            Self::Mcnemar { alpha } => Self::Mcnemar { alpha: spent_alpha(alpha, test) },
            Self::EProcess { alpha } => Self::EProcess { alpha: spent_alpha(alpha, test) },
            Self::Strict | Self::Paired { .. } | Self::NoRegression { .. } => self,
        }
    }

    /// The fewest items that have to differ before this mode can accept anything, of `n_items`; [`usize::MAX`] if no
    /// number is enough.
    ///
    /// ```
    /// use skill_core::GateMode;
    ///
    /// assert_eq!(GateMode::Strict.least_discordant(50), 1);
    /// assert_eq!(GateMode::Paired { standard_errors: 1.0 }.least_discordant(50), 2);
    /// assert_eq!(GateMode::Mcnemar { alpha: 0.05 }.least_discordant(50), 5);
    /// assert_eq!(GateMode::EProcess { alpha: 0.05 }.least_discordant(50), 7);
    /// ```
    pub fn least_discordant(self, n_items: usize) -> usize {
        match self {
            Self::Strict | Self::NoRegression { .. } => 1,
            Self::Paired { standard_errors } => least_of_paired(standard_errors, n_items),
            Self::Mcnemar { alpha } => mcnemar::least_wins(alpha).unwrap_or(usize::MAX).max(1),
            Self::EProcess { alpha } => eprocess::least_discordant(alpha).unwrap_or(usize::MAX).max(1),
        }
    }
}

/// `m` equal differences have `mean / standard error > k` if and only if `m > k^2 n / (n - 1 + k^2)`.
fn least_of_paired(standard_errors: f64, n_items: usize) -> usize {
    if standard_errors <= 0.0 {
        return 1;
    }
    let (n, k_squared) = (n_items as f64, standard_errors * standard_errors);
    let bound = k_squared * n / (n - 1.0 + k_squared);
    // A bound that is not a number, which takes a `k` that is none, is never reached.
    if bound.is_finite() { bound.floor() as usize + 1 } else { usize::MAX }
}

/// Whether `mean > k * standard error`, for the sum of `n_items` differences and the sum of their squares: without a
/// division or a root, so that whole numbers give what they should.
pub(crate) fn exceeds_standard_errors(k: f64, n_items: usize, sum: f64, squares: f64) -> bool {
    let (n, k_squared) = (n_items as f64, k * k);
    k <= 0.0 || (sum > 0.0 && sum * sum * (n - 1.0 + k_squared) > k_squared * n * squares)
}

/// A gate with what it asks for.
///
/// ```
/// use skill_core::{Gate, GateAction, GateMode, GateRule, ItemScore};
///
/// let scores = |n_solved: usize| -> Vec<ItemScore> {
///     (0..20).map(|item| ItemScore { hard: f64::from(u8::from(item < n_solved)), soft: 0.0 }).collect()
/// };
/// let rule = GateRule { mode: GateMode::Mcnemar { alpha: 0.05 }, ..GateRule::strict(Gate::default()) };
/// let current = scores(10);
/// let decide = |n_solved| rule.decide(&scores(n_solved), &current, &current);
/// assert_eq!(decide(15), GateAction::AcceptNewBest);
/// // Four wins without a loss are a p-value of 1/16, and four items could not have shown more.
/// assert_eq!(decide(14), GateAction::Indecisive);
/// assert_eq!(decide(10), GateAction::Reject);
/// assert!(rule.accepts(&scores(15), &current) && !rule.accepts(&scores(14), &current));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateRule {
    /// What a score is.
    pub gate: Gate,
    /// What has to be shown.
    pub mode: GateMode,
    /// Draws per item: an item's draws stand side by side in every list of scores, and count together.
    pub repeats: usize,
}

impl GateRule {
    /// The gate of the paper with one draw per item.
    pub fn strict(gate: Gate) -> Self {
        Self { gate, mode: GateMode::Strict, repeats: 1 }
    }

    /// Compares three skills by what each scored in the same draws of the same items: accepted is what shows against
    /// the current skill what the mode asks for, and a new best is what shows it against the best one too.
    ///
    /// Lists that are not of the same whole items cannot be compared, and nothing is accepted by them.
    pub fn decide(&self, candidate: &[ItemScore], current: &[ItemScore], best: &[ItemScore]) -> GateAction {
        if self.mode == GateMode::Strict {
            return self.gate.decide(candidate, current, best);
        }
        if candidate.len() == current.len() && !self.can_show(current) {
            return GateAction::Indecisive;
        }
        let against = |other: &[ItemScore]| match Paired::of(self.gate, self.repeats, candidate, other) {
            Some(paired) => self.judge(&paired),
            None => Judgement::NotBetter,
        };
        match against(current) {
            Judgement::NotBetter => GateAction::Reject,
            Judgement::TooFew => GateAction::Indecisive,
            Judgement::Better if against(best) == Judgement::Better => GateAction::AcceptNewBest,
            Judgement::Better => GateAction::Accept,
        }
    }

    /// True if the candidate shows against the current skill what the mode asks for; [`GateRule::decide`] tells apart
    /// why it does not.
    pub fn accepts(&self, candidate: &[ItemScore], current: &[ItemScore]) -> bool {
        self.decide(candidate, current, current).is_accepted()
    }

    /// Whether any candidate could be accepted instead of a skill with these scores; if not, none has to be measured.
    ///
    /// A candidate can win no item on which the skill scores all there is to score. Where that is every item, it cannot
    /// be ahead either, so that it is rejected as by the strict gate.
    pub fn can_show(&self, current: &[ItemScore]) -> bool {
        let repeats = self.repeats.max(1);
        let items = current.chunks(repeats);
        let n_items = items.len();
        let n_open = items.filter(|draws| self.has_room(draws)).count();
        n_open == 0 || n_open >= self.mode.least_discordant(n_items)
    }

    /// Whether an item can be won against a skill with these draws.
    fn has_room(&self, draws: &[ItemScore]) -> bool {
        self.gate.total(draws).lacks_of(draws.len())
    }

    /// True if the gate would accept a candidate that gains `gain` over a skill of this score four times in five, about:
    /// on so many items, of whose scores a share of `flip_rate` changes from one pass to the next.
    ///
    /// It is that of [`detectable_effect`](crate::stats::detectable_effect), whose normal approximation calls the rules
    /// by how many standard errors they ask for; `eprocess` asks for somewhat more than that.
    ///
    /// ```
    /// use skill_core::{Gate, GateRule};
    ///
    /// let rule = GateRule::strict(Gate::default());
    /// assert!(rule.can_find(0.05, 0.5, 200, 0.1));
    /// assert!(!rule.can_find(0.05, 0.5, 20, 0.1), "too few items");
    /// assert!(!rule.can_find(0.05, 0.98, 200, 0.1), "less than that is left to gain");
    /// ```
    pub fn can_find(&self, gain: f64, score: f64, n_items: usize, flip_rate: f64) -> bool {
        let standard_errors = match self.mode {
            GateMode::Strict | GateMode::NoRegression { .. } => 0.0,
            GateMode::Paired { standard_errors } => standard_errors,
            GateMode::Mcnemar { alpha } | GateMode::EProcess { alpha } => upper_quantile(alpha),
        };
        let has_room = gain > 0.0 && 1.0 - score >= gain && self.mode.least_discordant(n_items) <= n_items;
        has_room && detectable_beyond(standard_errors, flip_rate, n_items, POWER) <= gain
    }

    /// What the comparison with one skill comes to.
    pub(crate) fn judge(&self, paired: &Paired) -> Judgement {
        if paired.ordering != Ordering::Greater {
            return Judgement::NotBetter;
        }
        if self.is_shown(paired) {
            return Judgement::Better;
        }
        let least = self.mode.least_discordant(paired.differences.len());
        if paired.counts.discordant() < least { Judgement::TooFew } else { Judgement::NotBetter }
    }

    /// Whether a candidate that is ahead shows what the mode asks for.
    fn is_shown(&self, paired: &Paired) -> bool {
        match self.mode {
            GateMode::Strict => true,
            GateMode::Paired { standard_errors } => exceeds_standard_errors(
                standard_errors,
                paired.differences.len(),
                paired.sum(),
                paired.sum_of_squares(),
            ),
            GateMode::Mcnemar { alpha } => mcnemar_p(paired.counts) <= alpha,
            GateMode::EProcess { alpha } => ln_e_value_of(&paired.differences) >= -alpha.ln(),
            GateMode::NoRegression { max_losses } => paired.counts.losses <= max_losses,
        }
    }

    /// The numbers of the comparison that a record holds, for those who want to judge by themselves.
    pub fn compare(&self, candidate: &[ItemScore], other: &[ItemScore]) -> Option<Paired> {
        Paired::of(self.gate, self.repeats, candidate, other)
    }

    /// Wins, losses and ties over the items of which every draw of the candidate is known, where each draw is known or
    /// not.
    pub fn counts_of_known(&self, candidate: &[Option<ItemScore>], other: &[ItemScore]) -> PairedCounts {
        let repeats = self.repeats.max(1);
        let mut counts = PairedCounts::default();
        for (ours, theirs) in candidate.chunks(repeats).zip(other.chunks(repeats)) {
            if let Some(ours) = ours.iter().copied().collect::<Option<Vec<ItemScore>>>() {
                counts.add(self.gate.total(&ours).cmp(&self.gate.total(theirs)));
            }
        }
        counts
    }
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The candidate is better, as far as the mode asks.
    Better,
    /// It is not, or it is not shown.
    NotBetter,
    /// It is ahead, and as few items as differ could not have shown it.
    TooFew,
}
