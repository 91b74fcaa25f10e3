//! Lines are followed through edits and other changes.

use proptest::prelude::*;
use skill_core::{Edit, EditOp, EpochIdx, SkillDoc, StepIdx, apply_patch};
use skill_pipeline::provenance::{LineOrigin, lines::TrackedSkill};

const SKILL: &str =
    "# S\n\n- one\n- two\n- three\n\n<!-- SLOW_UPDATE_START -->\nslow\n<!-- SLOW_UPDATE_END -->\n";

fn edit(index: usize) -> LineOrigin {
    LineOrigin::Edit { step: StepIdx(1), index }
}

/// What the edits make of [`SKILL`], each line with `.` for the first skill or the number of its edit.
#[track_caller]
fn check(edits: &[Edit], expect: &[&str]) {
    let mut tracked = TrackedSkill::new(SkillDoc::new(SKILL), LineOrigin::Initial);
    for (edited, index) in edits.iter().zip(1..) {
        tracked = tracked.edited(edited, None, edit(index));
    }
    let shown: Vec<String> = tracked
        .lines()
        .into_iter()
        .map(|line| match line.origin {
            LineOrigin::Edit { index, .. } => format!("{index} {}", line.text),
            _ => format!(". {}", line.text),
        })
        .filter(|line| line.len() > 2 && !line.contains("<!--"))
        .collect();
    assert_eq!(shown, expect);
    assert_eq!(tracked.skill(), &apply_patch(&SkillDoc::new(SKILL), edits).0);
}

#[test]
fn a_line_belongs_to_the_edit_that_wrote_it() {
    let first = [". # S", ". - one", ". - two", ". - three", ". slow"];
    check(&[], &first);
    check(&[Edit::append("- four")], &[". # S", ". - one", ". - two", ". - three", "1 - four", ". slow"]);
    check(
        &[
            Edit::new(EditOp::InsertAfter, "- one", "- one and a half"),
            Edit::new(EditOp::Replace, "- two", "- 2"),
        ],
        &[". # S", ". - one", "1 - one and a half", "2 - 2", ". - three", ". slow"],
    );
    check(&[Edit::new(EditOp::Delete, "- two\n", "")], &[". # S", ". - one", ". - three", ". slow"]);
    // A part of a line that is replaced makes the line the edit's; so does one that a later edit writes again.
    check(
        &[Edit::new(EditOp::Replace, "wo", "wice")],
        &[". # S", ". - one", "1 - twice", ". - three", ". slow"],
    );
    let again = [Edit::append("- four"), Edit::new(EditOp::Replace, "- four", "- 4")];
    check(&again, &[". # S", ". - one", ". - two", ". - three", "2 - 4", ". slow"]);
    // What is skipped writes nothing.
    check(&[Edit::new(EditOp::Replace, "slow", "fast"), Edit::new(EditOp::Delete, "- nine", "")], &first);
}

#[test]
fn what_no_edit_explains_is_told_by_where_it_stands() {
    let tracked = TrackedSkill::new(SkillDoc::new(SKILL), LineOrigin::Initial);
    let after = SKILL.replace("slow", "slower").replace("- two", "- deux");
    let changed = tracked.changed(SkillDoc::new(after), |region| match region {
        Some(_) => LineOrigin::SlowUpdate { epoch: EpochIdx(2), step: StepIdx(4) },
        None => LineOrigin::Rewrite { step: StepIdx(4) },
    });
    let origins: Vec<(String, LineOrigin)> =
        changed.lines().into_iter().map(|line| (line.text, line.origin)).collect();
    assert_eq!(origins[3], ("- deux".to_owned(), LineOrigin::Rewrite { step: StepIdx(4) }));
    assert_eq!(
        origins[7],
        ("slower".to_owned(), LineOrigin::SlowUpdate { epoch: EpochIdx(2), step: StepIdx(4) })
    );
    let others = origins.iter().enumerate().filter(|(place, _)| ![3, 7].contains(place));
    assert!(
        others.clone().count() == 7 && others.clone().all(|(_, (_, origin))| *origin == LineOrigin::Initial)
    );
}

proptest! {
    #[test]
    fn every_line_has_one_origin_whatever_is_edited(
        text in "([ -~é]{0,6}\n){0,8}",
        edits in proptest::collection::vec(("[ -~é\n]{0,8}", "[ -~\n]{0,4}", 0..4_usize), 0..5),
    ) {
        let ops = [EditOp::Append, EditOp::InsertAfter, EditOp::Replace, EditOp::Delete];
        let mut tracked = TrackedSkill::new(SkillDoc::new(text), LineOrigin::Initial);
        for ((content, target, op), index) in edits.into_iter().zip(1..) {
            let before = tracked.clone();
            tracked = tracked.edited(&Edit::new(ops[op].clone(), target, content), None, edit(index));
            prop_assert_eq!(tracked.origins().len(), tracked.skill().source_text().lines().count());
            // A line that is there twice as often as before has a new one among them.
            if tracked.skill() == before.skill() {
                prop_assert_eq!(&tracked, &before);
            }
        }
        let n_lines = tracked.lines().len();
        prop_assert_eq!(n_lines, tracked.origins().len());
        prop_assert!(tracked.lines().last().is_none_or(|line| line.number == n_lines));
    }
}

#[test]
fn a_run_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = skill_pipeline::RunReader::open(dir.path()).unwrap_err();
    assert_eq!(error.to_string(), format!("no run in {}", dir.path().display()));
}
