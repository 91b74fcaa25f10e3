//! Edits whose anchors a model did not copy to the letter land where a person would put them, or nowhere.
//!
//! `tuned.jsonl` was looked at while the folding was written, `held_out.jsonl` was not.
#![expect(clippy::disallowed_methods, reason = "the crate reads no files, its tests do")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its figures"
)]

use serde::Deserialize;
use skill_core::editor::{EditRow, EditRules};
use skill_core::{Edit, SkillDoc};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// One edit of the corpus.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The name of the skill's file.
    skill: String,
    /// How the anchor drifted.
    kind: String,
    op: String,
    target: String,
    #[serde(default)]
    content: String,
    /// The text of the skill that a person would take for the anchor, which is there once; what a deletion takes
    /// away, and what an insertion goes below. Null if the edit must not land.
    lands: Option<String>,
}

/// What became of an edit.
#[derive(Debug, PartialEq, Eq)]
enum Landing {
    /// Where a person would put it; an edit that must not land was skipped or appended.
    Right,
    /// Skipped or appended, though a person would have found the place.
    Missed,
    /// Somewhere else.
    Wrong,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/anchors")
}

fn cases(file: &str) -> Vec<Case> {
    let text = fs::read_to_string(directory().join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines of a text that are not blank, without the white space at their ends.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect()
}

/// The skill as a person would edit it.
fn by_hand(skill: &str, case: &Case) -> Option<String> {
    let lands = case.lands.as_deref()?;
    assert_eq!(skill.matches(lands).count(), 1, "{case:?}");
    let at = skill.find(lands).unwrap();
    let (before, after) = (skill.get(..at).unwrap(), skill.get(at + lands.len()..).unwrap());
    Some(match case.op.as_str() {
        "insert_after" => format!("{before}{lands}\n{}\n{after}", case.content),
        _ => format!("{before}{}{after}", case.content),
    })
}

fn land(case: &Case) -> (Landing, EditRow) {
    let skill = fs::read_to_string(directory().join("skills").join(format!("{}.md", case.skill))).unwrap();
    assert!(!skill.contains(&case.target), "the anchor has not drifted: {case:?}");
    let edit = Edit::new(case.op.as_str().into(), case.target.as_str(), case.content.as_str());
    let rules = EditRules { drop_duplicates: false, ..EditRules::default() };
    let (edited, mut rows) = rules.apply(&SkillDoc::new(skill.as_str()), &[edit]);
    let row = rows.remove(0);
    let found = row.folded.is_some();
    let landing = match by_hand(&skill, case) {
        Some(expect) if found && lines(edited.source_text()) == lines(&expect) => Landing::Right,
        Some(_) if found => Landing::Wrong,
        Some(_) => Landing::Missed,
        None if found => Landing::Wrong,
        None => Landing::Right,
    };
    assert!(found || !row.status.is_applied() || row.missed_anchor().is_some(), "{row:?}");
    (landing, row)
}

/// How many of those that a person would place landed there, and how many there are; prints what did not.
#[track_caller]
fn check(file: &str, shows_cases: bool) -> (usize, usize) {
    let (mut n_right, mut n_landable, mut wrong) = (0, 0, Vec::new());
    let mut by_kind: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for case in cases(file) {
        let (landing, row) = land(&case);
        if landing == Landing::Wrong {
            wrong.push(format!("{case:?}\n  {row:?}"));
        }
        if case.lands.is_none() {
            continue;
        }
        n_landable += 1;
        let kind = by_kind.entry(case.kind.clone()).or_default();
        kind.1 += 1;
        if landing == Landing::Right {
            n_right += 1;
            kind.0 += 1;
        } else if shows_cases {
            println!(
                "{landing:?} {} {:?}: {:?}\n  nearest {:?}",
                case.skill, case.kind, case.target, row.nearest
            );
        }
    }
    println!(
        "{file}: {n_right} of {n_landable} landed where a person would put them, {} elsewhere",
        wrong.len()
    );
    println!("{by_kind:?}");
    assert!(wrong.is_empty(), "{file}: these landed elsewhere:\n{}", wrong.join("\n"));
    (n_right, n_landable)
}

#[test]
fn drifted_anchors_land_where_a_person_would_put_them() {
    let (tuned, n_tuned) = check("tuned.jsonl", true);
    assert!(10 * tuned >= 9 * n_tuned, "{tuned} of {n_tuned}");
}

#[test]
fn anchors_that_were_not_looked_at_land_as_well() {
    let (held_out, n_held_out) = check("held_out.jsonl", false);
    assert!(10 * held_out >= 9 * n_held_out, "{held_out} of {n_held_out}");
}

#[test]
fn the_corpus_is_large_enough() {
    let (tuned, held_out) = (cases("tuned.jsonl").len(), cases("held_out.jsonl").len());
    assert!(tuned + held_out >= 200, "{tuned} + {held_out}");
    assert!(3 * held_out >= tuned + held_out, "{held_out} of {tuned} + {held_out} are held out");
}
