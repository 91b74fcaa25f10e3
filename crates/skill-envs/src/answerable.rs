//! Findings about tasks that a right reply cannot solve: the prompt hides the choices or the form of an answer, or the
//! scorer rejects the reference itself.

use serde::Serialize;
use skill_core::ItemId;

/// A median reference with more words is a text that nobody writes twice in the same words.
pub const MAX_EXACT_WORDS: usize = 12;

/// A form in which a model writes an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyForm {
    /// The reference alone, in the format that is requested.
    Requested,
    /// The same in bold.
    Bold,
    /// In a sentence.
    Sentence,
}

/// Why a correct reply does not score 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnswerFinding {
    /// References that score less than 1 when a reply gives them in this form.
    ReferenceRejected {
        /// The form.
        form: ReplyForm,
        /// The number of items.
        n_items: usize,
        /// The first of them.
        id: ItemId,
        /// The reply that is rejected.
        reply: String,
    },
    /// Choices that the prompt does not show.
    ChoicesHidden {
        /// The number of items.
        n_items: usize,
        /// The first of them.
        id: ItemId,
        /// A choice of this item that its prompt does not show.
        text: String,
    },
    /// Classes that the prompt does not name.
    ClassesUnnamed {
        /// All classes.
        n_classes: usize,
        /// Those that are not named.
        unnamed: Vec<String>,
    },
    /// References that are texts of several sentences, which nobody writes twice in the same words, under a scorer that
    /// compares words.
    ReferencesProse {
        /// The words of the median reference.
        n_words: usize,
    },
    /// Parts of the requested form that the prompt does not name: a tag, or members of a JSON object.
    FormUnnamed {
        /// The parts.
        parts: Vec<String>,
    },
    /// The scorer compares the whole reply, and the prompt does not request the answer alone.
    AnswerAloneUnstated {
        /// The first item whose reference is rejected in a sentence.
        id: ItemId,
        /// The reply.
        reply: String,
    },
}
