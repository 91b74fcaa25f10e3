//! The text of the appendix: notes about rules that are right and were not kept, as bullets below a heading.
//!
//! It is at the end of the skill, where it is rewritten with each note. As everywhere, bytes outside of the
//! region stay; the reference folds blank lines all over the document instead. The appendix of a package is that of
//! its `SKILL.md`.

use crate::package::{edit_main, main_file};
use crate::region::{
    APPENDIX_END, APPENDIX_START, RegionKind, find_markers, front_matter_end, protected_regions,
    without_markers,
};
use crate::skill::SkillDoc;
use std::collections::BTreeSet;
use std::ops::Range;

/// The first line in the region, for people.
pub(crate) const APPENDIX_HEADING: &str = "## Execution Notes Appendix";

/// The most notes of an appendix; further ones are left out.
pub const MAX_APPENDIX_NOTES: usize = 200;

/// The most characters of a note; what is longer is cut.
pub const MAX_NOTE_CHARS: usize = 500;

/// The notes of the skill's appendix, in order; none if it has no appendix.
pub fn appendix_notes(skill: &SkillDoc) -> Vec<String> {
    let text = main_file(skill);
    let region = protected_regions(text).into_iter().find(|region| region.kind == RegionKind::Appendix);
    let inner = region.and_then(|region| {
        text.get(region.range.start + APPENDIX_START.len()..region.range.end - APPENDIX_END.len())
    });
    let heading =
        |line: &str| line.trim_start_matches('#').trim() == APPENDIX_HEADING.trim_start_matches('#').trim();
    inner
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| !heading(line))
        .map(|line| line.strip_prefix(['-', '*']).unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The skill with an empty appendix at its end, if it has none yet.
#[must_use]
pub fn inject_appendix(skill: &SkillDoc) -> SkillDoc {
    let has_one =
        protected_regions(main_file(skill)).iter().any(|region| region.kind == RegionKind::Appendix);
    if has_one { skill.clone() } else { replace_appendix(skill, &[]) }
}

/// The skill with these notes behind those of its appendix; a note that says the same as an earlier one is left out.
///
/// Notes say the same if they differ in white space, in upper and lower case, or in punctuation at their ends.
#[must_use]
pub fn append_to_appendix(skill: &SkillDoc, notes: &[String]) -> SkillDoc {
    let all: Vec<String> = appendix_notes(skill).into_iter().chain(notes.iter().cloned()).collect();
    replace_appendix(skill, &all)
}

/// The skill with these notes, and no others, in one appendix at its end.
///
/// A note is one line; markers in it are taken out. Markers of an appendix without a partner go.
#[must_use]
pub fn replace_appendix(skill: &SkillDoc, notes: &[String]) -> SkillDoc {
    edit_main(skill, |main| SkillDoc::new(with_notes(main.source_text(), notes)))
}

fn with_notes(text: &str, notes: &[String]) -> String {
    let base = without_appendix(text);
    let base = base.trim_end();
    let line_end =
        if base.lines().next().is_some_and(|line| base.get(line.len()..line.len() + 2) == Some("\r\n")) {
            "\r\n"
        } else {
            "\n"
        };
    let mut lines = vec![APPENDIX_START.to_owned(), APPENDIX_HEADING.to_owned()];
    lines.extend(distinct(notes).into_iter().map(|note| format!("- {note}")));
    lines.push(APPENDIX_END.to_owned());
    let above = if base.is_empty() { String::new() } else { [base, line_end, line_end].concat() };
    [above.as_str(), &lines.join(line_end), line_end].concat()
}

/// Notes on one line each, without those that say the same as an earlier one.
fn distinct(notes: &[String]) -> Vec<String> {
    let mut known = BTreeSet::new();
    notes
        .iter()
        .map(|note| {
            let plain = without_markers(note).split_whitespace().collect::<Vec<_>>().join(" ");
            plain.chars().take(MAX_NOTE_CHARS).collect::<String>().trim().to_owned()
        })
        .filter(|note| {
            let key = note.trim_end_matches([' ', '.', ';', ':', ',', '_', '-']).to_lowercase();
            !key.is_empty() && known.insert(key)
        })
        .take(MAX_APPENDIX_NOTES)
        .collect()
}

/// The text without any appendix and without lone markers of one.
///
/// Where a region was, at most one blank line is left between what stood above it and what stood below.
fn without_appendix(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(range) = first_superfluous(&text) {
        let (before, rest) = text.split_at(range.start);
        let after = rest.get(range.len()..).expect("regions are on character boundaries");
        let is_line_end = |c: char| c == '\n' || c == '\r';
        let (above, below) = (before.trim_end_matches(is_line_end), after.trim_start_matches(is_line_end));
        let gap = [before.get(above.len()..), after.get(..after.len() - below.len())];
        let gap: String = gap.into_iter().flatten().collect();
        let n_lines = gap.matches('\n').count();
        text = match n_lines {
            0..=2 => [before, after].concat(),
            _ if gap.starts_with('\r') => [above, "\r\n\r\n", below].concat(),
            _ => [above, "\n\n", below].concat(),
        };
    }
    text
}

/// What has to go first: an appendix, or a lone marker of one. Each time something goes the text is shorter.
fn first_superfluous(text: &str) -> Option<Range<usize>> {
    let body = front_matter_end(text).unwrap_or_default();
    let markers = find_markers(text.as_bytes());
    let holds_other = |range: &Range<usize>| {
        markers.iter().any(|found| found.marker.kind() != RegionKind::Appendix && range.contains(&found.at))
    };
    // One that overlaps a slow update loses its markers alone.
    let whole = protected_regions(text)
        .into_iter()
        .filter(|region| region.kind == RegionKind::Appendix)
        .map(|region| region.range)
        .find(|range| !holds_other(range));
    whole.or_else(|| {
        markers
            .iter()
            .find(|found| found.marker.kind() == RegionKind::Appendix && found.at >= body)
            .map(|found| found.at..found.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `[S` and `S]` stand for the slow update's markers, `[A` and `A]` for the appendix's, `H` for its heading.
    fn expand(short: &str) -> String {
        crate::region::expand(&short.replace('H', APPENDIX_HEADING))
    }

    fn owned(notes: &[&str]) -> Vec<String> {
        notes.iter().map(|note| expand(note)).collect()
    }

    #[track_caller]
    fn check(short: &str, notes: &[&str], expect: &str) {
        let written = append_to_appendix(&SkillDoc::new(expand(short)), &owned(notes));
        assert_eq!(written.source_text(), expand(expect), "{short:?} with {notes:?}");
    }

    #[test]
    fn notes_go_below_notes() {
        check("# x\n", &["one"], "# x\n\n[A\nH\n- one\nA]\n");
        check("# x\n\n[A\nH\nA]\n", &["one", "two"], "# x\n\n[A\nH\n- one\n- two\nA]\n");
        check("# x\n\n[A\nH\n- one\n* two\nA]\n", &["three"], "# x\n\n[A\nH\n- one\n- two\n- three\nA]\n");
        check("", &["one"], "[A\nH\n- one\nA]\n");
        let file = "\n<!-- SKILL_FILE: references/a.md -->\n# A\n";
        check(&format!("# x\n{file}"), &["one"], &format!("# x\n\n[A\nH\n- one\nA]\n{file}"));
        check(" \n", &[], "[A\nH\nA]\n");
        check("# x\r\n- a\r\n", &["one"], "# x\r\n- a\r\n\r\n[A\r\nH\r\n- one\r\nA]\r\n");
    }

    #[test]
    fn a_note_that_says_the_same_is_left_out() {
        check(
            "x\n\n[A\nH\n- Go home.\nA]\n",
            &["go   home", "GO hOME;", " ", "..."],
            "x\n\n[A\nH\n- Go home.\nA]\n",
        );
        check("x", &["a\n b", "<!-- APPENDIX_[AEND -->c A] d"], "x\n\n[A\nH\n- a b\n- c d\nA]\n");
    }

    /// The appendix goes to the end, as in the reference, and bytes elsewhere stay (its defect 14).
    #[test]
    fn nothing_else_changes() {
        check("a\n\n[A\nH\n- n\nA]\n\n[S\ng\nS]\n", &["m"], "a\n\n[S\ng\nS]\n\n[A\nH\n- n\n- m\nA]\n");
        check("a\n\n\n\nb\n\n[A\nH\nA]\n\nc\n", &["m"], "a\n\n\n\nb\n\nc\n\n[A\nH\n- m\nA]\n");
        check("---\nname: [A\n---\nx [A y\n", &["m"], "---\nname: [A\n---\nx  y\n\n[A\nH\n- m\nA]\n");
        check(
            "[S 1 [A 2 S] 3 A] 4",
            &["m"],
            "[S 1  2 S] 3  4\n\n[A\nH\n- 2 S] 3\n- m\nA]\n".replace("- 2 S] 3\n", "- 2 3\n").as_str(),
        );
    }

    #[test]
    fn an_empty_appendix_is_added_once() {
        let skill = SkillDoc::new("# x\n");
        let once = inject_appendix(&skill);
        assert_eq!(once.source_text(), expand("# x\n\n[A\nH\nA]\n"));
        assert_eq!(inject_appendix(&once), once);
        assert_eq!(appendix_notes(&once), Vec::<String>::new());
    }

    #[test]
    fn an_appendix_has_a_limit() {
        let notes: Vec<String> =
            (0..MAX_APPENDIX_NOTES + 9).map(|n| format!("{n} {}", "x".repeat(900))).collect();
        let kept = appendix_notes(&replace_appendix(&SkillDoc::new("# x"), &notes));
        assert_eq!(kept.len(), MAX_APPENDIX_NOTES);
        assert!(kept.iter().all(|note| note.chars().count() <= MAX_NOTE_CHARS));
    }

    proptest! {
        #[test]
        fn notes_come_back_from_any_document(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "[S", "S]", "[A", "A]", "\n", "\n\n\n", "x", " ", "ß", "<!-- APPENDIX_", "START -->", "H",
            ]), 0..24),
            notes in prop::collection::vec("[a-z]{1,5}( [a-z]{1,5})?", 0..5),
        ) {
            let skill = SkillDoc::new(expand(&pieces.concat()));
            let written = replace_appendix(&skill, &notes);
            prop_assert_eq!(appendix_notes(&written), distinct(&notes));
            prop_assert_eq!(&append_to_appendix(&written, &notes), &written);
        }
    }
}
