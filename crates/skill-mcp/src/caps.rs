//! What a run or a measurement that is started here may spend: the least of what its configuration, the caller and the
//! server allow.
//!
//! # Invariants
//!
//! - Neither a run nor a measurement is started without a cap in calls or money, and no caller raises one. Held by
//!   `a_run_is_not_started_without_a_cap_and_no_caller_raises_one`.

use crate::error::ToolError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skillrl::config::BudgetConfig;

/// Caps over all processes of a run or of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Caps {
    /// Requests that may be sent, repeated ones included.
    pub(crate) calls: Option<u64>,
    /// Tokens of prompts and replies.
    pub(crate) tokens: Option<u64>,
    /// Money by the prices of the configuration.
    pub(crate) money: Option<f64>,
    /// Seconds of work.
    pub(crate) seconds: Option<f64>,
}

impl From<BudgetConfig> for Caps {
    fn from(budget: BudgetConfig) -> Self {
        let BudgetConfig { calls, tokens, money, time_s } = budget;
        Self { calls, tokens, money, seconds: time_s }
    }
}

impl From<skill_report::watch::Caps> for Caps {
    fn from(caps: skill_report::watch::Caps) -> Self {
        let skill_report::watch::Caps { calls, tokens, money, time_s } = caps;
        Self { calls, tokens, money, seconds: time_s }
    }
}

impl Caps {
    /// Each cap as the lower one of both has it.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            calls: lower(self.calls, other.calls, u64::min),
            tokens: lower(self.tokens, other.tokens, u64::min),
            money: lower(self.money, other.money, f64::min),
            seconds: lower(self.seconds, other.seconds, f64::min),
        }
    }

    /// Refuses what is not an amount of money.
    pub(crate) fn check_money(self) -> Result<(), ToolError> {
        if self.money.is_some_and(|money| !money.is_finite() || money <= 0.0) {
            return Err(ToolError::new("max_money is not an amount of money", "pass a number above 0"));
        }
        Ok(())
    }

    /// Refuses what nobody has bounded.
    pub(crate) fn check(self) -> Result<(), ToolError> {
        if self.calls.is_some() || self.money.is_some() {
            return Ok(());
        }
        Err(ToolError::new(
            "nothing bounds what this may spend, so it is not started",
            "ask the person whom you work for how much it may spend, and pass max_calls or max_money; estimate_run says \
             what a run takes. A person can also set `calls` or `money` under [budget] in the configuration",
        ))
    }

    /// As overrides of a configuration.
    pub(crate) fn overrides(self) -> Vec<String> {
        let number = |key: &str, value: Option<String>| value.map(|value| format!("budget.{key}={value}"));
        [
            number("calls", self.calls.map(|calls| calls.to_string())),
            number("tokens", self.tokens.map(|tokens| tokens.to_string())),
            number("money", self.money.map(|money| format!("{money:?}"))),
            number("time_s", self.seconds.map(|seconds| format!("{seconds:?}"))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn lower<T>(one: Option<T>, other: Option<T>, least: fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(least(one, other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_cap_holds_and_none_is_no_cap() {
        let few = Caps { calls: Some(10), money: Some(2.0), ..Caps::default() };
        let many = Caps { calls: Some(20), tokens: Some(7), money: Some(0.5), ..Caps::default() };
        let both = Caps { calls: Some(10), tokens: Some(7), money: Some(0.5), seconds: None };
        assert_eq!((few.and(many), many.and(few)), (both, both));
        assert_eq!(both.overrides(), ["budget.calls=10", "budget.tokens=7", "budget.money=0.5"]);
        assert!(both.check().is_ok() && Caps { tokens: Some(1), ..Caps::default() }.check().is_err());
    }
}
