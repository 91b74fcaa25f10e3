//! Notes that cannot be taken.

use skill_core::{ItemId, StepIdx};
use skill_envs::Split;

/// A note that is not written, since it is about something that does not exist or says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoteRefusal {
    /// The run trains no document.
    #[error("notes are read by steps that edit a document, and this run has none")]
    NoDocument,
    /// The text is blank.
    #[error("the note is empty")]
    Empty,
    /// The text is too long.
    #[error("the note has {chars} characters; it may have at most {most}, since prompts show it")]
    TooLong {
        /// Its characters.
        chars: usize,
        /// The most characters.
        most: usize,
    },
    /// No rollout of the run was made on this item.
    #[error("the run has no rollout of item `{item}`; it has {} training items{}", known.len(), examples(known))]
    NoItem {
        /// The item.
        item: ItemId,
        /// The training items with rollouts, in order.
        known: Vec<ItemId>,
    },
    /// The item decides about candidates.
    #[error("item `{item}` is of the {split} split: the optimizer is told nothing about it")]
    HeldOut {
        /// The item.
        item: ItemId,
        /// Its split.
        split: Split,
    },
    /// The step is not finished or does not exist.
    #[error("step {step} is not finished; {}", match last.0 { 0 => "no step is".to_owned(), last => format!("steps 1 to {last} are") })]
    NoStep {
        /// The step.
        step: StepIdx,
        /// The last finished step.
        last: StepIdx,
    },
    /// The step has no such edit.
    #[error("step {step} has no edit {edit}; {}", match n_edits { 0 => "it has none".to_owned(), n => format!("its edits are 1 to {n}") })]
    NoEdit {
        /// The step.
        step: StepIdx,
        /// The number that was asked for.
        edit: usize,
        /// How many edits it has.
        n_edits: usize,
    },
    /// An edit that leaves no text in the skill is to be pinned, or one that does nothing is to be forbidden.
    #[error("edit {edit} of step {step} is `{op}`: there is nothing to {what}")]
    NothingToHold {
        /// The step.
        step: StepIdx,
        /// The edit.
        edit: usize,
        /// What it does.
        op: String,
        /// `pin` or `forbid`.
        what: &'static str,
    },
    /// A text is to be pinned that the skill does not have.
    #[error("the current skill has no such line: {text}")]
    NotInSkill {
        /// The text.
        text: String,
    },
    /// There are too many pins, or forbidden edits.
    #[error("{most} texts are pinned or edits forbidden already")]
    TooMany {
        /// The most.
        most: usize,
    },
    /// A note is taken back that does not exist, or was taken back.
    #[error("there is no note {number} to take back; {}", match n_notes { 0 => "the run has none".to_owned(), n => format!("notes are 1 to {n}, less those that were taken back") })]
    NoNote {
        /// Its number.
        number: usize,
        /// How many notes there are.
        n_notes: usize,
    },
}

impl NoteRefusal {
    /// What can be done about it, as one sentence.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDocument => "people's decisions about a bank are made on the bank itself",
            Self::Empty => "say something",
            Self::TooLong { .. } => "say it in fewer words, or in several notes",
            Self::NoItem { .. } => "name one of these, or write the note without an item",
            Self::HeldOut { .. } => "say it in general words, without an item",
            Self::NoStep { .. } | Self::NoEdit { .. } => {
                "name one of these, or write the note without a step"
            }
            Self::NothingToHold { .. } => "name another edit, or give the text itself",
            Self::NotInSkill { .. } => "copy a whole line of the current skill",
            Self::TooMany { .. } => "take some back",
            Self::NoNote { .. } => "list the notes",
        }
    }
}

fn examples(known: &[ItemId]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = known.iter().take(SHOWN).map(ItemId::as_str).collect();
    match (shown.is_empty(), known.len() > SHOWN) {
        (true, _) => String::new(),
        (false, false) => format!(": {}", shown.join(", ")),
        (false, true) => format!(", such as {}", shown.join(", ")),
    }
}
