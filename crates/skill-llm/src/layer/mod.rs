//! Layers: models around a model, which make its calls survive providers, keep its pace, hold its budget and show
//! what it does.
//!
//! The order matters; outermost first:
//!
//! | layer | what it adds | shared by |
//! |---|---|---|
//! | [`Retried`] | further attempts, and the record of each | a [`RetryBudget`] by all models of a provider |
//!
//! All of them measure time by tokio's clock, so that tests run in virtual time.

mod retry;

pub use retry::{Retried, RetryBudget, RetryBudgetConfig, RetryPolicy};

#[cfg(feature = "journal")]
mod journaled;
#[cfg(feature = "journal")]
pub use journaled::{Journaled, NotInRecording, Recording};
