//! What holds for every skill and every patch, however odd.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use skill_core::region::{APPENDIX_END, APPENDIX_START, SLOW_UPDATE_END, SLOW_UPDATE_START};
use skill_core::{
    Edit, EditOp, EditRules, RegionKind, SkillDoc, apply_edit, apply_patch, estimate_tokens,
    protected_regions,
};

/// Pieces that meet as markers, fences, line ends and anchors.
const PIECES: [&str; 36] = [
    "* ",
    "1. ",
    "## ",
    "**",
    "`",
    "“",
    "\"",
    "—",
    "rule",
    "\u{a0}",
    "...",
    "---",
    "---\n",
    "\n",
    "\r\n",
    "\r",
    " ",
    "a",
    "- rule\n",
    "ä",
    "\u{1f600}",
    "\u{feff}",
    "\u{1c}",
    "<!-- ",
    "<!-- SLOW_",
    "SLOW_UPDATE",
    "UPDATE_START -->",
    "_END -->",
    "APPENDIX",
    " -->",
    ">",
    SLOW_UPDATE_START,
    SLOW_UPDATE_END,
    APPENDIX_START,
    APPENDIX_END,
    "name: x\n",
];

fn any_text(max_pieces: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![9 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned), 1 => ".{0,3}"];
    prop::collection::vec(piece, 0..max_pieces).prop_map(|pieces| pieces.concat())
}

fn any_skill() -> impl Strategy<Value = String> {
    let front_matter =
        prop::sample::select(vec!["", "", "---\nname: x\n---\n", "---\r\nname: x\r\n---\r\n", "---\n"]);
    (front_matter, any_text(14)).prop_map(|(front_matter, body)| front_matter.to_owned() + &body)
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let op = prop::sample::select(vec!["append", "insert_after", "replace", "delete", "delete", "noop"]);
    (op, any_text(4), any_text(6)).prop_map(|(op, target, content)| Edit::new(op.into(), target, content))
}

/// A skill with an edit whose anchor is a part of it, drifted.
fn drifted() -> impl Strategy<Value = (String, Edit)> {
    let op = prop::sample::select(vec!["insert_after", "replace", "delete"]);
    let words = prop::collection::vec(
        prop::sample::select(vec![
            "one",
            "two ",
            "“three”",
            "**four**",
            " - ",
            "\n- ",
            "\n\n",
            "\n## ",
            "fünf",
            "`six`",
            ".",
            "\r\n",
        ]),
        1..20,
    );
    let drift = prop::sample::select(vec![
        (" ", "  "),
        ("- ", "* "),
        ("“", "\""),
        ("\n", " "),
        ("**", ""),
        ("`", ""),
        ("one", "ONE"),
        (".", ""),
        ("ü", "u\u{308}"),
        ("two", "two..."),
    ]);
    (words, 0..200_usize, 0..200_usize, drift, op, any_text(3)).prop_map(
        |(words, start, length, (from, to), op, content)| {
            let skill = words.concat();
            let target: String = skill.chars().skip(start % (words.len() * 3)).take(1 + length).collect();
            let edit = Edit::new(op.into(), target.replace(from, to), content);
            (skill, edit)
        },
    )
}

/// The text of every region, by where it starts.
fn regions(doc: &SkillDoc) -> Vec<(RegionKind, String)> {
    let text_of = |range: std::ops::Range<usize>| doc.source_text().get(range).unwrap().to_owned();
    protected_regions(doc.source_text())
        .into_iter()
        .map(|region| (region.kind, text_of(region.range)))
        .collect()
}

/// Every marker, in order, found the simple way.
fn markers(doc: &SkillDoc) -> Vec<&'static str> {
    let mut found: Vec<(usize, &'static str)> =
        [SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END]
            .into_iter()
            .flat_map(|marker| doc.source_text().match_indices(marker).map(move |(at, _)| (at, marker)))
            .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, marker)| marker).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn regions_and_markers_survive_any_patch(skill in any_skill(), edits in prop::collection::vec(any_edit(), 0..8)) {
        let before = SkillDoc::new(skill);
        let (after, rows) = apply_patch(&before, &edits);
        prop_assert_eq!(regions(&after), regions(&before));
        prop_assert_eq!(markers(&after), markers(&before));
        prop_assert_eq!(rows.len(), edits.len());
        for ((row, edit), index) in rows.iter().zip(&edits).zip(1..) {
            prop_assert_eq!((&row.op, row.index), (&edit.op, index));
        }
    }

    #[test]
    fn a_skipped_edit_changes_nothing(skill in any_skill(), edit in any_edit()) {
        let before = SkillDoc::new(skill);
        let (after, row) = apply_edit(&before, &edit);
        if !row.status.is_applied() {
            prop_assert_eq!(after, before);
        }
    }

    /// A place that a target was taken for is all that a replacement or a deletion changes, and is whole words.
    #[test]
    fn a_folded_anchor_is_all_that_changes((skill, edit) in drifted(), before in any_skill()) {
        let before = SkillDoc::new(before + "\n" + &skill);
        let (after, row) = apply_edit(&before, &edit);
        prop_assert_eq!(regions(&after), regions(&before));
        prop_assert_eq!(markers(&after), markers(&before));
        if !row.status.is_applied() {
            prop_assert_eq!(&after, &before);
        }
        let Some(folded) = row.folded else { return Ok(()) };
        let text = before.source_text();
        prop_assert!(!text.contains(&edit.target), "an exact anchor needs no folding");
        let (head, place) = (text.get(..folded.start).unwrap(), text.get(folded.start..folded.end).unwrap());
        let tail = text.get(folded.end..).unwrap();
        prop_assert!(place.starts_with(&folded.text));
        let cuts_word = |left: &str, right: &str| {
            let is_word = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() && char.is_ascii());
            is_word(left.chars().next_back()) && is_word(right.chars().next())
        };
        prop_assert!(!cuts_word(head, place) && !cuts_word(place, tail), "{head:?} {place:?} {tail:?}");
        for region in protected_regions(text) {
            prop_assert!(folded.end <= region.range.start || region.range.end <= folded.start);
        }
        if !row.status.is_applied() {
            return Ok(());
        }
        match edit.op {
            EditOp::InsertAfter => prop_assert!(after.source_text().starts_with(text.get(..folded.end).unwrap())),
            _ => {
                prop_assert!(after.source_text().starts_with(head) && after.source_text().ends_with(tail));
                let inner = after.source_text().len() - head.len() - tail.len();
                prop_assert!(edit.op != EditOp::Delete || inner == 0);
            }
        }
    }

    /// No rule makes a skill longer than its limit, and a skill above it never longer.
    #[test]
    fn the_limit_holds(skill in any_skill(), edits in prop::collection::vec(any_edit(), 0..8), max in 0_u64..40) {
        let rules = EditRules { max_tokens: Some(max), ..EditRules::default() };
        let before = SkillDoc::new(skill);
        let (after, _) = rules.apply(&before, &edits);
        let (size, was) = (estimate_tokens(after.source_text()), estimate_tokens(before.source_text()));
        prop_assert!(size <= max.max(was), "{size} tokens, {was} before, {max} at most");
    }

    /// What the draft remembers from one edit to the next is what it would find by looking again.
    #[test]
    fn a_patch_is_its_edits_one_by_one(skill in any_skill(), edits in prop::collection::vec(any_edit(), 0..8)) {
        let (at_once, rows) = apply_patch(&SkillDoc::new(skill.as_str()), &edits);
        let mut doc = SkillDoc::new(skill);
        for (edit, row) in edits.iter().zip(rows) {
            let (next, single) = apply_edit(&doc, edit);
            prop_assert_eq!(single.status, row.status);
            doc = next;
        }
        prop_assert_eq!(doc, at_once);
    }

    /// A marker does not come to be out of the text on both sides of a change and what is put there.
    #[test]
    fn no_change_puts_a_marker_together(
        marker in prop::sample::select(&[SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END][..]),
        cuts in (0_usize..=20, 0_usize..=20),
        op in prop::sample::select(vec!["replace", "delete"]),
    ) {
        let (from, to) = (cuts.0.min(cuts.1), cuts.0.max(cuts.1));
        let (before, content, after) =
            (marker.get(..from).unwrap(), marker.get(from..to).unwrap(), marker.get(to..).unwrap());
        let doc = SkillDoc::new(format!("a {before}Z{after} b"));
        let (found, _) = apply_edit(&doc, &Edit::new(op.into(), "Z", content));
        prop_assert_eq!(markers(&found), markers(&doc));
    }

    /// Text that an edit is not about stays to the byte.
    #[test]
    fn nothing_changes_outside_the_target(before in "[a-z\r\n -]{0,20}", after in "[a-z\r\n -]{0,20}", content in "[A-Y]{0,5}") {
        prop_assume!(!before.starts_with("---"));
        let doc = SkillDoc::new(format!("{before}Z{after}"));
        for op in [EditOp::Replace, EditOp::Delete] {
            let expect = if op == EditOp::Delete { format!("{before}{after}") } else { format!("{before}{content}{after}") };
            prop_assume!(!expect.starts_with("---"));
            let (found, _) = apply_edit(&doc, &Edit::new(op, "Z", content.as_str()));
            prop_assert_eq!(found.source_text(), expect);
        }
    }

    #[test]
    fn any_unicode_is_an_input(skill: String, edits in prop::collection::vec(("append|insert_after|replace|delete|.*", any::<String>(), any::<String>()), 0..5)) {
        let edits: Vec<Edit> =
            edits.into_iter().map(|(op, target, content)| Edit::new(op.as_str().into(), target, content)).collect();
        prop_assert_eq!(apply_patch(&SkillDoc::new(skill), &edits).1.len(), edits.len());
    }
}
