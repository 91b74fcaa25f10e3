//! Where a call stands: its place in the run, its deadline and its cancellation.

use std::fmt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The place of a call in a run, such as `step 3 / reflect / failure 2`.
///
/// The place is part of what identifies a call: the same request at two places is two calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CallPlace(String);

impl CallPlace {
    /// A place from its outermost part.
    pub fn new(part: impl fmt::Display) -> Self {
        Self(part.to_string())
    }

    /// A place inside this one.
    #[must_use]
    pub fn child(&self, part: impl fmt::Display) -> Self {
        if self.0.is_empty() { Self::new(part) } else { Self(format!("{} / {part}", self.0)) }
    }

    /// The whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What surrounds one call.
#[derive(Debug, Clone, Default)]
pub struct CallCtx {
    /// Where in the run the call stands.
    pub place: CallPlace,
    /// How long the call may take, waiting included; `None` leaves it to the model's configuration.
    pub timeout: Option<Duration>,
    /// Ends the call early with [`crate::LlmError::Cancelled`].
    pub cancel: CancellationToken,
}

impl CallCtx {
    /// A context for this place, without a deadline, that nobody cancels.
    pub fn new(place: CallPlace) -> Self {
        Self { place, ..Self::default() }
    }

    /// The same context for a place inside this one.
    #[must_use]
    pub fn child(&self, part: impl fmt::Display) -> Self {
        Self { place: self.place.child(part), ..self.clone() }
    }
}
