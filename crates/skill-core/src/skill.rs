//! The skill document: the trainable state.

use crate::ids::SkillHash;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A skill: a Markdown document that an agent works from.
///
/// The text is kept to the byte; the editor is the only thing that changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SkillDoc(String);

impl SkillDoc {
    /// A skill with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The Markdown text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The content hash that names this version of the skill in records and caches.
    pub fn hash(&self) -> SkillHash {
        SkillHash::of(&self.0)
    }

    /// Whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Display for SkillDoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for SkillDoc {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for SkillDoc {
    fn from(text: String) -> Self {
        Self(text)
    }
}
