//! What calls come to: prices, and sums of calls, tokens and money.

use serde::{Deserialize, Serialize};
use skill_core::Usage;

/// Money is kept in units of 1e-12, so that sums are exact; a price per million tokens is a million of them per token.
const UNITS_PER_ONE: f64 = 1e12;
const UNITS_PER_TOKEN: f64 = 1e6;

/// What a million tokens of one model cost; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Tokens of prompts.
    pub input: f64,
    /// Tokens of prompts that the provider took from its cache.
    pub cached: f64,
    /// Tokens of prompts that the provider wrote to its cache.
    pub cache_write: f64,
    /// Tokens of replies.
    pub output: f64,
}

impl Prices {
    /// What these tokens cost.
    pub fn cost(&self, usage: Usage) -> f64 {
        money_of(self.units(usage))
    }

    /// True if nothing is known of what a model costs, or it costs nothing.
    pub fn are_unknown(&self) -> bool {
        *self == Self::default()
    }

    /// The same tokens with all of the prompt at its highest price.
    pub(super) fn dearest(&self, usage: Usage) -> Usage {
        let plain = Usage { cached: 0, cache_written: 0, ..usage };
        let ways =
            [plain, Usage { cached: usage.input, ..plain }, Usage { cache_written: usage.input, ..plain }];
        // The first of equals, so that nothing is said of a cache that costs nothing more.
        ways.into_iter().rev().max_by_key(|usage| self.units(*usage)).unwrap_or(plain)
    }

    pub(super) fn units(&self, usage: Usage) -> u128 {
        let cached = usage.cached.min(usage.input);
        let written = usage.cache_written.min(usage.input - cached);
        u128::from(usage.input - cached - written) * per_token(self.input)
            + u128::from(cached) * per_token(self.cached)
            + u128::from(written) * per_token(self.cache_write)
            + u128::from(usage.output) * per_token(self.output)
    }

    /// How many tokens of a reply so many units buy; any number where they cost nothing.
    pub(super) fn reply_tokens(&self, units: u128) -> u64 {
        let tokens = units.checked_div(per_token(self.output));
        tokens.map_or(u64::MAX, |tokens| u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

fn per_token(price: f64) -> u128 {
    // A float becomes the nearest number that there is: less than nothing is nothing.
    u128::from((price * UNITS_PER_TOKEN).round() as u64)
}

pub(super) fn units_of(money: f64) -> u128 {
    (money * UNITS_PER_ONE).round() as u128
}

pub(super) fn money_of(units: u128) -> f64 {
    units as f64 / UNITS_PER_ONE
}

/// Calls, tokens and units of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Amount {
    pub(super) calls: u64,
    pub(super) tokens: u64,
    pub(super) units: u128,
}

impl Amount {
    /// A call with these tokens.
    pub(super) fn of(usage: Usage, prices: &Prices) -> Self {
        Self { calls: 1, tokens: usage.tokens(), units: prices.units(usage) }
    }

    /// The same for a reply whose cost the model reports: that counts where no prices are known.
    pub(super) fn of_reply(usage: Usage, prices: &Prices, reported: Option<u128>) -> Self {
        let amount = Self::of(usage, prices);
        match reported {
            Some(units) if prices.are_unknown() => Self { units, ..amount },
            Some(_) | None => amount,
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(other.calls),
            tokens: self.tokens.saturating_add(other.tokens),
            units: self.units.saturating_add(other.units),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            tokens: self.tokens.saturating_sub(other.tokens),
            units: self.units.saturating_sub(other.units),
        }
    }
}
