//! A comparison that may end at any pair, against the candidate.

use crate::random::PyRandom;
use crate::rule::GateMode;
use crate::stats::ln_e_value_of;

/// An order of items by chance alone.
///
/// It is a type of its own, since evidence that is gathered in an order that puts failed items first
/// ([`crate::early::evaluation_order`]) says nothing until the last item is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RandomOrder(Vec<usize>);

impl RandomOrder {
    /// The order of so many items that a seed gives.
    pub fn new(n_items: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..n_items).collect();
        PyRandom::new(seed).shuffle(&mut order);
        Self(order)
    }

    /// The items, in order.
    pub fn items(&self) -> &[usize] {
        &self.0
    }
}

/// Evidence against a candidate, pair by pair in a [`RandomOrder`]: it is lost as soon as it is behind and the e-value of
/// the opposite reaches `1 / alpha`.
///
/// There is no early acceptance: what is delivered has a score on the whole split.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequential {
    alpha: f64,
    /// The incumbent's scores, in the order of the pairs.
    incumbent: Vec<f64>,
    /// How far the candidate is behind in each pair.
    behind: Vec<f64>,
}

impl Sequential {
    /// A comparison with these scores of the incumbent, which are in the order of the split.
    pub fn new(order: &RandomOrder, alpha: f64, incumbent: &[f64]) -> Self {
        let incumbent = order.0.iter().filter_map(|item| incumbent.get(*item).copied()).collect();
        Self { alpha, incumbent, behind: Vec::new() }
    }

    /// Takes the candidate's score in the next pair.
    pub fn push(&mut self, candidate: f64) {
        if let Some(incumbent) = self.incumbent.get(self.behind.len()) {
            self.behind.push((incumbent - candidate).clamp(-1.0, 1.0));
        }
    }

    /// True if the evidence is against the candidate.
    pub fn is_lost(&self) -> bool {
        self.behind.iter().sum::<f64>() > 0.0 && ln_e_value_of(&self.behind) >= -self.alpha.ln()
    }

    /// Pairs that are certain to be needed before the candidate is lost; 0 if it is.
    pub fn n_certain(&self) -> usize {
        if self.is_lost() {
            return 0;
        }
        let n_left = self.incumbent.len() - self.behind.len();
        let least = GateMode::EProcess { alpha: self.alpha }.least_discordant(self.incumbent.len());
        let mut all_lost = self.clone();
        for n in 1..=n_left.min(least) {
            all_lost.behind.push(1.0);
            if all_lost.is_lost() {
                return n;
            }
        }
        n_left.min(least)
    }
}
