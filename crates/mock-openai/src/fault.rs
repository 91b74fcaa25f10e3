//! What can go wrong, and which request it happens to.

use crate::dice::{throw, unit};
use crate::error::ConfigError;
use serde::Serialize;
use std::str::FromStr;
use std::time::Duration;
use strum::{Display, EnumString, IntoStaticStr, VariantArray, VariantNames};

/// Rates may miss 1 by what decimal fractions lose as doubles.
const RATE_SUM_SLACK: f64 = 1e-9;

/// Something else than a complete reply.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
    VariantNames,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// 429 that does not say when to come back.
    RateLimit,
    /// 429 with `Retry-After` in seconds.
    RateLimitRetryAfter,
    /// 429 with `retry-after-ms`.
    RateLimitRetryAfterMs,
    /// 429 with `x-ratelimit-reset-requests`, such as `20ms`.
    RateLimitReset,
    /// 500.
    InternalError,
    /// 502 with a page of HTML, as gateways write it.
    BadGateway,
    /// 503.
    Unavailable,
    /// No answer until the client gives up.
    Hang,
    /// The connection is reset before the answer.
    Reset,
    /// The connection is closed in the middle of the body.
    Truncated,
    /// 200 without a choice, or without a vector.
    EmptyChoices,
    /// 200 with a message whose content is null, or null for each vector.
    NullContent,
    /// 200 with a body that is not UTF-8.
    InvalidUtf8,
    /// 200 with a reply of 10 MB.
    Oversized,
    /// 200 with a page of HTML.
    Html,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = <Self as VariantArray>::VARIANTS;

    /// The name on the command line and in the statistics.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A kind of fault and how many of all requests it happens to, as the command line has it: `KIND=RATE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRate {
    /// The kind.
    pub fault: Fault,
    /// The share of requests, from 0 to 1.
    pub rate: f64,
}

impl FromStr for FaultRate {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let kinds = || <Fault as VariantNames>::VARIANTS.join(", ");
        let wrong = || ConfigError::Fault { given: text.to_owned(), kinds: kinds() };
        let (name, rate) = text.split_once('=').ok_or_else(wrong)?;
        let fault = name.parse().map_err(|_| wrong())?;
        let rate = Self { fault, rate: rate.parse().map_err(|_| wrong())? };
        rate.check()?;
        Ok(rate)
    }
}

impl FaultRate {
    fn check(self) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&self.rate) {
            return Ok(());
        }
        Err(ConfigError::Rate { kind: self.fault.as_str(), rate: self.rate.to_string() })
    }
}

/// Which requests get a fault, and what the faults say.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultPlan {
    /// How often each kind happens; together at most 1.
    pub rates: Vec<FaultRate>,
    /// From this occurrence of a request on it is answered, so that a client with so many retries always gets through.
    pub max_per_request: Option<u64>,
    /// What `Retry-After` says, in seconds.
    pub retry_after_s: u32,
    /// What `retry-after-ms` and `x-ratelimit-reset-requests` say.
    pub retry_after: Duration,
}

impl Default for FaultPlan {
    /// No faults.
    fn default() -> Self {
        Self {
            rates: Vec::new(),
            max_per_request: None,
            retry_after_s: 1,
            retry_after: Duration::from_millis(20),
        }
    }
}

impl FaultPlan {
    /// Only this fault, for this share of requests.
    pub fn only(fault: Fault, rate: f64) -> Self {
        Self { rates: vec![FaultRate { fault, rate }], ..Self::default() }
    }

    /// The fault of a request, from its key and how often it came before.
    pub(crate) fn fault(&self, seed: u64, key: u64, occurrence: u64) -> Option<Fault> {
        if self.rates.is_empty() || self.max_per_request.is_some_and(|limit| occurrence >= limit) {
            return None;
        }
        let mut left = unit(throw(seed, key, occurrence, "fault"));
        for FaultRate { fault, rate } in &self.rates {
            if left < *rate {
                return Some(*fault);
            }
            left -= rate;
        }
        None
    }

    /// Refuses rates that are no probabilities.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.rates.iter().try_for_each(|rate| rate.check())?;
        let sum: f64 = self.rates.iter().map(|rate| rate.rate).sum();
        if sum > 1.0 + RATE_SUM_SLACK {
            return Err(ConfigError::RateSum { sum: sum.to_string() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_are_those_of_the_statistics() {
        for &fault in Fault::ALL {
            let read: FaultRate = format!("{fault}=0.25").parse().unwrap();
            assert_eq!(read, FaultRate { fault, rate: 0.25 });
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.as_str());
        }
    }

    #[track_caller]
    fn check_refused(text: &str, expect: &str) {
        let error = text.parse::<FaultRate>().unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn other_texts_are_refused() {
        check_refused(
            "reset",
            "no fault is `reset`; expected KIND=RATE with one of these kinds: rate-limit, ",
        );
        check_refused("resets=0.1", "no fault is `resets=0.1`");
        check_refused("reset=often", "no fault is `reset=often`");
        check_refused("reset=1.5", "the rate of `reset` is 1.5; expected a number from 0 to 1");
        check_refused("reset=-0.1", "the rate of `reset` is -0.1");
        check_refused("reset=NaN", "the rate of `reset` is NaN");
    }

    #[test]
    fn rates_that_make_more_than_one_are_refused() {
        let plan = |rates: &[f64]| FaultPlan {
            rates: rates.iter().map(|&rate| FaultRate { fault: Fault::Reset, rate }).collect(),
            ..FaultPlan::default()
        };
        assert_eq!(plan(&[0.1; 10]).check(), Ok(()));
        assert_eq!(
            plan(&[0.6, 0.5]).check().unwrap_err().to_string(),
            "the rates of all faults make 1.1; expected at most 1"
        );
    }

    fn shares(plan: &FaultPlan, seed: u64) -> Vec<usize> {
        let faults: Vec<Option<Fault>> = (0..10_000).map(|key| plan.fault(seed, key, 0)).collect();
        let count = |fault| faults.iter().filter(|found| **found == Some(fault)).count();
        plan.rates.iter().map(|rate| count(rate.fault)).collect()
    }

    #[test]
    fn each_kind_has_its_rate() {
        let rates = [(Fault::Reset, 0.1), (Fault::Html, 0.3), (Fault::Hang, 0.0)];
        let rates = rates.into_iter().map(|(fault, rate)| FaultRate { fault, rate }).collect();
        let found = shares(&FaultPlan { rates, ..FaultPlan::default() }, 1);
        assert!((900..1_100).contains(&found[0]) && (2_850..3_150).contains(&found[1]), "{found:?}");
        assert_eq!(found[2], 0);
    }

    #[test]
    fn a_repeated_request_gets_through() {
        let plan = FaultPlan::only(Fault::Reset, 0.5);
        for key in 0..1_000 {
            assert!((0..64).any(|occurrence| plan.fault(1, key, occurrence).is_none()));
        }
        let plan = FaultPlan { max_per_request: Some(2), ..FaultPlan::only(Fault::Reset, 1.0) };
        let found: Vec<bool> = (0..4).map(|occurrence| plan.fault(1, 7, occurrence).is_some()).collect();
        assert_eq!(found, [true, true, false, false]);
    }
}
