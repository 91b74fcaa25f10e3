//! What became of an edit, in the names and the fields of the reference's report.

use super::Outcome;
use crate::edit::{Edit, EditOp};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use strum::IntoStaticStr;

/// How much of a target and of a content a row shows, in characters.
const MAX_PREVIEW_CHARS: usize = 200;

/// What became of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum EditStatus {
    /// The content is at the end.
    AppliedAppend,
    /// The content is in front of the first protected region.
    AppliedAppendBeforeProtectedRegion,
    /// The content is below the target's line.
    AppliedInsertAfter,
    /// There was no such target: the content is at the end.
    AppliedInsertAfterFallbackAppend,
    /// There was no such target: the content is in front of the first protected region.
    AppliedInsertAfterFallbackBeforeProtectedRegion,
    /// The content is in the target's place.
    AppliedReplace,
    /// The target is gone.
    AppliedDelete,
    /// The edit would touch, create or break a protected region.
    SkippedProtectedRegion,
    /// The content holds control characters besides tabs and line ends.
    SkippedControlCharacters,
    /// An edit that adds text has none.
    SkippedEmptyContent,
    /// `replace` without a target.
    SkippedReplaceMissingTarget,
    /// A replacement of what does not occur.
    SkippedReplaceTargetNotFound,
    /// `delete` without a target.
    SkippedDeleteMissingTarget,
    /// A deletion of what does not occur.
    SkippedDeleteTargetNotFound,
    /// The skill says already what the edit would add.
    SkippedDuplicateContent,
    /// The skill would grow past its limit.
    SkippedOverSizeLimit,
    /// The edit would take away a line that a person has pinned.
    SkippedPinned,
    /// A person has forbidden the edit.
    SkippedForbidden,
    /// Unknown operation.
    SkippedUnknownOp,
    /// The edit names a file that the skill package does not have.
    SkippedUnknownFile,
    /// The edit names a file of the skill package that is carried along as it is.
    SkippedFileNotEditable,
    /// The reference's editor failed on the edit; only its reports have this, ours does not fail.
    Error,
}

impl EditStatus {
    /// The name used in files.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the edit was carried out.
    pub fn is_applied(self) -> bool {
        match self {
            Self::AppliedAppend
            | Self::AppliedAppendBeforeProtectedRegion
            | Self::AppliedInsertAfter
            | Self::AppliedInsertAfterFallbackAppend
            | Self::AppliedInsertAfterFallbackBeforeProtectedRegion
            | Self::AppliedReplace
            | Self::AppliedDelete => true,
            Self::SkippedProtectedRegion
            | Self::SkippedControlCharacters
            | Self::SkippedEmptyContent
            | Self::SkippedReplaceMissingTarget
            | Self::SkippedReplaceTargetNotFound
            | Self::SkippedDeleteMissingTarget
            | Self::SkippedDeleteTargetNotFound
            | Self::SkippedDuplicateContent
            | Self::SkippedOverSizeLimit
            | Self::SkippedPinned
            | Self::SkippedForbidden
            | Self::SkippedUnknownOp
            | Self::SkippedUnknownFile
            | Self::SkippedFileNotEditable
            | Self::Error => false,
        }
    }

    /// The status of an insertion that became this append.
    pub(super) fn of_fallback(self) -> Self {
        match self {
            Self::AppliedAppend => Self::AppliedInsertAfterFallbackAppend,
            Self::AppliedAppendBeforeProtectedRegion => Self::AppliedInsertAfterFallbackBeforeProtectedRegion,
            other => other,
        }
    }
}

/// One row of a report: an edit, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditRow {
    /// The operation, also one that there is not.
    pub op: EditOp,
    /// The first 200 characters of the target.
    pub target: String,
    /// The first 200 characters of the content, as it was used.
    pub content_preview: String,
    /// What became of the edit.
    pub status: EditStatus,
    /// The file of a skill package that the edit names; none for `SKILL.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The edit's number in its patch, from 1.
    pub index: usize,
    /// What the target was taken for, where it does not occur to the letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<FoldedAnchor>,
    /// The start of the text in the skill that comes nearest to a target which was not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What the status does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The place that a target was taken for which a model did not copy to the letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedAnchor {
    /// Where it starts, in bytes of the skill that the edit was applied to.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The first 200 characters of what is there.
    pub text: String,
}

impl FoldedAnchor {
    pub(super) fn new(text: &str, range: &Range<usize>) -> Self {
        let text = preview(text.get(range.clone()).unwrap_or_default());
        Self { start: range.start, end: range.end, text }
    }
}

impl EditRow {
    pub(super) fn new(edit: &Edit, content: &str, index: usize, outcome: Outcome) -> Self {
        let Outcome { status, note, folded, nearest } = outcome;
        Self {
            op: edit.op.clone(),
            target: preview(&edit.target),
            content_preview: preview(content),
            status,
            file: edit.file.clone(),
            index,
            folded,
            nearest: nearest.as_deref().map(preview),
            note: note.map(str::to_owned),
        }
    }

    /// The row of an edit that no editor of a single file has seen.
    pub(crate) fn outside_the_editor(edit: &Edit, status: EditStatus, index: usize, note: &str) -> Self {
        Self { note: Some(note.to_owned()), ..Self::new(edit, edit.content.trim(), index, status.into()) }
    }

    /// The start of the target, where the edit has one that does not occur in the skill.
    pub fn missed_anchor(&self) -> Option<&str> {
        let is_missed = matches!(
            self.status,
            EditStatus::AppliedInsertAfterFallbackAppend
                | EditStatus::AppliedInsertAfterFallbackBeforeProtectedRegion
                | EditStatus::SkippedReplaceTargetNotFound
                | EditStatus::SkippedDeleteTargetNotFound
        );
        (is_missed && !self.target.is_empty()).then_some(self.target.as_str())
    }
}

fn preview(text: &str) -> String {
    text.chars().take(MAX_PREVIEW_CHARS).collect()
}
