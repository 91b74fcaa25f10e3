//! The editor: applies edits to a skill, one after the other, and says of each what became of it.
//!
//! It is total: whatever a model proposed, each edit gets exactly one [`EditRow`], and an edit that cannot be applied
//! leaves the text as it was. Protected regions (see [`crate::region`]) cannot be touched, and no edit can make or
//! break one. Anchors match to the byte, or else as a reader sees them, if that leaves one place (see [`EditRules`]);
//! a row with [`EditRow::missed_anchor`] is for the optimizer to hear of.
//!
//! ```
//! use skill_core::{Edit, EditStatus, SkillDoc, apply_patch};
//!
//! let skill = SkillDoc::new("# Prices\n\n- Round down.\n");
//! let edits = [Edit::replace("Round down.", "Round to the nearest cent."), Edit::delete("Not in the skill.")];
//! let (changed, rows) = apply_patch(&skill, &edits);
//! assert_eq!(changed.source_text(), "# Prices\n\n- Round to the nearest cent.\n");
//! assert_eq!(rows[0].status, EditStatus::AppliedReplace);
//! assert!(!rows[1].status.is_applied());
//! ```

mod anchor;
mod draft;
mod duplicate;
mod nearest;
mod row;
#[cfg(test)]
mod tests;

pub use row::{EditRow, EditStatus, FoldedAnchor};

use crate::edit::{Edit, EditOp, has_control_characters};
use crate::region::without_markers;
use crate::skill::SkillDoc;
use crate::text::is_python_space;
use crate::tokens::{quarter_tokens, tokens_of};
use anchor::{Folded, Use};
use draft::{Draft, Found, RegionsWouldChange};
use std::borrow::Cow;
use std::ops::Range;

/// What holds for all edits of a patch.
///
/// With [`EditRules::reference`] edits do what they do in the reference. The default does what a person would:
///
/// - **A target that does not occur to the byte** is compared as a reader sees it: white space and line breaks, quotes,
///   dashes and other characters that look alike are folded; then also markers of items and headings, emphasis and
///   backticks; then also capitals. The first of these at which it occurs decides, and only if it occurs in one place
///   outside protected regions. What is changed are whole words, with both halves of a pair of marks. A target that
///   breaks off with dots stands for the whole item that starts so, if only one does. An insertion goes below the
///   item or paragraph, and a deletion of whole lines takes their line ends along. The row says what the target was
///   taken for. Words are never guessed.
/// - **Content that the skill has already** is not added by *append* and *insert_after*: if each of its items and
///   paragraphs is there, apart from how it looks. An *append* names no section, so the whole skill counts; an
///   *insert_after* does, so there only the section of its target and what is said for all count. A *replace* is dropped
///   only where it would change nothing.
/// - **Content with control characters** besides tabs and line ends is not taken: a model that writes `\b` or `\f` in JSON
///   without doubling the backslash has lost what it meant.
/// - **An edit that makes the skill longer than its limit** is skipped. Where the skill is above the limit, edits that
///   shorten it are applied, and those that do not are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EditRules {
    /// Whether a target is found that differs in nothing that a reader would notice.
    pub fold_anchors: bool,
    /// Whether content that the skill has already is not added again.
    pub drop_duplicates: bool,
    /// The most tokens that a skill may grow to, by [`crate::estimate_tokens`].
    pub max_tokens: Option<u64>,
    /// Whether content with control characters is refused.
    pub refuse_control_characters: bool,
    /// Whether an item that is added below an item of a list joins that list, without a blank line between.
    pub tight_lists: bool,
}

impl Default for EditRules {
    fn default() -> Self {
        Self {
            fold_anchors: true,
            drop_duplicates: true,
            max_tokens: None,
            refuse_control_characters: true,
            tight_lists: false,
        }
    }
}

impl EditRules {
    /// The rules of the reference: targets match to the byte, and everything is added that has a place.
    pub const fn reference() -> Self {
        Self {
            fold_anchors: false,
            drop_duplicates: false,
            max_tokens: None,
            refuse_control_characters: false,
            tight_lists: false,
        }
    }

    /// Applies edits in order, each to the result of the one before; the rows are in the edits' order.
    ///
    /// The content of an edit loses the white space at its ends and all markers of protected regions. Then:
    ///
    /// - *append* puts it below the body with a blank line between: in front of the first protected region that a
    ///   marker opens, or else at the end;
    /// - *insert_after* puts it, with a line break in front, below the line in which the target ends; without a target,
    ///   or where the target does not occur, it appends;
    /// - *replace* and *delete* change the target alone, and the line breaks around it stay.
    ///
    /// The target is the first place outside protected regions where it occurs to the byte, or else what these rules
    /// say. In a document whose lines end with a carriage return and a line feed, what is inserted has such line ends
    /// too, and no pair is taken apart.
    pub fn apply(&self, doc: &SkillDoc, edits: &[Edit]) -> (SkillDoc, Vec<EditRow>) {
        let mut editor = Editor { draft: Draft::new(doc.source_text()), rules: self };
        let rows = edits.iter().zip(1..).map(|(edit, index)| editor.apply(edit, index)).collect();
        (SkillDoc::new(editor.draft.into_text()), rows)
    }
}

/// Applies one edit by the default rules: [`apply_patch`] with a single one.
pub fn apply_edit(doc: &SkillDoc, edit: &Edit) -> (SkillDoc, EditRow) {
    let rules = EditRules::default();
    let mut editor = Editor { draft: Draft::new(doc.source_text()), rules: &rules };
    let row = editor.apply(edit, 1);
    (SkillDoc::new(editor.draft.into_text()), row)
}

/// Applies edits by the default rules, see [`EditRules::apply`].
pub fn apply_patch(doc: &SkillDoc, edits: &[Edit]) -> (SkillDoc, Vec<EditRow>) {
    EditRules::default().apply(doc, edits)
}

/// What became of an edit, and what else there is to say.
struct Outcome {
    status: EditStatus,
    note: Option<&'static str>,
    folded: Option<FoldedAnchor>,
    nearest: Option<String>,
}

impl From<EditStatus> for Outcome {
    fn from(status: EditStatus) -> Self {
        Self { status, note: None, folded: None, nearest: None }
    }
}

const MARKERS_REMOVED: &str = "markers of protected regions were removed from the content";
const REGIONS_WOULD_CHANGE: &str = "the edit would create or break a protected region";
const LATER_OCCURRENCE: &str = "the target's first occurrence is protected, a later one was taken";
const SEVERAL_PLACES: &str = "the target does not occur to the letter, and more than one place is like it";
const HALF_A_MARK: &str = "what is like the target would leave half of a pair of marks behind";
const DOUBLE_BACKSLASHES: &str =
    "the content holds control characters, which are mostly backslashes that were not doubled in JSON";
const CHANGES_NOTHING: &str = "the content is what stands there already";

/// Whether a text begins with the mark of a list.
fn is_list_item(text: &str) -> bool {
    let text = text.trim_start();
    let numbered = text.trim_start_matches(|character: char| character.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|mark| text.starts_with(mark))
        || numbered.len() < text.len() && numbered.starts_with(". ")
}

/// Where a target was found, and what an edit does there.
enum Located {
    At {
        /// What is replaced or deleted.
        range: Range<usize>,
        /// Where something that belongs below it goes.
        below: usize,
        note: Option<&'static str>,
        folded: Option<FoldedAnchor>,
    },
    Protected,
    Missed {
        note: Option<&'static str>,
        nearest: Option<String>,
    },
}

struct Editor<'r> {
    draft: Draft,
    rules: &'r EditRules,
}

impl Editor<'_> {
    fn apply(&mut self, edit: &Edit, index: usize) -> EditRow {
        let stripped = edit.content.trim_matches(is_python_space);
        let content = without_markers(stripped);
        let has_lost_markers = content.len() != stripped.len();
        let is_refused = self.rules.refuse_control_characters && has_control_characters(&content);
        let mut outcome = match &edit.op {
            EditOp::Append | EditOp::InsertAfter | EditOp::Replace if is_refused => {
                Outcome { note: Some(DOUBLE_BACKSLASHES), ..EditStatus::SkippedControlCharacters.into() }
            }
            EditOp::Append => self.append(&content),
            EditOp::InsertAfter => self.insert_after(&edit.target, &content),
            EditOp::Replace => self.replace(&edit.target, &content),
            EditOp::Delete => self.delete(&edit.target),
            EditOp::Unknown(_) => EditStatus::SkippedUnknownOp.into(),
        };
        outcome.note = outcome.note.or(has_lost_markers.then_some(MARKERS_REMOVED));
        EditRow::new(edit, &content, index, outcome)
    }

    fn append(&mut self, content: &str) -> Outcome {
        if is_blank(content) {
            return EditStatus::SkippedEmptyContent.into();
        }
        if self.rules.drop_duplicates && duplicate::is_said(&mut self.draft, content, None) {
            return EditStatus::SkippedDuplicateContent.into();
        }
        let before_region = self.draft.first_start_marker();
        let end = before_region.unwrap_or(self.draft.text().len());
        let body = self
            .draft
            .text()
            .get(..end)
            .expect("regions are on character boundaries")
            .trim_end_matches(is_python_space)
            .len();
        let line_end = self.draft.line_end();
        let blank_line = [line_end, line_end].concat();
        // An empty skill has nothing to keep a distance from.
        let joins = self.joins_list(body, content);
        let above = if body == 0 {
            ""
        } else if joins {
            line_end
        } else {
            blank_line.as_str()
        };
        let below = if before_region.is_some() { blank_line.as_str() } else { line_end };
        let inserted = [above, &self.draft.with_line_ends(content), below].concat();
        let status = match before_region {
            Some(_) => EditStatus::AppliedAppendBeforeProtectedRegion,
            None => EditStatus::AppliedAppend,
        };
        self.splice(body..end, &inserted, status)
    }

    /// Whether content is an item of a list and belongs to the one that ends here.
    fn joins_list(&self, at: usize, content: &str) -> bool {
        let above = self.draft.text().get(..at).expect("the body ends on a character boundary");
        let last = above.trim_end_matches(['\r', '\n']).rsplit('\n').next().unwrap_or_default();
        self.rules.tight_lists && is_list_item(last) && is_list_item(content)
    }

    fn insert_after(&mut self, target: &str, content: &str) -> Outcome {
        if is_blank(content) {
            return EditStatus::SkippedEmptyContent.into();
        }
        match self.locate(target, Use::Replace("")) {
            Located::Protected => EditStatus::SkippedProtectedRegion.into(),
            Located::Missed { note, nearest } => {
                let appended = self.append(content);
                Outcome {
                    status: appended.status.of_fallback(),
                    note: appended.note.or(note),
                    nearest,
                    ..appended
                }
            }
            Located::At { below, note, folded, .. } => {
                if self.rules.drop_duplicates && duplicate::is_said(&mut self.draft, content, Some(below)) {
                    return Outcome { folded, ..EditStatus::SkippedDuplicateContent.into() };
                }
                let line_end = self.draft.line_end();
                // A document without a line end at its end has none to spare.
                let is_open = self.draft.text().get(..below).is_some_and(|text| !text.ends_with('\n'));
                let above = if self.joins_list(below, content) && !is_open { "" } else { line_end };
                let inserted = [above, &self.draft.with_line_ends(content), line_end].concat();
                let outcome = self.splice(below..below, &inserted, EditStatus::AppliedInsertAfter);
                Outcome { note: outcome.note.or(note), folded, ..outcome }
            }
        }
    }

    fn replace(&mut self, target: &str, content: &str) -> Outcome {
        if target.is_empty() {
            return EditStatus::SkippedReplaceMissingTarget.into();
        }
        match self.locate(target, Use::Replace(content)) {
            Located::Protected => EditStatus::SkippedProtectedRegion.into(),
            Located::Missed { note, nearest } => {
                Outcome { note, nearest, ..EditStatus::SkippedReplaceTargetNotFound.into() }
            }
            Located::At { range, note, folded, .. } => {
                let replacement: Cow<'_, str> = self.draft.with_line_ends(content);
                let is_same = self.draft.text().get(range.clone()) == Some(&*replacement);
                if self.rules.drop_duplicates && is_same {
                    let note = Some(CHANGES_NOTHING);
                    return Outcome { note, folded, ..EditStatus::SkippedDuplicateContent.into() };
                }
                let replacement = replacement.into_owned();
                let outcome = self.splice(range, &replacement, EditStatus::AppliedReplace);
                Outcome { note: outcome.note.or(note), folded, ..outcome }
            }
        }
    }

    fn delete(&mut self, target: &str) -> Outcome {
        if target.is_empty() {
            return EditStatus::SkippedDeleteMissingTarget.into();
        }
        match self.locate(target, Use::Delete) {
            Located::Protected => EditStatus::SkippedProtectedRegion.into(),
            Located::Missed { note, nearest } => {
                Outcome { note, nearest, ..EditStatus::SkippedDeleteTargetNotFound.into() }
            }
            Located::At { range, note, folded, .. } => {
                let outcome = self.splice(range, "", EditStatus::AppliedDelete);
                Outcome { note: outcome.note.or(note), folded, ..outcome }
            }
        }
    }

    /// Finds a target: to the byte, or else as a reader sees it if these rules say so.
    fn locate(&mut self, target: &str, used: Use<'_>) -> Located {
        match self.draft.find(target) {
            Found::At { range, is_later } => {
                let below = self.draft.below_line_of(range.end);
                let note = is_later.then_some(LATER_OCCURRENCE);
                return Located::At { range, below, note, folded: None };
            }
            Found::OnlyProtected => return Located::Protected,
            Found::Nowhere if is_blank(target) || !self.rules.fold_anchors => {
                return Located::Missed { note: None, nearest: None };
            }
            Found::Nowhere => {}
        }
        let (text, skill) = self.draft.folded();
        let (note, place) = match anchor::find(skill, target) {
            Folded::At(place) => match place.range(text, skill, used) {
                Some(range) => (None, Some((range, place.block_end(skill)))),
                None => (Some(HALF_A_MARK), None),
            },
            Folded::Several => (Some(SEVERAL_PLACES), None),
            Folded::Nowhere => (None, None),
        };
        let Some((range, block_end)) = place else {
            let nearest = nearest::nearest(skill, target).and_then(|range| text.get(range));
            return Located::Missed { note, nearest: nearest.map(|text| text.trim().to_owned()) };
        };
        if self.draft.is_protected(&range) {
            return Located::Protected;
        }
        let below = self.draft.below_line_of(block_end.max(range.end));
        let folded = Some(FoldedAnchor::new(self.draft.text(), &range));
        Located::At { range, below, note, folded }
    }

    /// Changes the text, unless that would make or break a region or the skill too long.
    fn splice(&mut self, range: Range<usize>, replacement: &str, applied: EditStatus) -> Outcome {
        if self.grows_past_the_limit(&range, replacement) {
            return EditStatus::SkippedOverSizeLimit.into();
        }
        match self.draft.splice(range, replacement) {
            Ok(()) => applied.into(),
            Err(RegionsWouldChange) => {
                Outcome { note: Some(REGIONS_WOULD_CHANGE), ..EditStatus::SkippedProtectedRegion.into() }
            }
        }
    }

    fn grows_past_the_limit(&mut self, range: &Range<usize>, replacement: &str) -> bool {
        let Some(limit) = self.rules.max_tokens else { return false };
        let removed =
            quarter_tokens(self.draft.text().get(range.clone()).expect("places are on character boundaries"));
        let added = quarter_tokens(replacement);
        added >= removed && added > 0 && tokens_of(self.draft.quarters() + added - removed) > limit
    }
}

fn is_blank(content: &str) -> bool {
    content.chars().all(is_python_space)
}
