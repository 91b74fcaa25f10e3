//! Programs in the sandbox from asynchronous code.

use skill_llm::error::with_causes;
use skill_sandbox::{Cancel, Choice, ExecutionResult, Program, RunError, Sandbox};
use tokio_util::sync::CancellationToken;

/// Opens a sandbox, or says why there is none and what to do.
pub(crate) fn open(choice: &Choice) -> Result<Sandbox, String> {
    Sandbox::open(choice).map_err(|error| format!("{}; {}", with_causes(&error), error.hint()))
}

/// Ends the program where nobody waits for it any more.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs a program on a thread of its own; `permit` is held until it has ended.
pub(crate) async fn start<P: Send + 'static>(
    sandbox: &Sandbox,
    program: Program,
    permit: P,
    cancel: &CancellationToken,
) -> Result<ExecutionResult, RunError> {
    let stop = CancelOnDrop(Cancel::default());
    let (own, inner) = (stop.0.clone(), sandbox.clone());
    let mut running = tokio::task::spawn_blocking(move || {
        let outcome = inner.run(&program, &own);
        drop(permit);
        outcome
    });
    let joined = tokio::select! {
        biased;
        () = cancel.cancelled() => {
            stop.0.cancel();
            drop(running.await);
            return Err(RunError::Cancelled);
        }
        joined = &mut running => joined,
    };
    joined.unwrap_or_else(|error| Err(RunError::Program(format!("the sandbox broke: {error}"))))
}
