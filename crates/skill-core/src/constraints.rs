//! Constraints that people put on edits: pinned lines and forbidden edits.
//!
//! An edit that would remove a pinned line is skipped, and so is one that adds forbidden text or repeats a forbidden
//! deletion. Lines are compared without surrounding white space and list markers, so a rule that returns as an item of
//! another list is the same rule.
//!
//! # Invariants
//!
//! - No edit or rewrite removes a pinned line or repeats a forbidden edit. Held by
//!   `a_pinned_line_and_a_forbidden_edit_hold_until_they_are_taken_back`.

use crate::edit::{Edit, EditOp};
use crate::editor::{EditRow, EditRules, EditStatus};
use crate::package::{FrontMatterEdits, apply_package_patch};
use crate::skill::SkillDoc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const PINNED: &str = "a person has pinned a line that the edit would take away";
const FORBIDDEN: &str = "a person has forbidden this edit";

/// What is not to be done again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Forbidden {
    /// Text that is not added.
    Content {
        /// The text.
        text: String,
    },
    /// Text that is not deleted.
    Deletion {
        /// The text.
        text: String,
    },
}

impl Forbidden {
    /// What an edit did, as something that is not to be done again; `None` for an edit that does nothing.
    pub fn of(edit: &Edit) -> Option<Self> {
        let text = |text: &str| (!lines_of(text).is_empty()).then(|| text.trim().to_owned());
        match &edit.op {
            EditOp::Append | EditOp::InsertAfter | EditOp::Replace => {
                text(&edit.content).map(|text| Self::Content { text })
            }
            EditOp::Delete => text(&edit.target).map(|text| Self::Deletion { text }),
            EditOp::Unknown(_) => None,
        }
    }

    /// The text that is meant.
    pub fn text(&self) -> &str {
        match self {
            Self::Content { text } | Self::Deletion { text } => text,
        }
    }

    fn is(&self, edit: &Edit) -> bool {
        match (self, &edit.op) {
            (Self::Content { text }, EditOp::Append | EditOp::InsertAfter | EditOp::Replace) => {
                says(&edit.content, text)
            }
            (Self::Deletion { text }, EditOp::Delete) => says(&edit.target, text),
            (Self::Content { .. } | Self::Deletion { .. }, _) => false,
        }
    }
}

/// What holds for all edits from some step on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EditConstraints {
    /// Texts whose lines stay.
    pub pinned: Vec<String>,
    /// Edits that are not made again.
    pub forbidden: Vec<Forbidden>,
}

impl EditConstraints {
    /// True without any constraint.
    pub fn is_empty(&self) -> bool {
        self.pinned.is_empty() && self.forbidden.is_empty()
    }

    /// Applies edits as [`apply_package_patch`] does, except those that break a constraint, whose rows say so.
    ///
    /// ```
    /// use skill_core::constraints::{Forbidden, EditConstraints};
    /// use skill_core::{Edit, EditOp, EditRules, EditStatus, FrontMatterEdits, SkillDoc};
    ///
    /// let skill = SkillDoc::new("# Skill\n\n- Be exact.\n");
    /// let constraints = EditConstraints {
    ///     pinned: vec!["- Be exact.".to_owned()],
    ///     forbidden: vec![Forbidden::Content { text: "- Guess.".to_owned() }],
    /// };
    /// let edits = [Edit::new(EditOp::Delete, "- Be exact.", ""), Edit::append("* Guess."), Edit::append("- Look twice.")];
    /// let (edited, rows) = constraints.apply(&skill, &edits, &EditRules::default(), FrontMatterEdits::Never);
    /// assert_eq!(edited.source_text(), "# Skill\n\n- Be exact.\n\n- Look twice.\n");
    /// let statuses = [EditStatus::SkippedPinned, EditStatus::SkippedForbidden, EditStatus::AppliedAppend];
    /// assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), statuses);
    /// ```
    pub fn apply(
        &self,
        skill: &SkillDoc,
        edits: &[Edit],
        rules: &EditRules,
        front_matter: FrontMatterEdits,
    ) -> (SkillDoc, Vec<EditRow>) {
        let mut edited = skill.clone();
        let mut rows = Vec::with_capacity(edits.len());
        for (edit, index) in edits.iter().zip(1..) {
            let skipped = |status, note| EditRow::outside_the_editor(edit, status, index, note);
            if self.forbidden.iter().any(|forbidden| forbidden.is(edit)) {
                rows.push(skipped(EditStatus::SkippedForbidden, FORBIDDEN));
                continue;
            }
            let (next, made) = apply_package_patch(&edited, std::slice::from_ref(edit), rules, front_matter);
            if self.lost(&edited, &next).is_some() {
                rows.push(skipped(EditStatus::SkippedPinned, PINNED));
                continue;
            }
            edited = next;
            rows.extend(made.into_iter().map(|row| EditRow { index, ..row }));
        }
        (edited, rows)
    }

    /// The first pinned text of which a line is gone.
    pub fn lost(&self, before: &SkillDoc, after: &SkillDoc) -> Option<&str> {
        let (before, after) = (lines_of(before.source_text()), lines_of(after.source_text()));
        let is_lost = |text: &&String| {
            lines_of(text).into_iter().any(|line| before.contains(line) && !after.contains(line))
        };
        self.pinned.iter().find(is_lost).map(String::as_str)
    }

    /// The first constraint that a whole new skill breaks: a pinned text that it lacks, or a forbidden one that it adds.
    pub fn broken_by(&self, before: &SkillDoc, after: &SkillDoc) -> Option<&str> {
        let (old, new) = (before.source_text(), after.source_text());
        let is_broken = |forbidden: &&Forbidden| match forbidden {
            Forbidden::Content { text } => says(new, text) && !says(old, text),
            Forbidden::Deletion { text } => says(old, text) && !says(new, text),
        };
        self.lost(before, after).or_else(|| self.forbidden.iter().find(is_broken).map(Forbidden::text))
    }
}

/// True if each line of the text is a line of the skill.
pub fn is_in(skill: &SkillDoc, text: &str) -> bool {
    says(skill.source_text(), text)
}

/// True if each line of `text` is a line of `whole`; a text without lines is in nothing.
fn says(whole: &str, text: &str) -> bool {
    let (whole, lines) = (lines_of(whole), lines_of(text));
    !lines.is_empty() && lines.is_subset(&whole)
}

/// The lines of a text without their white space and the marks of lists, less blank ones.
fn lines_of(text: &str) -> BTreeSet<&str> {
    text.lines().map(bare).filter(|line| !line.is_empty()).collect()
}

fn bare(line: &str) -> &str {
    let line = line.trim();
    let without_mark = ["- ", "* ", "+ "].iter().find_map(|mark| line.strip_prefix(mark));
    let digits = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let without_number = (digits.len() < line.len()).then(|| digits.strip_prefix(". ")).flatten();
    without_mark.or(without_number).unwrap_or(line).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(constraints: &EditConstraints, skill: &str, edits: &[Edit]) -> (String, Vec<EditStatus>) {
        let (rules, front_matter) = (EditRules::default(), FrontMatterEdits::Never);
        let (edited, rows) = constraints.apply(&SkillDoc::new(skill), edits, &rules, front_matter);
        assert_eq!(
            rows.iter().map(|row| row.index).collect::<Vec<_>>(),
            (1..=edits.len()).collect::<Vec<_>>()
        );
        (edited.into_source_text(), rows.into_iter().map(|row| row.status).collect())
    }

    #[test]
    fn a_pinned_line_is_neither_deleted_nor_replaced_and_the_rest_of_a_patch_is_applied() {
        let constraints = EditConstraints { pinned: vec!["- b".to_owned()], ..EditConstraints::default() };
        let skill = "# S\n\n- a\n- b\n- c\n";
        let edits = [
            Edit::new(EditOp::Replace, "- a\n- b", "- x"),
            Edit::new(EditOp::Replace, "- b", "- b, but only on Mondays"),
            Edit::new(EditOp::Delete, "- b", ""),
            Edit::new(EditOp::InsertAfter, "- b", "- new"),
            Edit::new(EditOp::Delete, "- c", ""),
        ];
        let (edited, statuses) = apply(&constraints, skill, &edits);
        assert!(edited.contains("- b\n") && edited.contains("- new") && !edited.contains("- c"), "{edited}");
        use EditStatus::{AppliedDelete, AppliedInsertAfter, SkippedPinned};
        let pinned = SkippedPinned;
        assert_eq!(statuses, [pinned, pinned, pinned, AppliedInsertAfter, AppliedDelete]);
    }

    #[test]
    fn without_constraints_edits_do_what_they_do() {
        let skill = "# S\n\n- a\n- b\n";
        let edits = [
            Edit::append("- c"),
            Edit::new(EditOp::Replace, "- c", "- d"),
            Edit::new(EditOp::Delete, "- nowhere", ""),
            Edit::new(EditOp::Unknown("x".to_owned()), "", ""),
        ];
        let plain = crate::apply_patch(&SkillDoc::new(skill), &edits);
        let constrained = EditConstraints::default().apply(
            &SkillDoc::new(skill),
            &edits,
            &EditRules::default(),
            FrontMatterEdits::Never,
        );
        assert_eq!(plain, constrained);
    }

    #[test]
    fn a_forbidden_edit_is_known_again_by_its_lines() {
        let forbidden = |edit: &Edit| Forbidden::of(edit).unwrap();
        let constraints = EditConstraints {
            forbidden: vec![
                forbidden(&Edit::append("- always say hello\n")),
                forbidden(&Edit::new(EditOp::Delete, "- a", "")),
            ],
            ..EditConstraints::default()
        };
        let edits = [
            Edit::new(EditOp::InsertAfter, "- a", "1. always say hello"),
            Edit::append("- other\n- always say hello"),
            Edit::new(EditOp::Delete, "- a", ""),
            Edit::append("- always say hello to guests"),
        ];
        let (edited, statuses) = apply(&constraints, "# S\n\n- a\n", &edits);
        use EditStatus::{AppliedAppend, SkippedForbidden};
        assert_eq!(statuses, [SkippedForbidden, SkippedForbidden, SkippedForbidden, AppliedAppend]);
        assert!(edited.contains("to guests") && edited.contains("- a\n"), "{edited}");
        assert_eq!(Forbidden::of(&Edit::append(" \n")), None);
        assert_eq!(Forbidden::of(&Edit::new(EditOp::Unknown("x".to_owned()), "t", "c")), None);
    }

    #[test]
    fn a_rewrite_obeys_constraints_too() {
        let constraints = EditConstraints {
            pinned: vec!["- a".to_owned()],
            forbidden: vec![Forbidden::Content { text: "- x".to_owned() }],
        };
        let doc = |text: &str| SkillDoc::new(text);
        let broken =
            |before: &str, after: &str| constraints.broken_by(&doc(before), &doc(after)).map(str::to_owned);
        for (before, after, expect) in [
            ("- a\n", "- b\n", Some("- a")),
            ("- a\n", "* a\n- x\n", Some("- x")),
            ("- a\n- x\n", "- a\n- x\n- y\n", None),
            // What was never there cannot be lost.
            ("- b\n", "- c\n", None),
        ] {
            assert_eq!(broken(before, after).as_deref(), expect, "{before:?} {after:?}");
        }
    }
}
