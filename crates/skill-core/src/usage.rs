//! Token counts.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Tokens of one or more model calls, as the provider counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Tokens of the prompt that the provider took from its cache.
    #[serde(default)]
    pub cached: u64,
    /// Tokens of the prompt that the provider wrote to its cache; no part of `cached`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_written: u64,
    /// Tokens of the reply, reasoning included.
    pub output: u64,
    /// Tokens of the reply that were spent on reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

impl Usage {
    /// Tokens of prompt and reply.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Most providers do not report tokens that are written to a cache.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.cached = self.cached.saturating_add(other.cached);
        self.cache_written = self.cache_written.saturating_add(other.cache_written);
        self.output = self.output.saturating_add(other.output);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}

/// An amount of US dollars: to the cent from one dollar on, to a hundredth of a cent below.
///
/// ```
/// use skill_core::usage::dollars;
///
/// assert_eq!([dollars(0.02341), dollars(12.5), dollars(0.0)], ["$0.0234", "$12.50", "$0.00"]);
/// ```
pub fn dollars(amount: f64) -> String {
    if amount == 0.0 || amount.abs() >= 1.0 { format!("${amount:.2}") } else { format!("${amount:.4}") }
}

/// A number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (digit_idx, digit) in digits.chars().enumerate() {
        if digit_idx > 0 && (digits.len() - digit_idx).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
