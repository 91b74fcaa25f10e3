//! Faults of rollouts that are made elsewhere.

use super::EnvError;
use serde::{Deserialize, Serialize};
use skill_llm::error::CAPS;
use skill_llm::{ErrorClass, LlmError};
use std::error::Error as _;

/// Why a rollout could not be made, as data: what policies and exit codes go by, and a text for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RolloutFault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// What happened, with its causes; never a secret of the run.
    pub message: String,
    /// Whether the same job may succeed later.
    pub is_retryable: bool,
}

/// What kind of failure a [`RolloutFault`] is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// A model could not be asked.
    Model(ErrorClass),
    /// A cap of the run is reached.
    Budget {
        /// What is capped: `calls`, `tokens`, `money` or `time`.
        what: String,
        /// What the run has used.
        spent: String,
        /// The cap.
        cap: String,
    },
    /// A data file cannot be read or is not what it should be.
    Data,
    /// The environment or its prompt cannot be used as configured.
    Configuration,
    /// The program that is the environment does not do what it promised.
    Program,
    /// The world broke, or the judge came to no number of points.
    Broken,
    /// The workers cannot be reached.
    Unreachable,
}

impl RolloutFault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl Into<String>, is_retryable: bool) -> Self {
        Self { kind, message: message.into(), is_retryable }
    }
}

impl From<&EnvError> for RolloutFault {
    fn from(error: &EnvError) -> Self {
        let kind = match error {
            EnvError::Remote(fault) => return fault.as_ref().clone(),
            EnvError::Model(LlmError::BudgetExhausted { what, spent, cap, .. }) => {
                FaultKind::Budget { what: (*what).to_owned(), spent: spent.to_string(), cap: cap.to_string() }
            }
            EnvError::Model(error) => FaultKind::Model(error.class()),
            EnvError::ReadData { .. }
            | EnvError::BadLine { .. }
            | EnvError::BadElement { .. }
            | EnvError::BadData { .. }
            | EnvError::BadCase { .. } => FaultKind::Data,
            EnvError::Configuration { .. } | EnvError::Prompt(_) => FaultKind::Configuration,
            EnvError::Program { .. } => FaultKind::Program,
            EnvError::Broken { .. } | EnvError::NoPoints { .. } => FaultKind::Broken,
        };
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self { kind, message, is_retryable: error.is_retryable() }
    }
}

impl From<RolloutFault> for EnvError {
    /// A cap and a cancellation are those of this run, wherever they were met; all else happened elsewhere.
    fn from(fault: RolloutFault) -> Self {
        match &fault.kind {
            FaultKind::Model(ErrorClass::Cancelled) => Self::Model(LlmError::Cancelled),
            FaultKind::Budget { what, spent, cap } => match CAPS.into_iter().find(|cap| cap == what) {
                Some(what) => Self::Model(LlmError::BudgetExhausted {
                    what,
                    spent: spent.as_str().into(),
                    cap: cap.as_str().into(),
                    next: None,
                    failed: None,
                }),
                None => Self::Remote(Box::new(fault)),
            },
            FaultKind::Model(_)
            | FaultKind::Data
            | FaultKind::Configuration
            | FaultKind::Program
            | FaultKind::Broken
            | FaultKind::Unreachable => Self::Remote(Box::new(fault)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::ItemId;

    #[test]
    fn faults_survive_the_way_to_another_process() {
        let of_model = |error: LlmError| EnvError::Model(error);
        let errors = [
            of_model(LlmError::Cancelled),
            of_model(LlmError::BudgetExhausted {
                what: "tokens",
                spent: "9".into(),
                cap: "10".into(),
                next: None,
                failed: None,
            }),
            of_model(LlmError::Configuration { message: "no model".to_owned() }),
            EnvError::Broken { item: ItemId::new("a"), message: "the door fell off".to_owned() },
            EnvError::Program { message: "printed a poem".to_owned() },
        ];
        for error in errors {
            let fault = RolloutFault::from(&error);
            let text = serde_json::to_string(&fault).unwrap();
            let arrived: RolloutFault = serde_json::from_str(&text).unwrap();
            assert_eq!(arrived, fault);
            let again = EnvError::from(arrived);
            assert_eq!(again.is_retryable(), error.is_retryable(), "{text}");
            assert_eq!(RolloutFault::from(&again), fault, "{text}");
        }
    }
}
