//! Budgets of a search: how often a cost still fits, and how much may be in flight.

use serde::{Deserialize, Serialize};

/// A search with fewer decisions has little chance to find what helps.
pub const LEAST_DECISIONS: u32 = 10;
/// The share of the budget that stays unplanned, for requests in flight when a process is killed.
const KILL_RESERVE: f64 = 0.03;
/// The reserve in calls at least.
const MIN_KILL_RESERVE_CALLS: f64 = 8.0;
/// The least number of rollouts that may be in flight, even if no reserve is left.
const LEAST_IN_FLIGHT: usize = 4;
/// The share of the remaining reserve that one kill may lose.
const RISKED: f64 = 0.5;

/// Calls, tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SearchCost {
    /// Calls of all models.
    pub calls: f64,
    /// Tokens of prompts and replies.
    pub tokens: f64,
    /// Money, by the prices of the models.
    pub money: f64,
}

impl SearchCost {
    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            tokens: self.tokens + other.tokens,
            money: self.money + other.money,
        }
    }

    /// The larger of both, each by itself.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            calls: self.calls.max(other.calls),
            tokens: self.tokens.max(other.tokens),
            money: self.money.max(other.money),
        }
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { calls: self.calls * factor, tokens: self.tokens * factor, money: self.money * factor }
    }
}

/// The failure rate of requests so far, estimated from `n_replied` replies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Failures {
    /// Replies so far.
    pub n_replied: f64,
    /// Failed requests per reply.
    pub calls: f64,
    /// Tokens of failed requests that may be billed, per token of a reply and its prompt.
    pub tokens: f64,
}

/// Standard deviations above the mean number of failures that are reserved.
const FAILURE_DEVIATIONS: f64 = 2.0;

impl Failures {
    /// The cost of `replies` if requests go on failing at this rate: the mean of the negative binomial distribution plus two
    /// standard deviations, which include the error of the estimated rate.
    ///
    /// Without failures so far it is `replies` itself.
    #[must_use]
    pub fn on_top_of(self, replies: SearchCost) -> SearchCost {
        let n = replies.calls;
        if n <= 0.0 || self.calls <= 0.0 || self.n_replied <= 0.0 {
            return replies;
        }
        // n replies take n r requests, with the variance n r (r - 1), where r is 1 / (1 - p); the estimate of r adds n / m of it.
        let variance = n * (1.0 + self.calls) * self.calls * (1.0 + n / self.n_replied);
        let calls = n * self.calls + FAILURE_DEVIATIONS * variance.sqrt();
        // Tokens and money are lost with the requests.
        let part = self.tokens * calls / (n * self.calls);
        SearchCost {
            calls: n + calls,
            tokens: replies.tokens * (1.0 + part),
            money: replies.money * (1.0 + part),
        }
    }
}

/// The caps of a search; `None` means no cap.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SearchBudget {
    /// Calls of all models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<f64>,
    /// Tokens of prompts and replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<f64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

impl SearchBudget {
    /// True if nothing is capped.
    pub fn is_unlimited(&self) -> bool {
        self.calls.is_none() && self.tokens.is_none() && self.money.is_none()
    }

    /// How many times a cost still fits after what is spent; infinite where nothing is capped.
    pub fn times_left(&self, spent: SearchCost, cost: SearchCost) -> f64 {
        self.least_of(cost, |cap, part| (cap - reserve(cap, part(spent), spent.calls) - part(spent)).max(0.0))
    }

    /// How many rollouts may be in flight at a time, so that a process that is killed loses no more than a part of the
    /// reserve; `killed` is what was in flight in those that were. `None` where nothing is capped.
    ///
    /// A run that was killed a few times then plans like an undisturbed one, with any number of workers.
    pub fn in_flight(&self, recorded: SearchCost, killed: SearchCost, rollout: SearchCost) -> Option<usize> {
        // A rollout is a call at least, also while none is known.
        let rollout = SearchCost { calls: rollout.calls.max(1.0), ..rollout };
        let left = self.least_of(rollout, |cap, part| {
            (reserve(cap, part(recorded), recorded.calls) - part(killed)).max(0.0)
        });
        left.is_finite().then_some(((left * RISKED) as usize).max(LEAST_IN_FLIGHT))
    }

    /// The same for the end of a run, whose requests are all needed: of what is left besides `needed`, a part may be in flight when the process
    /// is killed.
    pub fn risk_at_end(&self, spent: SearchCost, needed: SearchCost, rollout: SearchCost) -> Option<usize> {
        let left = self.least_of(rollout, |cap, part| (cap - part(spent) - part(needed)).max(0.0));
        left.is_finite().then_some((left * RISKED) as usize)
    }

    /// How many times a cost fits into what each cap leaves, at least.
    fn least_of(&self, cost: SearchCost, left: impl Fn(f64, Part) -> f64) -> f64 {
        let parts: [(Option<f64>, Part); 3] = [
            (self.calls, |spending| spending.calls),
            (self.tokens, |spending| spending.tokens),
            (self.money, |spending| spending.money),
        ];
        let times = |(cap, part): (Option<f64>, Part)| {
            let left = left(cap?, part);
            (part(cost) > 0.0).then_some(left / part(cost))
        };
        parts.into_iter().filter_map(times).fold(f64::INFINITY, f64::min)
    }
}

/// One of calls, tokens and money.
type Part = fn(SearchCost) -> f64;

/// What of a cap stays unplanned where so much of it, in so many calls, is spent: for requests in flight when a process is
/// killed, and those that are sent again, are paid for and are in no record.
fn reserve(cap: f64, spent: f64, n_calls: f64) -> f64 {
    (cap * KILL_RESERVE).max(MIN_KILL_RESERVE_CALLS * spent / n_calls.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SearchCost = SearchCost { calls: 1.0, tokens: 100.0, money: 0.01 };

    #[test]
    fn a_small_budget_keeps_calls_for_those_that_are_cut_off() {
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        assert_eq!(calls(370.0).times_left(ONE.times(300.0), ONE).floor(), 58.0);
        assert_eq!(calls(2000.0).times_left(ONE.times(300.0), ONE), 1640.0);
        // A call has taken 100 tokens so far.
        let tokens = SearchBudget { tokens: Some(10_000.0), ..SearchBudget::default() };
        let rollout = SearchCost { calls: 1.0, tokens: 100.0, money: 0.0 };
        assert_eq!(tokens.times_left(rollout.times(40.0), rollout), 52.0);
        assert_eq!(calls(60.0).times_left(ONE.times(60.0), ONE), 0.0);
    }

    #[test]
    fn while_the_end_is_measured_a_part_of_what_is_left_is_in_flight() {
        let budget = SearchBudget { calls: Some(760.0), ..SearchBudget::default() };
        assert_eq!(budget.risk_at_end(ONE.times(600.0), ONE.times(120.0), ONE), Some(20));
        assert_eq!(budget.risk_at_end(ONE.times(700.0), ONE.times(120.0), ONE), Some(0));
    }

    #[test]
    fn failures_make_the_end_dearer_and_none_leave_it_alone() {
        let end = SearchCost { calls: 100.0, tokens: 1_000.0, money: 1.0 };
        let healthy = Failures { n_replied: 50.0, calls: 0.0, tokens: 0.0 };
        assert_eq!(healthy.on_top_of(end), end);
        // 30 % of the requests fail, after very many: 100 / 0.7 in the mean, with a deviation of √(100 × 0.3) / 0.7.
        let failing = Failures { n_replied: 1e9, calls: 3.0 / 7.0, tokens: 0.0 };
        let found = failing.on_top_of(end);
        assert!((found.calls - (100.0 / 0.7 + 2.0 * 30.0_f64.sqrt() / 0.7)).abs() < 1e-3, "{found:?}");
        assert_eq!((found.tokens, found.money), (1_000.0, 1.0));
        // Fewer replies say less, and what fails may be billed.
        let unsure = Failures { n_replied: 100.0, tokens: 3.0 / 7.0, ..failing }.on_top_of(end);
        assert!(unsure.calls > found.calls && unsure.tokens > 1_428.0, "{unsure:?}");
        assert!((unsure.tokens / 1_000.0 - unsure.calls / 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_process_that_is_killed_loses_a_part_of_the_reserve() {
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        let in_flight = |cap, killed| calls(cap).in_flight(ONE.times(100.0), ONE.times(killed), ONE);
        assert_eq!([0.0, 11.0, 22.0].map(|killed| in_flight(760.0, killed)), [11, 5, 4].map(Some));
        assert_eq!([150.0, 2_000.0, 10_000.0].map(|cap| in_flight(cap, 0.0)), [4, 30, 150].map(Some));
        // Before anything is known of a rollout, too.
        let nothing = SearchCost::default();
        assert_eq!(calls(2_000.0).in_flight(nothing, nothing, nothing), Some(30));
        assert_eq!(SearchBudget::default().in_flight(ONE, nothing, ONE), None);
    }
}
