//! The comments that open and close protected regions: finding them, and taking them out of a model's text.

use super::{APPENDIX_END, APPENDIX_START, RegionKind, SLOW_UPDATE_END, SLOW_UPDATE_START};
use memchr::memmem;

/// What every marker begins with.
const PREFIX: &str = "<!-- ";

/// The length of the longest marker, in bytes.
pub(crate) const MAX_MARKER_LEN: usize = SLOW_UPDATE_START.len();

/// One of the four markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    SlowUpdateStart,
    SlowUpdateEnd,
    AppendixStart,
    AppendixEnd,
}

impl Marker {
    const ALL: [Self; 4] =
        [Self::SlowUpdateStart, Self::SlowUpdateEnd, Self::AppendixStart, Self::AppendixEnd];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::SlowUpdateStart => SLOW_UPDATE_START,
            Self::SlowUpdateEnd => SLOW_UPDATE_END,
            Self::AppendixStart => APPENDIX_START,
            Self::AppendixEnd => APPENDIX_END,
        }
    }

    pub(crate) fn kind(self) -> RegionKind {
        match self {
            Self::SlowUpdateStart | Self::SlowUpdateEnd => RegionKind::SlowUpdate,
            Self::AppendixStart | Self::AppendixEnd => RegionKind::Appendix,
        }
    }

    pub(crate) fn is_start(self) -> bool {
        match self {
            Self::SlowUpdateStart | Self::AppendixStart => true,
            Self::SlowUpdateEnd | Self::AppendixEnd => false,
        }
    }
}

/// A marker in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarkerAt {
    pub(crate) marker: Marker,
    /// The byte where it starts.
    pub(crate) at: usize,
}

impl MarkerAt {
    /// The byte after it.
    pub(crate) fn end(self) -> usize {
        self.at + self.marker.as_str().len()
    }
}

/// Every marker of a text, in order. No two overlap, as each has a single `<`, its first byte.
pub(crate) fn find_markers(text: &[u8]) -> Vec<MarkerAt> {
    memmem::find_iter(text, PREFIX)
        .filter_map(|at| {
            let rest = text.get(at..)?;
            let marker =
                Marker::ALL.into_iter().find(|marker| rest.starts_with(marker.as_str().as_bytes()))?;
            Some(MarkerAt { marker, at })
        })
        .collect()
}

/// The text without markers, and without those that taking one out would put together.
///
/// One pass, however deep they are nested: the text is copied up to each `>`, and what is a marker by then goes.
pub(crate) fn without_markers(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for piece in text.split_inclusive('>') {
        kept.push_str(piece);
        let n_without =
            Marker::ALL.iter().find_map(|marker| kept.strip_suffix(marker.as_str())).map(str::len);
        if let Some(n_without) = n_without {
            kept.truncate(n_without);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(without_markers(text), expect, "{text:?}");
    }

    #[test]
    fn markers_are_taken_out_to_a_fixed_point() {
        check("", "");
        check("a > b <!-- note --> c", "a > b <!-- note --> c");
        check("a<!-- SLOW_UPDATE_START -->b<!-- APPENDIX_END -->c", "abc");
        check("<!-- SLOW_<!-- SLOW_UPDATE_START -->UPDATE_START -->", "");
        check("a<!-- SLOW_<!-- APP<!-- APPENDIX_END -->ENDIX_START -->UPDATE_END -->b", "ab");
        check("<!-- SLOW_UPDATE_START --", "<!-- SLOW_UPDATE_START --");
        check("ä<!-- APPENDIX_START -->ö", "äö");
    }

    #[test]
    fn the_longest_marker_sets_the_limit() {
        assert_eq!(Marker::ALL.map(|marker| marker.as_str().len()).into_iter().max(), Some(MAX_MARKER_LEN));
    }

    proptest! {
        #[test]
        fn nothing_is_left(pieces in prop::collection::vec(
            prop::sample::select(vec!["<!-- ", "SLOW_", "UPDATE_", "START -->", "END -->", "<!-- SLOW_", "UPDATE_START -->",
                "APPENDIX_", "<!-- APPENDIX_START -->", "<!-- SLOW_UPDATE_END -->", ">", "x", "ß"]), 0..30)) {
            let text = pieces.concat();
            let found = without_markers(&text);
            prop_assert_eq!(find_markers(found.as_bytes()), vec![]);
            if find_markers(text.as_bytes()).is_empty() {
                prop_assert_eq!(found, text);
            }
        }
    }
}
