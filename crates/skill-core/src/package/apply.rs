//! Edits of a package: each is applied to the file that it names, by the editor of single documents.

use super::SkillPackage;
use super::boundary::has_boundary;
use super::path::asked_file;
use crate::edit::Edit;
use crate::editor::{EditRow, EditRules, EditStatus};
use crate::skill::SkillDoc;
use crate::tokens::estimate_tokens;

/// Whether edits may change the front matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrontMatterEdits {
    /// Never: it is a protected region.
    #[default]
    Never,
    /// By `replace`, if what comes out is sound by the specification and has the same name.
    #[cfg(feature = "yaml")]
    Sound,
}

const IN_FRONT_MATTER: &str = "in the front matter";
const SEPARATES_FILES: &str = "the edit would make a line that separates the files of a skill";
const NO_SUCH_FILE: &str = "the skill has no such file";
const CARRIED: &str = "only SKILL.md and the reference files can be edited";

impl SkillDoc {
    /// Applies edits by the default rules: [`apply_package_patch`] without edits of the front matter.
    ///
    /// Each edit changes the file that it names, `SKILL.md` if it names none; there is one row for each edit, in their
    /// order. It is total: an edit that cannot be applied is skipped, and its row says why. Files that are carried
    /// along stay.
    pub fn apply(&self, edits: &[Edit]) -> (Self, Vec<EditRow>) {
        apply_package_patch(self, edits, &EditRules::default(), FrontMatterEdits::Never)
    }
}

/// Applies edits in order, each to the file that it names, and each to the result of the one before.
///
/// As [`EditRules::apply`], it is total and gives one row for each edit. An edit without a file is one of `SKILL.md`; one
/// that names a file which the skill does not have, or which cannot be edited, is skipped. No edit makes or removes a
/// file.
pub fn apply_package_patch(
    skill: &SkillDoc,
    edits: &[Edit],
    rules: &EditRules,
    front_matter: FrontMatterEdits,
) -> (SkillDoc, Vec<EditRow>) {
    let mut package = SkillPackage::of(skill);
    let is_plain = package.references.is_empty() && package.carried.is_empty();
    if is_plain
        && front_matter == FrontMatterEdits::Never
        && edits.iter().all(|edit| asked_file(edit.file.as_deref()).is_none())
    {
        let (edited, rows) = rules.apply(skill, edits);
        // A text that would be taken for several files is none that this skill can become.
        if !has_boundary(edited.source_text()) {
            return (edited, rows);
        }
    }
    let rows = edits
        .iter()
        .zip(1..)
        .map(|(edit, index)| apply_to(&mut package, edit, rules, front_matter, index))
        .collect();
    (package.joined(), rows)
}

fn apply_to(
    package: &mut SkillPackage,
    edit: &Edit,
    rules: &EditRules,
    front_matter: FrontMatterEdits,
    index: usize,
) -> EditRow {
    let n_tokens = tokens(package);
    let path = asked_file(edit.file.as_deref()).map(str::to_owned);
    let text = match &path {
        None => &mut package.main,
        Some(path) => match package.references.get_mut(path) {
            Some(text) => text,
            None if package.carried.contains_key(path) => {
                return skipped(edit, EditStatus::SkippedFileNotEditable, CARRIED, index);
            }
            None => return skipped(edit, EditStatus::SkippedUnknownFile, NO_SUCH_FILE, index),
        },
    };
    let in_front_matter: Option<Result<String, String>> = match front_matter {
        _ if path.is_some() => None,
        FrontMatterEdits::Never => None,
        #[cfg(feature = "yaml")]
        FrontMatterEdits::Sound => super::front_matter_edit::replace(text, edit),
    };
    match in_front_matter {
        None => {}
        Some(Ok(changed)) => {
            *text = changed;
            return EditRow::outside_the_editor(edit, EditStatus::AppliedReplace, index, IN_FRONT_MATTER);
        }
        Some(Err(fault)) => return skipped(edit, EditStatus::SkippedProtectedRegion, &fault, index),
    }
    // The limit is one of the whole skill: a file may have what the others leave.
    let elsewhere = n_tokens.saturating_sub(estimate_tokens(text));
    let rules =
        EditRules { max_tokens: rules.max_tokens.map(|most| most.saturating_sub(elsewhere)), ..*rules };
    let (edited, rows) = rules.apply(&SkillDoc::new(text.as_str()), std::slice::from_ref(edit));
    let Some(mut row) = rows.into_iter().next() else {
        return skipped(edit, EditStatus::Error, "the editor gave no report", index);
    };
    row.index = index;
    if has_boundary(edited.source_text()) && !has_boundary(text) {
        return skipped(edit, EditStatus::SkippedProtectedRegion, SEPARATES_FILES, index);
    }
    *text = edited.into_source_text();
    row
}

/// The tokens of all files that can be edited.
fn tokens(package: &SkillPackage) -> u64 {
    package.references.values().map(|text| estimate_tokens(text)).sum::<u64>()
        + estimate_tokens(&package.main)
}

fn skipped(edit: &Edit, status: EditStatus, note: &str, index: usize) -> EditRow {
    EditRow::outside_the_editor(edit, status, index, note)
}
