//! Early rejection: a candidate is rejected as soon as it can no longer win, with the decision that the whole
//! evaluation would have led to.
//!
//! With `U` = what the candidate has plus 1 for each item that is still open, the candidate is lost as soon as
//! `U <= current`, in exact arithmetic. A result that is known never takes such a rejection back, so the shortest
//! prefix of the [`evaluation_order`] at which it holds is a fact about the scores and not about timing.
//! Only what is in this prefix may enter files, [`FlipCounts`] and intervals.
//!
//! There is no early acceptance: an order that puts failed items first is biased towards wins, and evidence that is
//! gathered in it says nothing until the last item is in.
//!
//! A removal need not win: [`NonInferiority::early`](crate::NonInferiority::early) rejects it as soon as
//! `U < current - margin`.
//!
//! A [`GateRule`] that asks for more than a higher score has a bound of its own beside this one, so that its candidates
//! are lost no later; see `early/bound.rs`. A candidate that may win by its tokens too
//! ([`Objective::early`](crate::objective::Objective::early)) is lost when both ways are.
//!
//! - [`evaluation_order`] says which items to measure first, and [`FlipCounts`] what it knows of the past;
//! - [`EarlyRejection`] takes results in that order;
//! - [`PrefixFold`] takes them as they arrive.
//!
//! # Invariants
//!
//! - Early rejection never changes a decision, and where it stops depends on scores alone, not on what arrives
//!   first. Held by `early_rejection_decides_as_the_whole_evaluation_does`,
//!   `neither_completion_order_nor_calls_in_flight_change_the_prefix`.
//! - Nothing is accepted before the last item is in; the test shows why. Held by
//!   `a_sequential_accept_is_valid_in_random_order_and_not_with_failed_items_first`.

mod bound;

use crate::exact::ExactSum;
use crate::gate::{Gate, ItemScore};
use crate::ids::ItemId;
use crate::rule::{GateMode, GateRule};
use crate::saving::SavingBound;
use crate::search::{RandomOrder, Sequential};
use bound::RuleBound;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How often candidates and the current skill differed in whether they solved an item.
///
/// In files it is an object of ids and counts, sorted by id; an item that never flipped is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlipCounts {
    #[serde(deserialize_with = "non_zero_counts")]
    counts: BTreeMap<ItemId, u64>,
}

fn non_zero_counts<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<ItemId, u64>, D::Error> {
    let mut counts = BTreeMap::deserialize(deserializer)?;
    counts.retain(|_, count| *count > 0);
    Ok(counts)
}

impl FlipCounts {
    /// How often this item flipped.
    pub fn of(&self, id: &ItemId) -> u64 {
        self.counts.get(id).copied().unwrap_or(0)
    }

    /// Counts the flips of one candidate.
    ///
    /// `seen` holds the items of its prefix, each with the candidate's score and the score of the skill that was the
    /// current one then; a flip is the same in both directions, so their order does not matter.
    pub fn record<'a>(&mut self, seen: impl IntoIterator<Item = (&'a ItemId, ItemScore, ItemScore)>) {
        for (id, candidate, current) in seen {
            if candidate.is_success() != current.is_success() {
                let count = self.counts.entry(id.clone()).or_default();
                *count = count.saturating_add(1);
            }
        }
    }
}

/// The order in which to measure a candidate, as indices into `ids`: what the current skill fails first, within that
/// and within the rest what flipped most often first, and ties by id.
///
/// `current_scores` are those of `ids`; an item without a score counts as failed.
pub fn evaluation_order(ids: &[ItemId], current_scores: &[ItemScore], flips: &FlipCounts) -> Vec<usize> {
    let is_solved =
        |item_idx| current_scores.get(item_idx).is_some_and(|score: &ItemScore| score.is_success());
    let mut keys: Vec<_> = ids
        .iter()
        .enumerate()
        .map(|(item_idx, id)| (is_solved(item_idx), Reverse(flips.of(id)), id, item_idx))
        .collect();
    keys.sort_unstable();
    keys.into_iter().map(|(_, _, _, item_idx)| item_idx).collect()
}

/// What is known of a candidate so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyVerdict {
    /// It may still win; once every item is in, it has won, or too few items could tell.
    Open,
    /// It is not accepted, whatever the remaining items give, and what they give changes nothing about the outcome.
    Rejected,
}

/// The running comparison of one candidate with the current skill.
///
/// Results go in strictly in the evaluation order. The verdict is [`EarlyVerdict::Rejected`] from the shortest prefix
/// on at which the candidate can no longer win, and what comes after it is not looked at. Once every item is in,
/// the verdict is `Rejected` exactly if [`Gate::decide`] rejects, or [`GateRule::decide`] for a rule.
///
/// ```
/// use skill_core::{EarlyRejection, EarlyVerdict, Gate, ItemScore};
///
/// let score = |hard| ItemScore { hard, soft: hard };
/// let current = [score(0.0), score(0.0), score(1.0), score(1.0)];
/// let mut rejection = EarlyRejection::new(Gate::default(), &current);
/// assert_eq!(rejection.push(score(1.0)), EarlyVerdict::Open);
/// assert_eq!(rejection.push(score(0.0)), EarlyVerdict::Open);
/// assert_eq!(rejection.push(score(0.0)), EarlyVerdict::Rejected);
/// assert_eq!((rejection.n_seen(), rejection.interval()), (3, (0.25, 0.5)));
/// ```
#[derive(Debug, Clone)]
pub struct EarlyRejection {
    gate: Gate,
    current_total: ExactSum,
    n_items: usize,
    /// What the candidate has.
    seen_total: ExactSum,
    n_seen: usize,
    /// What a rule other than the strict one makes of it.
    bound: Option<RuleBound>,
    /// What the items together may lose, of a candidate that need not score higher.
    allowance: Option<ExactSum>,
    /// What is left of another way to win: by fewer tokens.
    saving: Option<SavingBound>,
    /// Evidence against the candidate, where items come in random order.
    sequential: Option<Sequential>,
}

impl EarlyRejection {
    /// A candidate of which nothing is known, against the current skill's scores on the same items, in any order.
    ///
    /// Where no score can be above the current skill's (all of them are 1, or there are none), the verdict is
    /// `Rejected` from the start.
    pub fn new(gate: Gate, current_scores: &[ItemScore]) -> Self {
        Self {
            gate,
            current_total: gate.total(current_scores),
            n_items: current_scores.len(),
            seen_total: ExactSum::ZERO,
            n_seen: 0,
            bound: None,
            allowance: None,
            saving: None,
            sequential: None,
        }
    }

    /// The same, which also ends as soon as the evidence is against the candidate; that needs a random order.
    pub fn in_random_order(gate: Gate, current: &[ItemScore], order: &RandomOrder, alpha: f64) -> Self {
        let scores: Vec<f64> = current.iter().map(|score| gate.total(&[*score]).to_f64()).collect();
        Self { sequential: Some(Sequential::new(order, alpha, &scores)), ..Self::new(gate, current) }
    }

    /// The same of a candidate that may win by its tokens too.
    pub(crate) fn or_saving(self, saving: SavingBound) -> Self {
        Self { saving: Some(saving), ..self }
    }

    /// A candidate that stands if it loses no more than this; see [`NonInferiority`](crate::NonInferiority).
    pub(crate) fn of_removal(gate: Gate, current_scores: &[ItemScore], allowance: ExactSum) -> Self {
        Self { allowance: Some(allowance), ..Self::new(gate, current_scores) }
    }

    /// The same under a rule, whose draws will be measured in this order, as indices into `current_scores`.
    ///
    /// The verdict is `Rejected` from the start too where the rule could accept nothing, see [`GateRule::can_show`]: then
    /// the outcome is [`Indecisive`](crate::GateAction::Indecisive), and nothing has to be measured to know it.
    pub fn of_rule(rule: GateRule, current_scores: &[ItemScore], order: &[usize]) -> Self {
        let bound = match rule.mode {
            GateMode::Strict => None,
            GateMode::Paired { .. }
            | GateMode::Mcnemar { .. }
            | GateMode::EProcess { .. }
            | GateMode::NoRegression { .. } => Some(RuleBound::new(rule, current_scores, order)),
        };
        Self { bound, ..Self::new(rule.gate, current_scores) }
    }

    /// Takes the result of the next item; one that comes after the last item or after the rejection is ignored.
    pub fn push(&mut self, score: ItemScore) -> EarlyVerdict {
        self.push_counted(score, 0)
    }

    /// The same with the tokens that the item took; 0 if they are not known.
    pub fn push_counted(&mut self, score: ItemScore, tokens: u64) -> EarlyVerdict {
        if self.n_seen < self.n_items && self.verdict() == EarlyVerdict::Open {
            self.gate.add_to(&mut self.seen_total, score);
            let place = self.n_seen;
            self.n_seen += 1;
            let can_be_ahead = self.most() > self.current_total;
            let ordering = self.seen_total.cmp(&self.current_total);
            if let Some(sequential) = &mut self.sequential {
                sequential.push(self.gate.total(&[score]).to_f64());
            }
            if let Some(bound) = &mut self.bound {
                bound.push(place, score, can_be_ahead, ordering);
            }
            if let Some(saving) = &mut self.saving {
                saving.push(place, tokens);
            }
        }
        self.verdict()
    }

    /// What is known now.
    pub fn verdict(&self) -> EarlyVerdict {
        let is_lost = match &self.allowance {
            Some(_) if self.n_items == 0 => true,
            Some(allowance) => self.most().plus_sum(allowance) < self.current_total,
            None => {
                self.most() <= self.current_total
                    || self.bound.as_ref().is_some_and(RuleBound::is_lost)
                    || self.sequential.as_ref().is_some_and(Sequential::is_lost)
            }
        };
        let may_save = || match &self.saving {
            Some(saving) => self.n_items > 0 && !saving.is_lost(self.most(), &self.current_total),
            None => false,
        };
        if is_lost && !may_save() { EarlyVerdict::Rejected } else { EarlyVerdict::Open }
    }

    /// How many items there are.
    pub fn n_items(&self) -> usize {
        self.n_items
    }

    /// The length of the prefix that is known, and that counts.
    pub fn n_seen(&self) -> usize {
        self.n_seen
    }

    /// The length of the shortest prefix at which the evaluation can end, as far as is known: its items are certain to
    /// be needed.
    ///
    /// It never falls, is at least [`Self::n_seen`], and is that once the evaluation has ended.
    pub fn n_certain(&self) -> usize {
        if self.bound.is_some() {
            // A rule may end the evaluation at any item.
            let is_open = self.verdict() == EarlyVerdict::Open;
            return self.n_seen.saturating_add(usize::from(is_open)).min(self.n_items);
        }
        // Each further item lowers what the candidate can reach by at most 1.
        let most = match &self.allowance {
            Some(allowance) => self.most().plus_sum(allowance),
            None => self.most(),
        };
        let n_needed = most.whole_excess(&self.current_total);
        let n_of_evidence = self.sequential.as_ref().map_or(usize::MAX, Sequential::n_certain);
        let n_needed = n_needed.min(n_of_evidence);
        // By its tokens a candidate can be lost with any item, by its score not before so many.
        let is_open = self.saving.is_some() && self.verdict() == EarlyVerdict::Open;
        self.n_seen.saturating_add(n_needed.max(usize::from(is_open))).min(self.n_items)
    }

    /// The candidate's gate score if the items that are still open gave nothing, and if they gave 1 each: both in
    /// [0, 1], and the first is never above the second.
    ///
    /// It is for the record. Nothing is decided by it, and once all items are in, its ends may differ in the last
    /// digit from [`Gate::score`], which rounds at every item.
    pub fn interval(&self) -> (f64, f64) {
        if self.n_items == 0 {
            return (0.0, 0.0);
        }
        // Both steps are monotone, so rounding keeps the order and the limits.
        let n_items = self.n_items as f64;
        (self.seen_total.to_f64() / n_items, self.most().to_f64() / n_items)
    }

    /// What the candidate has plus the most that the open items can give.
    fn most(&self) -> ExactSum {
        self.seen_total.clone().plus_whole(self.n_items - self.n_seen)
    }
}

/// An [`EarlyRejection`] for results that arrive in any order: they wait until all before them are in.
///
/// The prefix at which a candidate is rejected does not depend on the order of arrival.
#[derive(Debug, Clone)]
pub struct PrefixFold {
    rejection: EarlyRejection,
    /// Results that arrived before an earlier one, by position.
    waiting: BTreeMap<usize, (ItemScore, u64)>,
}

impl PrefixFold {
    /// Starts with a comparison of which the positions from its [`EarlyRejection::n_seen`] on are open.
    pub fn new(rejection: EarlyRejection) -> Self {
        Self { rejection, waiting: BTreeMap::new() }
    }

    /// Takes the result of the item at `position` in the evaluation order, counted from 0.
    ///
    /// Only the first result of a position counts; results after the rejection are ignored.
    pub fn push(&mut self, position: usize, score: ItemScore) -> EarlyVerdict {
        self.push_counted(position, score, 0)
    }

    /// The same with the tokens that the item took; 0 if they are not known.
    pub fn push_counted(&mut self, position: usize, score: ItemScore, tokens: u64) -> EarlyVerdict {
        if position >= self.rejection.n_seen() && position < self.rejection.n_items() {
            self.waiting.entry(position).or_insert((score, tokens));
        }
        while self.rejection.verdict() == EarlyVerdict::Open
            && let Some((score, tokens)) = self.waiting.remove(&self.rejection.n_seen())
        {
            self.rejection.push_counted(score, tokens);
        }
        self.rejection.verdict()
    }

    /// The comparison over the prefix that is complete.
    pub fn rejection(&self) -> &EarlyRejection {
        &self.rejection
    }

    /// How many positions, from the first one on, may have been started by now with room for `in_flight` calls.
    ///
    /// A caller that starts no position from this number on starts at most `in_flight - 1` items beyond the prefix at
    /// which the candidate is rejected, however long a single call takes. Positions that are certain to be needed do
    /// not wait for a slow one before them. Once the verdict is `Rejected`, nothing beyond the prefix is needed.
    pub fn n_startable(&self, in_flight: usize) -> usize {
        match self.rejection.verdict() {
            EarlyVerdict::Rejected => self.rejection.n_seen(),
            EarlyVerdict::Open => {
                let window = self.rejection.n_seen().saturating_add(in_flight);
                window.max(self.rejection.n_certain()).min(self.rejection.n_items())
            }
        }
    }
}
