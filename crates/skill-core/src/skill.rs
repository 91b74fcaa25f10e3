//! The skill document: the trainable state.

use crate::ids::SkillHash;
use crate::package::CarriedFiles;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A skill: a Markdown document, or a folder of files, that an agent works from.
///
/// The text is kept to the byte; the editor is the only thing that changes it. A folder is one text too, in which
/// lines say where a file begins (see [`crate::package`]). Files that no edit can change are carried beside the text,
/// which names each by its hash; two skills are equal if their texts are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct SkillDoc {
    text: String,
    carried: CarriedFiles,
}

impl SkillDoc {
    /// A skill with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), carried: CarriedFiles::default() }
    }

    /// The whole text: the Markdown of a single document, or all files of a folder that can be edited.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The content hash that names this version of the skill in records and caches.
    pub fn hash(&self) -> SkillHash {
        SkillHash::of(&self.text)
    }

    /// Whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The same skill with the content of the files that its text only names.
    #[must_use]
    pub fn with_carried(self, carried: CarriedFiles) -> Self {
        Self { carried, ..self }
    }

    /// The content of the files that the text only names, as far as it is at hand.
    pub fn carried(&self) -> &CarriedFiles {
        &self.carried
    }
}

impl PartialEq for SkillDoc {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SkillDoc {}

impl Hash for SkillDoc {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for SkillDoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for SkillDoc {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for SkillDoc {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<SkillDoc> for String {
    fn from(skill: SkillDoc) -> Self {
        skill.text
    }
}
