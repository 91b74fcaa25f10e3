//! Retrieval: which skills of a bank a task is shown.
//!
//! The type of the task decides the tier; inside a tier the lower bound of the measured utility decides, then the
//! similarity with the goal where that is asked for, then the order of the bank. Similarity never decides the tier: with
//! a small embedding model the best skill of all types is of the right type for two tasks in five.
//!
//! [`Retrieval`] holds the settings, [`PreparedBank`] what is computed once for a view, [`Selection`] the outcome with
//! all reasons. Nothing here asks a model; [`crate::BankSource`] does.
//!
//! # Invariants
//!
//! - The type of a task decides its tier; utility and similarity rank inside it; no section exceeds its K nor the
//!   text its token budget. Held by `utility_decides_inside_a_tier_and_the_bank_decides_ties`,
//!   `similarity_ranks_inside_a_tier_after_utility`, `no_bank_passes_the_limits`.

mod prepared;
mod selection;
mod similarity;

pub use crate::render::{NOTHING_RELEVANT, Section};
pub use prepared::PreparedBank;
pub use selection::{LeftOutSkill, Selection, ShownSkill, Warning, WhyLeftOut};
pub use similarity::{SkillVectors, Threshold, embedding_text, top_k_over};
pub(crate) use similarity::{vectors_of, whole_text};

use crate::error::BankError;
use crate::task_type::TypeTable;
use crate::view::BankView;
use serde::{Deserialize, Serialize};

skill_core::named_enum! {
    /// How skills are ranked inside their tier.
    #[derive(Default)]
    pub enum RetrievalMode {
        /// By utility.
        #[default]
        Template = "template",
        /// By utility, then by the similarity of their texts with the goal.
        Embedding = "embedding",
    }
}

skill_core::named_enum! {
    /// Whose rules are used.
    #[derive(Default)]
    pub enum Compat {
        /// Those of this crate.
        #[default]
        None = "none",
        /// Those of the SkillRL paper's code, with their defects, to reproduce its results: utility is ignored; in
        /// template mode all skills whose id begins with `dyn_` are shown before the others, whatever `top_k` says; in
        /// embedding mode the `top_k` skills of all types together are shown, and of equal ones the last first.
        Paper = "paper",
    }
}

/// What is selected, and how much of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrievalSettings {
    /// How skills are ranked.
    pub mode: RetrievalMode,
    /// The most general skills.
    pub top_k: usize,
    /// The most skills of the task's type; `None` for all of them.
    pub task_top_k: Option<usize>,
    /// The most mistakes.
    pub mistakes_top_k: usize,
    /// The most general skills and skills of the task's type together, beside the limits of each: the K of
    /// `S_ret = TopK({s in S_k : sim > delta}, K)`. The most similar ones are shown, or without similarities those of
    /// the highest utility; `None` leaves it to the limits of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<usize>,
    /// The most tokens of the text, as [`skill_core::tokens::estimate_tokens`] counts them; `None` sets no limit.
    pub token_budget: Option<u64>,
    /// The most characters of one skill; longer ones are cut at a word.
    pub max_skill_chars: usize,
    /// The similarity that a skill must exceed in embedding mode; mistakes have none.
    pub threshold: Option<Threshold>,
    /// Whose rules are used.
    pub compat: Compat,
}

impl Default for RetrievalSettings {
    fn default() -> Self {
        Self {
            mode: RetrievalMode::Template,
            top_k: 6,
            task_top_k: Some(6),
            mistakes_top_k: 5,
            total: None,
            token_budget: None,
            max_skill_chars: 500,
            threshold: None,
            compat: Compat::None,
        }
    }
}

/// Settings of retrieval, with the table of task types.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retrieval {
    settings: RetrievalSettings,
    types: TypeTable,
}

impl Retrieval {
    /// Retrieval with these settings and the built-in table of task types.
    ///
    /// # Errors
    ///
    /// [`BankError::BadThreshold`]: a threshold that is not a cosine.
    pub fn new(settings: RetrievalSettings) -> Result<Self, BankError> {
        if let Some(Threshold { value, .. }) = settings.threshold
            && !(-1.0..=1.0).contains(&value)
        {
            return Err(BankError::BadThreshold { value: value.to_string() });
        }
        Ok(Self { settings, types: TypeTable::default() })
    }

    /// The same with another table of task types.
    #[must_use]
    pub fn with_types(self, types: TypeTable) -> Self {
        Self { types, ..self }
    }

    /// The settings.
    pub fn settings(&self) -> &RetrievalSettings {
        &self.settings
    }

    /// The table of task types.
    pub fn types(&self) -> &TypeTable {
        &self.types
    }

    /// Computes what every selection from this view needs.
    pub fn prepare(&self, view: BankView) -> PreparedBank {
        PreparedBank::new(self, view)
    }

    /// What a task is shown of a view: [`PreparedBank::detect`] and [`PreparedBank::select`] in one, for one task.
    ///
    /// `similarities` are the cosines of the skills with the goal, in the order of the bank.
    pub fn select(
        &self,
        view: &BankView,
        environment_type: &str,
        goal: &str,
        similarities: Option<&[Option<f32>]>,
    ) -> Selection {
        let prepared = self.prepare(view.clone());
        prepared.select(prepared.detect(environment_type, goal), similarities)
    }
}
