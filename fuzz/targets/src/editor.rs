//! Any edits on any skill.

use skill_core::region::{APPENDIX_END, APPENDIX_START, SLOW_UPDATE_END, SLOW_UPDATE_START};
use skill_core::{
    Edit, EditOp, EditRow, EditRules, RegionKind, SkillDoc, apply_edit, apply_patch, estimate_tokens,
    protected_regions,
};

/// The most bytes that an edit adds besides its content: line ends around it.
const MAX_FRAME: usize = 8;

/// Applies edits: each gets one row, protected regions and markers stay, what is skipped changes nothing, and a patch
/// is its edits one by one. A target that was found only by folding is unprotected, and nothing around it changes; by
/// the reference's rules none is, and no limit on size is passed.
///
/// The input is a text with NUL between its parts: the skill, then operation, target and content of each edit. An
/// operation is known by its first letter.
pub fn editor(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split('\0');
    let before = SkillDoc::new(parts.next().unwrap_or_default());
    let mut edits = Vec::new();
    while let Some(op) = parts.next() {
        let (target, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        edits.push(Edit::new(op_of(op), target, content));
    }
    let (after, rows) = apply_patch(&before, &edits);
    assert_eq!(rows.len(), edits.len());
    assert_eq!(regions(&after), regions(&before), "a protected region has changed");
    assert_eq!(markers(&after), markers(&before), "a marker came or went");

    let mut doc = before;
    for ((edit, row), index) in edits.iter().zip(&rows).zip(1..) {
        assert_eq!((&row.op, row.index), (&edit.op, index));
        let (next, alone) = apply_edit(&doc, edit);
        assert_eq!((alone.status, &alone.folded), (row.status, &row.folded));
        check_folded(&doc, edit, &alone, &next);
        if !alone.status.is_applied() {
            assert_eq!(next, doc, "a skipped edit changed something");
        }
        // Line feeds may become pairs.
        let most = doc.source_text().len() + 2 * edit.content.len() + MAX_FRAME;
        assert!(
            next.source_text().len() <= most,
            "{} bytes where at most {most} can be",
            next.source_text().len()
        );
        doc = next;
    }
    assert_eq!(doc, after);
}

/// What holds of a place that a target was taken for.
fn check_folded(before: &SkillDoc, edit: &Edit, row: &EditRow, after: &SkillDoc) {
    let limited =
        EditRules { max_tokens: Some(estimate_tokens(before.source_text()) + 4), ..EditRules::default() };
    let (small, _) = limited.apply(before, std::slice::from_ref(edit));
    assert!(
        estimate_tokens(small.source_text()) <= estimate_tokens(before.source_text()) + 4,
        "the limit on size was passed"
    );
    let (_, exact) = EditRules::reference().apply(before, std::slice::from_ref(edit));
    assert!(exact.iter().all(|row| row.folded.is_none() && row.nearest.is_none()));
    let Some(folded) = &row.folded else { return };
    assert!(!before.source_text().contains(&edit.target), "the target occurs verbatim");
    let place = before.source_text().get(folded.start..folded.end).unwrap();
    assert!(place.starts_with(&folded.text));
    for region in protected_regions(before.source_text()) {
        assert!(folded.end <= region.range.start || region.range.end <= folded.start, "a protected place");
    }
    let (head, tail) =
        (before.source_text().get(..folded.start).unwrap(), before.source_text().get(folded.end..).unwrap());
    if row.status.is_applied() && edit.op != EditOp::InsertAfter {
        assert!(after.source_text().len() >= head.len() + tail.len());
        assert!(
            after.source_text().starts_with(head) && after.source_text().ends_with(tail),
            "more than the place changed"
        );
    }
}

fn op_of(name: &str) -> EditOp {
    match name.as_bytes().first() {
        Some(b'a') => EditOp::Append,
        Some(b'i') => EditOp::InsertAfter,
        Some(b'r') => EditOp::Replace,
        Some(b'd') => EditOp::Delete,
        _ => EditOp::Unknown(name.to_owned()),
    }
}

/// The kind and the text of each region.
fn regions(doc: &SkillDoc) -> Vec<(RegionKind, String)> {
    let regions = protected_regions(doc.source_text()).into_iter();
    regions.map(|region| (region.kind, doc.source_text().get(region.range).unwrap().to_owned())).collect()
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
