//! A comparison that may end at any pair, for or against.

use super::Verdict;
use crate::random::PyRandom;
use crate::rule::GateMode;
use crate::stats::ln_e_value_of;

/// An order of items by chance alone.
///
/// It is a type of its own, since early acceptance is wrong in an order that puts failed items first
/// ([`crate::early::evaluation_order`]).
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

/// A candidate against the incumbent, pair by pair in a [`RandomOrder`], by the e-value of their differences.
///
/// It is accepted as soon as it is ahead and its e-value reaches `1 / alpha`, and rejected as soon as it is behind and
/// that of the opposite does. At the end it is accepted if it is strictly ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequential {
    alpha: f64,
    n_items: usize,
    differences: Vec<f64>,
}

impl Sequential {
    /// A comparison on the items of this order.
    pub fn new(order: &RandomOrder, alpha: f64) -> Self {
        Self { alpha, n_items: order.0.len(), differences: Vec::new() }
    }

    /// Takes the next pair: the candidate's score, and the incumbent's.
    pub fn push(&mut self, candidate: f64, incumbent: f64) {
        self.differences.push((candidate - incumbent).clamp(-1.0, 1.0));
    }

    /// Pairs that are certain to be needed; 0 if it is decided.
    pub fn n_certain(&self) -> usize {
        if self.verdict() != Verdict::Open {
            return 0;
        }
        let left = self.n_items - self.differences.len().min(self.n_items);
        // From here on, either all pairs are won or all are lost.
        let most = GateMode::EProcess { alpha: self.alpha }.least_discordant(left).max(1);
        let is_open = |n: &usize| {
            [1.0, -1.0].iter().all(|difference| {
                let mut imagined = self.clone();
                imagined.differences.extend(std::iter::repeat_n(*difference, *n));
                !imagined.is_decided()
            })
        };
        (1..most.min(left)).take_while(is_open).count() + usize::from(left > 0)
    }

    fn is_decided(&self) -> bool {
        let sum: f64 = self.differences.iter().sum();
        if sum == 0.0 {
            return false;
        }
        let signed: Vec<f64> = self.differences.iter().map(|difference| difference * sum.signum()).collect();
        ln_e_value_of(&signed) >= -self.alpha.ln()
    }

    /// What it has come to, where no pair is left or none may be played.
    pub fn at_end(&self) -> Verdict {
        if self.differences.iter().sum::<f64>() > 1e-9 { Verdict::Passed } else { Verdict::Failed }
    }

    /// What it has come to.
    pub fn verdict(&self) -> Verdict {
        if self.differences.len() >= self.n_items || self.is_decided() {
            self.at_end()
        } else {
            Verdict::Open
        }
    }
}
