//! What the editor does beyond the reference, case by case: folded anchors, duplicates, the limit on size.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_core::editor::{EditRow, EditRules, EditStatus};
use skill_core::{Edit, EditOp, SkillDoc, apply_edit, estimate_tokens};

#[track_caller]
fn apply(text: &str, (op, target, content): (&str, &str, &str)) -> (String, EditRow) {
    let edit = Edit::new(op.into(), target, content);
    let (doc, row) = apply_edit(&SkillDoc::new(text), &edit);
    (doc.source_text().to_owned(), row)
}

/// The edit is applied to a place that its target was taken for.
#[track_caller]
fn check(text: &str, edit: (&str, &str, &str), expect: &str) {
    let (found, row) = apply(text, edit);
    assert_eq!(found, expect, "{row:?}");
    let folded = row.folded.unwrap();
    assert!(row.status.is_applied());
    assert_eq!(folded.text, text.get(folded.start..folded.end).unwrap(), "{edit:?}");
}

/// The edit finds no place.
#[track_caller]
fn check_missed(text: &str, (op, target, content): (&str, &str, &str), expect_note: Option<&str>) {
    let (found, row) = apply(text, (op, target, content));
    assert_eq!((row.missed_anchor(), row.note.as_deref()), (Some(target), expect_note), "{row:?}");
    assert_eq!(row.folded, None);
    if op != "insert_after" {
        assert_eq!(found, text);
    }
}

const SEVERAL: Option<&str> =
    Some("the target does not occur to the letter, and more than one place is like it");

#[test]
fn a_replacement_takes_whole_words_and_both_halves_of_marks() {
    check("- **Bold rule:** text\n", ("replace", "Bold rule: text", "X"), "- X\n");
    check("- **Bold** rule\n", ("replace", "- Bold  rule", "- X"), "- X\n");
    check("a **bold  rule** b\n", ("replace", "bold rule", "X"), "a **X** b\n");
    check("a **bold  rule** b\n", ("replace", "*bold rule*", "X"), "a X b\n");
    check("a **bold  rule** b\n", ("replace", "bold rule", "**X**"), "a **X** b\n");
    check("Say “yes” now\n", ("replace", "Say yes", "X"), "X now\n");
    check("- one, two.\n", ("replace", "* one, two", "* X."), "* X.\n");
    check("- one two\n", ("replace", "one  two", "- X"), "- X\n");
    check("- one two\n", ("replace", "one  two", "X"), "- X\n");
    check("> - one two\n", ("replace", "* one two", "* X"), "> * X\n");
    check("1. one two\n", ("replace", "2) one two", "2) X"), "2) X\n");
    check("a\r\nb c\r\n", ("replace", "b  c", "x\ny"), "a\r\nx\r\ny\r\n");
    let half = Some("what is like the target would leave half of a pair of marks behind");
    check_missed("**Bold rule:** text\n", ("replace", "Rule: text", "X"), half);
}

#[test]
fn a_deletion_of_whole_lines_takes_their_line_ends() {
    check("a\n- one two\nb\n", ("delete", "one  two", ""), "a\nb\n");
    check("a\n  - one two.  \nb\n", ("delete", "* one two", ""), "a\nb\n");
    check("a\r\n- one two\r\nb\r\n", ("delete", "* one two", ""), "a\r\nb\r\n");
    check("a one two b\n", ("delete", "one  two", ""), "a  b\n");
    check("- one\n\n- two\nb\n", ("delete", "* one\n* two", ""), "b\n");
    check("a\n- one two", ("delete", "* one two", ""), "a\n");
}

#[test]
fn an_insertion_goes_below_the_item_or_paragraph() {
    check("- one\n  two\n- three\n", ("insert_after", "* one", "- X"), "- one\n  two\n\n- X\n- three\n");
    check("## Head\n- one\n", ("insert_after", "# Head #", "- X"), "## Head\n\n- X\n- one\n");
    check("Head\n====\n\na\n", ("insert_after", "# Head", "- X"), "Head\n====\n\n- X\n\na\n");
    check("```\na  b\nc\n```\n", ("insert_after", "a b", "x"), "```\na  b\n\nx\nc\n```\n");
}

#[test]
fn dots_stand_for_the_rest_of_an_item() {
    check("- one two three\n  four\n- five\n", ("replace", "- one two ...", "- X"), "- X\n- five\n");
    check("- one two three\n- five\n", ("delete", "* one two…", ""), "- five\n");
    check("- one two, three four.\n", ("replace", "- one two [...] four", "- X."), "- X.\n");
    check_missed("- one two a\n- one two b\n", ("replace", "- one two ...", "- X"), SEVERAL);
    check_missed("- one two a\n", ("replace", "- one two ... b", "- X"), None);
    check_missed("- one two a\n", ("replace", "- one ...", "- X"), None);
    check_missed("say one two a\n", ("replace", "one two ...", "- X"), None);
}

#[test]
fn what_is_in_doubt_is_left_alone() {
    check_missed("- a b\n* a b\n", ("delete", "+ a b", ""), SEVERAL);
    check_missed("a b, A B\n", ("replace", "A  b", "x"), SEVERAL);
    check_missed("aa aa aa\n", ("replace", "aa  aa", "x"), SEVERAL);
    // The exact look decides before the looser one sees two places.
    check("a “b” c\na ‘b’ c\n", ("replace", "a  \"b\" c", "x"), "x\na ‘b’ c\n");
    check_missed("Use the Rules here.\n", ("replace", "rules", "x"), None);
    check_missed("- use the rules\n", ("insert_after", "## Use the rules", "x"), None);
    check_missed("do not the rules\n", ("replace", "- the rules", "x"), None);
    check_missed("10² of it\n", ("delete", "102 of  it", ""), None);
    check_missed("- one\n", ("delete", "- two", ""), None);
    check_missed("- - -\n", ("delete", "* * *", ""), None);
}

#[test]
fn exact_anchors_go_first_and_the_reference_knows_no_others() {
    let (text, row) = apply("a  b\na b\na b\n", ("replace", "a b", "x"));
    assert_eq!((text.as_str(), row.folded), ("a  b\nx\na b\n", None));
    let edits = [Edit::new(EditOp::Delete, "a  b", "")];
    let (doc, rows) = EditRules::reference().apply(&SkillDoc::new("a b\n"), &edits);
    assert_eq!((doc.source_text(), rows[0].status), ("a b\n", EditStatus::SkippedDeleteTargetNotFound));
    assert_eq!((&rows[0].nearest, &rows[0].folded), (&None, &None));
}

#[track_caller]
fn check_nearest(text: &str, target: &str, expect: Option<&str>) {
    let (_, row) = apply(text, ("replace", target, "x"));
    assert_eq!(row.nearest.as_deref(), expect, "{row:?}");
}

#[test]
fn the_row_of_a_missed_anchor_has_the_nearest_text() {
    const TEXT: &str =
        "# Skill\n\n- Read the whole table first.\n- Answer with a\n  number only.\n\n## End\nStop.\n";
    check_nearest(TEXT, "- Read the hole table first", Some("- Read the whole table first."));
    check_nearest(TEXT, "Answer with numbers only", Some("- Answer with a\n  number only."));
    check_nearest(TEXT, "## Ending", Some("## End"));
    check_nearest(TEXT, "## End\nStops.", Some("## End\nStop."));
    check_nearest(TEXT, "completely unlike", None);
    check_nearest(TEXT, "x", None);
    check_nearest("", "abc", None);
    check_nearest(
        "<!-- APPENDIX_START -->\nRead the table.\n<!-- APPENDIX_END -->\n",
        "Read that table",
        None,
    );
    let long = format!("- {}end\n", "word ".repeat(100));
    check_nearest(&long, &"words ".repeat(80), long.get(..200));
}

#[track_caller]
fn check_duplicate(text: &str, (op, target, content): (&str, &str, &str), expect: bool) {
    let (found, row) = apply(text, (op, target, content));
    assert_eq!(row.status == EditStatus::SkippedDuplicateContent, expect, "{row:?}");
    assert_eq!(found == text, expect);
}

#[test]
fn content_that_the_skill_has_already_is_not_added() {
    const TEXT: &str =
        "# T\n\nGeneral rule.\n\n## A\n- One “rule” here.\n- Two\n  lines.\n\n## B\n- Other.\n";
    for content in ["- one \"rule\" here", "* Two lines.", "1. Other\n2. General rule", "## B\n- Other."] {
        check_duplicate(TEXT, ("append", "", content), true);
    }
    for content in
        ["- One rule", "- One “rule” here. And more.", "- Other.\n- New.", "## C\n- Other.", "## A\n- Other."]
    {
        check_duplicate(TEXT, ("append", "", content), false);
    }
    check_duplicate(TEXT, ("insert_after", "## A", "- Two lines"), true);
    check_duplicate(TEXT, ("insert_after", "## A", "- Other."), false);
    check_duplicate(TEXT, ("insert_after", "## B", "General rule"), true);
    check_duplicate(TEXT, ("insert_after", "no such line", "- Other."), true);
    check_duplicate(TEXT, ("replace", "- Other.", "- Other."), true);
    check_duplicate(TEXT, ("replace", "- Other.", "- One “rule” here."), false);
    check_duplicate(TEXT, ("append", "", "---"), false);
    let protected = "<!-- APPENDIX_START -->\nRead the table.\n<!-- APPENDIX_END -->\n";
    check_duplicate(protected, ("append", "", "Read the table."), false);
}

#[test]
fn of_two_equal_edits_in_a_patch_one_is_applied() {
    let edits = [Edit::append("- a rule"), Edit::append("* A rule.")];
    let (doc, rows) = EditRules::default().apply(&SkillDoc::new(""), &edits);
    assert_eq!(doc.source_text(), "- a rule\n");
    assert_eq!(rows[1].status, EditStatus::SkippedDuplicateContent);
    let (doc, _) = EditRules::reference().apply(&SkillDoc::new(""), &edits);
    assert_eq!(doc.source_text(), "- a rule\n\n* A rule.\n");
}

#[test]
fn no_edit_makes_the_skill_longer_than_its_limit() {
    let rules = EditRules { max_tokens: Some(10), ..EditRules::default() };
    let skill = SkillDoc::new("- twenty-four letters...\n");
    assert_eq!(estimate_tokens(skill.source_text()), 7);
    let edits = [
        Edit::append("- far too long to be added"),
        Edit::append("- short"),
        Edit::append("- more"),
        Edit::new(EditOp::Replace, "short", "shrt"),
        Edit::new(EditOp::Delete, "- shrt", ""),
    ];
    let (doc, rows) = rules.apply(&skill, &edits);
    let statuses: Vec<&str> = rows.iter().map(|row| row.status.as_str()).collect();
    assert_eq!(
        statuses,
        [
            "skipped_over_size_limit",
            "applied_append",
            "skipped_over_size_limit",
            "applied_replace",
            "applied_delete"
        ]
    );
    assert!(estimate_tokens(doc.source_text()) <= 10);
}

#[test]
fn above_the_limit_only_what_shortens_the_skill_is_applied() {
    let rules = EditRules { max_tokens: Some(2), ..EditRules::default() };
    let skill = SkillDoc::new("- one rule that is long\n- two rules\n");
    let edits = [
        Edit::new(EditOp::Replace, "one", "won"),
        Edit::new(EditOp::Replace, "one rule that is long", "one"),
        Edit::new(EditOp::InsertAfter, "no such line", "x"),
        Edit::new(EditOp::Delete, "- two rules\n", ""),
    ];
    let (doc, rows) = rules.apply(&skill, &edits);
    let statuses: Vec<&str> = rows.iter().map(|row| row.status.as_str()).collect();
    assert_eq!(
        statuses,
        ["skipped_over_size_limit", "applied_replace", "skipped_over_size_limit", "applied_delete"]
    );
    assert_eq!(doc.source_text(), "- one\n");
}

#[track_caller]
fn check_tokens(text: &str, expect: u64) {
    assert_eq!(estimate_tokens(text), expect, "{text:?}");
}

#[test]
fn tokens_are_estimated_by_the_bytes_of_characters() {
    check_tokens("", 0);
    check_tokens("a", 1);
    check_tokens("abcd", 1);
    check_tokens("abcde", 2);
    check_tokens("äöü", 2);
    check_tokens("你好", 2);
    check_tokens("😀", 2);
}

#[test]
fn an_item_joins_the_list_that_it_is_added_to_where_lists_are_tight() {
    #[track_caller]
    fn check(text: &str, (op, target, content): (&str, &str, &str), expect: &str) {
        let rules = EditRules { tight_lists: true, ..EditRules::default() };
        let edit = Edit::new(op.into(), target, content);
        let (doc, row) = rules.apply(&SkillDoc::new(text), &[edit]);
        assert_eq!(doc.source_text(), expect, "{row:?}");
    }
    check("# S\n\n- a\n", ("append", "", "- b"), "# S\n\n- a\n- b\n");
    check("# S\n\n- a\n\n", ("append", "", "- b"), "# S\n\n- a\n- b\n");
    check("# S\n\n1. a\n", ("append", "", "2. b"), "# S\n\n1. a\n2. b\n");
    check("# S\n", ("append", "", "- b"), "# S\n\n- b\n");
    check("- a\n", ("append", "", "Text."), "- a\n\nText.\n");
    check("- a\n- c\n", ("insert_after", "- a", "- b"), "- a\n- b\n- c\n");
    check("- a", ("insert_after", "- a", "- b"), "- a\n- b\n");
    check("# S\n\n- c\n", ("insert_after", "# S", "- b"), "# S\n\n- b\n\n- c\n");
}
