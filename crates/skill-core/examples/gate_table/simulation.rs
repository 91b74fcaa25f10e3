//! Simulated training against a target whose answers are sampled: how much what a gate reports flatters, and what each
//! mode accepts.
//!
//! The probability that an item is solved follows the arcsine law: most items are nearly always or nearly never solved,
//! and some are in between. Everything is a function of its seed.

use skill_core::{ExactSum, Gate, GateAction, GateMode, GateRule, ItemScore, PyRandom};
use std::f64::consts::FRAC_PI_2;

/// Items with the probability that each is solved.
struct Split {
    chances: Vec<f64>,
    random: PyRandom,
}

impl Split {
    fn new(n_items: usize, seed: u64) -> Self {
        let mut random = PyRandom::new(seed);
        let chances = (0..n_items).map(|_| (FRAC_PI_2 * random.random()).sin().powi(2)).collect();
        Self { chances, random }
    }

    /// The true score.
    fn truth(&self) -> f64 {
        mean(self.chances.iter().copied())
    }

    /// One pass with a skill that solves more, on average by `effect`, than the others.
    fn pass(&mut self, effect: f64) -> Vec<ItemScore> {
        let room = 1.0 - self.truth();
        let share = if room > 0.0 { (effect / room).clamp(0.0, 1.0) } else { 0.0 };
        let random = &mut self.random;
        let solved = |chance: &f64| random.random() < chance + (1.0 - chance) * share;
        self.chances.iter().map(solved).map(|is_solved| hard(f64::from(u8::from(is_solved)))).collect()
    }
}

fn hard(hard: f64) -> ItemScore {
    ItemScore { hard, soft: 0.0 }
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n_values = values.len() as f64;
    values.sum::<f64>() / n_values
}

fn score(scores: &[ItemScore]) -> f64 {
    mean(scores.iter().map(|score| score.hard))
}

/// A pass, summed up.
#[derive(Clone)]
struct Measured {
    total: ExactSum,
    score: f64,
}

impl Measured {
    fn of(gate: Gate, scores: Vec<ItemScore>) -> Self {
        Self { total: gate.total(&scores), score: score(&scores) }
    }
}

/// How far what is reported lies from the truth, over many runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Errors {
    n: f64,
    sum: f64,
    squares: f64,
    absolute: f64,
}

impl Errors {
    fn add(&mut self, error: f64) {
        self.n += 1.0;
        self.sum += error;
        self.squares += error * error;
        self.absolute += error.abs();
    }

    /// The mean error: what is systematic.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.n
    }

    /// The standard error of that mean.
    pub(crate) fn standard_error(&self) -> f64 {
        ((self.squares / self.n - self.mean().powi(2)) / self.n).sqrt()
    }

    /// The mean of the error's size, which is what one pass over so many items leaves open.
    pub(crate) fn absolute(&self) -> f64 {
        self.absolute / self.n
    }
}

/// What runs of steps without effect report.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Inflation {
    /// The best selection score of the strict gate.
    pub(crate) selected: Errors,
    /// A fresh pass with the best skill.
    pub(crate) fresh: Errors,
    /// The selection score of the best skill where an accepted skill is measured again before it is compared again.
    pub(crate) refreshed: Errors,
    /// A fresh pass with the best skill of such a run.
    pub(crate) refreshed_fresh: Errors,
    /// How often a candidate is accepted in the first step.
    pub(crate) first_accepts: f64,
    /// How often one is accepted in any step, without and with measuring anew.
    pub(crate) accepts: [f64; 2],
}

/// Runs of `n_steps` edits without effect, all measured on the same items.
pub(crate) fn inflation(n_items: usize, n_steps: usize, n_seeds: u64) -> Inflation {
    let mut found = Inflation::default();
    let gate = Gate::default();
    let per_run = 1.0 / n_seeds as f64;
    for seed in 0..n_seeds {
        let mut split = Split::new(n_items, seed);
        let truth = split.truth();
        let baseline = split.pass(0.0);
        // Scores are compared as the strict gate compares them: exactly, and a tie accepts nothing.
        let mut best = Measured::of(gate, baseline);
        let mut anew = best.clone();
        for step_idx in 0..n_steps {
            let candidate = Measured::of(gate, split.pass(0.0));
            let beats_anew = candidate.total > anew.total;
            if candidate.total > best.total {
                if step_idx == 0 {
                    found.first_accepts += per_run;
                }
                found.accepts[0] += per_run / n_steps as f64;
                best = candidate;
            }
            if beats_anew {
                found.accepts[1] += per_run / n_steps as f64;
                anew = Measured::of(gate, split.pass(0.0));
            }
        }
        found.selected.add(best.score - truth);
        found.fresh.add(score(&split.pass(0.0)) - truth);
        found.refreshed.add(anew.score - truth);
        found.refreshed_fresh.add(score(&split.pass(0.0)) - truth);
    }
    found
}

/// The modes that the tables show.
pub(crate) const MODES: [GateMode; 6] = [
    GateMode::Strict,
    GateMode::Paired { standard_errors: 1.0 },
    GateMode::Paired { standard_errors: 2.0 },
    GateMode::Mcnemar { alpha: 0.05 },
    GateMode::EProcess { alpha: 0.05 },
    GateMode::NoRegression { max_losses: 2 },
];

/// What a mode makes of candidates that are truly better by the same amount.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcomes {
    /// The share that is accepted.
    pub(crate) accepted: f64,
    /// The share that too few items could tell about.
    pub(crate) indecisive: f64,
}

/// The outcomes in each of [`MODES`], for candidates that solve more by `effect` on average.
pub(crate) fn outcomes(n_items: usize, effect: f64, n_seeds: u64) -> [Outcomes; MODES.len()] {
    let mut found = [Outcomes::default(); MODES.len()];
    let per_run = 1.0 / n_seeds as f64;
    for seed in 0..n_seeds {
        let mut split = Split::new(n_items, seed);
        let (current, candidate) = (split.pass(0.0), split.pass(effect));
        for (outcomes, mode) in found.iter_mut().zip(MODES) {
            let rule = GateRule { mode, ..GateRule::strict(Gate::default()) };
            match rule.decide(&candidate, &current, &current) {
                GateAction::AcceptNewBest | GateAction::Accept => outcomes.accepted += per_run,
                GateAction::Indecisive => outcomes.indecisive += per_run,
                GateAction::Reject => {}
            }
        }
    }
    found
}

/// What whole runs under a mode come to if no edit has any effect.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FalseAccepts {
    /// Candidates that are accepted in a run.
    pub(crate) n_accepts: f64,
    /// The share of runs in which any is.
    pub(crate) any: f64,
    /// The error of the best skill's selection score.
    pub(crate) selected: Errors,
    /// The error of its fresh score.
    pub(crate) fresh: Errors,
}

/// Runs of `n_steps` edits without effect in each of [`MODES`]; `spends_alpha` shares the level over the steps.
pub(crate) fn false_accepts(
    n_items: usize,
    n_steps: u32,
    spends_alpha: bool,
    n_seeds: u64,
) -> [FalseAccepts; MODES.len()] {
    let mut found = [FalseAccepts::default(); MODES.len()];
    let per_run = 1.0 / n_seeds as f64;
    for seed in 0..n_seeds {
        let mut split = Split::new(n_items, seed);
        let truth = split.truth();
        let baseline = split.pass(0.0);
        let mut current = MODES.map(|_| baseline.clone());
        let mut n_accepts = [0.0; MODES.len()];
        for test in 1..=n_steps {
            let candidate = split.pass(0.0);
            for ((mode, current), n_accepts) in MODES.into_iter().zip(&mut current).zip(&mut n_accepts) {
                let mode = if spends_alpha { mode.at_test(test) } else { mode };
                let rule = GateRule { mode, ..GateRule::strict(Gate::default()) };
                if rule.decide(&candidate, current, current).is_accepted() {
                    current.clone_from(&candidate);
                    *n_accepts += 1.0;
                }
            }
        }
        let fresh = score(&split.pass(0.0)) - truth;
        for ((found, current), n_accepts) in found.iter_mut().zip(&current).zip(n_accepts) {
            found.n_accepts += per_run * n_accepts;
            found.any += if n_accepts > 0.0 { per_run } else { 0.0 };
            found.selected.add(score(current) - truth);
            found.fresh.add(fresh);
        }
    }
    found
}
