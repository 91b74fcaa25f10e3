//! The text of a skill that comes nearest to an anchor which is nowhere in it.

use crate::fold::{BlockKind, FoldedText, Level};
use std::ops::Range;

/// How much of an anchor is compared, in characters as they are compared.
const MAX_ANCHOR_CHARS: usize = 600;

/// How many blocks together are compared with an anchor of several.
const MAX_BLOCKS: usize = 8;

/// The share of groups of three letters that must agree; with less two texts have nothing to do with each other.
const MIN_SHARED: f64 = 0.4;

/// The blocks that are most like an anchor, as the range of their text; the first ones, of several equally good.
///
/// What two texts share is measured in groups of three letters, which a slip of the pen, a lost word and another order
/// leave mostly as they are: twice the number of groups in both, divided by the number in either. It takes time in
/// proportion to the skill and the logarithm of the anchor, of which no more than a bounded start is compared.
pub(super) fn nearest(skill: &FoldedText, anchor: &str) -> Option<Range<usize>> {
    let anchor = FoldedText::new(anchor);
    let n_blocks = anchor.blocks().len().clamp(1, MAX_BLOCKS);
    let wanted = Groups::of(&anchor.render(0..anchor.tokens().len(), Level::Words).text);
    if wanted.total == 0 {
        return None;
    }
    let mut seen = vec![0; wanted.groups.len()];
    let counted: Vec<(usize, usize)> = skill
        .blocks()
        .iter()
        .map(|block| wanted.count(&skill.render(block.tokens.clone(), Level::Words).text, &mut seen))
        .collect();
    let mut best: Option<(f64, usize)> = None;
    for (first, window) in counted.windows(n_blocks.min(counted.len().max(1))).enumerate() {
        let (shared, total) =
            window.iter().fold((0, 0), |(shared, total), block| (shared + block.0, total + block.1));
        // A window of several blocks can share more than the anchor has.
        let score = 2.0 * shared.min(wanted.total) as f64 / (total + wanted.total) as f64;
        if best.is_none_or(|(before, _)| score > before) {
            best = Some((score, first));
        }
    }
    let (_, first) = best.filter(|(score, _)| *score >= MIN_SHARED)?;
    let blocks = skill.blocks().get(first..(first + n_blocks).min(skill.blocks().len()))?;
    // A barrier is a block without text: what comes after it is somewhere else.
    let n_open =
        blocks.iter().take_while(|block| block.kind != BlockKind::Code || !block.range.is_empty()).count();
    let (start, end) = (blocks.first()?, blocks.get(n_open.checked_sub(1)?)?);
    Some(start.range.start..end.range.end)
}

/// The groups of three letters of a text, each with how often it occurs.
struct Groups {
    /// In order.
    groups: Vec<(u64, u32)>,
    total: usize,
}

impl Groups {
    fn of(text: &str) -> Self {
        let mut all: Vec<u64> = groups(text).take(MAX_ANCHOR_CHARS).collect();
        all.sort_unstable();
        let groups = all
            .chunk_by(|a, b| a == b)
            .filter_map(|equal| Some((*equal.first()?, u32::try_from(equal.len()).unwrap_or(u32::MAX))));
        Self { total: all.len(), groups: groups.collect() }
    }

    /// How many groups another text shares with this one, and how many it has; `seen` is all zeros before and after.
    fn count(&self, text: &str, seen: &mut [u32]) -> (usize, usize) {
        let (mut shared, mut total) = (0, 0);
        let mut touched = Vec::new();
        for group in groups(text) {
            total += 1;
            let Ok(place) = self.groups.binary_search_by_key(&group, |(group, _)| *group) else { continue };
            let (Some(seen), Some((_, limit))) = (seen.get_mut(place), self.groups.get(place)) else {
                continue;
            };
            if *seen < *limit {
                *seen += 1;
                shared += 1;
                touched.push(place);
            }
        }
        for place in touched {
            if let Some(seen) = seen.get_mut(place) {
                *seen = 0;
            }
        }
        (shared, total)
    }
}

/// Every three characters in a row, as a number.
fn groups(text: &str) -> impl Iterator<Item = u64> {
    let mut last: u64 = 0;
    text.chars().enumerate().filter_map(move |(char_idx, char)| {
        last = (last << 21 | u64::from(u32::from(char))) & ((1 << 63) - 1);
        (char_idx >= 2).then_some(last)
    })
}
