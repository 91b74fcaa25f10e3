//! Errors of models as data, so that they decide on the other side what they decide here.

use serde::{Deserialize, Serialize};
use skill_llm::error::{Shortfall, with_causes};
use skill_llm::{ErrorClass, GiveUpReason, LlmError};
use std::time::Duration;

/// An [`LlmError`] on its way to another process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WireError {
    RateLimited {
        provider: String,
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    QuotaExhausted {
        provider: String,
        status: u16,
        message: String,
    },
    Authentication {
        provider: String,
        status: u16,
        message: String,
    },
    StaleToken {
        provider: String,
        status: u16,
        message: String,
    },
    NoToken {
        provider: String,
        message: String,
    },
    Program {
        program: String,
        class: ErrorClass,
        message: String,
    },
    BadRequest {
        provider: String,
        status: u16,
        message: String,
    },
    ContextTooLong {
        provider: String,
        status: u16,
        message: String,
    },
    Refused {
        provider: String,
        status: u16,
        message: String,
    },
    ServerError {
        provider: String,
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    Timeout {
        provider: String,
        after: Duration,
    },
    Unreachable {
        provider: String,
        message: String,
    },
    Connection {
        provider: String,
        message: String,
    },
    Truncated {
        provider: String,
        message: String,
    },
    GaveUp {
        attempts: u32,
        elapsed: Duration,
        why: WireReason,
        last: Box<WireError>,
    },
    BudgetExhausted {
        what: String,
        spent: String,
        cap: String,
        #[serde(default)]
        next: Option<String>,
    },
    Journal {
        message: String,
    },
    NotRecorded {
        place: String,
    },
    NoContent {
        provider: String,
        message: String,
    },
    InvalidReply {
        provider: String,
        message: String,
    },
    Cancelled,
    MissingKey {
        provider: String,
        variable: String,
    },
    NoRule {
        message: String,
    },
    Configuration {
        message: String,
    },
}

/// A [`GiveUpReason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum WireReason {
    Attempts,
    Deadline,
    RetryBudget,
    NeverReached,
    ServerWait { asked_s: u64, allowed_s: u64 },
}

impl From<GiveUpReason> for WireReason {
    fn from(why: GiveUpReason) -> Self {
        match why {
            GiveUpReason::Deadline => Self::Deadline,
            GiveUpReason::RetryBudget => Self::RetryBudget,
            GiveUpReason::NeverReached => Self::NeverReached,
            GiveUpReason::ServerWait { asked_s, allowed_s } => Self::ServerWait { asked_s, allowed_s },
            // The enum may grow.
            _ => Self::Attempts,
        }
    }
}

impl From<WireReason> for GiveUpReason {
    fn from(why: WireReason) -> Self {
        match why {
            WireReason::Attempts => Self::Attempts,
            WireReason::Deadline => Self::Deadline,
            WireReason::RetryBudget => Self::RetryBudget,
            WireReason::NeverReached => Self::NeverReached,
            WireReason::ServerWait { asked_s, allowed_s } => Self::ServerWait { asked_s, allowed_s },
        }
    }
}

impl From<&LlmError> for WireError {
    fn from(error: &LlmError) -> Self {
        match error.clone() {
            LlmError::RateLimited { provider, status, message, retry_after } => {
                Self::RateLimited { provider, status, message, retry_after }
            }
            LlmError::QuotaExhausted { provider, status, message } => {
                Self::QuotaExhausted { provider, status, message }
            }
            LlmError::Authentication { provider, status, message } => {
                Self::Authentication { provider, status, message }
            }
            LlmError::StaleToken { provider, status, message } => {
                Self::StaleToken { provider, status, message }
            }
            LlmError::NoToken { provider, message } => Self::NoToken { provider, message },
            LlmError::Program { program, class, message } => Self::Program { program, class, message },
            LlmError::BadRequest { provider, status, message } => {
                Self::BadRequest { provider, status, message }
            }
            LlmError::ContextTooLong { provider, status, message } => {
                Self::ContextTooLong { provider, status, message }
            }
            LlmError::Refused { provider, status, message } => Self::Refused { provider, status, message },
            LlmError::ServerError { provider, status, message, retry_after } => {
                Self::ServerError { provider, status, message, retry_after }
            }
            LlmError::Timeout { provider, after } => Self::Timeout { provider, after },
            LlmError::Unreachable { provider, message } => Self::Unreachable { provider, message },
            LlmError::Connection { provider, message } => Self::Connection { provider, message },
            LlmError::Truncated { provider, message } => Self::Truncated { provider, message },
            LlmError::GaveUp { attempts, elapsed, why, last } => {
                let last = Box::new(Self::from(last.as_ref()));
                Self::GaveUp { attempts, elapsed, why: why.into(), last }
            }
            LlmError::BudgetExhausted { what, spent, cap, next, .. } => Self::BudgetExhausted {
                what: what.to_owned(),
                spent: spent.into(),
                cap: cap.into(),
                next: next.map(|next| next.0),
            },
            LlmError::Journal { message } => Self::Journal { message },
            LlmError::NotRecorded { place } => Self::NotRecorded { place },
            LlmError::NoContent { provider, message } => Self::NoContent { provider, message },
            LlmError::InvalidReply { provider, message } => Self::InvalidReply { provider, message },
            LlmError::Cancelled => Self::Cancelled,
            LlmError::MissingKey { provider, variable } => Self::MissingKey { provider, variable },
            LlmError::NoRule { message } => Self::NoRule { message },
            LlmError::Configuration { message } => Self::Configuration { message },
            // Those of embeddings, which no worker makes; and the enum may grow.
            error => Self::Configuration { message: with_causes(&error) },
        }
    }
}

/// The caps that an error can name.
const CAPPED: [&str; 4] = ["calls", "tokens", "money", "time"];

impl From<WireError> for LlmError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::RateLimited { provider, status, message, retry_after } => {
                Self::RateLimited { provider, status, message, retry_after }
            }
            WireError::QuotaExhausted { provider, status, message } => {
                Self::QuotaExhausted { provider, status, message }
            }
            WireError::Authentication { provider, status, message } => {
                Self::Authentication { provider, status, message }
            }
            WireError::StaleToken { provider, status, message } => {
                Self::StaleToken { provider, status, message }
            }
            WireError::NoToken { provider, message } => Self::NoToken { provider, message },
            WireError::Program { program, class, message } => Self::Program { program, class, message },
            WireError::BadRequest { provider, status, message } => {
                Self::BadRequest { provider, status, message }
            }
            WireError::ContextTooLong { provider, status, message } => {
                Self::ContextTooLong { provider, status, message }
            }
            WireError::Refused { provider, status, message } => Self::Refused { provider, status, message },
            WireError::ServerError { provider, status, message, retry_after } => {
                Self::ServerError { provider, status, message, retry_after }
            }
            WireError::Timeout { provider, after } => Self::Timeout { provider, after },
            WireError::Unreachable { provider, message } => Self::Unreachable { provider, message },
            WireError::Connection { provider, message } => Self::Connection { provider, message },
            WireError::Truncated { provider, message } => Self::Truncated { provider, message },
            WireError::GaveUp { attempts, elapsed, why, last } => {
                Self::GaveUp { attempts, elapsed, why: why.into(), last: Box::new((*last).into()) }
            }
            WireError::BudgetExhausted { what, spent, cap, next } => {
                let what = CAPPED.into_iter().find(|capped| *capped == what).unwrap_or("calls");
                let next = next.map(|next| Box::new(Shortfall(next)));
                Self::BudgetExhausted { what, spent: spent.into(), cap: cap.into(), next, failed: None }
            }
            WireError::Journal { message } => Self::Journal { message },
            WireError::NotRecorded { place } => Self::NotRecorded { place },
            WireError::NoContent { provider, message } => Self::NoContent { provider, message },
            WireError::InvalidReply { provider, message } => Self::InvalidReply { provider, message },
            WireError::Cancelled => Self::Cancelled,
            WireError::MissingKey { provider, variable } => Self::MissingKey { provider, variable },
            WireError::NoRule { message } => Self::NoRule { message },
            WireError::Configuration { message } => Self::Configuration { message },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_decide_the_same_on_the_other_side() {
        let (provider, message) = ("http://there".to_owned(), "no".to_owned());
        let limited = LlmError::RateLimited {
            provider: provider.clone(),
            status: 429,
            message: message.clone(),
            retry_after: Some(Duration::from_millis(1500)),
        };
        let errors = [
            LlmError::GaveUp {
                attempts: 3,
                elapsed: Duration::from_secs(9),
                why: GiveUpReason::ServerWait { asked_s: 900, allowed_s: 600 },
                last: Box::new(limited.clone()),
            },
            limited,
            LlmError::ContextTooLong { provider: provider.clone(), status: 400, message: message.clone() },
            LlmError::Refused { provider: provider.clone(), status: 400, message: message.clone() },
            LlmError::StaleToken { provider: provider.clone(), status: 401, message: message.clone() },
            LlmError::Unreachable { provider: provider.clone(), message: message.clone() },
            LlmError::BudgetExhausted {
                what: "money",
                spent: "1".into(),
                cap: "2".into(),
                next: Some(Box::new(Shortfall("3".to_owned()))),
                failed: None,
            },
            LlmError::Program { program: "agent".to_owned(), class: ErrorClass::Timeout, message },
            LlmError::Cancelled,
        ];
        for error in errors {
            let text = serde_json::to_string(&WireError::from(&error)).unwrap();
            let there = LlmError::from(serde_json::from_str::<WireError>(&text).unwrap());
            assert_eq!(with_causes(&there), with_causes(&error));
            assert_eq!(
                (there.class(), there.is_retryable()),
                (error.class(), error.is_retryable()),
                "{text}"
            );
        }
    }
}
