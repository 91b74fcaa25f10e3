//! The editor: applies edits to a skill, one after the other, and says of each what became of it.
//!
//! It is total: whatever a model proposed, each edit gets exactly one [`EditRow`], and an edit that cannot be applied
//! leaves the text as it was. Protected regions (see [`crate::region`]) cannot be touched, and no edit can make or
//! break one. Anchors match to the byte; a row with [`EditRow::missed_anchor`] is for the optimizer to hear of.

mod draft;
mod row;
#[cfg(test)]
mod tests;

pub use row::{EditRow, EditStatus};

use crate::edit::{Edit, EditOp};
use crate::region::without_markers;
use crate::skill::SkillDoc;
use draft::{Draft, Found, RegionsWouldChange};
use std::borrow::Cow;

/// Applies one edit: [`apply_patch`] with a single one.
pub fn apply_edit(doc: &SkillDoc, edit: &Edit) -> (SkillDoc, EditRow) {
    let mut draft = Draft::new(doc.text());
    let row = apply_to(&mut draft, edit, 1);
    (SkillDoc::new(draft.into_text()), row)
}

/// Applies edits in order, each to the result of the one before; the rows are in the edits' order.
///
/// The content of an edit loses the white space at its ends and all markers of protected regions. Then:
///
/// - *append* puts it below the body with a blank line between: in front of the first protected region that a marker
///   opens, or else at the end;
/// - *insert_after* puts it, with a line break in front, below the line in which the target ends; without a target,
///   or where the target does not occur, it appends;
/// - *replace* and *delete* change the target alone, and the line breaks around it stay.
///
/// The target is the first place outside protected regions where it occurs to the byte. In a document whose lines end
/// with a carriage return and a line feed, what is inserted has such line ends too, and no pair is taken apart.
pub fn apply_patch(doc: &SkillDoc, edits: &[Edit]) -> (SkillDoc, Vec<EditRow>) {
    let mut draft = Draft::new(doc.text());
    let rows = edits.iter().zip(1..).map(|(edit, index)| apply_to(&mut draft, edit, index)).collect();
    (SkillDoc::new(draft.into_text()), rows)
}

/// What became of an edit, and what else there is to say.
type Outcome = (EditStatus, Option<&'static str>);

const MARKERS_REMOVED: &str = "markers of protected regions were removed from the content";
const REGIONS_WOULD_CHANGE: &str = "the edit would create or break a protected region";
const LATER_OCCURRENCE: &str = "the target's first occurrence is protected, a later one was taken";

fn apply_to(draft: &mut Draft, edit: &Edit, index: usize) -> EditRow {
    let stripped = edit.content.trim_matches(is_python_space);
    let content = without_markers(stripped);
    let has_lost_markers = content.len() != stripped.len();
    let (status, note) = match &edit.op {
        EditOp::Append => append(draft, &content),
        EditOp::InsertAfter => insert_after(draft, &edit.target, &content),
        EditOp::Replace => replace(draft, &edit.target, &content),
        EditOp::Delete => delete(draft, &edit.target),
        EditOp::Unknown(_) => (EditStatus::SkippedUnknownOp, None),
    };
    let note = note.or(has_lost_markers.then_some(MARKERS_REMOVED));
    EditRow::new(edit, &content, status, index, note)
}

fn append(draft: &mut Draft, content: &str) -> Outcome {
    if is_blank(content) {
        return (EditStatus::SkippedEmptyContent, None);
    }
    let before_region = draft.first_start_marker();
    let end = before_region.unwrap_or(draft.text().len());
    let body = draft.text().get(..end).unwrap_or_default().trim_end_matches(is_python_space).len();
    let line_end = draft.line_end();
    let blank_line = [line_end, line_end].concat();
    // An empty skill has nothing to keep a distance from.
    let above = if body == 0 { "" } else { blank_line.as_str() };
    let below = if before_region.is_some() { blank_line.as_str() } else { line_end };
    let inserted = [above, &draft.with_line_ends(content), below].concat();
    let status = match before_region {
        Some(_) => EditStatus::AppliedAppendBeforeProtectedRegion,
        None => EditStatus::AppliedAppend,
    };
    outcome(draft.splice(body..end, &inserted), status, None)
}

fn insert_after(draft: &mut Draft, target: &str, content: &str) -> Outcome {
    if is_blank(content) {
        return (EditStatus::SkippedEmptyContent, None);
    }
    match draft.find(target) {
        Found::Nowhere => {
            let (status, note) = append(draft, content);
            (status.of_fallback(), note)
        }
        Found::OnlyProtected => (EditStatus::SkippedProtectedRegion, None),
        Found::At { range, is_later } => {
            let at = draft.below_line_of(range.end);
            let line_end = draft.line_end();
            let inserted = [line_end, &draft.with_line_ends(content), line_end].concat();
            outcome(draft.splice(at..at, &inserted), EditStatus::AppliedInsertAfter, later_note(is_later))
        }
    }
}

fn replace(draft: &mut Draft, target: &str, content: &str) -> Outcome {
    if target.is_empty() {
        return (EditStatus::SkippedReplaceMissingTarget, None);
    }
    match draft.find(target) {
        Found::Nowhere => (EditStatus::SkippedReplaceTargetNotFound, None),
        Found::OnlyProtected => (EditStatus::SkippedProtectedRegion, None),
        Found::At { range, is_later } => {
            let replacement: Cow<'_, str> = draft.with_line_ends(content);
            outcome(draft.splice(range, &replacement), EditStatus::AppliedReplace, later_note(is_later))
        }
    }
}

fn delete(draft: &mut Draft, target: &str) -> Outcome {
    if target.is_empty() {
        return (EditStatus::SkippedDeleteMissingTarget, None);
    }
    match draft.find(target) {
        Found::Nowhere => (EditStatus::SkippedDeleteTargetNotFound, None),
        Found::OnlyProtected => (EditStatus::SkippedProtectedRegion, None),
        Found::At { range, is_later } => {
            outcome(draft.splice(range, ""), EditStatus::AppliedDelete, later_note(is_later))
        }
    }
}

fn outcome(
    spliced: Result<(), RegionsWouldChange>,
    applied: EditStatus,
    note: Option<&'static str>,
) -> Outcome {
    match spliced {
        Ok(()) => (applied, note),
        Err(RegionsWouldChange) => (EditStatus::SkippedProtectedRegion, Some(REGIONS_WOULD_CHANGE)),
    }
}

fn later_note(is_later: bool) -> Option<&'static str> {
    is_later.then_some(LATER_OCCURRENCE)
}

fn is_blank(content: &str) -> bool {
    content.chars().all(is_python_space)
}

/// Whether Python's `str.strip` takes the character off: Unicode's white space and the four ASCII separators.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}
