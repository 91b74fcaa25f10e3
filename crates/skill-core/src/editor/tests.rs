//! What the editor does, case by case, and what it never does.

use super::*;
use crate::region::expand;

/// A skill with a slow update, as the reference's vectors have it.
const SLOW: &str = "# QA Skill\n\n## Rules\n- Prefer shortest answer span.\n- Use clue wording.\n\n<!-- SLOW_UPDATE_START -->\nSome slow guidance.\n<!-- SLOW_UPDATE_END -->\n";
/// A small skill with a doubled line, as the reference's vectors have it.
const SMALL: &str = "# S\n\n- one\n- two\n- one\n";

/// Applies one edit; markers may be given in short in all texts.
#[track_caller]
fn check(text: &str, (op, target, content): (&str, &str, &str), expect_status: &str, expect: &str) {
    let (text, target, content) = (expand(text), expand(target), expand(content));
    let edit = Edit::new(op.into(), target.as_str(), content.as_str());
    let (doc, rows) =
        EditRules::reference().apply(&SkillDoc::new(text.as_str()), std::slice::from_ref(&edit));
    let row = &rows[0];
    assert_eq!(
        (row.status.as_str(), doc.source_text()),
        (expect_status, expand(expect).as_str()),
        "{edit:?}"
    );
    assert_eq!((row.index, row.op.as_str(), row.target.as_str()), (1, op, target.as_str()));
}

/// Applies one edit that must leave the text as it is.
#[track_caller]
fn check_skip(text: &str, edit: (&str, &str, &str), expect_status: &str) {
    check(text, edit, expect_status, text);
}

#[test]
fn edits_do_what_they_do_in_the_reference() {
    let with = |old: &str, new: &str| SLOW.replace(old, new);
    let added = with("wording.\n\n", "wording.\n\n- New rule.\n\n");
    check(SLOW, ("append", "", "- New rule."), "applied_append_before_protected_region", &added);
    let inserted = with("## Rules\n", "## Rules\n\n- Inserted.\n");
    check(SLOW, ("insert_after", "## Rules", "- Inserted."), "applied_insert_after", &inserted);
    let fallen_back = with("wording.\n\n", "wording.\n\n- F.\n\n");
    check(
        SLOW,
        ("insert_after", "NOPE", "- F."),
        "applied_insert_after_fallback_before_protected_region",
        &fallen_back,
    );
    check(SMALL, ("append", "", "  - three \n"), "applied_append", "# S\n\n- one\n- two\n- one\n\n- three\n");
    check(
        SMALL,
        ("insert_after", "- one", "- 1b"),
        "applied_insert_after",
        "# S\n\n- one\n\n- 1b\n- two\n- one\n",
    );
    check(SMALL, ("replace", "- one", "- ONE"), "applied_replace", "# S\n\n- ONE\n- two\n- one\n");
    check(SMALL, ("delete", "- one\n", ""), "applied_delete", "# S\n\n- two\n- one\n");
    check_skip(SMALL, ("replace", "zz", "y"), "skipped_replace_target_not_found");
    check_skip(SMALL, ("noop", "", "y"), "skipped_unknown_op");
}

/// The reference's results are: the markers' text is eaten; an error; and two blank lines on top.
#[test]
fn edits_do_the_right_thing_where_the_reference_does_not() {
    check_skip(SLOW, ("replace", "wording.\n\n<!-- SLOW_UPDATE_START -->", "X"), "skipped_protected_region");
    check("", ("append", "", "x"), "applied_append", "x\n");
    let edit: Edit = serde_json::from_str(r#"{"op": "append", "content": null, "target": null}"#).unwrap();
    let (doc, row) = apply_edit(&SkillDoc::new(SMALL), &edit);
    assert_eq!((doc.source_text(), row.status), (SMALL, EditStatus::SkippedEmptyContent));
}

#[test]
fn append_keeps_one_blank_line_around_the_content() {
    check("a", ("append", "", "b"), "applied_append", "a\n\nb\n");
    check("a \n\n\n", ("append", "ignored", "b"), "applied_append", "a\n\nb\n");
    check(" \n\n", ("append", "", "b"), "applied_append", "b\n");
    check("[S\nS]", ("append", "", "b"), "applied_append_before_protected_region", "b\n\n[S\nS]");
    check(
        "a\n[A\nA]\nz",
        ("append", "", "b"),
        "applied_append_before_protected_region",
        "a\n\nb\n\n[A\nA]\nz",
    );
    check(
        "a\n[A\nA]\n[S\nS]",
        ("append", "", "b"),
        "applied_append_before_protected_region",
        "a\n\nb\n\n[A\nA]\n[S\nS]",
    );
    check("a [S", ("append", "", "b"), "applied_append_before_protected_region", "a\n\nb\n\n[S");
    check("a S]", ("append", "", "b"), "applied_append", "a S]\n\nb\n");
}

#[test]
fn insert_after_goes_below_the_line() {
    check("a b\nc\n", ("insert_after", "a", "x"), "applied_insert_after", "a b\n\nx\nc\n");
    check("a\nb\nc\n", ("insert_after", "a\n", "x"), "applied_insert_after", "a\nb\n\nx\nc\n");
    check("a", ("insert_after", "a", "x"), "applied_insert_after", "a\nx\n");
    check("a\n", ("insert_after", "a\n", "x"), "applied_insert_after", "a\n\nx\n");
    check("a\nb\n", ("insert_after", "a\nb", "x\ny"), "applied_insert_after", "a\nb\n\nx\ny\n");
    check("a\n", ("insert_after", "", "x"), "applied_insert_after_fallback_append", "a\n\nx\n");
    check("", ("insert_after", "a", "x"), "applied_insert_after_fallback_append", "x\n");
    check("a\n[S S]\nb", ("insert_after", "b", "x"), "applied_insert_after", "a\n[S S]\nb\nx\n");
}

#[test]
fn replace_and_delete_change_nothing_but_the_target() {
    check("a  b\n", ("replace", "a ", " x "), "applied_replace", "x b\n");
    check("a\n\nb\n\nc", ("delete", "b", "ignored"), "applied_delete", "a\n\n\n\nc");
    check("a b c", ("replace", "b ", ""), "applied_replace", "a c");
    check("äöü", ("replace", "ö", "ß"), "applied_replace", "äßü");
    check("a", ("delete", "a", ""), "applied_delete", "");
    check_skip("a", ("replace", "", "x"), "skipped_replace_missing_target");
    check_skip("a", ("delete", "", "x"), "skipped_delete_missing_target");
    check_skip("a", ("delete", "A", ""), "skipped_delete_target_not_found");
    check_skip("a", ("delete", "a ", ""), "skipped_delete_target_not_found");
    check_skip("", ("replace", "a", "b"), "skipped_replace_target_not_found");
}

#[test]
fn content_loses_white_space_and_markers() {
    check("a", ("append", "", "\u{a0}\u{1f}\u{2028}b\u{3000}\r\n"), "applied_append", "a\n\nb\n");
    check("a", ("append", "", "\u{feff}b\u{200b}"), "applied_append", "a\n\n\u{feff}b\u{200b}\n");
    check("a", ("append", "", "b[S c A]d"), "applied_append", "a\n\nb c d\n");
    check("a", ("append", "", "b<!-- SLOW_[SUPDATE_START -->"), "applied_append", "a\n\nb\n");
    check("a", ("replace", "a", "[S S]"), "applied_replace", " ");
    for blank in ["", " \n\t", "[S\nS]", "[S\u{1c}S]"] {
        check_skip("a", ("append", "", blank), "skipped_empty_content");
        check_skip("a", ("insert_after", "a", blank), "skipped_empty_content");
        check_skip("a", ("insert_after", "zz", blank), "skipped_empty_content");
    }
}

#[test]
fn content_with_control_characters_is_refused() {
    let statuses = |content: &str| {
        let edits = [
            Edit::append(content),
            Edit::new(EditOp::InsertAfter, "a", content),
            Edit::new(EditOp::Replace, "a", content),
        ];
        let (doc, rows) = apply_patch(&SkillDoc::new("a"), &edits);
        let is_refused = rows.iter().all(|row| row.status == EditStatus::SkippedControlCharacters);
        assert_eq!(is_refused, doc.source_text() == "a", "{content:?}");
        is_refused
    };
    for content in ["a\u{8} b", "a\u{c}b", "x\u{7}", "\u{7f}y", "y\u{9b}z"] {
        assert!(statuses(content), "{content:?}");
    }
    assert!(!statuses("b\tc\r\nd"));
    let (doc, _) = apply_patch(&SkillDoc::new("a\u{8}"), &[Edit::new(EditOp::Delete, "\u{8}", "\u{8}")]);
    assert_eq!(doc.source_text(), "a");
    let (_, rows) = EditRules::reference().apply(&SkillDoc::new("a"), &[Edit::append("b\u{8}c")]);
    assert!(rows[0].status.is_applied());
}

#[test]
fn protected_regions_cannot_be_touched() {
    const TEXT: &str = "---\nname: q\n---\na\n[S\nb\nS]\nc [A d A]\ne";
    for target in [
        "name",
        "---",
        "---\na",
        "\n---\n",
        "b",
        "[S",
        "S]",
        "[S\nb\nS]",
        "a\n[S",
        "S]\nc",
        "c [A",
        "A]",
        "d",
        "[A d A]\ne",
        TEXT,
    ] {
        for op in ["replace", "delete", "insert_after"] {
            check_skip(TEXT, (op, target, "x"), "skipped_protected_region");
        }
    }
    for orphan in ["S]", "A]"] {
        check_skip(&format!("a {orphan} b"), ("delete", orphan, ""), "skipped_protected_region");
        check_skip(&format!("a {orphan} b"), ("replace", "a <!--", "x"), "skipped_protected_region");
    }
    check("a\n[S S]\nb [S", ("delete", "b ", ""), "applied_delete", "a\n[S S]\n[S");
}

#[test]
fn the_first_occurrence_outside_regions_counts() {
    check("[S a S]\na\n", ("replace", "a", "x"), "applied_replace", "[S a S]\nx\n");
    check(
        "---\na: 1\n---\n[S a S]\na\n",
        ("delete", "a", ""),
        "applied_delete",
        "---\na: 1\n---\n[S a S]\n\n",
    );
    check("[A a A]\na\na", ("insert_after", "a", "x"), "applied_insert_after", "[A a A]\na\n\nx\na");
    check("[S aa S]aaa", ("replace", "aa", "x"), "applied_replace", "[S aa S]xa");
}

#[test]
fn nothing_is_inserted_inside_a_region() {
    check("a [S\nS]\n", ("insert_after", "a", "x"), "applied_insert_after", "a \nx\n[S\nS]\n");
    check("a\n[S\nS]\n", ("insert_after", "a", "x"), "applied_insert_after", "a\n\nx\n[S\nS]\n");
    check("a [S b S]", ("insert_after", "a", "x"), "applied_insert_after", "a [S b S]\nx\n");
    check("a\n---\nb\n", ("insert_after", "a", "x"), "applied_insert_after", "a\n\nx\n---\nb\n");
}

#[test]
fn an_append_goes_below_front_matter() {
    check("---\nn: q\n---\n", ("append", "", "x"), "applied_append", "---\nn: q\n---\n\nx\n");
    check("---\nn: q\n---", ("append", "", "x"), "applied_append", "---\nn: q\n---\n\nx\n");
    check("---\nn: [S S]\n---\na", ("append", "", "x"), "applied_append", "---\nn: [S S]\n---\na\n\nx\n");
    check(
        "---\nn: q\n---\n[S S]",
        ("append", "", "x"),
        "applied_append_before_protected_region",
        "---\nn: q\n---\n\nx\n\n[S S]",
    );
}

#[test]
fn no_edit_makes_or_breaks_a_region() {
    const PARTS: &str = "a <!-- SLOW_ZUPDATE_START --> b";
    check_skip(PARTS, ("delete", "Z", ""), "skipped_protected_region");
    check_skip(PARTS, ("replace", "Z", ""), "skipped_protected_region");
    check(PARTS, ("replace", "Z", "Y"), "applied_replace", "a <!-- SLOW_YUPDATE_START --> b");
    check_skip("a <!-- Z_END -->", ("replace", "Z", "APPENDIX"), "skipped_protected_region");
}

#[test]
fn no_edit_makes_moves_or_breaks_front_matter() {
    check_skip("", ("append", "", "---\na: b\n---"), "skipped_protected_region");
    check_skip("Z---\na\n---\n", ("delete", "Z", ""), "skipped_protected_region");
    check_skip("---\na: b\n", ("append", "", "c\n---\nd"), "skipped_protected_region");
    check_skip("---\na: b\n---\n# T\n", ("delete", "\n# ", ""), "skipped_protected_region");
    check_skip("---\na: b\n---\n# T\n", ("replace", "\n", "x"), "skipped_protected_region");
    check("---\na: b\n---\n# T\n", ("delete", "\n# T", ""), "applied_delete", "---\na: b\n---\n");
    check("a\n", ("append", "", "---\nb\n---"), "applied_append", "a\n\n---\nb\n---\n");
}

#[test]
fn crlf_documents_keep_their_line_ends() {
    check("a\r\nb\r\n", ("append", "", "x\ny"), "applied_append", "a\r\nb\r\n\r\nx\r\ny\r\n");
    check("a\r\nb\r\n", ("insert_after", "a", "x"), "applied_insert_after", "a\r\n\r\nx\r\nb\r\n");
    check(
        "a\r\nb\r\n",
        ("insert_after", "a\r", "x\r\ny"),
        "applied_insert_after",
        "a\r\n\r\nx\r\ny\r\nb\r\n",
    );
    check("a\r\nb\r\nc\r\n", ("replace", "a\nb", "x"), "applied_replace", "x\r\nc\r\n");
    check("a\r\nb\r\n", ("replace", "b", "x\ny"), "applied_replace", "a\r\nx\r\ny\r\n");
    check("a\r\nb\r\n", ("delete", "a\r", ""), "applied_delete", "\r\nb\r\n");
    check("a\r\nb\r\n", ("delete", "\nb", ""), "applied_delete", "a\r\n");
    check("a\r\nb\r\n", ("delete", "\r", ""), "applied_delete", "a\r\nb\r\n");
    check("a\nb\r\n", ("append", "", "x"), "applied_append", "a\nb\n\nx\n");
    check("---\r\nn: q\r\n---\r\n", ("append", "", "x"), "applied_append", "---\r\nn: q\r\n---\r\n\r\nx\r\n");
    check(
        "a\r\n[S\r\nS]\r\n",
        ("append", "", "x"),
        "applied_append_before_protected_region",
        "a\r\n\r\nx\r\n\r\n[S\r\nS]\r\n",
    );
}

#[test]
fn a_patch_applies_in_order_each_edit_to_the_result_of_the_one_before() {
    let edits = [
        Edit::append("- three"),
        Edit::new(EditOp::InsertAfter, "- three", "- four"),
        Edit::new(EditOp::Replace, "- missing", "- x"),
        Edit::new(EditOp::Delete, "- one\n", ""),
        Edit::new(EditOp::Replace, "- one", "- ONE"),
        Edit::append("[end]"),
    ];
    let text = expand(&format!("{SMALL}\n[S\nkeep\nS]\n"));
    let (doc, rows) = apply_patch(&SkillDoc::new(text), &edits);
    let expect = "# S\n\n- two\n- ONE\n\n- three\n\n- four\n\n[end]\n\n[S\nkeep\nS]\n";
    assert_eq!(doc.source_text(), expand(expect));
    let rows: Vec<(usize, &str)> = rows.iter().map(|row| (row.index, row.status.as_str())).collect();
    assert_eq!(
        rows,
        [
            (1, "applied_append_before_protected_region"),
            (2, "applied_insert_after"),
            (3, "skipped_replace_target_not_found"),
            (4, "applied_delete"),
            (5, "applied_replace"),
            (6, "applied_append_before_protected_region"),
        ]
    );
}

#[test]
fn rows_are_those_of_the_reference() {
    let (_, row) = apply_edit(&SkillDoc::new(SLOW), &Edit::new(EditOp::InsertAfter, "NOPE", " - F. "));
    assert_eq!(
        serde_json::to_string(&row).unwrap(),
        r#"{"op":"insert_after","target":"NOPE","content_preview":"- F.","status":"applied_insert_after_fallback_before_protected_region","index":1}"#
    );
    let long = "ä".repeat(500);
    let (_, row) =
        apply_edit(&SkillDoc::new(SMALL), &Edit::new(EditOp::Replace, long.as_str(), long.as_str()));
    assert_eq!((row.target.chars().count(), row.content_preview.chars().count()), (200, 200));
}

#[track_caller]
fn check_note(text: &str, (op, target, content): (&str, &str, &str), expect: Option<&str>) {
    let edit = Edit::new(op.into(), expand(target), expand(content));
    let (_, row) = apply_edit(&SkillDoc::new(expand(text)), &edit);
    assert_eq!(row.note.as_deref(), expect, "{edit:?}");
}

#[test]
fn notes_say_what_the_status_does_not() {
    check_note("a", ("append", "", "x"), None);
    check_note("a", ("append", "", "x[S"), Some(MARKERS_REMOVED));
    check_note("a", ("append", "", "[S"), Some(MARKERS_REMOVED));
    check_note("[S a S] a", ("delete", "a", ""), Some(LATER_OCCURRENCE));
    check_note("[S a S]", ("delete", "a", ""), None);
    check_note("", ("append", "", "---\na\n---"), Some(REGIONS_WOULD_CHANGE));
}

#[track_caller]
fn check_missed((op, target): (&str, &str), expect: Option<&str>) {
    let (_, row) = apply_edit(&SkillDoc::new(SMALL), &Edit::new(op.into(), target, "x"));
    assert_eq!(row.missed_anchor(), expect, "{op} {target}");
}

#[test]
fn missed_anchors_are_visible() {
    check_missed(("insert_after", "zz"), Some("zz"));
    check_missed(("replace", "zz"), Some("zz"));
    check_missed(("delete", "zz"), Some("zz"));
    check_missed(("insert_after", ""), None);
    check_missed(("insert_after", "- one"), None);
    check_missed(("append", "zz"), None);
    check_missed(("noop", "zz"), None);
}

#[test]
fn every_status_has_the_name_that_it_is_written_with() {
    for name in [
        "applied_append",
        "applied_append_before_protected_region",
        "applied_insert_after",
        "applied_insert_after_fallback_append",
        "applied_insert_after_fallback_before_protected_region",
        "applied_replace",
        "applied_delete",
        "skipped_protected_region",
        "skipped_empty_content",
        "skipped_replace_missing_target",
        "skipped_replace_target_not_found",
        "skipped_delete_missing_target",
        "skipped_delete_target_not_found",
        "skipped_duplicate_content",
        "skipped_over_size_limit",
        "skipped_unknown_op",
        "error",
    ] {
        let status: EditStatus = serde_json::from_value(name.into()).unwrap();
        assert_eq!(status.as_str(), name);
        assert_eq!(serde_json::to_value(status).unwrap(), name);
        assert_eq!(status.is_applied(), name.starts_with("applied_"));
    }
}
