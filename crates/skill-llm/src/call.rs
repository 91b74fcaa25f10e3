//! What surrounds a call: its place in the run, its unit of work, its deadline and its cancellation.

use crate::attempt::AttemptLog;
use crate::elsewhere::CallSender;
use crate::scope::CallScope;
use serde::{Deserialize, Serialize};
use skill_core::package::AgentText;
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
    /// Whoever asked wants no more than what is under way: a reply is waited for, and nothing is sent again or waits to
    /// be sent, which ends the call with [`crate::LlmError::Cancelled`] too.
    pub halt: CancellationToken,
    /// The unit of work that the call belongs to.
    pub scope: Arc<CallScope>,
    /// Where layers report what they tried.
    pub attempts: Arc<AttemptLog>,
    /// The skill as the messages of the unit of work contain it; a program that plays a model can get it as a file
    /// instead, and rejects messages that do not contain it.
    pub document: Option<AgentText>,
    /// What the world of the unit of work shows now; see [`Sight`].
    pub sight: Option<Arc<Sight>>,
    /// Sends the requests of this call from another process, in the place of an [`crate::Elsewhere`]; `None` sends them
    /// from here.
    pub sender: Option<CallSender>,
}

/// What the world behind a call shows at this moment, whatever the prompt says of it.
///
/// It is for players of this process that take the place of a model, such as experts: it is no part of a request, is
/// recorded nowhere and reaches no provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sight {
    /// The task, where the world tells it apart from its observations.
    pub task: String,
    /// The observation, whole.
    pub observation: String,
    /// The actions that are possible now, where the world lists them.
    pub actions: Option<Vec<String>>,
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

    /// The time that is left until the deadline; `None` if there is none.
    pub fn time_left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }
}
