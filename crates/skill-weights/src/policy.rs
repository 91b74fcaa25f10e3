//! What runs share that train weights: caps, passes, faults of the model, episodes that are sampled together, and the
//! folder of the trained policy.

mod episode;
mod games;
mod run;
mod side_by_side;
mod text;
mod wave;

pub(crate) use episode::{Episode, EpisodeRow};
pub use games::{EnvGames, PolicyGames};
pub use run::{PolicyFile, PolicyWriter};
pub(crate) use run::{micro_batches, weights_error, write_policy};
pub(crate) use side_by_side::side_by_side;
pub use text::PolicyText;
pub(crate) use wave::{Wave, WaveCalls};

/// What was spent before a run, by other parts of the same work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct WeightsSpent {
    /// Tokens that were trained on.
    pub tokens: u64,
    /// Seconds of work.
    pub seconds: f64,
}

/// Caps of a run over all its processes; `None` sets none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct WeightsCaps {
    /// Tokens that are trained on, each as often as it is.
    pub tokens: Option<u64>,
    /// Seconds of work.
    pub seconds: Option<f64>,
    /// What counts for the caps already.
    pub before: WeightsSpent,
}

impl WeightsCaps {
    /// These caps.
    pub fn new(tokens: Option<u64>, seconds: Option<f64>) -> Self {
        Self { tokens, seconds, before: WeightsSpent::default() }
    }

    /// The same caps, where so much was spent already.
    #[must_use]
    pub fn after(self, before: WeightsSpent) -> Self {
        Self { before, ..self }
    }

    /// The cap that a run has reached with so many tokens and seconds: its name, what is spent, and the cap itself.
    pub(crate) fn reached(self, tokens: u64, seconds: f64) -> Option<(&'static str, String, String)> {
        let (tokens, seconds) = (tokens + self.before.tokens, seconds + self.before.seconds);
        match (self.tokens, self.seconds) {
            (Some(cap), _) if tokens >= cap => Some(("tokens", tokens.to_string(), cap.to_string())),
            (_, Some(cap)) if seconds >= cap => Some(("time", format!("{seconds:.0} s"), format!("{cap} s"))),
            _ => None,
        }
    }
}
