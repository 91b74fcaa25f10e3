//! Protected regions: the parts of a skill that the edits of a step cannot touch.
//!
//! There are three kinds: YAML front matter, the slow update's block and the appendix. This module finds them
//! and writes the slow update's; the editor keeps away from all of them.

mod front_matter;
mod marker;
mod slow_update;

pub(crate) use front_matter::front_matter_end;
pub(crate) use marker::{MAX_MARKER_LEN, MarkerAt, find_markers, without_markers};

pub use slow_update::{inject_slow_update, replace_slow_update, slow_update_guidance};

use std::ops::Range;

/// Opens the slow update's region.
pub const SLOW_UPDATE_START: &str = "<!-- SLOW_UPDATE_START -->";
/// Closes the slow update's region.
pub const SLOW_UPDATE_END: &str = "<!-- SLOW_UPDATE_END -->";
/// Opens the appendix.
pub const APPENDIX_START: &str = "<!-- APPENDIX_START -->";
/// Closes the appendix.
pub const APPENDIX_END: &str = "<!-- APPENDIX_END -->";

/// What a [`Region`] is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// YAML between a first line `---` and the next line `---`: what an agent's loader reads of a skill.
    FrontMatter,
    /// Guidance that the slow update writes at the end of an epoch.
    SlowUpdate,
    /// Notes about lapses of execution, which are no defects of the skill.
    Appendix,
}

impl RegionKind {
    /// The text that opens and the text that closes a region of this kind; front matter has its lines instead.
    pub fn markers(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::FrontMatter => None,
            Self::SlowUpdate => Some((SLOW_UPDATE_START, SLOW_UPDATE_END)),
            Self::Appendix => Some((APPENDIX_START, APPENDIX_END)),
        }
    }
}

/// One protected region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// What it is for.
    pub kind: RegionKind,
    /// Where it is, in bytes of the text: from the first byte of what opens it to the last of what closes it.
    pub range: Range<usize>,
}

/// All protected regions of a skill's text, by where they start.
///
/// A region goes from its start marker to the next end marker of its kind. A marker without its partner makes no
/// region, and one in the front matter is part of that. Regions of different kinds can overlap where a text is odd.
pub fn protected_regions(text: &str) -> Vec<Region> {
    regions_between(front_matter_end(text), &find_markers(text.as_bytes()))
}

/// The regions of a text whose front matter ends at `front_matter` and whose markers are these.
pub(crate) fn regions_between(front_matter: Option<usize>, markers: &[MarkerAt]) -> Vec<Region> {
    let body = front_matter.unwrap_or_default();
    let mut regions: Vec<Region> =
        front_matter.map(|end| Region { kind: RegionKind::FrontMatter, range: 0..end }).into_iter().collect();
    for kind in [RegionKind::SlowUpdate, RegionKind::Appendix] {
        let mut open = None;
        for found in markers.iter().filter(|found| found.marker.kind() == kind && found.at >= body) {
            if found.marker.is_start() {
                open = open.or(Some(found.at));
            } else if let Some(start) = open.take() {
                regions.push(Region { kind, range: start..found.end() });
            }
        }
    }
    regions.sort_by_key(|region| region.range.start);
    regions
}

/// Texts of tests: `[S` and `S]` stand for the slow update's markers, `[A` and `A]` for the appendix's.
#[cfg(test)]
pub(crate) fn expand(short: &str) -> String {
    short
        .replace("[S", SLOW_UPDATE_START)
        .replace("S]", SLOW_UPDATE_END)
        .replace("[A", APPENDIX_START)
        .replace("A]", APPENDIX_END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use RegionKind::{Appendix, FrontMatter, SlowUpdate};

    #[track_caller]
    fn check(short: &str, expect: &[(RegionKind, &str)]) {
        let text = expand(short);
        let found: Vec<(RegionKind, &str)> = protected_regions(&text)
            .into_iter()
            .map(|region| (region.kind, text.get(region.range).unwrap()))
            .collect();
        let expect: Vec<(RegionKind, String)> =
            expect.iter().map(|(kind, short)| (*kind, expand(short))).collect();
        let expect: Vec<(RegionKind, &str)> =
            expect.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(found, expect, "{short:?}");
    }

    #[test]
    fn marked_regions() {
        check("", &[]);
        check("# S\n", &[]);
        check("a\n[S\nb\nS]\n", &[(SlowUpdate, "[S\nb\nS]")]);
        check("a [A b A] c", &[(Appendix, "[A b A]")]);
        check("[A1A][S2S]", &[(Appendix, "[A1A]"), (SlowUpdate, "[S2S]")]);
        check("[S1S] x [S2S]", &[(SlowUpdate, "[S1S]"), (SlowUpdate, "[S2S]")]);
        check("[S [S S] S]", &[(SlowUpdate, "[S [S S]")]);
        check("[A [S A] S]", &[(Appendix, "[A [S A]"), (SlowUpdate, "[S A] S]")]);
    }

    #[test]
    fn a_marker_without_its_partner_makes_no_region() {
        check("S] [S", &[]);
        check("[S A]", &[]);
        check("[A", &[]);
        check("S] [S x S]", &[(SlowUpdate, "[S x S]")]);
    }

    #[test]
    fn front_matter_is_a_region() {
        check("---\nname: x\n---\n# S\n", &[(FrontMatter, "---\nname: x\n---")]);
        check("---\nname: [S S]\n---\n", &[(FrontMatter, "---\nname: [S S]\n---")]);
        check("---\nname: [S\n---\nS] [A A]", &[(FrontMatter, "---\nname: [S\n---"), (Appendix, "[A A]")]);
        check("a\n---\nb\n---\n", &[]);
    }
}
