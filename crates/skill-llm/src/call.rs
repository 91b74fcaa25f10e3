//! Per-call context: place, scope, deadline, cancellation.

use crate::attempt::AttemptLog;
use crate::scope::CallScope;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The place of a call in a run, such as `step 3 / reflect / failure 2`.
///
/// The place is part of what identifies a call: the same request at two places is two calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
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
    /// How long one attempt may take from when it is sent; `None` leaves it to the model's configuration.
    pub timeout: Option<Duration>,
    /// When the call has to be over, waits and repeated attempts included; `None` sets no limit.
    pub deadline: Option<Instant>,
    /// Ends the call early with [`crate::LlmError::Cancelled`].
    pub cancel: CancellationToken,
    /// Drain: wait for the request in flight, then return [`crate::LlmError::Cancelled`] instead of retrying or
    /// queueing.
    pub halt: CancellationToken,
    /// The unit of work that the call belongs to.
    pub scope: Arc<CallScope>,
    /// Where layers report what they tried.
    pub attempts: Arc<AttemptLog>,
    /// Values that callers pass to the models and layers that read their types.
    pub extensions: Extensions,
}

/// Values that go with a call, at most one of each type.
///
/// They are not part of the request, are recorded nowhere and reach no provider.
#[derive(Clone, Default)]
pub struct Extensions(Vec<Arc<dyn Any + Send + Sync>>);

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.0.len())
    }
}

impl CallCtx {
    /// A context for this place, without a deadline, that nobody cancels, in a unit of work of its own.
    pub fn new(place: CallPlace) -> Self {
        Self { place, ..Self::default() }
    }

    /// The same context for a place inside this one, in the same unit of work.
    #[must_use]
    pub fn child(&self, part: impl fmt::Display) -> Self {
        Self { place: self.place.child(part), ..self.clone() }
    }

    /// The same context with a log of its own for the attempts of one call.
    #[must_use]
    pub fn with_own_attempts(&self) -> Self {
        Self { attempts: Arc::default(), ..self.clone() }
    }

    /// The same context with this value, which replaces one of its type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(self, value: T) -> Self {
        let mut call = self.without::<T>();
        call.extensions.0.push(Arc::new(value));
        call
    }

    /// The same context without a value of this type.
    #[must_use]
    pub fn without<T: Any>(mut self) -> Self {
        self.extensions.0.retain(|value| !value.is::<T>());
        self
    }

    /// The value of this type, if the call has one.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.extensions.0.iter().find_map(|value| value.downcast_ref())
    }

    /// The time that is left until the deadline; `None` if there is none.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_one_value_of_each_type_and_passes_it_on() {
        let call = CallCtx::default().with("first").with(7_u32).with("second");
        let inner = call.child("inner");
        assert_eq!((inner.get(), inner.get::<u32>()), (Some(&"second"), Some(&7)));
        let without = inner.without::<u32>();
        assert_eq!((without.get(), without.get::<u32>()), (Some(&"second"), None));
        assert_eq!(call.get::<u32>(), Some(&7));
    }
}
