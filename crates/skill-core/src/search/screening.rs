//! Whether a proposal solves the tasks that it was made from.

use super::{Estimates, SequentialDecision, TaskScore};

/// How often a right edit solves a task that it was proposed from.
const FIX: f64 = 0.5;
/// The odds at which a proposal passes, and at which it is dropped.
const PASS: f64 = 1.5;
const DROP: f64 = -1.4;
/// Solved tasks that are played once more where the first plays do not decide.
const CONFIRMED: usize = 2;
/// A gain below this is none.
const LEAST_GAIN: f64 = 0.01;
/// The part of a win's weight that any gain has.
const ANY_GAIN: f64 = 0.4;

/// A task that a proposal is tried on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScreenTask {
    /// Its score with the working skill.
    pub before: f64,
    /// How often in a row it has failed.
    pub fails: u32,
}

/// The odds that a proposal does what it was made for, play by play.
#[derive(Debug, Clone, PartialEq)]
pub struct Screening {
    /// Of each task: its score before, and how much a win and a loss count.
    tasks: Vec<(f64, [f64; 2])>,
    /// Places of tasks in the order of their plays.
    queue: Vec<usize>,
    /// Tasks that have improved, in order.
    won: Vec<usize>,
    n_played: usize,
    odds: f64,
    gain: f64,
}

impl Screening {
    /// The odds before the first play.
    pub fn new(tasks: &[ScreenTask], estimates: Estimates) -> Self {
        let weights = |task: &ScreenTask| {
            let noise = estimates.noise(task.fails);
            let kept = 1.0 - estimates.eps;
            let q = (noise * kept + (1.0 - noise) * estimates.luck).clamp(0.01, 0.95);
            let p = q + (1.0 - q) * FIX * kept;
            (task.before, [(p / q).ln(), ((1.0 - p) / (1.0 - q)).ln()])
        };
        Self {
            tasks: tasks.iter().map(weights).collect(),
            queue: (0..tasks.len()).collect(),
            won: Vec::new(),
            n_played: 0,
            odds: 0.0,
            gain: 0.0,
        }
    }

    /// The odds.
    pub fn odds(&self) -> f64 {
        self.odds
    }

    /// The places of tasks whose plays are certain to be needed, in order; empty if it is decided.
    pub fn certain(&self) -> &[usize] {
        if self.verdict() != SequentialDecision::Open {
            return &[];
        }
        let left = self.queue.get(self.n_played..).expect("no more are played than are queued");
        let (mut highest, mut lowest, mut n) = (self.odds, self.odds, 0);
        for task in left {
            n += 1;
            let [win, loss] = self.tasks.get(*task).map_or([0.0; 2], |(_, weights)| *weights);
            highest += win;
            lowest += loss;
            if highest >= PASS || lowest <= DROP {
                break;
            }
        }
        left.get(..n).expect("they were counted in what is left")
    }

    /// Takes the outcome of the next play.
    pub fn push(&mut self, outcome: TaskScore) {
        let Some(&place) = self.queue.get(self.n_played) else { return };
        let Some(&(before, [win, loss])) = self.tasks.get(place) else { return };
        self.n_played += 1;
        let gain = (outcome.score - before).clamp(-1.0, 1.0);
        self.gain += gain;
        if gain > LEAST_GAIN {
            // A part of a win counts as a part of its weight.
            let part = if outcome.is_solved() { 1.0 } else { ANY_GAIN + (1.0 - ANY_GAIN) * gain };
            self.odds += win * part;
            self.won.push(place);
        } else {
            self.odds += loss;
        }
        if self.n_played == self.tasks.len() && self.is_between() {
            // Undecided: what was solved once has to be solved again.
            self.queue.extend(self.won.iter().take(CONFIRMED));
        }
    }

    fn is_between(&self) -> bool {
        self.odds < PASS && self.odds > DROP
    }

    /// What it has come to.
    pub fn verdict(&self) -> SequentialDecision {
        match () {
            () if self.odds >= PASS && self.gain >= 0.0 => SequentialDecision::Passed,
            () if self.is_between() && self.n_played < self.queue.len() => SequentialDecision::Open,
            () => SequentialDecision::Failed,
        }
    }
}
