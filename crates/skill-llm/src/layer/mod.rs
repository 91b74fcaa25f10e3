//! Layers: models around a model, which make its calls survive providers, keep its pace, hold its budget and show
//! what it does.
//!
//! The order matters; outermost first:
//!
//! | layer | what it adds | shared by |
//! |---|---|---|
//! | [`Traced`] | a span for each call | nobody |
//! | [`Retried`] | further attempts, and the record of each | a [`RetryBudget`] by all models of a provider |
//! | [`Budgeted`] | caps of the run, reserved before each attempt | a [`Budget`] by all models of a run |
//! | [`Paced`] | requests and tokens per minute, how many are in flight | a [`Pacer`] by all models of a provider |
//!
//! All of them measure time by tokio's clock, so that tests run in virtual time.

mod budget;
mod estimate;
mod pace;
mod retry;
mod trace;

pub use budget::{Budget, BudgetCaps, Budgeted, DEFAULT_OUTPUT_TOKENS, Prices, Spent};
pub use pace::{
    DEFAULT_BURST, DEFAULT_MAX_HOLD, DEFAULT_MAX_IN_FLIGHT, DEFAULT_MIN_IN_FLIGHT, DEFAULT_START_IN_FLIGHT,
    PaceConfig, PaceSnapshot, Paced, Pacer,
};
pub use retry::{Retried, RetryBudget, RetryBudgetConfig, RetryPolicy};
pub use trace::Traced;

use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::error::LlmError;
use tokio::time::Instant;

/// Waits for something that has to be there before a request is sent, until the call's deadline or its end.
///
/// # Errors
///
/// [`LlmError::Cancelled`] and [`LlmError::Timeout`]; the call's log says that nothing was sent.
async fn before_sending<T>(
    model: &ModelId,
    call: &CallCtx,
    ready: impl Future<Output = T>,
) -> Result<T, LlmError> {
    let begun = Instant::now();
    let deadline = async {
        match call.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    let error = tokio::select! {
        biased;
        () = call.cancel.cancelled() => LlmError::Cancelled,
        value = ready => return Ok(value),
        () = deadline => LlmError::Timeout { provider: model.provider.clone(), after: begun.elapsed() },
    };
    call.attempts.note_unsent();
    call.attempts.add_wait(begun.elapsed());
    Err(error)
}

#[cfg(feature = "journal")]
mod journaled;
#[cfg(feature = "journal")]
pub use journaled::{Journaled, NotInRecording, Recording};
