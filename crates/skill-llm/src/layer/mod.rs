//! Layers: models around a model, which make its calls survive providers, keep its pace, hold its budget and show
//! what it does.
//!
//! The order matters; outermost first:
//!
//! | layer | what it adds | shared by |
//! |---|---|---|
//! | [`Metered`] | sums of calls and tokens | a [`crate::Meter`], shared by models that are counted together |
//! | `crate::Journaled` | answers from the journal, and records; feature `journal` | a journal by all models of a run |
//! | [`Traced`] | a span for each call | nobody |
//! | [`Retried`] | further attempts, and the record of each | a [`RetryBudget`] by all models of a provider |
//! | [`Budgeted`] | caps of the run, reserved before each attempt | a [`Budget`] by all models of a run |
//! | [`Paced`] | requests and tokens per minute, how many are in flight | a [`Pacer`] by all models of a provider |
//!
//! Embedding models have the same layers, made by their functions `embedding`, and [`Batched`], which splits requests;
//! see [`crate::embedding`].
//!
//! All of them measure time by tokio's clock, so that tests run in virtual time.
//!
//! ```
//! use skill_llm::{
//!     Budget, BudgetCaps, Budgeted, CallCtx, ChatModel, ChatRequest, Message, PaceConfig, Paced, Pacer, Prices,
//!     Retried, RetryBudget, RetryPolicy, ScriptedModel, Traced,
//! };
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), skill_llm::LlmError> {
//! // One of these for a provider, one for the run.
//! let (pacer, retries) = (Pacer::new(PaceConfig::default()), Arc::new(RetryBudget::default()));
//! let budget = Budget::new(BudgetCaps { calls: Some(1_000), ..BudgetCaps::default() });
//!
//! let dialect = Arc::new(ScriptedModel::answering("small", |_| "Paris".to_owned()));
//! let paced = Arc::new(Paced::new(dialect, Arc::clone(&pacer)));
//! let prices = Prices { input: 0.15, cached: 0.075, cache_write: 0.15, output: 0.6 };
//! let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&budget), prices));
//! let retried = Arc::new(Retried::new(budgeted, RetryPolicy::default(), retries));
//! let model = Traced::new(retried);
//!
//! let request = ChatRequest::new(vec![Message::user("What is the capital of France?")]);
//! assert_eq!(model.chat(&request, &CallCtx::default()).await?.text, "Paris");
//! assert_eq!((budget.spent().calls, pacer.snapshot().in_flight), (1, 0));
//! # Ok(())
//! # }
//! ```
//!
//! # Invariants
//!
//! - Layers read the wall clock only for the time at which an attempt began, and hold no lock while they wait. Held
//!   by the storms of `tests/provider_sim.rs` under a paused clock, and by the lint `await_holding_lock`.

mod amount;
mod batch;
mod budget;
#[cfg(test)]
mod embedding_tests;
mod estimate;
mod layered;
mod limits;
mod meter;
mod pace;
mod retry;
mod trace;

pub use amount::Prices;
pub use batch::Batched;
#[cfg(feature = "journal")]
pub(crate) use batch::all_batches;
pub use budget::{Budget, BudgetCaps, Budgeted, Spent};
pub use estimate::{AttemptsSeen, ModelSeen, SeenReply};
#[cfg(feature = "journal")]
pub(crate) use layered::{Answer, Prompt, Used};
pub use meter::Metered;
pub use pace::{DEFAULT_MAX_IN_FLIGHT, PaceConfig, PaceSnapshot, Paced, Pacer};
#[cfg(feature = "process")]
pub(crate) use retry::account_wait;
pub use retry::{Retried, RetryBudget, RetryBudgetConfig, RetryPolicy, Trouble};
pub use trace::Traced;

use crate::call::CallCtx;
use crate::chat::ModelId;
use crate::error::LlmError;
use tokio::time::Instant;

/// Waits for something that has to be there before a request is sent, until the call's deadline or its end; who is told
/// to finish what is under way does not wait.
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
        // Nothing is under way that could be finished.
        () = call.halt.cancelled() => LlmError::Cancelled,
        () = deadline => LlmError::Timeout { provider: model.provider.clone(), after: begun.elapsed() },
    };
    call.attempts.note_unsent();
    call.attempts.add_wait(begun.elapsed());
    Err(error)
}
