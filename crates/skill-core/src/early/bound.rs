//! When a candidate is lost under a rule that asks for more than a higher score.
//!
//! For each item there is a best outcome that is still possible: every open draw scores 1. A candidate cannot be
//! accepted any more if it could not be with the best outcomes:
//!
//! - `paired`: the largest `D - t sqrt(Q)` over all differences that are possible, with `D` their sum, `Q` the sum of
//!   their squares and `t^2 = k^2 n / (n - 1 + k^2)`, is not above 0. The function is concave, and at its maximum every
//!   open difference is the smaller of its best outcome and one common number, so that one pass over the sorted outcomes
//!   finds it;
//! - `mcnemar`: the p-value of the most wins and the fewest losses is above `alpha`;
//! - `eprocess`: the e-value of the best outcomes is below `1 / alpha`; it rises with each difference;
//! - `no_regression`: more items are lost for certain than may be.
//!
//! Each bound is compared with a little to spare, far more than rounding can do, so that what it calls lost is lost by
//! the full evaluation too. And it ends an evaluation only where "not shown" can no longer turn into "too few items".

use crate::exact::ExactSum;
use crate::gate::ItemScore;
use crate::rule::{GateMode, GateRule, Judgement};
use crate::stats::eprocess::ln_e_value_at_most;
use crate::stats::mcnemar_p;
use crate::stats::paired::{Paired, PairedCounts, difference};
use std::cmp::Ordering;

/// How much is to spare: more than any rounding here, less than any difference that somebody means.
const SLACK: f64 = 1e-7;

/// The bound is looked at so often in an evaluation, or after each draw where there are fewer.
const MAX_CHECKS: usize = 512;

/// One item: what is known of it.
#[derive(Debug, Clone)]
struct ItemBound {
    current: ExactSum,
    seen: ExactSum,
    n_open: usize,
    /// The best outcome: by sign, and by size.
    best_sign: Ordering,
    best: f64,
}

impl ItemBound {
    fn refresh(&mut self, repeats: usize) {
        let most = self.seen.clone().plus_whole(self.n_open);
        self.best_sign = most.cmp(&self.current);
        self.best = difference(&most, &self.current, repeats);
    }

    /// Whether it is certain that the item differs.
    fn is_discordant(&self) -> bool {
        match self.best_sign {
            Ordering::Less => true,
            Ordering::Equal => false,
            Ordering::Greater => self.n_open == 0,
        }
    }
}

/// What is still possible for a candidate under a rule.
#[derive(Debug, Clone)]
pub(super) struct RuleBound {
    rule: GateRule,
    items: Vec<ItemBound>,
    /// The item of each place of the evaluation order.
    places: Vec<usize>,
    /// The bound is looked at after every so many draws, and after the last one.
    stride: usize,
    is_lost: bool,
}

impl RuleBound {
    /// `order` holds draws by their index in `current`.
    pub(super) fn new(rule: GateRule, current: &[ItemScore], order: &[usize]) -> Self {
        let repeats = rule.repeats.max(1);
        let items: Vec<ItemBound> = current
            .chunks(repeats)
            .map(|draws| {
                let mut item = ItemBound {
                    current: rule.gate.total(draws),
                    seen: ExactSum::ZERO,
                    n_open: draws.len(),
                    best_sign: Ordering::Equal,
                    best: 0.0,
                };
                item.refresh(repeats);
                item
            })
            .collect();
        let places = order.iter().map(|draw_idx| draw_idx / repeats).collect();
        let is_lost = !rule.can_show(current);
        Self { rule, items, places, stride: order.len().div_ceil(MAX_CHECKS).max(1), is_lost }
    }

    /// Whether the rule accepts nothing any more, and says the same whatever comes.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Takes the result of the draw at this place. `can_be_ahead` says whether the whole score may still be higher, and
    /// `ordering` what it is now.
    pub(super) fn push(&mut self, place: usize, score: ItemScore, can_be_ahead: bool, ordering: Ordering) {
        let repeats = self.rule.repeats.max(1);
        let Some(item) = self.places.get(place).and_then(|item_idx| self.items.get_mut(*item_idx)) else {
            return;
        };
        self.rule.gate.add_to(&mut item.seen, score);
        item.n_open = item.n_open.saturating_sub(1);
        item.refresh(repeats);
        let n_seen = place + 1;
        if n_seen == self.places.len() {
            self.is_lost = self.rule.judge(&self.best_outcome(ordering)) == Judgement::NotBetter;
        } else if can_be_ahead && n_seen.is_multiple_of(self.stride) {
            let least = self.rule.mode.least_discordant(self.items.len());
            let n_discordant = self.items.iter().filter(|item| item.is_discordant()).count();
            self.is_lost = n_discordant >= least && !self.may_be_shown();
        }
    }

    /// The comparison if every item has its best outcome; once all draws are in, the comparison as it is.
    fn best_outcome(&self, ordering: Ordering) -> Paired {
        let mut counts = PairedCounts::default();
        for item in &self.items {
            counts.add(item.best_sign);
        }
        Paired { counts, differences: self.items.iter().map(|item| item.best).collect(), ordering }
    }

    fn may_be_shown(&self) -> bool {
        let best = self.best_outcome(Ordering::Greater);
        match self.rule.mode {
            GateMode::Strict => true,
            GateMode::Paired { standard_errors } => self.may_exceed(standard_errors),
            GateMode::Mcnemar { alpha } => mcnemar_p(best.counts) <= alpha * (1.0 + SLACK),
            GateMode::EProcess { alpha } => ln_e_value_at_most(&best.differences) >= -alpha.ln() - SLACK,
            GateMode::NoRegression { max_losses } => best.counts.losses <= max_losses,
        }
    }

    /// Whether some outcome has a mean of more than `k` standard errors.
    fn may_exceed(&self, k: f64) -> bool {
        if k <= 0.0 {
            return true;
        }
        let (n, k_squared) = (self.items.len() as f64, k * k);
        let threshold_squared = k_squared * n / (n - 1.0 + k_squared);
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut open = Vec::new();
        for item in &self.items {
            if item.n_open > 0 && item.best > 0.0 {
                open.push(item.best);
            } else {
                sum += item.best;
                squares += item.best * item.best;
            }
        }
        open.sort_unstable_by(f64::total_cmp);
        let is_enough = |sum: f64, squares: f64| {
            sum > 0.0 && sum * sum * (1.0 + SLACK) + SLACK * SLACK >= threshold_squared * squares
        };
        // The open outcomes up to `best` are taken whole, and the others as `best`, or as the number between two
        // outcomes at which the function is flat.
        let mut n_left = open.len() as f64;
        let mut below = 0.0;
        if is_enough(sum, squares) {
            return true;
        }
        for best in open {
            let flat = (squares / (threshold_squared - n_left)).sqrt();
            let candidates = [best, flat.clamp(below, best)];
            let is_found = |number: f64| is_enough(sum + n_left * number, squares + n_left * number * number);
            if candidates.into_iter().filter(|number| !number.is_nan()).any(is_found) {
                return true;
            }
            sum += best;
            squares += best * best;
            n_left -= 1.0;
            below = best;
        }
        false
    }
}
