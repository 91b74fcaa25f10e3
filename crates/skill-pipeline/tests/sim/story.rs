//! What happens to a run, all of it from one seed: the weather at the provider and what people and machines do.

use crate::world::World;
use skill_core::random::PyRandom;
use skill_llm::testbed::{SimConfig, SimLatency};
use skill_llm::{BudgetCaps, PaceConfig, RetryPolicy};
use std::time::Duration;

/// What becomes of one process of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Disturbance {
    /// It is killed; a kill that `loses` takes with it what it had not committed.
    Kill { when: Moment, loses: bool },
    /// A person presses Ctrl-C, and maybe again.
    CtrlC { soon: Duration, now: Option<Duration> },
}

/// A moment in the life of a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Moment {
    /// So long after it began.
    After(Duration),
    /// While it tells of its nth event: in the middle of synchronous work, also while a resume goes through what is
    /// known already and no time passes.
    AtEvent(u32),
}

/// Which cap the run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Capped {
    Calls,
    Tokens,
    Money,
    Time,
}

/// Everything that a seed decides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Story {
    pub(crate) world: World,
    pub(crate) provider: SimConfig,
    /// Whether the provider never fails, so that no process may fail either.
    pub(crate) is_calm: bool,
    pub(crate) policy: RetryPolicy,
    pub(crate) requests_per_minute: Option<u32>,
    pub(crate) disturbances: Vec<Disturbance>,
    pub(crate) capped: Option<Capped>,
    workers: Vec<usize>,
}

impl Story {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice(PyRandom::new(seed));
        let world = dice.pick(&World::ALL);
        let longest_outage = Duration::from_secs_f64(dice.spread(1.0, 900.0));
        let is_calm = dice.chance(0.25);
        let mut provider = SimConfig::storm(seed, longest_outage);
        if is_calm {
            provider = SimConfig { seed, latency: provider.latency, ..SimConfig::default() };
        } else if dice.chance(0.3) {
            provider.refuse_above = Some(dice.count(4, 64));
        }
        // A tail that is longer than the time limit of an attempt.
        if dice.chance(0.2) && !is_calm {
            provider.latency = SimLatency { sigma: 2.0, ..provider.latency };
        }
        if dice.chance(0.3) {
            provider.latency.capacity = Some(dice.count(4, 64));
        }
        let n_disturbances = dice.count(0, 5);
        Self {
            world,
            provider,
            is_calm,
            policy: RetryPolicy { seed, ..RetryPolicy::default() },
            requests_per_minute: dice.chance(0.3).then(|| dice.spread(60.0, 6_000.0) as u32),
            disturbances: (0..n_disturbances).map(|_| dice.disturbance()).collect(),
            capped: dice
                .chance(0.4)
                .then(|| dice.pick(&[Capped::Calls, Capped::Tokens, Capped::Money, Capped::Time])),
            workers: (0..4).map(|_| dice.spread(1.0, 257.0) as usize).collect(),
        }
    }

    /// Nothing happens.
    pub(crate) fn undisturbed(world: World) -> Self {
        Self {
            world,
            provider: SimConfig::default(),
            is_calm: true,
            policy: RetryPolicy::default(),
            requests_per_minute: None,
            disturbances: Vec::new(),
            capped: None,
            workers: vec![1],
        }
    }

    pub(crate) fn workers(&self, process_idx: usize) -> usize {
        self.workers[process_idx % self.workers.len()]
    }

    pub(crate) fn pace(&self, process_idx: usize) -> PaceConfig {
        PaceConfig {
            requests_per_minute: self.requests_per_minute,
            max_in_flight: u32::try_from(self.workers(process_idx)).unwrap(),
            ..PaceConfig::default()
        }
    }

    /// The caps of a process, after the person has raised them so often; after four times there are none.
    pub(crate) fn caps(&self, n_raised: u32) -> BudgetCaps {
        let mut caps = BudgetCaps::default();
        let factor = 3_u64.pow(n_raised);
        match self.capped.filter(|_| n_raised < 4) {
            None => {}
            Some(Capped::Calls) => caps.calls = Some(12 * factor),
            Some(Capped::Tokens) => caps.tokens = Some(3_000 * factor),
            Some(Capped::Money) => caps.money = Some(0.02 * factor as f64),
            Some(Capped::Time) => caps.time = Some(Duration::from_secs(factor)),
        }
        caps
    }
}

struct Dice(PyRandom);

impl Dice {
    fn chance(&mut self, chance: f64) -> bool {
        self.0.random() < chance
    }

    /// From `low` to `high`, both included.
    fn count(&mut self, low: usize, high: usize) -> usize {
        low + self.0.randbelow((high - low + 1) as u64) as usize
    }

    /// Between the two, each order of magnitude as likely as the others.
    fn spread(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.random())
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.randbelow(from.len() as u64) as usize]
    }

    fn seconds(&mut self) -> Duration {
        Duration::from_secs_f64(self.spread(0.001, 120.0))
    }

    fn disturbance(&mut self) -> Disturbance {
        if self.chance(0.3) {
            let soon = self.seconds();
            let now = self.chance(0.5).then(|| soon + self.seconds());
            return Disturbance::CtrlC { soon, now };
        }
        let when = if self.chance(0.5) {
            Moment::After(self.seconds())
        } else {
            Moment::AtEvent(self.spread(1.0, 200.0) as u32)
        };
        Disturbance::Kill { when, loses: self.chance(0.5) }
    }
}
