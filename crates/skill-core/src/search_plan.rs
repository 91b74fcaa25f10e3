//! Plans of a search under a budget: how many tasks a step works on, how many of them an analyst reads, how many edits
//! it may apply, and whether there is a further step.
//!
//! A plan is a function of [`SearchFacts`], which are numbers that a run records. So a resumed run plans as it did
//! before, and a budget that was raised gives a longer plan. The numbers were chosen on the bench of search
//! (`docs/spending-a-budget.md`).

use serde::{Deserialize, Serialize};

/// Failures that a step should see at least: fewer say too little of what is common.
const LEAST_FAILURES: f64 = 8.0;
/// The least tasks of a step.
const LEAST_BATCH: usize = 4;
/// A plan has as many decisions as this, with smaller batches where the budget is small; but never with batches so small
/// that a step is little more than the evaluation of its candidate.
pub const LEAST_DECISIONS: u32 = 10;
/// Trajectories that an analyst reads.
const MINIBATCH: usize = 4;
/// Edits of the first step.
const FIRST_EDITS: u32 = 8;
/// The least and the most edits of a step.
const EDITS: [u32; 2] = [4, 10];
/// Optimizer calls of a step besides the analysts: merging and ranking.
const OTHER_CALLS: f64 = 2.0;
/// The most of them besides the merges of analysts' patches: the last merge, ranking, and an analyst of what is solved.
const MOST_OTHER_CALLS: f64 = 3.0;
/// The share of the selection split that a candidate takes before it is decided, while none was measured.
const FIRST_SHARE: f64 = 0.9;
/// Candidates of a step are screened on one failed task for each so many draws of the selection split.
const DRAWS_PER_SCREENED: usize = 16;
/// The fewest failed tasks that candidates are screened on.
const LEAST_SCREENED: usize = 4;
/// The share of the budget that stays unplanned: calls in flight when a candidate is decided, and calls that are sent
/// again, are paid for and are in no record.
const SLACK: f64 = 0.02;
/// The slack in calls at least.
const MIN_SLACK_CALLS: f64 = 16.0;
/// The share of the budget that stays unplanned besides, for requests in flight when a process is killed.
const KILL_RESERVE: f64 = 0.03;
/// The reserve in calls at least.
const MIN_KILL_RESERVE_CALLS: f64 = 8.0;
/// The least number of rollouts that may be in flight, even if no reserve is left.
const LEAST_IN_FLIGHT: usize = 4;
/// The share of the remaining slack that one evaluation may lose, and of the remaining reserve that one kill may lose.
const RISKED: f64 = 0.5;

/// Failed tasks that each candidate of a step is tried on before one of them goes to a selection split of this size.
pub fn screened_items(n_draws: usize) -> usize {
    n_draws.div_ceil(DRAWS_PER_SCREENED).max(LEAST_SCREENED)
}

/// Calls, tokens and money.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spending {
    /// Calls of all models.
    pub calls: f64,
    /// Tokens of prompts and replies.
    pub tokens: f64,
    /// Money, by the prices of the models.
    pub money: f64,
}

impl Spending {
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
    pub(crate) fn times_left(&self, spent: Spending, cost: Spending) -> f64 {
        self.least_of(cost, |cap, part| {
            let unplanned = slack(cap, part(spent), spent.calls) + reserve(cap, part(spent), spent.calls);
            (cap - unplanned - part(spent)).max(0.0)
        })
    }

    /// How many rollouts may be in flight at a time, so that a process that is killed loses no more than a part of the
    /// reserve; `killed` is what was in flight in those that were. `None` where nothing is capped.
    ///
    /// A run that was killed a few times then plans like an undisturbed one, with any number of workers.
    pub fn in_flight(&self, recorded: Spending, killed: Spending, rollout: Spending) -> Option<usize> {
        // A rollout is a call at least, also while none is known.
        let rollout = Spending { calls: rollout.calls.max(1.0), ..rollout };
        let left = self.least_of(rollout, |cap, part| {
            (reserve(cap, part(recorded), recorded.calls) - part(killed)).max(0.0)
        });
        left.is_finite().then_some(((left * RISKED) as usize).max(LEAST_IN_FLIGHT))
    }

    /// How many rollouts may be sent in vain at a time: a part of the slack that is left where so much was spent, so much of
    /// it in flight in processes that were killed, and the records of the run hold so much. `None` where nothing is capped.
    ///
    /// What is sent in vain depends on how many calls are in flight and when they are answered. Within this number a search
    /// stays inside its caps and its plan, whatever they are.
    pub fn risk(
        &self,
        spent: Spending,
        recorded: Spending,
        killed: Spending,
        rollout: Spending,
    ) -> Option<usize> {
        let left = self.least_of(rollout, |cap, part| {
            let of_reserve = reserve(cap, part(recorded), recorded.calls).min(part(killed));
            let lost = (part(spent) - part(recorded) - of_reserve).max(0.0);
            (slack(cap, part(recorded), recorded.calls) - lost).max(0.0)
        });
        // The cast saturates, and rounds down.
        left.is_finite().then_some((left * RISKED) as usize)
    }

    /// The same for requests that are all needed: of what is left besides `needed`, a part may be in flight when the process
    /// is killed.
    pub fn risk_at_end(&self, spent: Spending, needed: Spending, rollout: Spending) -> Option<usize> {
        let left = self.least_of(rollout, |cap, part| (cap - part(spent) - part(needed)).max(0.0));
        left.is_finite().then_some((left * RISKED) as usize)
    }

    /// How many times a cost fits into what each cap leaves, at least.
    fn least_of(&self, cost: Spending, left: impl Fn(f64, Part) -> f64) -> f64 {
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
type Part = fn(Spending) -> f64;

/// What of a cap stays unplanned where so much of it, in so many calls, is spent.
fn slack(cap: f64, spent: f64, n_calls: f64) -> f64 {
    (cap * SLACK).max(MIN_SLACK_CALLS * spent / n_calls.max(1.0))
}

/// The same for requests in flight when a process is killed.
fn reserve(cap: f64, spent: f64, n_calls: f64) -> f64 {
    (cap * KILL_RESERVE).max(MIN_KILL_RESERVE_CALLS * spent / n_calls.max(1.0))
}

/// How a step came out, for the plan of the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Its candidate was accepted.
    Accepted,
    /// Its candidate was rejected.
    Rejected,
    /// There was no candidate.
    Skipped,
}

/// What a plan follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchFacts {
    /// Training tasks.
    pub n_train: usize,
    /// Selection tasks, times the attempts at each.
    pub n_draws: usize,
    /// Attempts at each training task.
    pub n_samples: usize,
    /// The share of selection tasks that the current skill solves.
    pub solved: f64,
    /// The share of tasks whose outcome differs between two passes with one skill; `None` if it was not measured.
    pub flip_rate: Option<f64>,
    /// The share of the selection split that candidates took so far, and how many there were.
    pub share_seen: Option<f64>,
    /// What a rollout takes.
    pub rollout: Spending,
    /// What a call of the optimizer takes.
    pub optimizer_call: Spending,
    /// What the run may spend.
    pub budget: SearchBudget,
    /// What it has spent, with what its end will take.
    pub spent: Spending,
    /// How its steps came out.
    pub decisions: Vec<Decision>,
    /// Candidates of a step that are screened before one of them is measured; 0 where a step has one.
    pub n_candidates: usize,
    /// Patches that a call of the optimizer merges, at least 2.
    pub merge_batch: usize,
}

/// What the next step is, and how many follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchPlan {
    /// Training tasks of the step.
    pub batch_size: usize,
    /// Trajectories that an analyst reads.
    pub minibatch_size: usize,
    /// The most edits that the step applies, and that an analyst proposes.
    pub edits: u32,
    /// Steps that the budget has room for, this one among them.
    pub steps_left: u32,
}

impl SearchFacts {
    /// The plan of the next step; `None` where the budget has no room for one.
    pub fn plan(&self) -> Option<SearchPlan> {
        if self.n_train == 0 || self.n_draws == 0 {
            return None;
        }
        let failing = (1.0 - self.solved).clamp(1.0 / self.n_draws as f64, 1.0);
        // Where two passes differ much, an effect has to be larger to be seen: more failures, and more edits.
        let noise = self.flip_rate.unwrap_or_default().clamp(0.0, 0.5);
        let n_train = self.n_train;
        let least = LEAST_BATCH.min(n_train);
        // A candidate costs up to a pass over the selection split, and half as much again shows what to propose.
        let balanced = self.n_draws.div_ceil(2 * self.n_samples.max(1));
        let wanted = (LEAST_FAILURES * (1.0 + noise) / failing).ceil() as usize;
        let mut batch_size = wanted.max(balanced).clamp(least, n_train);
        // Most of a smaller step is the evaluation of its candidate: it buys few decisions, and each knows less.
        let worthwhile = self.n_draws.div_ceil(4 * self.n_samples.max(1)).clamp(least, n_train);
        let n_done = u32::try_from(self.decisions.len()).unwrap_or(u32::MAX);
        let n_wanted = LEAST_DECISIONS.saturating_sub(n_done).max(1);
        while self.steps_of(batch_size) < n_wanted && batch_size > worthwhile {
            batch_size -= 1;
        }
        // The last step takes what is left.
        while self.steps_of(batch_size) == 0 && batch_size > least {
            batch_size -= 1;
        }
        let steps_left = self.steps_of(batch_size);
        (steps_left > 0).then(|| SearchPlan {
            batch_size,
            minibatch_size: MINIBATCH,
            edits: self.edits(),
            steps_left,
        })
    }

    /// Steps with such a batch that the budget has room for: the last one has to fit whatever it comes to.
    fn steps_of(&self, batch_size: usize) -> u32 {
        let most = self.most(batch_size);
        if self.budget.times_left(self.spent, most) < 1.0 {
            return 0;
        }
        let times = self.budget.times_left(self.spent.plus(most), self.cost(batch_size, self.share()));
        // The cast saturates: a budget without a cap has room for all steps that there can be.
        (times.floor() as u32).saturating_add(1)
    }

    /// The most that a step with such a batch takes: every rollout fails, and its candidate is measured whole.
    fn most(&self, batch_size: usize) -> Spending {
        let n_rollouts = batch_size * self.n_samples.max(1);
        let analysts = n_rollouts.div_ceil(MINIBATCH).max(1);
        let (mut n_patches, mut merges) = (analysts, 0);
        while n_patches > 1 {
            n_patches = n_patches.div_ceil(self.merge_batch.max(2));
            merges += n_patches;
        }
        let n_screened = self.n_candidates * n_rollouts.min(screened_items(self.n_draws));
        let rollouts = self.rollout.times((n_rollouts + n_screened + self.n_draws) as f64);
        rollouts.plus(self.optimizer_call.times((analysts + merges) as f64 + MOST_OTHER_CALLS))
    }

    fn share(&self) -> f64 {
        self.share_seen.unwrap_or(FIRST_SHARE)
    }

    /// What a step with such a batch takes where its candidate takes this share of the selection split.
    fn cost(&self, batch_size: usize, share: f64) -> Spending {
        let n_rollouts = (batch_size * self.n_samples.max(1)) as f64;
        let n_failures = n_rollouts * (1.0 - self.solved).clamp(0.0, 1.0);
        let analysts = (n_failures / MINIBATCH as f64).ceil().max(1.0);
        let n_screened =
            self.n_candidates as f64 * n_failures.ceil().min(screened_items(self.n_draws) as f64);
        let rollouts = self.rollout.times(n_rollouts + n_screened + share * self.n_draws as f64);
        rollouts.plus(self.optimizer_call.times(analysts + OTHER_CALLS))
    }

    /// The edit budget: as a trust region, it grows where candidates are accepted and shrinks where they are not.
    fn edits(&self) -> u32 {
        let [least, most] = EDITS;
        self.decisions.iter().fold(FIRST_EDITS, |edits, decision| match decision {
            Decision::Accepted => (edits + 1).min(most),
            Decision::Rejected => (edits - 1).max(least),
            Decision::Skipped => edits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Spending = Spending { calls: 1.0, tokens: 100.0, money: 0.01 };

    fn facts(calls: f64) -> SearchFacts {
        SearchFacts {
            n_train: 40,
            n_draws: 40,
            n_samples: 1,
            solved: 0.2,
            flip_rate: None,
            share_seen: None,
            rollout: ONE,
            optimizer_call: ONE.times(5.0),
            budget: SearchBudget { calls: Some(calls), ..SearchBudget::default() },
            spent: ONE.times(40.0),
            decisions: Vec::new(),
            n_candidates: 0,
            merge_batch: 8,
        }
    }

    #[test]
    fn a_small_budget_has_small_batches_and_as_many_decisions_as_it_can() {
        let large = facts(2000.0).plan().unwrap();
        let small = facts(770.0).plan().unwrap();
        assert!(small.batch_size < large.batch_size, "{small:?} {large:?}");
        assert!(small.steps_left >= LEAST_DECISIONS, "{small:?}");
        // Of 40 selection tasks; ten decisions are out of reach, and batches of 4 would not bring them closer.
        assert_eq!(facts(300.0).plan().unwrap().batch_size, 10);
        assert_eq!(facts(139.0).plan().unwrap().batch_size, 5, "the last step takes what is left");
    }

    #[test]
    fn a_large_selection_split_does_not_make_batches_tiny() {
        let large =
            |calls| SearchFacts { n_train: 120, n_draws: 120, spent: ONE.times(120.0), ..facts(calls) };
        let batches = [600.0, 1000.0, 1500.0].map(|calls| large(calls).plan().unwrap().batch_size);
        assert!(batches.iter().all(|batch| (30..=60).contains(batch)), "{batches:?}");
    }

    #[test]
    fn a_budget_without_room_for_a_step_has_no_plan() {
        assert_eq!(facts(60.0).plan(), None);
        let tokens = SearchBudget { tokens: Some(1000.0), ..SearchBudget::default() };
        assert_eq!(SearchFacts { budget: tokens, ..facts(0.0) }.plan(), None);
        let money = SearchBudget { money: Some(0.5), ..SearchBudget::default() };
        assert_eq!(SearchFacts { budget: money, ..facts(0.0) }.plan(), None);
        assert_eq!(SearchFacts { n_train: 0, ..facts(1000.0) }.plan(), None);
    }

    #[test]
    fn a_small_budget_keeps_calls_for_those_that_are_cut_off() {
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        assert_eq!(calls(370.0).times_left(ONE.times(300.0), ONE).floor(), 42.0);
        assert_eq!(calls(2000.0).times_left(ONE.times(300.0), ONE), 1600.0);
        // A call has taken 100 tokens so far.
        let tokens = SearchBudget { tokens: Some(10_000.0), ..SearchBudget::default() };
        let rollout = Spending { calls: 1.0, tokens: 100.0, money: 0.0 };
        assert_eq!(tokens.times_left(rollout.times(40.0), rollout), 36.0);
    }

    #[test]
    fn the_last_step_fits_whatever_it_comes_to() {
        for (calls, n_draws) in [(400.0, 40), (760.0, 40), (1_500.0, 120), (3_000.0, 120)] {
            let facts = SearchFacts { n_draws, n_train: n_draws, optimizer_call: ONE, ..facts(calls) };
            for batch_size in 4..n_draws {
                let most = facts.most(batch_size);
                // All fail: an analyst reads four, eight patches are merged at a time, and one call ranks.
                let analysts = batch_size.div_ceil(4);
                let merges = if analysts > 1 { analysts.div_ceil(8) + usize::from(analysts > 8) } else { 0 };
                assert!(most.calls >= (batch_size + n_draws + analysts + merges + 1) as f64, "{batch_size}");
                assert!(most.calls >= facts.cost(batch_size, 1.0).calls, "{batch_size}");
            }
        }
    }

    #[test]
    fn what_was_sent_in_vain_is_in_no_plan_and_never_more_than_the_slack() {
        let budget = SearchBudget { calls: Some(760.0), ..SearchBudget::default() };
        let spent = |calls| ONE.times(calls);
        let risk = |all: f64| budget.risk(spent(all), spent(300.0), Spending::default(), ONE);
        // Of 16 calls that stay unplanned.
        assert_eq!(risk(300.0), Some(8));
        assert_eq!(risk(308.0), Some(4));
        assert_eq!(risk(320.0), Some(0));
        assert_eq!(risk(200.0), Some(8), "replies of a recording");
        assert_eq!(
            budget.risk(spent(300.0), spent(300.0), Spending::default(), ONE.times(4.0)),
            Some(2),
            "tasks of four turns"
        );
        // What was in flight in a killed process has a reserve of its own, of 22.8 calls.
        assert_eq!(budget.risk(spent(320.0), spent(300.0), spent(20.0), ONE), Some(8));
        assert_eq!(budget.risk(spent(330.0), spent(300.0), spent(30.0), ONE), Some(4));
        let mut lost = 0.0;
        while let Some(risk @ 1..) = risk(300.0 + lost) {
            lost += risk as f64;
        }
        assert!(lost <= 16.0, "{lost}");
        assert_eq!(SearchBudget::default().risk(spent(300.0), spent(0.0), spent(0.0), ONE), None);
        assert_eq!(budget.risk_at_end(spent(600.0), spent(120.0), ONE), Some(20));
        assert_eq!(budget.risk_at_end(spent(700.0), spent(120.0), ONE), Some(0));
    }

    #[test]
    fn a_process_that_is_killed_loses_a_part_of_the_reserve() {
        let calls = |cap| SearchBudget { calls: Some(cap), ..SearchBudget::default() };
        let in_flight = |cap, killed| calls(cap).in_flight(ONE.times(100.0), ONE.times(killed), ONE);
        assert_eq!([0.0, 11.0, 22.0].map(|killed| in_flight(760.0, killed)), [11, 5, 4].map(Some));
        assert_eq!([150.0, 2_000.0, 10_000.0].map(|cap| in_flight(cap, 0.0)), [4, 30, 150].map(Some));
        // Before anything is known of a rollout, too.
        let nothing = Spending::default();
        assert_eq!(calls(2_000.0).in_flight(nothing, nothing, nothing), Some(30));
        assert_eq!(SearchBudget::default().in_flight(ONE, nothing, ONE), None);
        for cap in [300.0, 760.0, 2_000.0] {
            // Two kills at the worst moments leave the slack of evaluations as it is.
            let first = in_flight(cap, 0.0).unwrap() as f64;
            let killed = first + in_flight(cap, first).unwrap() as f64;
            let risk =
                |spent, killed| calls(cap).risk(ONE.times(spent), ONE.times(100.0), ONE.times(killed), ONE);
            assert_eq!(risk(100.0 + killed, killed), risk(100.0, 0.0), "{cap}");
        }
    }

    #[test]
    fn the_better_the_skill_the_larger_the_batch() {
        let batch = |solved| SearchFacts { solved, ..facts(5000.0) }.plan().unwrap().batch_size;
        assert!(batch(0.0) < batch(0.7) && batch(0.7) < batch(0.9), "{} {}", batch(0.0), batch(0.9));
        assert_eq!(batch(1.0), 40);
    }

    #[test]
    fn noise_asks_for_larger_batches() {
        let batch =
            |flip_rate| SearchFacts { flip_rate, solved: 0.6, ..facts(5000.0) }.plan().unwrap().batch_size;
        assert!(batch(Some(0.4)) > batch(Some(0.0)));
        assert_eq!(batch(Some(0.0)), batch(None));
    }

    #[test]
    fn the_screening_of_candidates_is_part_of_the_cost_of_a_step() {
        let steps = |n_candidates| SearchFacts { n_candidates, ..facts(5000.0) }.plan().unwrap().steps_left;
        assert!(steps(5) < steps(2) && steps(2) < steps(0), "{} {} {}", steps(5), steps(2), steps(0));
        assert_eq!([0, 40, 120].map(screened_items), [4, 4, 8]);
    }

    #[test]
    fn edits_grow_with_acceptances_and_shrink_with_rejections_within_limits() {
        let edits = |decisions: &[Decision]| {
            SearchFacts { decisions: decisions.to_vec(), ..facts(5000.0) }.plan().unwrap().edits
        };
        let first = edits(&[]);
        assert!(edits(&[Decision::Accepted]) > first && edits(&[Decision::Rejected]) < first);
        assert_eq!(edits(&[Decision::Skipped]), first);
        assert_eq!(edits(&[Decision::Accepted; 50]), EDITS[1]);
        assert_eq!(edits(&[Decision::Rejected; 50]), EDITS[0]);
    }

    #[test]
    fn what_is_spent_shortens_the_plan_and_a_larger_budget_makes_it_longer() {
        let steps = |spent: f64, calls| {
            SearchFacts { spent: ONE.times(spent), ..facts(calls) }.plan().unwrap().steps_left
        };
        assert!(steps(40.0, 1000.0) > steps(500.0, 1000.0));
        assert!(steps(500.0, 2000.0) > steps(500.0, 1000.0));
    }
}
