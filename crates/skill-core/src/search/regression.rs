//! Whether a proposal spoils tasks that the working skill solves.

use super::{Estimates, SequentialDecision, TaskScore};

/// How often a harmful edit breaks a solved task, and how much of what still fails a right one gains.
const HARM: f64 = 0.3;
const GAIN: f64 = 0.25;
/// The odds of harm before the first play, and those at which the check ends.
const PRIOR: f64 = -1.7;
const DIRTY: f64 = 0.7;
/// How far above what is clean a proposal may end.
const SLACK: f64 = 0.5;
/// The most plays: so many, and so many more for the share of tasks that is solved.
const PLAYS: [f64; 2] = [3.0, 9.0];
/// The most that the share of solved tasks counts here.
const MOST_OK: f64 = 0.98;

/// The odds that a proposal is harmful, play by play: the fewer tasks fail, the less it can gain and the more it can lose,
/// and the more it has to show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Regression {
    odds: f64,
    clean: f64,
    lost: f64,
    kept: f64,
    n_left: usize,
}

impl Regression {
    /// The check on so many solved tasks, before the first play.
    pub fn new(estimates: Estimates, n_solved: usize) -> Self {
        let ok = estimates.solved.min(MOST_OK);
        let eps = estimates.eps;
        let harmed = eps + HARM * (1.0 - eps);
        let [least, more] = PLAYS;
        // The cast is of a small positive number.
        let most = (least + more * ok).round() as usize;
        Self {
            odds: PRIOR,
            clean: (GAIN * (1.0 - ok) / (HARM * ok)).ln().clamp(-5.0, 0.0),
            lost: (harmed / eps).ln(),
            kept: ((1.0 - harmed) / (1.0 - eps)).ln(),
            n_left: most.min(n_solved),
        }
    }

    /// The odds.
    pub fn odds(&self) -> f64 {
        self.odds
    }

    /// Plays that are certain to be needed; 0 if it is decided.
    pub fn n_certain(&self) -> usize {
        let (mut highest, mut lowest, mut n) = (self.odds, self.odds, 0);
        while n < self.n_left && lowest > self.clean && highest < DIRTY {
            n += 1;
            highest += self.lost;
            lowest += self.kept;
        }
        n
    }

    /// Takes the outcome of the next play.
    pub fn push(&mut self, outcome: TaskScore) {
        let lost = 1.0 - outcome.score;
        self.odds += lost * self.lost + (1.0 - lost) * self.kept;
        self.n_left = self.n_left.saturating_sub(1);
    }

    /// What it has come to.
    pub fn verdict(&self) -> SequentialDecision {
        match () {
            () if self.n_certain() > 0 => SequentialDecision::Open,
            () if self.odds <= self.clean + SLACK => SequentialDecision::Passed,
            () => SequentialDecision::Failed,
        }
    }
}
