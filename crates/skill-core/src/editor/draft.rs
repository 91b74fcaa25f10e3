//! The text that a patch works on, with what is protected in it.
//!
//! The text is scanned for markers once; after that a change looks only at its own surroundings and moves the rest,
//! so that a patch costs little more than its searches.

use crate::fold::FoldedText;
use crate::region::{MAX_MARKER_LEN, find_markers, front_matter_end, regions_between};
use crate::tokens::quarter_tokens;
use memchr::{memchr, memmem};
use std::borrow::Cow;
use std::ops::Range;

/// A skill while edits are applied to it.
pub(super) struct Draft {
    text: String,
    /// Where the front matter ends.
    front_matter: Option<usize>,
    /// Where the first start marker below the front matter stands.
    first_start_marker: Option<usize>,
    /// What cannot be touched: regions, and markers that make none. In order, and none overlaps another.
    protected: Vec<Range<usize>>,
    /// What is not protected, taken apart; only if someone asked since the last change.
    folded: Option<FoldedText>,
    /// The estimated size in quarters of a token; only if someone asked.
    quarters: Option<u64>,
}

/// Where a target is.
pub(super) enum Found {
    /// In the open.
    At {
        /// The first such place, in bytes.
        range: Range<usize>,
        /// Whether it occurs earlier, but protected.
        is_later: bool,
    },
    /// In protected places only.
    OnlyProtected,
    /// Nowhere; also where there is no target.
    Nowhere,
}

/// A change was undone because it would have made or broken a protected region.
#[derive(Debug)]
pub(super) struct RegionsWouldChange;

impl Draft {
    pub(super) fn new(text: &str) -> Self {
        let front_matter = front_matter_end(text);
        let markers = find_markers(text.as_bytes());
        let body = front_matter.unwrap_or_default();
        let regions = regions_between(front_matter, &markers);
        let ranges = regions
            .into_iter()
            .map(|region| region.range)
            .chain(markers.iter().map(|found| found.at..found.end()));
        Self {
            text: text.to_owned(),
            front_matter,
            first_start_marker: markers
                .iter()
                .find(|found| found.at >= body && found.marker.is_start())
                .map(|found| found.at),
            protected: merged(ranges.collect()),
            folded: None,
            quarters: None,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// What is not protected, taken apart, with the text that it was taken from.
    pub(super) fn folded(&mut self) -> (&str, &FoldedText) {
        let Self { text, protected, folded, .. } = self;
        (text, folded.get_or_insert_with(|| FoldedText::of_open(text, protected)))
    }

    /// The estimated size in quarters of a token.
    pub(super) fn quarters(&mut self) -> u64 {
        *self.quarters.get_or_insert_with(|| quarter_tokens(&self.text))
    }

    /// Whether a range overlaps something protected.
    pub(super) fn is_protected(&self, range: &Range<usize>) -> bool {
        self.protected_in(range).is_some()
    }

    /// Where the first start marker below the front matter stands: nothing is appended behind it.
    pub(super) fn first_start_marker(&self) -> Option<usize> {
        self.first_start_marker
    }

    /// What ends a line in this document: what ends its first one.
    pub(super) fn line_end(&self) -> &'static str {
        let first = self.text.split_inclusive('\n').next().unwrap_or_default();
        if first.ends_with("\r\n") { "\r\n" } else { "\n" }
    }

    /// The content with this document's line ends.
    pub(super) fn with_line_ends<'c>(&self, content: &'c str) -> Cow<'c, str> {
        let line_end = self.line_end();
        if line_end == "\n" || !content.contains('\n') {
            return Cow::Borrowed(content);
        }
        Cow::Owned(content.replace("\r\n", "\n").replace('\n', line_end))
    }

    /// The first place outside of what is protected where the target occurs: to the byte, or else with this
    /// document's line ends, since models write `\n` whatever they read.
    pub(super) fn find(&self, target: &str) -> Found {
        match (self.find_bytes(target), self.with_line_ends(target)) {
            (Found::Nowhere, Cow::Owned(target)) => self.find_bytes(&target),
            (found, _) => found,
        }
    }

    fn find_bytes(&self, target: &str) -> Found {
        if target.is_empty() {
            return Found::Nowhere;
        }
        let finder = memmem::Finder::new(target);
        let mut from = 0;
        let mut is_later = false;
        while let Some(offset) = self.text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
            let start = from + offset;
            let range = self.without_split_line_ends(start..start + target.len());
            match self.protected_in(&range) {
                None => return Found::At { range, is_later },
                // Every place that begins before the protected range ends overlaps it as well.
                Some(protected) => from = protected.end.max(start + 1),
            }
            is_later = true;
        }
        if is_later { Found::OnlyProtected } else { Found::Nowhere }
    }

    /// The protected range that overlaps this one.
    fn protected_in(&self, range: &Range<usize>) -> Option<&Range<usize>> {
        let first = self.protected.partition_point(|protected| protected.end <= range.start);
        self.protected.get(first).filter(|protected| protected.start < range.end)
    }

    /// Moves the ends of a match that fall between a carriage return and its line feed: the match gets a whole pair
    /// that it began in, and leaves a whole pair that it ended in.
    fn without_split_line_ends(&self, range: Range<usize>) -> Range<usize> {
        let bytes = self.text.as_bytes();
        let is_split = |at: usize| {
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            before == Some(&b'\r') && bytes.get(at) == Some(&b'\n')
        };
        let start = if is_split(range.start) { range.start - 1 } else { range.start };
        let end = if is_split(range.end) { range.end - 1 } else { range.end };
        start..end.max(start)
    }

    /// The start of the line below the one that the byte `from` is in, but never inside a protected region: where the
    /// line runs into one, the place is in front of that.
    pub(super) fn below_line_of(&self, from: usize) -> usize {
        let rest = self.text.as_bytes().get(from..).expect("places are in the text");
        let at = memchr(b'\n', rest).map_or(self.text.len(), |line_end| from + line_end + 1);
        let first = self.protected.partition_point(|protected| protected.end <= at);
        self.protected
            .get(first)
            .filter(|protected| protected.start < at)
            .map_or(at, |protected| protected.start)
    }

    /// Puts `replacement` in the place of a range that is on character boundaries and overlaps nothing protected.
    ///
    /// # Errors
    ///
    /// [`RegionsWouldChange`] where the text on both sides and the replacement together would make a marker, or make,
    /// move or break front matter; the text is then as before.
    pub(super) fn splice(
        &mut self,
        range: Range<usize>,
        replacement: &str,
    ) -> Result<(), RegionsWouldChange> {
        let removed = self.text.get(range.clone()).expect("ranges are on character boundaries").to_owned();
        let replaced = range.start..range.start + replacement.len();
        // A marker that arises has a byte of the change in it, or bytes of both sides.
        let window = range.start.saturating_sub(MAX_MARKER_LEN);
        let n_before = self.n_markers_in(window..range.start)
            + self.n_markers_in(range.end..range.end.saturating_add(MAX_MARKER_LEN));
        self.text.replace_range(range.clone(), replacement);
        let n_after = self.n_markers_in(window..replaced.end.saturating_add(MAX_MARKER_LEN));
        if n_after != n_before || front_matter_end(&self.text) != self.front_matter {
            self.text.replace_range(replaced, &removed);
            return Err(RegionsWouldChange);
        }
        let moved = |at: usize| if at >= range.end { at - range.end + replaced.end } else { at };
        for protected in self.protected.iter_mut().filter(|protected| protected.start >= range.end) {
            *protected = moved(protected.start)..moved(protected.end);
        }
        self.first_start_marker = self.first_start_marker.map(moved);
        self.folded = None;
        self.quarters =
            self.quarters.map(|before| before + quarter_tokens(replacement) - quarter_tokens(&removed));
        Ok(())
    }

    /// How many markers stand wholly in these bytes; the range may go past the end.
    fn n_markers_in(&self, range: Range<usize>) -> usize {
        let end = range.end.min(self.text.len());
        self.text.as_bytes().get(range.start..end).map_or(0, |window| find_markers(window).len())
    }
}

/// The same bytes as ranges in order of which none overlaps another.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => apart.push(range),
        }
    }
    apart
}
