//! The skill document: the trainable state.
//!
//! ```
//! use skill_core::SkillDoc;
//!
//! let skill = SkillDoc::new("# Prices\n\n- Round down.\n");
//! assert_eq!(skill.n_bytes(), 24);
//! assert_eq!(skill, SkillDoc::new("# Prices\n\n- Round down.\n"), "skills with one text are equal");
//! ```

use crate::canonical::hex_sha256;
use crate::carried::CarriedFiles;
use crate::ids::SkillHash;
use crate::tokens::estimate_tokens;
use serde::{Deserialize, Serialize, Serializer};
use std::hash::{Hash, Hasher};

/// A skill: a Markdown document, or a folder of files, that an agent works from.
///
/// The text is kept to the byte; the editor is the only thing that changes it. A folder is one text too, in which
/// lines say where a file begins (see [`crate::package`]). Files that no edit can change are carried beside the text,
/// which names each by its hash; two skills are equal if their texts are.
///
/// A model is shown a view of a skill, and never its source text: an agent gets [`SkillDoc::agent_view`], an optimizer
/// [`SkillDoc::optimizer_view`]. The source text is for editors, for hashes, and for the files of a run; so it is not
/// what a `SkillDoc` is formatted as or turns into.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "String")]
pub struct SkillDoc {
    text: String,
    carried: CarriedFiles,
}

impl SkillDoc {
    /// A skill with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), carried: CarriedFiles::default() }
    }

    /// The whole text: the Markdown of a single document, or all files of a folder that can be edited, with front
    /// matter, with the lines that separate files, and with the hashes of the files that are carried along.
    ///
    /// No model gets this text; see [`SkillDoc::agent_view`] and [`SkillDoc::optimizer_view`].
    pub fn source_text(&self) -> &str {
        &self.text
    }

    /// The whole text, without a copy; see [`SkillDoc::source_text`].
    pub(crate) fn into_source_text(self) -> String {
        self.text
    }

    /// The length of the source text in bytes.
    pub fn n_bytes(&self) -> usize {
        self.text.len()
    }

    /// The length of the source text in characters.
    pub fn n_chars(&self) -> usize {
        self.text.chars().count()
    }

    /// About how many tokens the source text has; see [`estimate_tokens`].
    pub fn n_tokens(&self) -> u64 {
        estimate_tokens(&self.text)
    }

    /// The content hash that names this version of the skill in records and caches.
    pub fn hash(&self) -> SkillHash {
        SkillHash::of(&self.text)
    }

    /// The SHA-256 of the source text in 64 hexadecimal digits.
    pub fn source_sha256(&self) -> String {
        hex_sha256(self.text.as_bytes())
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

impl Serialize for SkillDoc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
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
