//! Newtypes for the identifiers that cross module boundaries, so that a step is never taken for an epoch.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of a task item: unique over all splits of a data set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ItemId(String);

impl ItemId {
    /// Wraps an identifier as it is in the data.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is wrong with an identifier that data brings, to be said after its name.
    ///
    /// Identifiers are in lists, tables and messages with others, so each is a line of text.
    pub fn fault(id: &str) -> Option<&'static str> {
        if id.trim().is_empty() {
            Some("is blank")
        } else if id.chars().any(char::is_control) {
            Some("holds a line break or another control character; an id is one line of text")
        } else {
            None
        }
    }
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ItemId {
    fn from(id: &str) -> Self {
        Self::new(id)
    }
}

impl From<String> for ItemId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

/// The identity of a part of what an agent was shown, such as a skill of a bank.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SkillPartId(String);

impl SkillPartId {
    /// Wraps an identifier.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillPartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an optimization step, counted from 1 over the whole run; 0 is the state before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepIdx(pub u32);

impl fmt::Display for StepIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an epoch, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EpochIdx(pub u32);

impl fmt::Display for EpochIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first 16 hexadecimal digits of the SHA-256 of a skill's UTF-8 text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SkillHash(String);

impl SkillHash {
    /// The hash of a skill's text.
    pub fn of(text: &str) -> Self {
        use sha2::{Digest as _, Sha256};
        let digest = Sha256::digest(text.as_bytes());
        Self(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    /// The 16 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SkillHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
