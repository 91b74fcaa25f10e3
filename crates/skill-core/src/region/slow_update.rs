//! The text of the slow update's region: reading it, and putting something else in its place.
//!
//! Nothing outside of the region changes. That is where this differs from the reference, which strips every region and
//! folds blank lines all over the document before it writes the new one at its end.

use super::{
    APPENDIX_END, APPENDIX_START, RegionKind, SLOW_UPDATE_END, SLOW_UPDATE_START, find_markers,
    front_matter_end, protected_regions, without_markers,
};
use crate::skill::SkillDoc;
use std::ops::Range;

/// The guidance in the first region of the slow update, without white space around it; `None` if there is no region.
pub fn slow_update_guidance(skill: &SkillDoc) -> Option<&str> {
    let text = skill.source_text();
    let region = protected_regions(text).into_iter().find(|region| region.kind == RegionKind::SlowUpdate)?;
    let inner = region.range.start + SLOW_UPDATE_START.len()..region.range.end - SLOW_UPDATE_END.len();
    text.get(inner).map(str::trim)
}

/// The skill with an empty region at its end, if it has none yet.
#[must_use]
pub fn inject_slow_update(skill: &SkillDoc) -> SkillDoc {
    match slow_update_guidance(skill) {
        Some(_) => skill.clone(),
        None => replace_slow_update(skill, ""),
    }
}

/// The skill with this guidance, and no other, in its one region.
///
/// The first region keeps its place, and a skill without one gets it at its end. Further regions go, and so do markers
/// of the slow update without a partner: what is between them would be protected by the next marker. Markers in the
/// guidance are taken out. Where even so the text would not read as meant (its front matter is never closed, and a line
/// of the guidance would close it), the skill stays as it is.
#[must_use]
pub fn replace_slow_update(skill: &SkillDoc, guidance: &str) -> SkillDoc {
    let without = without_markers(guidance);
    let guidance = without.trim();
    let (text, place) = with_one_region(skill.source_text());
    let line_end = if text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) {
        "\r\n"
    } else {
        "\n"
    };
    let guidance = guidance.replace("\r\n", "\n").replace('\n', line_end);
    let mut block = [SLOW_UPDATE_START, line_end].concat();
    if !guidance.is_empty() {
        block.extend([guidance.as_str(), line_end]);
    }
    block.push_str(SLOW_UPDATE_END);
    let written = SkillDoc::new(match place {
        Some(range) => {
            let (before, rest) = text.split_at(range.start);
            let after = rest.get(range.len()..).expect("regions are on character boundaries");
            [before, &block, after].concat()
        }
        None => appended(&text, &block, line_end),
    });
    if slow_update_guidance(&written) == Some(guidance.as_str()) { written } else { skill.clone() }
}

/// The block below the text, with one blank line between them at least.
fn appended(text: &str, block: &str, line_end: &str) -> String {
    if text.trim().is_empty() {
        return [block, line_end].concat();
    }
    let ended = text.strip_suffix(line_end);
    let gap = match ended.map(|line| line.ends_with(line_end)) {
        Some(true) => "",
        Some(false) => line_end,
        None => &line_end.repeat(2),
    };
    [text, gap, block, line_end].concat()
}

/// The text with at most one region of the slow update and with no marker of it besides, and where the region is.
fn with_one_region(text: &str) -> (String, Option<Range<usize>>) {
    let mut text = text.to_owned();
    loop {
        let (kept, superfluous) = regions_and_rest(&text);
        if superfluous.is_empty() {
            return (text, kept);
        }
        // Each round takes something away; what then comes together as a marker goes in the next one.
        let mut shorter = String::with_capacity(text.len());
        let mut from = 0;
        for range in superfluous {
            shorter.push_str(
                text.get(from..range.start.max(from)).expect("regions are on character boundaries"),
            );
            from = range.end.max(from);
        }
        shorter.push_str(text.get(from..).expect("regions are on character boundaries"));
        text = shorter;
    }
}

/// The region that stays, and what has to go, in order.
fn regions_and_rest(text: &str) -> (Option<Range<usize>>, Vec<Range<usize>>) {
    let is_clean = |range: &Range<usize>| {
        let inner = text.get(range.clone()).expect("regions are on character boundaries");
        !inner.contains(APPENDIX_START) && !inner.contains(APPENDIX_END)
    };
    let regions = protected_regions(text).into_iter().filter(|region| region.kind == RegionKind::SlowUpdate);
    // One that overlaps an appendix cannot be replaced without it: it loses its markers alone.
    let mut clean = regions.map(|region| region.range).filter(is_clean);
    let kept = clean.next();
    let mut superfluous: Vec<Range<usize>> = clean.collect();
    let body = front_matter_end(text).unwrap_or_default();
    let markers = find_markers(text.as_bytes())
        .into_iter()
        .filter(|found| found.marker.kind() == RegionKind::SlowUpdate && found.at >= body)
        .map(|found| found.at..found.end());
    let is_edge_of_kept =
        |at: &Range<usize>| kept.as_ref().is_some_and(|kept| at.start == kept.start || at.end == kept.end);
    superfluous.extend(markers.filter(|marker| !is_edge_of_kept(marker)));
    superfluous.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    (kept, superfluous)
}

#[cfg(test)]
mod tests {
    use super::super::expand;
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(short: &str, guidance: &str, expect: &str) {
        let written = replace_slow_update(&SkillDoc::new(expand(short)), &expand(guidance));
        assert_eq!(written.source_text(), expand(expect), "{short:?} with {guidance:?}");
    }

    #[test]
    fn guidance_takes_the_place_of_guidance() {
        check("a\n\n[S\nS]\n", " new \n", "a\n\n[S\nnew\nS]\n");
        check("a\n\n[S\nold\nS]\n\nb\n", "new", "a\n\n[S\nnew\nS]\n\nb\n");
        check("a\n\n[S\nold\nS]\n", "", "a\n\n[S\nS]\n");
        check("a\n\n[A\n- n\nA]\n\n[S\nS]\n", "x\ny", "a\n\n[A\n- n\nA]\n\n[S\nx\ny\nS]\n");
        check("[S old S]", "new", "[S\nnew\nS]");
    }

    #[test]
    fn a_skill_without_a_region_gets_one_at_its_end() {
        check("", "x", "[S\nx\nS]\n");
        check(" \n", "x", "[S\nx\nS]\n");
        check("a", "x", "a\n\n[S\nx\nS]\n");
        check("a\n", "x", "a\n\n[S\nx\nS]\n");
        check("a\n\n", "x", "a\n\n[S\nx\nS]\n");
        check("a\r\nb\r\n", "x\ny", "a\r\nb\r\n\r\n[S\r\nx\r\ny\r\nS]\r\n");
        check("---\nname: x\n---\n# S\n", "x", "---\nname: x\n---\n# S\n\n[S\nx\nS]\n");
    }

    /// Defect 14 of the reference: it folds blank lines everywhere, in code blocks too.
    #[test]
    fn bytes_outside_the_region_stay() {
        check(
            "```\na\n\n\n\nb\n```\n\n\n[S\nold\nS]\n\n\n",
            "x",
            "```\na\n\n\n\nb\n```\n\n\n[S\nx\nS]\n\n\n",
        );
        check("a\n\n\n\n", "x", "a\n\n\n\n[S\nx\nS]\n");
    }

    #[test]
    fn only_one_region_is_left_and_no_lone_marker() {
        check("[S\na\nS]\nb\n[S\nc\nS]\n", "x", "[S\nx\nS]\nb\n\n");
        check("a [S b\n", "x", "a  b\n\n[S\nx\nS]\n");
        check("S] a\n[S\nS]\n", "x", " a\n[S\nx\nS]\n");
        check("[S [S S] S] a", "x", "[S\nx\nS]  a");
        check("[A 1 [S A] 2 S] 3", "x", "[A 1  A] 2  3\n\n[S\nx\nS]\n");
        check("---\nname: [S\n---\na\n", "x", "---\nname: [S\n---\na\n\n[S\nx\nS]\n");
    }

    #[test]
    fn markers_in_the_guidance_go() {
        check("[S\nS]\n", "a S] b [A c", "[S\na  b  c\nS]\n");
        check("[S\nS]\n", "<!-- SLOW_[SUPDATE_END -->x", "[S\nx\nS]\n");
    }

    #[test]
    fn guidance_that_would_close_front_matter_is_not_written() {
        check("---\nname: x\n", "a\n---\nb", "---\nname: x\n");
    }

    #[test]
    fn an_empty_region_is_added_once() {
        let skill = SkillDoc::new("# S\n- a\n");
        let once = inject_slow_update(&skill);
        assert_eq!(once.source_text(), expand("# S\n- a\n\n[S\nS]\n"));
        assert_eq!(inject_slow_update(&once), once);
        assert_eq!((slow_update_guidance(&skill), slow_update_guidance(&once)), (None, Some("")));
        let with = replace_slow_update(&once, "Guidance");
        assert_eq!(slow_update_guidance(&with), Some("Guidance"));
        assert_eq!(inject_slow_update(&with), with);
    }

    proptest! {
        /// Whatever the document, its other regions and its text outside of the slow update's markers stay.
        #[test]
        fn any_document_keeps_what_is_not_the_slow_updates(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "[S", "S]", "[A", "A]", "---", "\n", "\n\n\n", "x", " ", "ß", "<!-- SLOW_", "UPDATE_START -->",
            ]), 0..24),
            guidance in "[a-z\\-\n ]{0,12}",
        ) {
            let skill = SkillDoc::new(expand(&pieces.concat()));
            let written = replace_slow_update(&skill, &guidance);
            if written == skill {
                return Ok(());
            }
            prop_assert_eq!(slow_update_guidance(&written), Some(guidance.trim()));
            let (once, place) = with_one_region(skill.source_text());
            let (before, after) = match place {
                Some(range) => (once.get(..range.start).unwrap().to_owned(), once.get(range.end..).unwrap().to_owned()),
                None if once.trim().is_empty() => (String::new(), String::new()),
                None => (once, String::new()),
            };
            prop_assert!(written.source_text().starts_with(&before));
            prop_assert!(written.source_text().ends_with(&after));
            let again = replace_slow_update(&written, &guidance);
            prop_assert_eq!(again, written);
        }
    }
}
