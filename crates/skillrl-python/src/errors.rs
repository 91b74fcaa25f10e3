//! Errors of the engine as exceptions of the package.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use skillrl::llm::LlmError;
use skillrl::llm::error::with_causes;
use skillrl::{Error, Failure};

/// The exception for an error of a run, with what caused it in Python code, if anything did.
pub(crate) fn run_error(py: Python<'_>, error: &Error, cause: Option<PyErr>) -> PyErr {
    let failure = error.failure();
    // At a cap, or when the run is stopped, functions fail because their calls are refused.
    let cause = cause.filter(|_| !matches!(failure, Failure::Budget | Failure::Stopped));
    let kind = match failure {
        Failure::Usage => "usage",
        Failure::Data => "data",
        Failure::ProviderRefused => "provider_refused",
        Failure::Outage => "outage",
        Failure::RunDir => "run_dir",
        Failure::OtherRun => "other_run",
        Failure::Budget => "budget",
        Failure::Diverged => "diverged",
        Failure::Stopped => "stopped",
        Failure::Other => "other",
    };
    let (kind, hint) = match (&cause, error) {
        // A function of the caller's is fixed by the caller, whatever the engine would say of a model.
        (Some(_), _) => ("callback", "fix the function; the same call then resumes the run".to_owned()),
        // Hints of the libraries name neither commands nor files of configurations.
        (None, Error::Pipeline(error)) => (kind, error.hint().to_owned()),
        (None, error) => (kind, error.hint()),
    };
    let class = if matches!(error, Error::Config(_)) { "ConfigError" } else { "RunError" };
    let made = exception(py, class, (with_causes(error), kind, hint));
    if cause.is_some() {
        made.set_cause(py, cause);
    }
    made
}

/// The exception for settings that are wrong before the engine has read them.
pub(crate) fn config_error(py: Python<'_>, text: String) -> PyErr {
    exception(py, "ConfigError", (text, "usage", String::new()))
}

/// The exception for a call that has no reply.
pub(crate) fn model_error(py: Python<'_>, error: &LlmError) -> PyErr {
    let text = match error {
        LlmError::Cancelled => "the call was cancelled: the rollout or the run is over".to_owned(),
        error => with_causes(error),
    };
    exception(py, "ModelError", (text, error.class().as_str(), error.hint().to_owned()))
}

/// True for an exception that [`model_error`] made.
pub(crate) fn is_model_error(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("skillrl.errors").and_then(|module| module.getattr("ModelError"));
    class.is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

fn exception(py: Python<'_>, class: &str, arguments: (String, &str, String)) -> PyErr {
    let text = arguments.0.clone();
    let made = py.import("skillrl.errors").and_then(|module| module.getattr(class)?.call1(arguments));
    made.map_or_else(|_| PyRuntimeError::new_err(text), PyErr::from_value)
}
