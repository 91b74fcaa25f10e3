//! What can go wrong with a process, and what it means for anyone who waits for it.

use crate::error::EnvError;
use skill_core::ItemId;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) message: String,
    /// Whether an agent that gives up looks like this: it reports an error, or ends without an answer.
    pub(super) may_be_the_agents: bool,
}

/// What a fault means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The process is lost; another one may do better.
    Broken,
    /// We ended the process ourselves, which says nothing against it.
    Ended,
    /// The program is not what it should be, and another process would do the same.
    Program,
}

impl Fault {
    pub(super) fn broken(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Broken, message)
    }

    pub(super) fn program(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Program, message)
    }

    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), may_be_the_agents: false }
    }

    /// What is said of a program that nobody starts again.
    pub(super) fn given_up(n_failures: u32, last: &str) -> Self {
        let times = if n_failures == 1 { "once".to_owned() } else { format!("{n_failures} times in a row") };
        Self::program(format!(
            "the program has died {times} without finishing anything; the last time: {last}"
        ))
    }

    /// The error of an attempt at this item.
    pub(super) fn at(self, item: &ItemId) -> EnvError {
        match self.kind {
            FaultKind::Broken | FaultKind::Ended => {
                EnvError::Broken { item: item.clone(), message: self.message }
            }
            FaultKind::Program => EnvError::Program { message: format!("item {item}: {}", self.message) },
        }
    }

    /// The error of an attempt at no item.
    pub(super) fn at_start(self) -> EnvError {
        EnvError::Program { message: self.message }
    }
}
