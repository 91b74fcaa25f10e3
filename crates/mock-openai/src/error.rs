//! A configuration that cannot work.

/// A configuration that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No thread to serve.
    #[error("0 threads cannot serve; expected at least 1")]
    Threads,
    /// A latency of another form, or out of range.
    #[error("no latency is `{given}`; expected fixed:MS or lognormal:MEDIAN_MS:SIGMA, at most 600000 ms")]
    Latency {
        /// What was given.
        given: String,
    },
    /// A fault of another form.
    #[error("no fault is `{given}`; expected KIND=RATE with one of these kinds: {kinds}")]
    Fault {
        /// What was given.
        given: String,
        /// All kinds.
        kinds: String,
    },
    /// A rate that is not a probability.
    #[error("the rate of `{kind}` is {rate}; expected a number from 0 to 1")]
    Rate {
        /// What it is the rate of.
        kind: &'static str,
        /// What was given.
        rate: String,
    },
    /// Rates that leave no room for all.
    #[error("the rates of all faults make {sum}; expected at most 1")]
    RateSum {
        /// Their sum.
        sum: String,
    },
}
