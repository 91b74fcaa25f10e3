//! Random choices in a row, for decisions that depend on those before them.

use skill_core::random::Dice;

/// A row of throws of the same dice.
pub(crate) struct Stream {
    dice: Dice,
    throws: u32,
}

impl Stream {
    pub(crate) fn new(dice: Dice) -> Self {
        Self { dice, throws: 0 }
    }

    /// From 0 up to, but not including, 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.throws += 1;
        self.dice.unit(&self.throws.to_string())
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Below `n`; 0 where there is nothing below it.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    pub(super) fn range(&mut self, [low, high]: [f64; 2]) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform on a logarithmic scale.
    pub(super) fn log_range(&mut self, [low, high]: [f64; 2]) -> f64 {
        self.range([low.ln(), high.ln()]).exp()
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        choices.get(self.below(choices.len())).copied()
    }

    /// An index in proportion to its weight.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> usize {
        let mut left = self.unit() * weights.iter().sum::<f64>();
        for (idx, weight) in weights.iter().enumerate() {
            left -= weight;
            if left < 0.0 {
                return idx;
            }
        }
        weights.len().saturating_sub(1)
    }
}
