//! The kinds of runs: what differs between them, and how the directory of each is known, by the names of its files alone.
//!
//! # Invariants
//!
//! - A directory holds a run of one kind, and it is not continued as another. Held by
//!   `a_bank_is_not_trained_where_a_document_is_nor_the_other_way_around`, `nothing_else_is_trained_where_weights_are`
//!   and, in `skill-weights`, `a_directory_of_another_run_is_refused`.

use crate::records::phases::{PHASE_TIMES_FILE, PHASES_FILE};
use crate::records::{RunIdentity, bank, rl, sft};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The name of the kind in the identity of a run.
pub const MODE: &str = "train.mode";

skill_core::named_enum! {
    /// What a run trains; its name is the mode in the identity of the run.
    ///
    /// Where a directory has files of several kinds, it is of the last of them in this order.
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

/// What a run trains, which decides in which form its result is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trained {
    /// One skill.
    Skill,
    /// A bank of skills.
    Bank,
    /// The weights of a model; with or without a bank beside them.
    Weights,
}

/// What the engine has to know about a kind of run: a new kind is one more of these.
struct Facts {
    /// The paths of the files by any of which a run of this kind is known.
    known_by: &'static [&'static [&'static str]],
    /// The file that a finished run has; a run of phases has none.
    summary: Option<&'static str>,
    /// True if a finished run can be extended by a higher limit; its old summary remains while it continues.
    goes_further: bool,
    /// The file with the times of its stages, where they are in one of their own.
    times: Option<&'static str>,
    /// Files specific to the kind that change while the run is in progress.
    grows: &'static [&'static str],
    /// True if `files.jsonl` has the hashes of its files from its first line on; the state of a run of a document says
    /// which lines of it hold.
    has_hashes: bool,
    /// Weights are the run's own, and no replies can bring them back.
    trained: Trained,
    /// True if it has scores of its own on the test split.
    has_scores: bool,
    /// The models that it uses, by role.
    roles: &'static [&'static str],
}

impl RunKind {
    const fn facts(self) -> Facts {
        match self {
            Self::Document => Facts {
                known_by: &[],
                summary: Some("summary.json"),
                goes_further: true,
                times: None,
                grows: &["runtime_state.json", "history.json", "history.jsonl", "timings.jsonl"],
                has_hashes: false,
                trained: Trained::Skill,
                has_scores: true,
                roles: &["target", "optimizer", "judge"],
            },
            Self::Bank => Facts {
                known_by: &[&[bank::BANK_DIR, bank::LOG_FILE]],
                summary: Some(bank::SUMMARY_FILE),
                goes_further: false,
                times: None,
                // A round ends with its timings, after its record was written.
                grows: &["bank/log.jsonl", "timings.jsonl"],
                has_hashes: true,
                trained: Trained::Bank,
                has_scores: true,
                roles: &["target", "optimizer", "teacher", "judge"],
            },
            Self::Sft => Facts {
                known_by: &[&[sft::EXAMPLES_FILE], &[sft::CHECKPOINT_FILE], &[sft::SUMMARY_FILE]],
                summary: Some(sft::SUMMARY_FILE),
                goes_further: false,
                times: Some(sft::TIMES_FILE),
                grows: &[sft::STEPS_FILE, sft::VALIDATION_FILE],
                has_hashes: true,
                trained: Trained::Weights,
                has_scores: false,
                roles: &["policy"],
            },
            Self::Rl => Facts {
                known_by: &[
                    &[rl::ITERATIONS_FILE],
                    &[rl::CHECKPOINT_FILE],
                    &[rl::SUMMARY_FILE],
                    &[rl::TIMES_FILE],
                ],
                summary: Some(rl::SUMMARY_FILE),
                goes_further: true,
                times: Some(rl::TIMES_FILE),
                grows: &[rl::ITERATIONS_FILE],
                has_hashes: true,
                trained: Trained::Weights,
                has_scores: false,
                roles: &["policy"],
            },
            Self::Phases => Facts {
                known_by: &[&[PHASES_FILE]],
                summary: None,
                goes_further: true,
                times: Some(PHASE_TIMES_FILE),
                grows: &[],
                has_hashes: true,
                trained: Trained::Weights,
                has_scores: true,
                roles: &["policy", "teacher"],
            },
        }
    }

    /// The kind by the identity of a run; `None` for one that does not name any, as that of a document.
    pub(crate) fn of_identity(identity: &RunIdentity) -> Option<Self> {
        Self::parse(identity.get(MODE)?.as_str()?)
    }

    /// Names the kind in the identity of a run.
    pub fn name_in(self, identity: &mut RunIdentity) {
        identity.insert(MODE.to_owned(), self.as_str().into());
    }

    /// The kind of the run in a directory; `None` without a `config.json`.
    pub fn of(dir: &Path) -> Option<Self> {
        dir.join("config.json").is_file().then(|| Self::by_files(dir))
    }

    /// The kind of a run whose `config.json` may be lost.
    pub(crate) fn by_files(dir: &Path) -> Self {
        let has = |parts: &&[&str]| dir.join(parts.iter().collect::<PathBuf>()).is_file();
        // Later kinds have the files of earlier ones, too.
        let mut kinds = Self::ALL.into_iter().rev();
        kinds.find(|kind| kind.facts().known_by.iter().any(has)).unwrap_or(Self::Document)
    }

    /// True if the directory holds a run of this kind.
    pub fn is_at(self, dir: &Path) -> bool {
        Self::of(dir) == Some(self)
    }

    fn trains_weights(self) -> bool {
        self.facts().trained == Trained::Weights
    }

    /// The file with the times of its stages, where they are in one of their own.
    pub(crate) fn times_file(self) -> Option<&'static str> {
        self.facts().times
    }

    /// The file that a finished run of this kind has; a run of phases has none.
    pub(crate) fn summary_file(self) -> Option<&'static str> {
        self.facts().summary
    }
}

/// The files, over all kinds and without duplicates, whose change invalidates a displayed run.
pub fn shown_files() -> impl Iterator<Item = &'static str> {
    let of_kind = |kind: RunKind| kind.facts().grows.iter().copied().chain(kind.facts().summary);
    let all: BTreeSet<&str> = RunKind::ALL.into_iter().flat_map(of_kind).collect();
    all.into_iter()
}

/// The summary of a finished run, whose type tells the kind.
pub trait KindSummary {
    /// The kind of the run.
    const KIND: RunKind;
}

impl KindSummary for bank::BankSummary {
    const KIND: RunKind = RunKind::Bank;
}

impl KindSummary for sft::SftSummary {
    const KIND: RunKind = RunKind::Sft;
}

impl KindSummary for rl::RlSummary {
    const KIND: RunKind = RunKind::Rl;
}

/// The kind of the run in a directory; that of a document where it is not known.
fn kind_at(dir: &Path) -> RunKind {
    RunKind::of(dir).unwrap_or(RunKind::Document)
}

/// The name of the kind in the identity of a run; that of a document where it names none.
pub(crate) fn mode_of(identity: &RunIdentity) -> &str {
    identity.get(MODE).and_then(|mode| mode.as_str()).unwrap_or(RunKind::Document.as_str())
}

/// The name of the kind of a run.
pub fn name_of(dir: &Path) -> &'static str {
    kind_at(dir).as_str()
}

/// The roles of the models that a run uses.
pub fn roles_of(dir: &Path) -> &'static [&'static str] {
    kind_at(dir).facts().roles
}

/// What the run in the directory trains; a skill where that is not known.
pub fn trained_at(dir: &Path) -> Trained {
    kind_at(dir).facts().trained
}

/// True if the run in the directory trains weights.
pub fn trains_weights(dir: &Path) -> bool {
    trained_at(dir) == Trained::Weights
}

/// True if the run in the directory has scores of its own on the test split.
pub fn has_scores(dir: &Path) -> bool {
    kind_at(dir).facts().has_scores
}

/// True unless the directory holds a run that trains something else than a document.
pub fn is_of_document(dir: &Path) -> bool {
    kind_at(dir) == RunKind::Document
}

/// True if the directory holds a run that trains a bank, and no weights beside it.
pub fn trains_bank(dir: &Path) -> bool {
    RunKind::Bank.is_at(dir)
}

/// True if the directory holds a run of several phases.
pub fn has_phases(dir: &Path) -> bool {
    RunKind::Phases.is_at(dir)
}

/// True if one of the kinds that finish has left its summary in the directory.
pub(crate) fn has_summary(dir: &Path) -> bool {
    RunKind::ALL.into_iter().filter_map(RunKind::summary_file).any(|name| dir.join(name).is_file())
}

/// True if the directory has the summary of a run that cannot be extended, even while its process still holds the lock.
pub fn is_over(dir: &Path) -> bool {
    let over = RunKind::ALL.into_iter().filter(|kind| !kind.facts().goes_further);
    over.filter_map(RunKind::summary_file).any(|name| dir.join(name).is_file())
}

/// True if the first line of the `files.jsonl` of a run with this identity is that of its beginning.
pub(crate) fn has_hashes(identity: &RunIdentity) -> bool {
    RunKind::of_identity(identity).is_some_and(|kind| kind.facts().has_hashes)
}

/// True if a run in the directory has weights, by its identity or by its files.
pub(crate) fn has_weights(dir: &Path, identity: Option<&RunIdentity>) -> bool {
    let named = identity.and_then(RunKind::of_identity);
    [named, Some(RunKind::by_files(dir))].into_iter().flatten().any(RunKind::trains_weights)
}

/// True if the identities are of two kinds, one of which trains weights.
pub(crate) fn is_other_with_weights(was: &RunIdentity, is: &RunIdentity) -> bool {
    let kinds = [was, is].map(RunKind::of_identity);
    kinds[0] != kinds[1] && kinds.into_iter().flatten().any(RunKind::trains_weights)
}
