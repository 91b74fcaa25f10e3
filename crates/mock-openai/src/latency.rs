//! How long a reply takes.

use crate::dice::{throw, unit};
use crate::error::ConfigError;
use std::str::FromStr;
use std::time::Duration;

/// No reply takes longer, however long the tail.
pub const MAX_LATENCY: Duration = Duration::from_secs(600);

/// How long a reply takes, from the last byte of the request on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// Log-normal: half of the replies are faster than the median, and some take several times as long.
    LogNormal {
        /// The median in milliseconds.
        median_ms: f64,
        /// The standard deviation of the logarithm; 0.5 puts one of a hundred above 3.2 times the median.
        sigma: f64,
    },
}

impl Default for Latency {
    /// None at all.
    fn default() -> Self {
        Self::Fixed(Duration::ZERO)
    }
}

impl Latency {
    /// The latency of a request, from its key and how often it came before.
    pub(crate) fn sample(self, seed: u64, key: u64, occurrence: u64) -> Duration {
        match self {
            Self::Fixed(latency) => latency,
            Self::LogNormal { median_ms, sigma } => {
                let first = unit(throw(seed, key, occurrence, "latency"));
                let second = unit(throw(seed, key, occurrence, "latency, second"));
                // Box and Muller, "A note on the generation of random normal deviates", 1958; 1 - u is never 0.
                let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
                let seconds = median_ms / 1e3 * (sigma * normal).exp();
                Duration::try_from_secs_f64(seconds).map_or(MAX_LATENCY, |latency| latency.min(MAX_LATENCY))
            }
        }
    }

    /// Refuses what no reply can take.
    pub(crate) fn check(self) -> Result<(), ConfigError> {
        let is_possible = match self {
            Self::Fixed(latency) => latency <= MAX_LATENCY,
            Self::LogNormal { median_ms, sigma } => {
                let limit_ms = MAX_LATENCY.as_secs_f64() * 1e3;
                (0.0..=limit_ms).contains(&median_ms) && (0.0..=10.0).contains(&sigma)
            }
        };
        if is_possible { Ok(()) } else { Err(ConfigError::Latency { given: format!("{self:?}") }) }
    }
}

impl FromStr for Latency {
    type Err = ConfigError;

    /// Reads `fixed:MS` or `lognormal:MEDIAN_MS:SIGMA`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || ConfigError::Latency { given: text.to_owned() };
        let number = |text: &str| text.parse::<f64>().map_err(|_| wrong());
        let parts: Vec<&str> = text.split(':').collect();
        let latency = match parts.as_slice() {
            ["fixed", ms] => {
                let latency = Duration::try_from_secs_f64(number(ms)? / 1e3);
                Self::Fixed(latency.map_err(|_| wrong())?)
            }
            ["lognormal", median_ms, sigma] => {
                Self::LogNormal { median_ms: number(median_ms)?, sigma: number(sigma)? }
            }
            _ => return Err(wrong()),
        };
        latency.check().map_err(|_| wrong())?;
        Ok(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(latency: Latency, seed: u64) -> Vec<f64> {
        let mut sampled: Vec<f64> =
            (0..10_000).map(|key| latency.sample(seed, key, 0).as_secs_f64() * 1e3).collect();
        sampled.sort_by(f64::total_cmp);
        sampled
    }

    #[test]
    fn the_quantiles_are_those_of_the_distribution() {
        let sampled = milliseconds(Latency::LogNormal { median_ms: 50.0, sigma: 0.5 }, 1);
        // exp(sigma * z) times the median, with z the quantile of the standard normal distribution.
        for (share, expect) in [(0.1, 26.3), (0.5, 50.0), (0.9, 94.9), (0.99, 160.0)] {
            let found = sampled[(share * 10_000.0) as usize];
            assert!((found / expect - 1.0).abs() < 0.06, "at {share}: {found}, expected {expect}");
        }
    }

    #[test]
    fn a_request_has_its_latency_and_a_repetition_another() {
        let latency = Latency::LogNormal { median_ms: 50.0, sigma: 0.5 };
        assert_eq!(latency.sample(1, 2, 3), latency.sample(1, 2, 3));
        for (seed, key, occurrence) in [(2, 2, 3), (1, 3, 3), (1, 2, 4)] {
            assert_ne!(latency.sample(1, 2, 3), latency.sample(seed, key, occurrence));
        }
        assert_eq!(Latency::Fixed(Duration::from_millis(5)).sample(1, 2, 3), Duration::from_millis(5));
    }

    #[test]
    fn no_tail_is_endless() {
        let sampled = milliseconds(Latency::LogNormal { median_ms: 600_000.0, sigma: 10.0 }, 1);
        assert_eq!(sampled.last(), Some(&600_000.0));
    }

    #[track_caller]
    fn check(text: &str, expect: Option<Latency>) {
        assert_eq!(text.parse().ok(), expect, "{text}");
    }

    #[test]
    fn latencies_are_read_from_text() {
        check("fixed:50", Some(Latency::Fixed(Duration::from_millis(50))));
        check("fixed:0.5", Some(Latency::Fixed(Duration::from_micros(500))));
        check("lognormal:50:0.5", Some(Latency::LogNormal { median_ms: 50.0, sigma: 0.5 }));
        for wrong in ["", "50", "fixed", "fixed:-1", "fixed:x", "fixed:NaN", "fixed:600001", "lognormal:50"] {
            check(wrong, None);
        }
        for wrong in ["lognormal:50:-1", "lognormal:50:11", "lognormal:-1:1", "lognormal:NaN:1", "normal:1:1"]
        {
            check(wrong, None);
        }
    }
}
