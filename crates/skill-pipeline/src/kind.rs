//! The kinds of runs, and how the directory of each is known: by the names of its files alone.
//!
//! # Invariants
//!
//! - A directory holds a run of one kind, and it is not continued as another. Held by
//!   `a_bank_is_not_trained_where_a_document_is_nor_the_other_way_around`, `nothing_else_is_trained_where_weights_are`
//!   and, in `skill-weights`, `a_directory_of_another_run_is_refused`.

use crate::records::phases::PHASES_FILE;
use crate::records::{RunIdentity, bank, rl, sft};
use std::path::Path;

/// The name of the kind in the identity of a run.
pub const MODE: &str = "train.mode";

skill_core::named_enum! {
    /// What a run trains; its name is the mode in the identity of the run.
    pub enum RunKind {
        /// A skill document.
        Document = "document",
        /// A bank of skills, and no weights beside it.
        Bank = "bank",
        /// A model, by fine-tuning.
        Sft = "sft",
        /// A policy, by GRPO; with or without a bank in the loop.
        Rl = "rl",
        /// The weights of a model in several phases, each of which is a run in a directory of its own.
        Phases = "weights",
    }
}

impl RunKind {
    /// The kind by the identity of a run; `None` for one that does not name any, as that of a document.
    pub(crate) fn of_identity(identity: &RunIdentity) -> Option<Self> {
        Self::parse(identity.get(MODE)?.as_str()?)
    }

    /// The kind of the run in a directory; `None` without a `config.json`.
    pub fn of(dir: &Path) -> Option<Self> {
        dir.join("config.json").is_file().then(|| Self::by_files(dir))
    }

    /// The kind of a run whose `config.json` may be lost.
    pub(crate) fn by_files(dir: &Path) -> Self {
        let has = |name: &str| dir.join(name).is_file();
        if has(PHASES_FILE) {
            Self::Phases
        } else if [rl::ITERATIONS_FILE, rl::CHECKPOINT_FILE, rl::SUMMARY_FILE, rl::TIMES_FILE]
            .into_iter()
            .any(has)
        {
            Self::Rl
        } else if [sft::EXAMPLES_FILE, sft::CHECKPOINT_FILE, sft::SUMMARY_FILE].into_iter().any(has) {
            Self::Sft
        } else if dir.join(bank::BANK_DIR).join(bank::LOG_FILE).is_file() {
            Self::Bank
        } else {
            Self::Document
        }
    }

    /// True if the run has weights of its own, which no replies can bring back.
    pub(crate) fn trains_weights(self) -> bool {
        matches!(self, Self::Sft | Self::Rl | Self::Phases)
    }

    /// True if the directory holds a run of this kind.
    pub fn is_at(self, dir: &Path) -> bool {
        Self::of(dir) == Some(self)
    }

    /// The file that a finished run of this kind has; a run of phases has none.
    pub(crate) fn summary_file(self) -> Option<&'static str> {
        match self {
            Self::Document => Some("summary.json"),
            Self::Bank => Some(bank::SUMMARY_FILE),
            Self::Sft => Some(sft::SUMMARY_FILE),
            Self::Rl => Some(rl::SUMMARY_FILE),
            Self::Phases => None,
        }
    }
}
