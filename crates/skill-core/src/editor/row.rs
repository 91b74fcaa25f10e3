//! What became of an edit, in the names and the fields of the reference's report.

use super::Outcome;
use crate::edit::{Edit, EditOp};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// How much of a target and of a content a row shows, in characters.
const MAX_PREVIEW_CHARS: usize = 200;

crate::named_enum! {
    /// What became of an edit.
    pub enum EditStatus {
        /// The content is at the end.
        AppliedAppend = "applied_append",
        /// The content is in front of the first protected region.
        AppliedAppendBeforeProtectedRegion = "applied_append_before_protected_region",
        /// The content is below the target's line.
        AppliedInsertAfter = "applied_insert_after",
        /// There was no such target: the content is at the end.
        AppliedInsertAfterFallbackAppend = "applied_insert_after_fallback_append",
        /// There was no such target: the content is in front of the first protected region.
        AppliedInsertAfterFallbackBeforeProtectedRegion = "applied_insert_after_fallback_before_protected_region",
        /// The content is in the target's place.
        AppliedReplace = "applied_replace",
        /// The target is gone.
        AppliedDelete = "applied_delete",
        /// The edit would touch, create or break a protected region.
        SkippedProtectedRegion = "skipped_protected_region",
        /// The content holds control characters besides tabs and line ends.
        SkippedControlCharacters = "skipped_control_characters",
        /// An edit that adds text has none.
        SkippedEmptyContent = "skipped_empty_content",
        /// `replace` without a target.
        SkippedReplaceMissingTarget = "skipped_replace_missing_target",
        /// A replacement of what does not occur.
        SkippedReplaceTargetNotFound = "skipped_replace_target_not_found",
        /// `delete` without a target.
        SkippedDeleteMissingTarget = "skipped_delete_missing_target",
        /// A deletion of what does not occur.
        SkippedDeleteTargetNotFound = "skipped_delete_target_not_found",
        /// The skill says already what the edit would add.
        SkippedDuplicateContent = "skipped_duplicate_content",
        /// The skill would grow past its limit.
        SkippedOverSizeLimit = "skipped_over_size_limit",
        /// The edit would take away a line that a person has pinned.
        SkippedPinned = "skipped_pinned",
        /// A person has forbidden the edit.
        SkippedForbidden = "skipped_forbidden",
        /// Unknown operation.
        SkippedUnknownOp = "skipped_unknown_op",
        /// The edit names a file that the skill package does not have.
        SkippedUnknownFile = "skipped_unknown_file",
        /// The edit names a file of the skill package that is carried along as it is.
        SkippedFileNotEditable = "skipped_file_not_editable",
        /// The reference's editor failed on the edit; only its reports have this, ours does not fail.
        Error = "error",
    }
}

impl EditStatus {
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
        let text = preview(text.get(range.clone()).expect("anchors are on character boundaries"));
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
